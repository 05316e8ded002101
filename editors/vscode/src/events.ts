// The events of `gevals run --format json`, folded into what a tree of tests shows.

export type Verdict = "passed" | "failed" | "broken" | "unchecked" | "cancelled";

/** What an expectation did not hold of. */
export interface Difference {
  subject: string;
  expected: string;
  actual: string;
  /** Where the expectation is written, in bytes of the task's file. */
  at?: [number, number];
}

/** What became of a task by now. */
export type Update =
  | { type: "started"; task: string }
  | { type: "said"; text: string }
  | { type: "finished"; task: string; verdict: Verdict; reason: string; duration: number; action?: string; differences: Difference[] };

interface Event {
  task?: { name: string; run: number };
  event: {
    type: string;
    verdict?: Verdict;
    reason?: string;
    duration?: number;
    action?: string;
    report?: { outcome: string; differences?: Difference[] };
    message?: string;
  };
}

type Finished = Extract<Update, { type: "finished" }>;

/** A task that runs. */
interface State {
  /** Runs that are to come or under way. */
  left: number;
  worst?: Finished;
  /** The first action of the run that did not pass. */
  action?: string;
  differences: Difference[];
}

/** From worst to best. */
const WORST: Verdict[] = ["broken", "failed", "unchecked", "cancelled", "passed"];

/** Reads a run as it goes on: lines in, updates out. A task that runs several times is over when its last run is. */
export class Run {
  private rest = "";
  private readonly open = new Map<string, State>();

  /** `runs` says how often each task runs. */
  constructor(private readonly runs: (task: string) => number) {}

  /** The updates of what has arrived; half a line waits for its other half. */
  push(chunk: string): Update[] {
    const lines = (this.rest + chunk).split("\n");
    this.rest = lines.pop() ?? "";
    return lines.filter((line) => line.trim() !== "").flatMap((line) => this.line(line));
  }

  /** The tasks that have begun and not ended when the run is over. */
  end(): Update[] {
    const left = [...this.open.keys()];
    this.open.clear();
    return left.map((task) => ({ type: "finished", task, verdict: "cancelled", reason: "the run ended before", duration: 0, differences: [] }));
  }

  private line(line: string): Update[] {
    let parsed: Event;
    try {
      parsed = JSON.parse(line) as Event;
    } catch {
      return [{ type: "said", text: line }];
    }
    const { task, event } = parsed;
    if (task === undefined || event === undefined) return [];
    const known = this.open.get(task.name);
    switch (event.type) {
      case "taskStarted": {
        if (known !== undefined) return [];
        this.open.set(task.name, { left: this.runs(task.name), differences: [] });
        return [{ type: "started", task: task.name }];
      }
      case "actionFinished": {
        const bad = event.report?.outcome === "failed" || event.report?.outcome === "broken";
        if (known !== undefined && bad && known.action === undefined) {
          known.action = event.action;
          known.differences = event.report?.differences ?? [];
        }
        return [];
      }
      case "taskFinished": {
        const state: State = known ?? { left: 1, differences: [] };
        const passed = event.verdict === "passed";
        const finished: Finished = {
          type: "finished",
          task: task.name,
          verdict: event.verdict ?? "broken",
          reason: event.reason ?? "",
          duration: (event.duration ?? 0) * 1000,
          action: passed ? undefined : state.action,
          differences: passed ? [] : state.differences,
        };
        const before = state.worst;
        state.worst = before === undefined || WORST.indexOf(finished.verdict) < WORST.indexOf(before.verdict) ? finished : before;
        state.worst.duration = finished.duration + (before?.duration ?? 0);
        state.action = undefined;
        state.differences = [];
        state.left -= 1;
        if (state.left > 0) return [];
        this.open.delete(task.name);
        return [state.worst];
      }
      default:
        return [];
    }
  }
}

// Folds the events of `gevals run --format json` into updates for the test explorer.

export type Verdict = "passed" | "failed" | "broken" | "unchecked" | "cancelled";

/** An expectation that was not met. */
export interface Difference {
  subject: string;
  expected: string;
  actual: string;
  /** The byte range of the expectation in the task file. */
  at?: [number, number];
}

/** A change in the state of a task. */
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

/** A task in progress. */
interface State {
  /** The number of runs that have not finished. */
  left: number;
  worst?: Finished;
  /** The first action of the run that did not pass. */
  action?: string;
  differences: Difference[];
}

/** From worst to best. */
const WORST: Verdict[] = ["broken", "failed", "unchecked", "cancelled", "passed"];

/** Reads the output of a run in progress: lines in, updates out. A task with several runs is finished when its last run is. */
export class Run {
  private rest = "";
  private readonly open = new Map<string, State>();

  /** `runs` returns the number of runs of a task. */
  constructor(private readonly runs: (task: string) => number) {}

  /** Returns the updates for the lines that are complete; an incomplete line is kept until the rest arrives. */
  push(chunk: string): Update[] {
    const lines = (this.rest + chunk).split("\n");
    this.rest = lines.pop() ?? "";
    return lines.filter((line) => line.trim() !== "").flatMap((line) => this.line(line));
  }

  /** Ends the run: tasks that were started but not finished are cancelled. */
  end(): Update[] {
    const left = [...this.open.keys()];
    this.open.clear();
    return left.map((task) => ({ type: "finished", task, verdict: "cancelled", reason: "the run ended before the task was finished", duration: 0, differences: [] }));
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

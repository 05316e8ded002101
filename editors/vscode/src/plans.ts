// Reads the output of `gevals plan`: JSON for the test explorer, HTML for people.

export interface Action {
  meaning: string;
  /** The byte range in its file. */
  start: number;
  end: number;
}

export interface PlannedTask {
  name: string;
  runs: number;
  path: string;
  actions: Record<string, Action>;
}

export interface PlannedEval {
  name: string;
  tasks: PlannedTask[];
}

interface Document {
  version: number;
  evals?: {
    name: string;
    tasks: { name: string; runs?: number; source: { path: string; actions?: Record<string, Action> } }[];
  }[];
}

/** Parses the evals from `gevals plan --format json`. */
export function readPlan(text: string): PlannedEval[] {
  const document = JSON.parse(text) as Document;
  if (document.version !== 1) throw new Error(`version ${document.version} of the plan format is not supported`);
  return (document.evals ?? []).map(({ name, tasks }) => ({
    name,
    tasks: tasks.map(({ name, runs, source }) => ({
      name,
      runs: runs ?? 1,
      path: source.path,
      actions: source.actions ?? {},
    })),
  }));
}

/** Whether a page allows only its own style and script, and no requests. No other page is shown. */
export function isStrict(page: string): boolean {
  const policy = /<meta http-equiv="Content-Security-Policy" content="([^"]*)"/.exec(page)?.[1];
  if (policy === undefined) return false;
  const directives = new Map(policy.split(";").map((one) => {
    const [name, ...sources] = one.trim().split(/\s+/);
    return [name, sources] as const;
  }));
  const own = (name: string) => (directives.get(name) ?? []).every((source) => /^'sha256-[\w+/=]+'$|^'none'$/.test(source));
  const known = ["default-src", "style-src", "script-src", "base-uri", "form-action"];
  return directives.get("default-src")?.join() === "'none'" && [...directives.keys()].every((name) => known.includes(name ?? "") && own(name ?? ""));
}

/** Converts a byte offset in a text to an offset in UTF-16 code units, as JavaScript counts. */
export function characterOf(text: string, byte: number): number {
  return Buffer.from(text, "utf8").subarray(0, byte).toString("utf8").length;
}

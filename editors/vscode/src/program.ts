// The program `gevals`, started and read.
import { spawn } from "node:child_process";
import { exactly } from "./kinds";

/** The program as the setting has it, with the home and the folder of the workspace filled in. */
export function programAt(setting: string, home: string, folder: string | undefined): string {
  const path = setting.trim() || "gevals";
  return path
    .replace(/^~(?=[\\/])/, () => home)
    .replaceAll("${userHome}", () => home)
    .replaceAll("${workspaceFolder}", (written) => folder ?? written);
}

/** A run in a terminal. VS Code takes tasks of equal definitions for one, of which the second would end the first. */
export interface Definition {
  type: "gevals";
  eval: string;
  task?: string;
  phase?: string;
}

export function definition(file: string, task: string | null | undefined, phase: string | undefined): Definition {
  return { type: "gevals", eval: file, ...(task ? { task } : {}), ...(phase ? { phase } : {}) };
}

/** The arguments of `gevals` for it. */
export function wordsOf(run: Definition): string[] {
  return ["run", run.eval, ...(run.task ? ["--run", exactly([run.task])] : []), ...(run.phase ? ["--phase", run.phase] : [])];
}

/** A process that has ended. */
export interface Ended {
  code: number | null;
  stdout: string;
  stderr: string;
}

/** Runs the program to its end. `hear` gets what it prints as it comes; `stop` ends it early, with its cleanups. */
export function run(
  program: string,
  args: string[],
  cwd: string,
  hear?: (text: string) => void,
  stop?: (end: () => void) => void,
): Promise<Ended> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { cwd, stdio: ["ignore", "pipe", "pipe"] });
    const ended: Ended = { code: null, stdout: "", stderr: "" };
    child.stdout.setEncoding("utf8").on("data", (text: string) => (hear ? hear(text) : (ended.stdout += text)));
    child.stderr.setEncoding("utf8").on("data", (text: string) => (ended.stderr += text));
    child.on("error", reject);
    child.on("close", (code) => resolve({ ...ended, code }));
    stop?.(() => child.kill("SIGINT"));
  });
}

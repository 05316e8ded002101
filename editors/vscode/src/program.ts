// Starts the program `gevals` and reads its output.
import { spawn } from "node:child_process";
import { exactly } from "./kinds";

/** The program from the setting, with the home directory and the workspace folder expanded. */
export function programAt(setting: string, home: string, folder: string | undefined): string {
  const path = setting.trim() || "gevals";
  return path
    .replace(/^~(?=[\\/])/, () => home)
    .replaceAll("${userHome}", () => home)
    .replaceAll("${workspaceFolder}", (written) => folder ?? written);
}

/** A run in a terminal. VS Code treats tasks with equal definitions as the same task: the second would end the first. */
export interface Definition {
  type: "gevals";
  eval: string;
  task?: string;
  phase?: string;
}

export function definition(file: string, task: string | null | undefined, phase: string | undefined): Definition {
  return { type: "gevals", eval: file, ...(task ? { task } : {}), ...(phase ? { phase } : {}) };
}

/** The arguments of `gevals` for a run. */
export function wordsOf(run: Definition): string[] {
  return ["run", run.eval, ...(run.task ? ["--run", exactly([run.task])] : []), ...(run.phase ? ["--phase", run.phase] : [])];
}

/** A process that has ended. */
export interface Ended {
  code: number | null;
  stdout: string;
  stderr: string;
}

/** Runs the program until it exits. `hear` receives its standard output as it arrives; `stop` receives a function that interrupts the
 * program, which then still runs its cleanups. */
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

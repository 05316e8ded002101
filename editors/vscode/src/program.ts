// The program `gevals`, started and read.
import { spawn } from "node:child_process";

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

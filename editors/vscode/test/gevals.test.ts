// What the extension reads from a real `gevals`, which GEVALS specifies: plans, pages, and a run in progress.
import assert from "node:assert/strict";
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { after, test } from "node:test";
import { Run, type Update } from "../src/events";
import { exactly } from "../src/kinds";
import { characterOf, isStrict, readPlan } from "../src/plans";
import { run } from "../src/program";

const gevals = resolve(process.env.GEVALS ?? "../../target/debug/gevals");
const folder = mkdtempSync(join(tmpdir(), "gevals-vscode-"));
after(() => rmSync(folder, { recursive: true, force: true }));
cpSync(resolve("../../examples/quickstart"), folder, { recursive: true });
const file = join(folder, "eval.yaml");

test("the test tree matches the plan", async () => {
  const { code, stdout } = await run(gevals, ["plan", file, "--format", "json"], folder);
  assert.equal(code, 0);
  const [plan] = readPlan(stdout);
  assert.deepEqual(plan?.tasks.map((task) => task.name), ["write-note", "tidy-up", "weekly-review", "archive"]);
  const task = plan?.tasks[0];
  const text = readFileSync(task!.path, "utf8");
  const action = task!.actions["verify/1"]!;
  const written = text.slice(characterOf(text, action.start), characterOf(text, action.end));
  assert.match(written, /^command:\s+run: grep -c eggs/);
});

test("a strict policy restricts the page of a plan", async () => {
  const { stdout } = await run(gevals, ["plan", file, "--format", "html"], folder);
  assert.ok(stdout.startsWith("<!doctype html>"));
  assert.ok(isStrict(stdout));
  assert.ok(!isStrict(stdout.replace("default-src 'none'", "default-src *")));
  assert.ok(!isStrict(stdout.replace("script-src 'sha256-", "script-src 'unsafe-inline' 'sha256-")));
  assert.ok(!isStrict("<p>no policy</p>"));
});

test("a run reports the outcome of each task, and which action failed", async () => {
  const task = join(folder, "tasks/write-note.yaml");
  writeFileSync(task, readFileSync(task, "utf8").replace("contains: Bread", "contains: Cake"));
  const updates: Update[] = [];
  const events = new Run(() => 1);
  const only = ["--run", exactly(["write-note", "weekly-review"])];
  const args = ["run", file, "--format", "json", "--output-dir", folder, ...only];
  const { code } = await run(gevals, args, folder, (text) => updates.push(...events.push(text)));
  updates.push(...events.end());
  assert.equal(code, 1);
  const seen = updates.map((one) => (one.type === "finished" ? [one.task, one.verdict, one.action] : one.type === "started" ? [one.task] : one));
  assert.deepEqual(seen, [
    ["write-note"],
    ["write-note", "failed", "verify/read"],
    ["weekly-review"],
    ["weekly-review", "passed", undefined],
  ]);
  const failed = updates.find((one) => one.type === "finished");
  assert.ok(failed?.type === "finished");
  assert.match(failed.reason, /`verify\/read` failed/);
  const [difference] = failed.differences;
  assert.equal(difference?.expected, "contains `Cake`");
  const text = readFileSync(task, "utf8");
  const [start, end] = difference!.at!;
  assert.equal(text.slice(characterOf(text, start), characterOf(text, end)), "contains: Cake");
});

test("an incomplete line is buffered, invalid output is shown, and unfinished tasks are canceled", () => {
  const events = new Run(() => 2);
  const line = (event: object) => `${JSON.stringify({ task: { name: "t", run: 0 }, event })}\n`;
  const started = line({ type: "taskStarted" });
  assert.deepEqual(events.push(started.slice(0, 10)), []);
  assert.deepEqual(events.push(started.slice(10)), [{ type: "started", task: "t" }]);
  assert.deepEqual(events.push("no json\n"), [{ type: "said", text: "no json" }]);
  // The task finishes with its second run; its verdict is the worse of the two.
  assert.deepEqual(events.push(line({ type: "taskFinished", verdict: "failed", reason: "no", duration: 1 })), []);
  const [last] = events.push(line({ type: "taskStarted" }) + line({ type: "taskFinished", verdict: "passed", reason: "", duration: 1 }));
  assert.ok(last?.type === "finished" && last.verdict === "failed" && last.duration === 2000);
  events.push(started);
  assert.ok(events.end().every((one) => one.type === "finished" && one.verdict === "cancelled"));
});

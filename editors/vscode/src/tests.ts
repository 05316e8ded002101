// The test explorer: an eval contains its tasks, as `gevals plan` lists them; a run is `gevals run --format json`, read while it is in progress.
import * as vscode from "vscode";
import { Run, type Difference } from "./events";
import { exactly, schemaOf } from "./kinds";
import { characterOf, readPlan, type PlannedTask } from "./plans";
import { run } from "./program";

const EVALS = "**/*.{yaml,yml}";

export function testExplorer(program: () => string): vscode.Disposable {
  const controller = vscode.tests.createTestController("gevals", "gevals");
  const planned = new WeakMap<vscode.TestItem, PlannedTask>();

  const read = async (file: vscode.Uri): Promise<string> => Buffer.from(await vscode.workspace.fs.readFile(file)).toString("utf8");
  const folderOf = (file: vscode.Uri): string => vscode.workspace.getWorkspaceFolder(file)?.uri.fsPath ?? vscode.Uri.joinPath(file, "..").fsPath;

  /** Lists the tasks of a file if it is an eval that has a plan; otherwise removes its tasks from the list. */
  const discover = async (file: vscode.Uri): Promise<void> => {
    const id = file.toString();
    const text = await read(file).catch(() => "");
    if (schemaOf(text) !== "eval") return controller.items.delete(id);
    const { code, stdout, stderr } = await run(program(), ["plan", file.fsPath, "--format", "json"], folderOf(file));
    const item = controller.createTestItem(id, vscode.workspace.asRelativePath(file), file);
    if (code !== 0) item.error = stderr.trim() || "there is no plan";
    for (const task of code === 0 ? readPlan(stdout).flatMap((plan) => plan.tasks) : []) {
      const child = controller.createTestItem(`${id}#${task.name}`, task.name, vscode.Uri.file(task.path));
      child.range = new vscode.Range(0, 0, 0, 0);
      planned.set(child, task);
      item.children.add(child);
    }
    controller.items.add(item);
  };

  const discoverAll = async (): Promise<void> => {
    const files = await vscode.workspace.findFiles(EVALS, "**/node_modules/**");
    for (const file of files) await discover(file).catch((error: unknown) => console.error(error));
  };

  /** The location of an action of a task; assertions are in the eval. */
  const place = async (task: PlannedTask, action: string, difference: Difference | undefined, evalFile: vscode.Uri): Promise<vscode.Location | undefined> => {
    const id = action.replace(/\[\d+\]|#\d+/g, "");
    const planned = task.actions[action] ?? task.actions[id];
    const [start, end] = difference?.at ?? [planned?.start, planned?.end];
    if (start === undefined || end === undefined) return undefined;
    const file = id.startsWith("assert/") ? evalFile : vscode.Uri.file(task.path);
    const document = await vscode.workspace.openTextDocument(file);
    const at = (byte: number) => document.positionAt(characterOf(document.getText(), byte));
    return new vscode.Location(file, new vscode.Range(at(start), at(end)));
  };

  /** Runs tasks of one eval. */
  const runEval = async (item: vscode.TestItem, tasks: vscode.TestItem[], all: boolean, shown: vscode.TestRun, token: vscode.CancellationToken): Promise<void> => {
    const file = item.uri!;
    const byName = new Map(tasks.map((task) => [task.label, task]));
    const events = new Run((name) => planned.get(byName.get(name)!)?.runs ?? 1);
    const pending: Promise<void>[] = [];
    const update = async (one: ReturnType<Run["push"]>[number]): Promise<void> => {
      if (one.type === "said") return shown.appendOutput(`${one.text}\r\n`);
      const test = byName.get(one.task);
      if (test === undefined) return;
      if (one.type === "started") return shown.started(test);
      const message = new vscode.TestMessage(one.reason || one.verdict);
      const task = planned.get(test);
      const [difference] = one.differences;
      if (difference !== undefined) {
        message.message += `: ${difference.subject}`;
        message.expectedOutput = difference.expected;
        message.actualOutput = difference.actual;
      }
      if (task !== undefined && one.action !== undefined) message.location = await place(task, one.action, difference, file);
      switch (one.verdict) {
        case "passed":
          return shown.passed(test, one.duration);
        case "failed":
          return shown.failed(test, message, one.duration);
        case "cancelled":
          return shown.skipped(test);
        default:
          return shown.errored(test, message, one.duration);
      }
    };
    const only = all ? [] : ["--run", exactly([...byName.keys()])];
    tasks.forEach((task) => shown.enqueued(task));
    const { code, stderr } = await run(
      program(),
      ["run", file.fsPath, "--format", "json", ...only],
      folderOf(file),
      (text) => events.push(text).forEach((one) => pending.push(update(one))),
      (end) => token.onCancellationRequested(end),
    );
    events.end().forEach((one) => pending.push(update(one)));
    await Promise.all(pending);
    if (stderr !== "") shown.appendOutput(stderr.replace(/\r?\n/g, "\r\n"));
    if (code === 2 || code === 3) tasks.forEach((task) => shown.errored(task, new vscode.TestMessage(stderr.trim() || `gevals ended with exit status ${code}`)));
  };

  controller.createRunProfile("Run", vscode.TestRunProfileKind.Run, async (request, token) => {
    const shown = controller.createTestRun(request);
    try {
      if (!vscode.workspace.isTrusted) throw new Error("the folder is not trusted, so nothing can be run");
      const chosen = new Map<vscode.TestItem, vscode.TestItem[] | undefined>();
      const roots: vscode.TestItem[] = [];
      controller.items.forEach((item) => roots.push(item));
      for (const item of request.include ?? roots) {
        if (item.parent === undefined) chosen.set(item, undefined);
        else if (!chosen.has(item.parent)) chosen.set(item.parent, [item]);
        else chosen.get(item.parent)?.push(item);
      }
      for (const [item, some] of chosen) {
        if (token.isCancellationRequested) break;
        const children: vscode.TestItem[] = [];
        item.children.forEach((child) => children.push(child));
        const tasks = (some ?? children).filter((task) => !request.exclude?.includes(task));
        const all = some === undefined && tasks.length === children.length;
        if (tasks.length > 0) await runEval(item, tasks, all, shown, token);
      }
    } catch (error) {
      void vscode.window.showErrorMessage(`gevals: ${error instanceof Error ? error.message : String(error)}`);
    } finally {
      shown.end();
    }
  }, true);

  controller.resolveHandler = async (item) => {
    if (item === undefined) await discoverAll();
  };
  controller.refreshHandler = discoverAll;
  const watcher = vscode.workspace.createFileSystemWatcher(EVALS);
  const changed = (file: vscode.Uri) => void discover(file).catch((error: unknown) => console.error(error));
  // A task is listed by the evals that select it. For a new or deleted file these are not known, so all evals are listed again; the delay
  // combines many changes.
  let soon: NodeJS.Timeout | undefined;
  const relist = (evals: () => vscode.Uri[]) => {
    clearTimeout(soon);
    soon = setTimeout(() => evals().forEach(changed), 500);
  };
  const listed = (selects: (item: vscode.TestItem) => boolean) => {
    const evals: vscode.Uri[] = [];
    controller.items.forEach((item) => item.uri && selects(item) && evals.push(item.uri));
    return evals;
  };
  const holds = (file: vscode.Uri) => (item: vscode.TestItem) => {
    let found = false;
    item.children.forEach((child) => (found ||= child.uri?.fsPath === file.fsPath));
    return found;
  };
  watcher.onDidCreate((file) => {
    changed(file);
    relist(() => listed(() => true));
  });
  watcher.onDidChange((file) => {
    changed(file);
    listed(holds(file)).forEach(changed);
  });
  watcher.onDidDelete((file) => {
    controller.items.delete(file.toString());
    relist(() => listed(() => true));
  });
  return vscode.Disposable.from(controller, watcher, { dispose: () => clearTimeout(soon) });
}

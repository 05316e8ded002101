// gevals in VS Code: the language server, its lenses, plans beside the file, and the test explorer.
import { homedir } from "node:os";
import * as vscode from "vscode";
import { LanguageClient } from "vscode-languageclient/node";
import { schemaOf } from "./kinds";
import { definition, programAt, wordsOf, type Definition } from "./program";
import { showPlan } from "./preview";
import { associateSchemas } from "./schemas";
import { testExplorer } from "./tests";

/** The argument that the server's code lenses pass. */
interface Lens {
  eval?: string;
  task?: string | null;
  file?: string;
}

let client: LanguageClient | undefined;
/** The last start; the next one waits for it. */
let starting: Promise<void> = Promise.resolve();

const program = (): string =>
  programAt(vscode.workspace.getConfiguration("gevals").get("path", "gevals"), homedir(), vscode.workspace.workspaceFolders?.[0]?.uri.fsPath);

export async function activate(context: vscode.ExtensionContext): Promise<void> {
  context.subscriptions.push(
    vscode.commands.registerCommand("gevals.run", (lens?: Lens) => start(lens, undefined)),
    vscode.commands.registerCommand("gevals.debug", debug),
    vscode.commands.registerCommand("gevals.plan", async (lens?: Lens | vscode.Uri) => {
      const file = lens instanceof vscode.Uri ? lens : lens?.file ? vscode.Uri.parse(lens.file) : vscode.window.activeTextEditor?.document.uri;
      if (file !== undefined) await showPlan(program(), file).catch(complain);
    }),
    vscode.commands.registerCommand("gevals.restart", restart),
    // The path has changed: the user edited it, or the folder is trusted now.
    vscode.workspace.onDidChangeConfiguration(async (change) => {
      if (change.affectsConfiguration("gevals.path")) await restart();
    }),
    vscode.window.onDidChangeActiveTextEditor(mark),
    // The kind of the file may have changed.
    vscode.workspace.onDidSaveTextDocument(() => mark(vscode.window.activeTextEditor)),
    testExplorer(program),
    vscode.tasks.registerTaskProvider("gevals", {
      provideTasks: () => [],
      resolveTask: (task) => {
        const { eval: file } = task.definition;
        if (typeof file !== "string") return undefined;
        return runOf(task.definition as Definition, task.scope as vscode.WorkspaceFolder ?? vscode.TaskScope.Workspace, task.name);
      },
    }),
  );
  mark(vscode.window.activeTextEditor);
  await restart();
  await associateSchemas(program).catch(complain);
}

export async function deactivate(): Promise<void> {
  const old = client;
  client = undefined;
  // A client that has never started cannot be stopped.
  if (old?.needsStop()) await old.stop().catch(() => undefined);
  await old?.dispose().catch(() => undefined);
}

/** Starts or restarts the language server. A new client is needed because a client keeps the path that it was created with. */
function restart(): Promise<void> {
  const again = async (): Promise<void> => {
    await deactivate();
    client = new LanguageClient("gevals", "gevals", { command: program(), args: ["lsp"] }, {
      documentSelector: [{ scheme: "file", language: "yaml" }, { scheme: "file", language: "shellscript" }],
    });
    await client.start().catch(complain);
  };
  starting = starting.then(again, again);
  return starting;
}

function complain(error: unknown): void {
  const why = error instanceof Error ? error.message : String(error);
  const settings = "Open settings";
  const said = `gevals: ${why}. Is \`${program()}\` installed (\`pip install gevals\`)? Set its location with gevals.path.`;
  void vscode.window.showErrorMessage(said, settings).then((taken) => {
    if (taken === settings) void vscode.commands.executeCommand("workbench.action.openSettings", "gevals.path");
  });
}

/** Sets the context key for menus: whether the editor shows a file that gevals reads. */
function mark(editor: vscode.TextEditor | undefined): void {
  const schema = editor?.document.languageId === "yaml" ? schemaOf(editor.document.getText()) : undefined;
  void vscode.commands.executeCommand("setContext", "gevals.isOurs", schema === "task" || schema === "eval");
}

/** The run lens of the file in the editor, if there is one. */
async function lensHere(): Promise<Lens | undefined> {
  const document = vscode.window.activeTextEditor?.document;
  if (document === undefined) return undefined;
  const lenses = await vscode.commands.executeCommand<vscode.CodeLens[]>("vscode.executeCodeLensProvider", document.uri, 100);
  return lenses?.find((lens) => lens.command?.command === "gevals.run")?.command?.arguments?.[0] as Lens | undefined;
}

/** Runs an eval, or one task of it, in a terminal. */
async function start(given: Lens | undefined, phase: string | undefined): Promise<void> {
  if (!vscode.workspace.isTrusted) return void vscode.window.showErrorMessage("gevals: the folder is not trusted, so nothing can be run");
  const lens = given?.eval ? given : await lensHere();
  if (!lens?.eval) return void vscode.window.showErrorMessage("gevals: no eval selects this file");
  const file = vscode.Uri.parse(lens.eval);
  const scope = vscode.workspace.getWorkspaceFolder(file) ?? vscode.TaskScope.Workspace;
  const name = lens.task ?? vscode.workspace.asRelativePath(file);
  const task = runOf(definition(file.fsPath, lens.task, phase), scope, name);
  task.presentationOptions = { clear: true, focus: false };
  await vscode.tasks.executeTask(task);
}

/** The task for a definition, which may come from `tasks.json`. Starts the program without a shell, because names may contain any character. */
function runOf(what: Definition, scope: vscode.WorkspaceFolder | vscode.TaskScope, name: string): vscode.Task {
  return new vscode.Task(what, scope, name, "gevals", new vscode.ProcessExecution(program(), wordsOf(what)));
}

/** Runs one phase of a task. The environment is kept between phases, so that you can inspect it. */
async function debug(given?: Lens): Promise<void> {
  const phases = [
    { label: "setup", description: "set up the environment and keep it" },
    { label: "verify", description: "verify the current state, without an agent" },
    { label: "cleanup", description: "clean up after a setup" },
  ];
  const phase = await vscode.window.showQuickPick(phases, { placeHolder: "Which phase?" });
  if (phase !== undefined) await start(given, phase.label);
}

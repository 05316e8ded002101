// gevals in VS Code: the language server, its lenses, plans beside the file, and the test explorer.
import * as vscode from "vscode";
import { LanguageClient } from "vscode-languageclient/node";
import { exactly, schemaOf } from "./kinds";
import { showPlan } from "./preview";
import { associateSchemas } from "./schemas";
import { testExplorer } from "./tests";

/** What the lenses of the server hand over. */
interface Lens {
  eval?: string;
  task?: string | null;
  file?: string;
}

let client: LanguageClient | undefined;

const program = (): string => vscode.workspace.getConfiguration("gevals").get("path", "gevals");

export async function activate(context: vscode.ExtensionContext): Promise<void> {
  context.subscriptions.push(
    vscode.commands.registerCommand("gevals.run", (lens?: Lens) => start(lens, [])),
    vscode.commands.registerCommand("gevals.debug", debug),
    vscode.commands.registerCommand("gevals.plan", async (lens?: Lens | vscode.Uri) => {
      const file = lens instanceof vscode.Uri ? lens : lens?.file ? vscode.Uri.parse(lens.file) : vscode.window.activeTextEditor?.document.uri;
      if (file !== undefined) await showPlan(program(), file).catch(complain);
    }),
    vscode.commands.registerCommand("gevals.restart", async () => {
      await client?.restart();
    }),
    vscode.window.onDidChangeActiveTextEditor(mark),
    testExplorer(program),
  );
  mark(vscode.window.activeTextEditor);
  client = new LanguageClient("gevals", "gevals", { command: program(), args: ["lsp"] }, {
    documentSelector: [{ scheme: "file", language: "yaml" }, { scheme: "file", language: "shellscript" }],
  });
  await client.start().catch(complain);
  await associateSchemas(program).catch(complain);
}

export async function deactivate(): Promise<void> {
  await client?.stop();
}

function complain(error: unknown): void {
  const why = error instanceof Error ? error.message : String(error);
  void vscode.window.showErrorMessage(`gevals: ${why}. Is \`${program()}\` installed? The setting gevals.path says where.`);
}

/** Says whether the editor shows a file of ours, for menus. */
function mark(editor: vscode.TextEditor | undefined): void {
  const schema = editor?.document.languageId === "yaml" ? schemaOf(editor.document.getText()) : undefined;
  void vscode.commands.executeCommand("setContext", "gevals.isOurs", schema === "task" || schema === "eval");
}

/** The lens of the file in the editor: what it would run. */
async function lensHere(): Promise<Lens | undefined> {
  const document = vscode.window.activeTextEditor?.document;
  if (document === undefined) return undefined;
  const lenses = await vscode.commands.executeCommand<vscode.CodeLens[]>("vscode.executeCodeLensProvider", document.uri, 100);
  return lenses?.find((lens) => lens.command?.command === "gevals.run")?.command?.arguments?.[0] as Lens | undefined;
}

/** Runs an eval, or one task of it, in a terminal. */
async function start(given: Lens | undefined, more: string[]): Promise<void> {
  if (!vscode.workspace.isTrusted) return void vscode.window.showErrorMessage("gevals: the folder is not trusted, so nothing in it is run");
  const lens = given?.eval ? given : await lensHere();
  if (!lens?.eval) return void vscode.window.showErrorMessage("gevals: no eval selects this file");
  const file = vscode.Uri.parse(lens.eval);
  const only = lens.task ? ["--run", exactly([lens.task])] : [];
  const scope = vscode.workspace.getWorkspaceFolder(file) ?? vscode.TaskScope.Workspace;
  // No shell in between: names may hold anything.
  const execution = new vscode.ProcessExecution(program(), ["run", file.fsPath, ...only, ...more]);
  const task = new vscode.Task({ type: "gevals" }, scope, lens.task ?? vscode.workspace.asRelativePath(file), "gevals", execution);
  task.presentationOptions = { clear: true, focus: false };
  await vscode.tasks.executeTask(task);
}

/** Runs one phase of a task: the world is left standing between phases, to look at. */
async function debug(given?: Lens): Promise<void> {
  const phases = [
    { label: "setup", description: "set up, and leave the world standing" },
    { label: "verify", description: "judge the world as it is, without an agent" },
    { label: "cleanup", description: "clean up what a setup has left" },
  ];
  const phase = await vscode.window.showQuickPick(phases, { placeHolder: "Which phase?" });
  if (phase !== undefined) await start(given, ["--phase", phase.label]);
}

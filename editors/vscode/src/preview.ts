// Shows the plan of a file in a panel beside it: the page of `gevals plan --format html`, updated on each save.
import * as vscode from "vscode";
import { isStrict } from "./plans";
import { run } from "./program";

/** The open panels, by the file they show. */
const panels = new Map<string, vscode.WebviewPanel>();

export async function showPlan(program: string, file: vscode.Uri): Promise<void> {
  const key = file.toString();
  let panel = panels.get(key);
  if (panel === undefined) {
    const name = vscode.workspace.asRelativePath(file);
    const beside = { viewColumn: vscode.ViewColumn.Beside, preserveFocus: true };
    panel = vscode.window.createWebviewPanel("gevals.plan", `Plan of ${name}`, beside, {
      enableScripts: true,
      localResourceRoots: [],
    });
    panels.set(key, panel);
    const saved = vscode.workspace.onDidSaveTextDocument(() => draw(program, file, panel!).catch(() => undefined));
    panel.onDidDispose(() => {
      saved.dispose();
      panels.delete(key);
    });
  } else {
    panel.reveal(undefined, true);
  }
  await draw(program, file, panel);
}

async function draw(program: string, file: vscode.Uri, panel: vscode.WebviewPanel): Promise<void> {
  const folder = vscode.workspace.getWorkspaceFolder(file)?.uri.fsPath ?? vscode.Uri.joinPath(file, "..").fsPath;
  const { code, stdout, stderr } = await run(program, ["plan", file.fsPath, "--format", "html"], folder);
  // If there is no plan any more, the last one stays visible; the findings show why.
  if (code === 0 && isStrict(stdout)) panel.webview.html = stdout;
  else if (panel.webview.html === "") panel.webview.html = message(stderr || "there is no plan");
}

function message(text: string): string {
  const escaped = text.replace(/[&<>"]/g, (letter) => `&#${letter.charCodeAt(0)};`);
  return `<!doctype html><meta http-equiv="Content-Security-Policy" content="default-src 'none'"><pre>${escaped}</pre>`;
}

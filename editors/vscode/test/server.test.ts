// `gevals lsp` with Microsoft's implementation of the client's half of the protocol: a session over real standard streams.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";
import * as lsp from "vscode-languageserver-protocol/node";

const gevals = resolve(process.env.GEVALS ?? "../../target/debug/gevals");

test("a session, from initialize to exit", async () => {
  const folder = mkdtempSync(join(tmpdir(), "gevals-lsp-"));
  cpSync(resolve("../../examples/quickstart"), folder, { recursive: true });
  const file = join(folder, "tasks/write-note.yaml");
  const uri = pathToFileURL(file).href;
  const server = spawn(gevals, ["lsp"], { stdio: ["pipe", "pipe", "inherit"] });
  const ended = new Promise<number | null>((done) => server.on("exit", done));
  const connection = lsp.createProtocolConnection(new lsp.StreamMessageReader(server.stdout), new lsp.StreamMessageWriter(server.stdin));
  connection.onRequest(lsp.RegistrationRequest.type, () => undefined);
  // Handlers of the diagnostics published for the file, by version.
  const shown = new Map<number, (found: lsp.Diagnostic[]) => void>();
  connection.onNotification(lsp.PublishDiagnosticsNotification.type, (params) => {
    if (params.uri === uri && params.version !== undefined) shown.get(params.version)?.(params.diagnostics);
  });
  const diagnostics = (version: number) => new Promise<lsp.Diagnostic[]>((found) => shown.set(version, found));
  connection.listen();

  const { capabilities } = await connection.sendRequest(lsp.InitializeRequest.type, {
    processId: process.pid,
    rootUri: null,
    workspaceFolders: [{ uri: pathToFileURL(folder).href, name: "quickstart" }],
    capabilities: {},
  });
  await connection.sendNotification(lsp.InitializedNotification.type, {});
  const textDocument = { uri };
  let text = readFileSync(file, "utf8");
  const positionOf = (mark: string): lsp.Position => {
    const at = text.indexOf(mark) + mark.length;
    const before = text.slice(0, at).split("\n");
    return { line: before.length - 1, character: before.at(-1)!.length };
  };

  const first = diagnostics(1);
  await connection.sendNotification(lsp.DidOpenTextDocumentNotification.type, {
    textDocument: { uri, languageId: "yaml", version: 1, text },
  });
  assert.deepEqual(await first, []);

  // A mistake is typed, reported, and undone.
  const second = diagnostics(2);
  const verify = positionOf("  verify");
  const change = (version: number, range: lsp.Range, text: string) =>
    connection.sendNotification(lsp.DidChangeTextDocumentNotification.type, {
      textDocument: { uri, version },
      contentChanges: [{ range, text }],
    });
  await change(2, { start: { ...verify, character: verify.character - 1 }, end: verify }, "");
  assert.deepEqual((await second).map((found) => found.code), ["unknown-field"]);
  const third = diagnostics(3);
  const end = { ...verify, character: verify.character - 1 };
  await change(3, { start: end, end }, "y");
  assert.deepEqual(await third, []);

  const completion = await connection.sendRequest(lsp.CompletionRequest.type, { textDocument, position: positionOf('{title: "{env.') });
  assert.ok(completion !== null && !Array.isArray(completion));
  assert.deepEqual(completion.items.map((item) => item.label), ["TITLE", "NOTES"]);

  const hover = await connection.sendRequest(lsp.HoverRequest.type, { textDocument, position: positionOf("    - notes.notes_re") });
  assert.match(lsp.MarkupContent.is(hover?.contents) ? hover.contents.value : "", /the tool `notes_read` of the server `notes`[^]*`title`/);

  const definition = await connection.sendRequest(lsp.DefinitionRequest.type, { textDocument, position: positionOf('NOTE: "{steps.re') });
  assert.ok(Array.isArray(definition) && definition.length === 1 && "range" in definition[0]!);
  assert.deepEqual(definition[0].range.end, positionOf("id: read"));

  const renamed = await connection.sendRequest(lsp.RenameRequest.type, { textDocument, position: positionOf("    TIT"), newName: "HEADING" });
  const oracle = pathToFileURL(join(folder, "oracle.yaml")).href;
  assert.deepEqual(Object.keys(renamed?.changes ?? {}).sort(), [oracle, uri].sort());
  assert.equal(renamed?.changes?.[uri]?.length, text.split(/TITLE\b/).length - 1);

  const legend = capabilities.semanticTokensProvider?.legend.tokenTypes ?? [];
  const tokens = await connection.sendRequest(lsp.SemanticTokensRequest.type, { textDocument });
  const words: [string, string][] = [];
  let [line, column] = [0, 0];
  const lines = text.split("\n");
  for (let at = 0; at < (tokens?.data.length ?? 0); at += 5) {
    const [down, right, length, kind] = tokens!.data.slice(at, at + 4) as [number, number, number, number];
    line += down;
    column = down > 0 ? right : column + right;
    words.push([lines[line]!.slice(column, column + length), legend[kind]!]);
  }
  for (const word of [["grep", "function"], ["-c", "parameter"], ["printf", "function"], ["env", "variable"], ["TITLE", "property"]]) {
    assert.ok(words.some((one) => one.join() === word.join()), `${word}: ${JSON.stringify(words)}`);
  }

  const lenses = await connection.sendRequest(lsp.CodeLensRequest.type, { textDocument });
  assert.deepEqual(lenses?.map((lens) => lens.command?.command), ["gevals.run", "gevals.debug", "gevals.plan"]);
  assert.deepEqual(lenses?.[0]?.command?.arguments, [{ eval: pathToFileURL(join(folder, "eval.yaml")).href, task: "write-note" }]);

  const folds = await connection.sendRequest(lsp.FoldingRangeRequest.type, { textDocument });
  assert.ok(folds?.some((fold) => fold.startLine === positionOf("  prompt").line && fold.endLine === fold.startLine + 1), JSON.stringify(folds));

  const range = { start: { line: 0, character: 0 }, end: { line: lines.length, character: 0 } };
  const hints = await connection.sendRequest(lsp.InlayHintRequest.type, { textDocument, range });
  const labels = hints?.map((hint) => hint.label) ?? [];
  assert.ok(labels.includes("timeout 1m") && labels.includes("8 letters and digits"), `${labels}`);

  // Only holes are formatted.
  const hole = positionOf('title: "{env.TITLE');
  const fourth = diagnostics(4);
  await change(4, { start: { ...hole, character: hole.character - "env.TITLE".length }, end: hole }, " env.TITLE|lower ");
  await fourth;
  const edits = await connection.sendRequest(lsp.DocumentFormattingRequest.type, { textDocument, options: { tabSize: 2, insertSpaces: true } });
  assert.deepEqual(edits?.map((edit) => edit.newText), ["{env.TITLE | lower}"]);

  await connection.sendRequest(lsp.ShutdownRequest.type);
  await connection.sendNotification(lsp.ExitNotification.type);
  assert.equal(await ended, 0);
  connection.dispose();
  rmSync(folder, { recursive: true, force: true });
});

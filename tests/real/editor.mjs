// Opens files in yaml-language-server with the schemas of gevals, as an editor would, and prints every finding:
// `node editor.mjs SCHEMAS FOLDER…`. Exits with status 1 if there are findings, or if the server does not answer within a minute.
//
// A task with a misspelled key is opened as well: if the server does not report it, the test fails.
import { spawn } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const [schemas, ...folders] = process.argv.slice(2).map((path) => resolve(path));

// Returns the schema for a file, determined from its `kind`; an MCP config has none.
function schemaOf(text) {
  const kind = /^kind: *(\w+)/m.exec(text)?.[1];
  // Kubernetes manifests have kinds as well.
  const own = ["Task", "Eval", "Agent", "Oracle"].includes(kind);
  return own ? `${kind.toLowerCase()}.json` : /^mcpServers:/m.test(text) ? "mcp-config.json" : null;
}

const probe = "kind: Task\napiVersion: mcp-eval/v1\nmetadata: {name: probe}\nspec: {prompt: p, verfy: []}\n";
const files = new Map([[pathToFileURL(join(schemas, "probe.yaml")).href, probe]]);
for (const folder of folders) {
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath ?? entry.path, entry.name);
    if (!entry.isFile() || !/\.ya?ml$/.test(path)) continue;
    const text = readFileSync(path, "utf8");
    if (schemaOf(text)) files.set(pathToFileURL(path).href, text);
  }
}
const bySchema = {};
for (const [uri, text] of files) {
  (bySchema[pathToFileURL(join(schemas, schemaOf(text))).href] ??= []).push(uri);
}
const settings = { validate: true, schemas: bySchema, schemaStore: { enable: false, url: "" }, hover: false };

const server = spawn("yaml-language-server", ["--stdio"], { stdio: ["pipe", "pipe", "inherit"] });
const findings = new Map();
let buffer = Buffer.alloc(0);

function send(message) {
  const body = JSON.stringify({ jsonrpc: "2.0", ...message });
  server.stdin.write(`Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`);
}

function finish() {
  server.kill();
  let faults = 0;
  for (const [uri, found] of findings) {
    if (basename(uri) === "probe.yaml") {
      if (found.some((d) => d.message.includes("verfy"))) continue;
      faults += 1;
      console.log("the misspelt key of the probe was not found");
    }
    for (const { range, message } of found) {
      faults += 1;
      console.log(`${uri.replace("file://", "")}:${range.start.line + 1}: ${message}`);
    }
  }
  console.log(`yaml-language-server: ${faults} findings in ${findings.size - 1} files`);
  process.exit(faults === 0 ? 0 : 1);
}

function take(message) {
  if (message.method === "workspace/configuration") {
    const result = message.params.items.map(({ section }) => (section === "yaml" ? settings : {}));
    send({ id: message.id, result });
  } else if (message.method && message.id !== undefined) {
    send({ id: message.id, result: null });
  } else if (message.id === 0) {
    send({ method: "initialized", params: {} });
    send({ method: "workspace/didChangeConfiguration", params: { settings: { yaml: settings } } });
    // Files that are opened before the server has read its settings are checked without schemas.
    setTimeout(() => {
      for (const [uri, text] of files) {
        send({ method: "textDocument/didOpen", params: { textDocument: { uri, languageId: "yaml", version: 1, text } } });
      }
    }, 500);
  } else if (message.method === "textDocument/publishDiagnostics") {
    findings.set(message.params.uri, message.params.diagnostics);
    if (findings.size === files.size) setTimeout(finish, 1000);
  }
}

server.stdout.on("data", (chunk) => {
  buffer = Buffer.concat([buffer, chunk]);
  for (;;) {
    const end = buffer.indexOf("\r\n\r\n");
    if (end < 0) return;
    const length = Number(/Content-Length: (\d+)/.exec(buffer.subarray(0, end))[1]);
    if (buffer.length < end + 4 + length) return;
    const body = buffer.subarray(end + 4, end + 4 + length);
    buffer = buffer.subarray(end + 4 + length);
    take(JSON.parse(body));
  }
});
setTimeout(() => {
  console.log(`yaml-language-server said nothing of ${files.size - findings.size} files`);
  process.exit(1);
}, 60000).unref();
send({ id: 0, method: "initialize", params: { processId: process.pid, rootUri: null, capabilities: { workspace: { configuration: true } } } });

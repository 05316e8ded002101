// Tests `gevals mcp` with the official TypeScript client: `node client.mjs GEVALS FOLDER`. The client compiles the listed output schemas,
// and rejects structured content that does not match them.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const { resolve } = createRequire(`${process.env.REAL_MODULES}/`);
const sdk = (path) => import(pathToFileURL(resolve(`@modelcontextprotocol/sdk/${path}`)).href);
const { Client } = await sdk("client/index.js");
const { StdioClientTransport } = await sdk("client/stdio.js");

const [gevals, root] = process.argv.slice(2);
const client = new Client({ name: "self", version: "1.0.0" });
await client.connect(new StdioClientTransport({ command: gevals, args: ["mcp", "--root", root], stderr: "inherit" }));

const { tools } = await client.listTools();
assert.deepEqual(tools.map((tool) => tool.name).sort(), ["check", "convert", "explain", "new", "plan", "result"]);
assert.ok(tools.every((tool) => tool.annotations.readOnlyHint && tool.outputSchema && tool.title));

const call = async (name, args = {}) => {
  const answer = await client.callTool({ name, arguments: args });
  assert.ok(!answer.isError, `${name}: ${answer.content[0].text}`);
  return answer.structuredContent;
};
assert.equal((await call("check")).ok, true);
assert.match((await call("plan", { paths: ["eval.yaml"] })).text, /write-note/);
assert.equal((await call("plan", { paths: ["eval.yaml"], format: "json" })).document.evals[0].name, "quickstart");
assert.match((await call("explain", { word: "holes" })).text, /random\.id/);
const { tasks } = await call("convert", { paths: ["tasks/archive/task.yaml"], target: "builtin" });
assert.match(tasks[0].text, /mcp-eval\/v1/);
const { files } = await call("new", { what: "eval", path: "fresh/eval.yaml" });
const fresh = Object.fromEntries(files.map((file) => [file.path, file.text]));
assert.equal((await call("check", { files: fresh })).found, 0);

const refused = await client.callTool({ name: "check", arguments: { paths: ["/etc/hostname"] } });
assert.ok(refused.isError && refused.content[0].text.includes("outside the root"));
await assert.rejects(client.callTool({ name: "run", arguments: {} }), /unknown tool `run`/);
await client.close();
console.log(`${tools.length} tools, listed and called`);

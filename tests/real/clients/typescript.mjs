// Prints what the official TypeScript SDK receives from a server: `node typescript.mjs URL` or `node typescript.mjs COMMAND ARG…`. Each
// line is a feature and its result or error, as JSON; texts of over 5000 characters are replaced by their digests.
import { createRequire } from "node:module";
import { createHash } from "node:crypto";
import { pathToFileURL } from "node:url";

const { resolve } = createRequire(`${process.env.REAL_MODULES}/`);
const sdk = (path) => import(pathToFileURL(resolve(`@modelcontextprotocol/sdk/${path}`)).href);
const { Client } = await sdk("client/index.js");
const { StreamableHTTPClientTransport } = await sdk("client/streamableHttp.js");
const { StdioClientTransport } = await sdk("client/stdio.js");
const types = await sdk("types.js");

const [target, ...args] = process.argv.slice(2);
const http = target.startsWith("http");
const open = () =>
  http
    ? new StreamableHTTPClientTransport(new URL(target))
    : new StdioClientTransport({ command: target, args, env: process.env, stderr: "ignore" });
const capabilities = { sampling: {}, elicitation: {}, roots: { listChanged: true } };
const client = new Client({ name: "features", version: "1.0.0" }, { capabilities });

let elicited = { action: "decline" };
let heard = [];
client.setRequestHandler(types.CreateMessageRequestSchema, async ({ params }) => ({
  model: "a-model",
  role: "assistant",
  content: { type: "text", text: `${params.messages[0].content.text}? ${params.maxTokens}` },
}));
client.setRequestHandler(types.ElicitRequestSchema, async ({ params }) => {
  heard.push({ elicit: params });
  return elicited;
});
client.setRequestHandler(types.ListRootsRequestSchema, async () => ({ roots: [{ uri: "file:///srv/orchard", name: "orchard" }] }));
client.fallbackNotificationHandler = async (notification) => void heard.push(notification);

const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
const short = (key, value) =>
  typeof value === "string" && value.length > 5000 ? `${value.length} ${createHash("sha256").update(value).digest("hex")}` : value;

/** Runs one feature and prints its result or error, and the messages received meanwhile. */
async function feature(name, does) {
  heard = [];
  let said;
  try {
    said = { gives: await does() };
  } catch (error) {
    said = { throws: error.code ?? error.name, message: error.message };
  }
  // A notification that does not belong to a request arrives on a separate stream.
  await sleep(name.includes("notifi") ? 300 : 0);
  console.log(JSON.stringify({ feature: name, ...said, heard }, short));
}
const tool = (name, args = {}, options) => client.callTool({ name, arguments: args }, undefined, options);
const call = (name, args) => feature(name, () => tool(name, args));

const transport = open();
await feature("initialize", async () => {
  await client.connect(transport);
  return [client.getServerVersion(), client.getServerCapabilities(), client.getInstructions() ?? null];
});
await feature("ping", () => client.ping());
await feature("tools/list", () => client.listTools());
for (const name of ["simple_text", "image_content", "audio_content", "embedded_resource", "multiple_content_types", "error_handling"]) {
  await call(`test_${name}`);
}
await feature("an unknown tool", () => tool("no_such_tool"));
await feature("arguments of the wrong type", () => tool("test_unicode", { text: 7 }));
await feature("unicode", () => tool("test_unicode", { text: "ä \u2028 \u0000 \u{1F333} e\u0301 \r\n \"'\\" }));
await feature("an empty string", () => tool("test_unicode", { text: "" }));
await feature("edge cases of keys and numbers", () => tool("json_schema_2020_12_tool", { name: "2", "": 1e21, address: { street: "a/b~c" } }));
await feature("logging/setLevel", () => client.setLoggingLevel("debug"));
await call("test_tool_with_logging");
await feature("progress", async () => {
  const seen = [];
  const { isError } = await tool("test_tool_with_progress", {}, { onprogress: (progress) => seen.push(progress) });
  return [isError ?? false, seen];
});
await feature("progress of three concurrent calls", async () => {
  const seen = [[], [], []];
  await Promise.all(seen.map((own) => tool("test_tool_with_progress", {}, { onprogress: ({ progress }) => own.push(progress) })));
  return seen;
});
await feature("cancellation", async () => {
  const controller = new AbortController();
  setTimeout(() => controller.abort("enough"), 100);
  await tool("test_slow", { ms: 60000 }, { signal: controller.signal });
});
await feature("a timeout", () => tool("test_slow", { ms: 60000 }, { timeout: 150 }));
await feature("a call after a cancellation", () => tool("test_slow", { ms: 5 }));
await feature("sampling", () => tool("test_sampling", { prompt: "How are you" }));
for (const answer of [{ action: "accept", content: { response: "yes" } }, { action: "decline" }, { action: "cancel" }]) {
  elicited = answer;
  await feature(`elicitation: ${answer.action}`, () => tool("test_elicitation", { message: "Well?" }));
}
await call("test_elicitation_sep1034_defaults");
await call("test_elicitation_sep1330_enums");
await feature("roots", () => tool("test_roots"));
await feature("notifications/roots/list_changed", () => client.sendRootsListChanged());
await feature("resources/list", () => client.listResources());
await feature("resources/templates/list", () => client.listResourceTemplates());
for (const uri of ["test://static-text", "test://static-binary", "test://template/a%20b/data", "test://none"]) {
  await feature(`resources/read ${uri}`, () => client.readResource({ uri }));
}
await feature("resources/subscribe", () => client.subscribeResource({ uri: "test://watched-resource" }));
await feature("a notification of a resource", () => tool("test_touch", { uri: "test://watched-resource" }));
await feature("resources/unsubscribe", () => client.unsubscribeResource({ uri: "test://watched-resource" }));
await feature("a notification of tools", () => tool("test_trigger_tool_change"));
await feature("a notification of prompts", () => tool("test_trigger_prompt_change"));
await feature("prompts/list", () => client.listPrompts());
await feature("a prompt", () => client.getPrompt({ name: "test_simple_prompt" }));
await feature("a prompt with arguments", () => client.getPrompt({ name: "test_prompt_with_arguments", arguments: { arg1: "a", arg2: "ß" } }));
await feature("a prompt without its required arguments", () => client.getPrompt({ name: "test_prompt_with_arguments" }));
await feature("a prompt with a resource", () => client.getPrompt({ name: "test_prompt_with_embedded_resource", arguments: { resourceUri: "x://y" } }));
await feature("a prompt with an image", () => client.getPrompt({ name: "test_prompt_with_image" }));
await feature("an unknown prompt", () => client.getPrompt({ name: "none" }));
await feature("completion", () =>
  client.complete({ ref: { type: "ref/prompt", name: "test_prompt_with_arguments" }, argument: { name: "arg1", value: "par" } }),
);
await feature("an unknown method", () => client.request({ method: "vendor/none", params: {} }, types.EmptyResultSchema));
await feature("an unknown notification", () => client.notification({ method: "notifications/vendor" }));
await feature("100 concurrent calls", async () => {
  const texts = await Promise.all(Array.from({ length: 100 }, (_, n) => tool("test_unicode", { text: `call ${n}` })));
  return texts.map(({ content }) => content[0].text);
});
await feature("10 MB to the client", () => tool("test_large", { bytes: 10_000_000 }));
await feature("3 MB to the server", () => tool("test_unicode", { text: "ö".repeat(1_500_000) }));
if (http) {
  await feature("an interrupted stream", () => tool("test_reconnection"));
  // The message is the server's own, so only the code is compared.
  await feature("the end of a session", async () => {
    await transport.terminateSession();
    return client.ping().then(() => "still open", ({ code }) => `refused: ${code}`);
  });
}
await client.close();

// An agent with client capabilities: `node client.mjs URL`. The server's requests for sampling, elicitation and roots must reach this
// client through the proxy, and only because it declares these capabilities in `initialize`.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const { resolve } = createRequire(`${process.env.REAL_MODULES}/`);
const sdk = (path) => import(pathToFileURL(resolve(`@modelcontextprotocol/sdk/${path}`)).href);
const { Client } = await sdk("client/index.js");
const { StreamableHTTPClientTransport } = await sdk("client/streamableHttp.js");
const { CreateMessageRequestSchema, ElicitRequestSchema, ListRootsRequestSchema } = await sdk("types.js");

const capabilities = { sampling: {}, elicitation: {}, roots: { listChanged: true } };
const client = new Client({ name: "capable", version: "1.0.0" }, { capabilities });
client.setRequestHandler(CreateMessageRequestSchema, async ({ params }) => ({
  model: "a-model",
  role: "assistant",
  content: { type: "text", text: `the model was asked for ${params.maxTokens} tokens` },
}));
client.setRequestHandler(ElicitRequestSchema, async () => ({ action: "decline" }));
client.setRequestHandler(ListRootsRequestSchema, async () => ({ roots: [{ uri: "file:///srv/orchard", name: "orchard" }] }));
await client.connect(new StreamableHTTPClientTransport(new URL(process.argv[2])));
for (const [name, args] of [
  ["trigger-sampling-request", { prompt: "How are you?", maxTokens: 17 }],
  ["trigger-elicitation-request", {}],
  ["get-roots-list", {}],
]) {
  const { content, isError } = await client.callTool({ name, arguments: args });
  console.log(`${name}${isError ? " failed" : ""}: ${content.map((part) => part.text).join(" ")}`);
}
await client.close();

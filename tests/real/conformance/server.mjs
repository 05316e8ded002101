// A server with everything that the conformance suite tests, in both eras: `node server.mjs [PORT]` serves streamable HTTP
// at /mcp or, without a port, standard input and output.
import { randomBytes, randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const require = createRequire(`${process.env.REAL_MODULES}/`);
const load = async (name) => import(pathToFileURL(require.resolve(name)).href);
const sdk = await load("@modelcontextprotocol/server");
const { serveStdio } = await load("@modelcontextprotocol/server/stdio");
const { NodeStreamableHTTPServerTransport, toNodeHandler } = await load("@modelcontextprotocol/node");
const { McpServer, ResourceTemplate, createMcpHandler, createRequestStateCodec, fromJsonSchema, inputRequired, isLegacyRequest } = sdk;

const PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const WAV = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=";
const state = createRequestStateCodec({ key: randomBytes(32) });

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const text = (said) => ({ type: "text", text: said });
const says = (said) => ({ content: [text(said)] });
const image = { type: "image", data: PNG, mimeType: "image/png" };
const object = (properties = {}, rest = {}) => ({ type: "object", properties, ...rest });
const embedded = (uri, mimeType, said) => ({ type: "resource", resource: { uri, mimeType, text: said } });
const choices = (words) => words.map((word) => ({ const: word, title: word.toUpperCase() }));

/** Sessions of the handshake era, by ID. */
const sessions = new Map();

const elicit = (key, message, properties) => ({
  [key]: inputRequired.elicit({ message, requestedSchema: object(properties, { required: Object.keys(properties) }) }),
});
const sample = (key, prompt) => ({
  [key]: inputRequired.createMessage({ messages: [{ role: "user", content: text(prompt) }], maxTokens: 100 }),
});
const roots = (key) => ({ [key]: inputRequired.listRoots() });

/** A tool of the stateless era that needs input, round by round. */
const needs = (...rounds) => async (_, { mcpReq }) => {
  const round = mcpReq.requestState() ?? 0;
  const asked = rounds[round];
  const given = mcpReq.inputResponses ?? {};
  const has = (key) => given[key] !== undefined;
  if (Object.keys(asked).every(has)) {
    if (round + 1 === rounds.length) return says(`state-ok ${JSON.stringify(given)}`);
    return inputRequired({ inputRequests: rounds[round + 1], requestState: await state.mint(round + 1) });
  }
  return inputRequired({ inputRequests: asked, requestState: await state.mint(round) });
};

/** A tool of the handshake era that sends a request to the client, and returns its answer. */
const asks = (method, params) => async (args, { mcpReq }) => {
  try {
    return says(`${method}: ${JSON.stringify(await mcpReq.send({ method, params: params(args) }))}`);
  } catch (error) {
    return says(`${method} failed: ${error.message}`);
  }
};
const form = (message, properties) => asks("elicitation/create", (args) => ({ message: args.message ?? message, requestedSchema: object(properties) }));

const name = { name: { type: "string" } };
const tools = {
  test_simple_text: [{}, async () => says("a simple text")],
  test_image_content: [{}, async () => ({ content: [image] })],
  test_audio_content: [{}, async () => ({ content: [{ type: "audio", data: WAV, mimeType: "audio/wav" }] })],
  test_embedded_resource: [{}, async () => ({ content: [embedded("test://embedded-resource", "text/plain", "embedded")] })],
  test_multiple_content_types: [
    {},
    async () => ({ content: [text("several"), image, embedded("test://mixed-content-resource", "application/json", '{"a":1}')] }),
  ],
  test_tool_with_logging: [
    {},
    async (_, { mcpReq }) => {
      for (const data of ["begun", "at it", "done"]) {
        await mcpReq.notify({ method: "notifications/message", params: { level: "info", data } });
        await sleep(20);
      }
      return says("logged");
    },
  ],
  test_tool_with_progress: [
    {},
    async (_, { mcpReq }) => {
      const progressToken = mcpReq._meta?.progressToken ?? 0;
      for (const progress of [0, 50, 100]) {
        await mcpReq.notify({ method: "notifications/progress", params: { progressToken, progress, total: 100 } });
        await sleep(20);
      }
      return says(String(progressToken));
    },
  ],
  test_error_handling: [
    {},
    async () => {
      throw new Error("this tool always fails");
    },
  ],
  test_reconnection: [
    {},
    async (_, context) => {
      sessions.get(context.sessionId)?.closeSSEStream(context.mcpReq.id);
      await sleep(100);
      return says("after the stream was closed");
    },
  ],
  test_sampling: [
    { prompt: { type: "string" } },
    asks("sampling/createMessage", ({ prompt }) => ({ messages: [{ role: "user", content: text(prompt) }], maxTokens: 100 })),
  ],
  test_elicitation: [{ message: { type: "string" } }, form("", { response: { type: "string" } })],
  test_elicitation_sep1034_defaults: [
    {},
    form("with defaults", {
      name: { type: "string", default: "John Doe" },
      age: { type: "integer", default: 30 },
      score: { type: "number", default: 95.5 },
      status: { type: "string", enum: ["active", "inactive", "pending"], default: "active" },
      verified: { type: "boolean", default: true },
    }),
  ],
  test_elicitation_sep1330_enums: [
    {},
    form("with choices", {
      untitledSingle: { type: "string", enum: ["option1", "option2", "option3"] },
      titledSingle: { type: "string", oneOf: choices(["value1", "value2", "value3"]) },
      legacyEnum: { type: "string", enum: ["opt1", "opt2", "opt3"], enumNames: ["One", "Two", "Three"] },
      untitledMulti: { type: "array", items: { type: "string", enum: ["option1", "option2", "option3"] } },
      titledMulti: { type: "array", items: { anyOf: choices(["value1", "value2", "value3"]) } },
    }),
  ],
  test_custom_headers: [{ region: { type: "string", "x-mcp-header": "Region" } }, async ({ region }) => says(`region ${region}`)],
  test_input_required_result_elicitation: [{}, needs(elicit("user_name", "What is your name?", name))],
  test_input_required_result_sampling: [{}, needs(sample("capital_question", "What is the capital of France?"))],
  test_input_required_result_list_roots: [{}, needs(roots("client_roots"))],
  test_input_required_result_request_state: [{}, needs(elicit("confirm", "Please confirm", { ok: { type: "boolean" } }))],
  test_input_required_result_tampered_state: [{}, needs(elicit("confirm", "Please confirm", { ok: { type: "boolean" } }))],
  test_input_required_result_multiple_inputs: [
    {},
    needs({ ...elicit("user_name", "What is your name?", name), ...sample("greeting", "Generate a greeting"), ...roots("client_roots") }),
  ],
  test_input_required_result_multi_round: [
    {},
    needs(elicit("step1", "Step 1: What is your name?", name), elicit("step2", "Step 2: What is your favorite color?", { color: { type: "string" } })),
  ],
  test_input_required_result_capabilities: [
    {},
    async (args, context) => {
      const can = context.mcpReq.envelope?.["io.modelcontextprotocol/clientCapabilities"] ?? {};
      const asked = { ...(can.elicitation && elicit("user_name", "Name?", name)), ...(can.sampling && sample("greeting", "Greet")) };
      return Object.keys(asked).length ? needs(asked)(args, context) : says("the client can do nothing");
    },
  ],
  test_missing_capability: [{}, needs(sample("capital_question", "What is the capital of France?"))],
  test_streaming_elicitation: [{}, needs(elicit("user_name", "What is your name?", name))],
  test_logging_tool: [
    {},
    async (_, { mcpReq }) => {
      await mcpReq.log("info", "logged");
      return says("logged");
    },
  ],
  // Used by tests/real/clients, but not by the suite.
  test_roots: [{}, asks("roots/list", () => ({}))],
  test_touch: [
    { uri: { type: "string" } },
    async ({ uri }, { mcpReq }) => {
      await mcpReq.notify({ method: "notifications/resources/updated", params: { uri } });
      return says(`touched ${uri}`);
    },
  ],
  test_large: [{ bytes: { type: "integer" } }, async ({ bytes }) => says("x".repeat(bytes))],
  test_slow: [{ ms: { type: "integer" } }, async ({ ms }) => sleep(ms).then(() => says(`slept ${ms} ms`))],
  test_unicode: [{ text: { type: "string" } }, async (args) => says(args.text)],
};

const nested = object(
  { name: { type: "string" }, address: { $ref: "#/$defs/address" } },
  {
    $schema: "https://json-schema.org/draft/2020-12/schema",
    $defs: { address: { $anchor: "addressDef", ...object({ street: { type: "string" }, city: { type: "string" } }) } },
    allOf: [{ anyOf: [{ required: ["name"] }, { required: ["address"] }] }],
    if: { properties: { name: { const: "x" } }, required: ["name"] },
    then: { required: ["address"] },
    else: {},
    additionalProperties: false,
  },
);

function make() {
  const server = new McpServer(
    { name: "conformance", version: "1.0.0" },
    {
      capabilities: {
        tools: { listChanged: true },
        resources: { subscribe: true, listChanged: true },
        prompts: { listChanged: true },
        logging: {},
        completions: {},
      },
      requestState: { verify: state.verify },
    },
  );
  const add = (tool, inputSchema, does) => server.registerTool(tool, { description: tool, inputSchema: fromJsonSchema(inputSchema) }, does);
  for (const [tool, [properties, does]] of Object.entries(tools)) add(tool, object(properties), does);
  add("json_schema_2020_12_tool", nested, async (args) => says(JSON.stringify(args)));
  for (const kind of ["tool", "prompt"]) {
    add(`test_trigger_${kind}_change`, object(), async () => {
      if (kind === "tool") server.sendToolListChanged();
      else server.sendPromptListChanged();
      modern?.notify?.[kind === "tool" ? "toolsChanged" : "promptsChanged"]?.();
      return says("changed");
    });
  }

  const read = (uri, mimeType, content) =>
    server.registerResource(uri.split("//")[1], uri, { mimeType }, async () => ({ contents: [{ uri, mimeType, ...content }] }));
  read("test://static-text", "text/plain", { text: "a text" });
  read("test://static-binary", "image/png", { blob: PNG });
  read("test://watched-resource", "text/plain", { text: "watched" });
  const template = new ResourceTemplate("test://template/{id}/data", { list: undefined });
  server.registerResource("template", template, { mimeType: "application/json" }, async (uri, { id }) => ({
    contents: [{ uri: uri.href, mimeType: "application/json", text: JSON.stringify({ id }) }],
  }));
  for (const method of ["resources/subscribe", "resources/unsubscribe", "logging/setLevel"]) {
    server.server.setRequestHandler(method, async () => ({}));
  }
  server.server.setRequestHandler("completion/complete", async ({ params }) => ({
    completion: { values: ["paris", "park"].filter((word) => word.startsWith(params.argument.value)), total: 2, hasMore: false },
  }));

  const says_user = (...content) => ({ messages: content.map((content) => ({ role: "user", content })) });
  const prompt = (prompt, properties, does) =>
    server.registerPrompt(
      prompt,
      { description: prompt, ...(properties && { argsSchema: fromJsonSchema(object(properties, { required: Object.keys(properties) })) }) },
      does,
    );
  prompt("test_simple_prompt", undefined, async () => says_user(text("a simple prompt")));
  prompt("test_prompt_with_arguments", { arg1: { type: "string" }, arg2: { type: "string" } }, async ({ arg1, arg2 }) =>
    says_user(text(`${arg1} and ${arg2}`)),
  );
  prompt("test_prompt_with_embedded_resource", { resourceUri: { type: "string" } }, async ({ resourceUri }) =>
    says_user(embedded(resourceUri, "text/plain", "embedded"), text("see above")),
  );
  prompt("test_prompt_with_image", undefined, async () => says_user(image, text("see above")));
  prompt("test_input_required_result_prompt", undefined, async (...given) =>
    given.at(-1).mcpReq.inputResponses
      ? says_user(text("with input"))
      : inputRequired({ inputRequests: elicit("user_context", "What context should the prompt use?", { context: { type: "string" } }) }),
  );
  return server;
}

/** Stores the events of streams, so that a client can resume a stream. */
function eventStore() {
  const events = [];
  return {
    async storeEvent(stream, message) {
      events.push({ id: `${stream}/${events.length}`, stream, message });
      return events.at(-1).id;
    },
    async getStreamIdForEventId(id) {
      return events.find((event) => event.id === id)?.stream;
    },
    async replayEventsAfter(last, { send }) {
      const at = events.findIndex((event) => event.id === last);
      const { stream } = events[at];
      for (const { id, message } of events.slice(at + 1).filter((event) => event.stream === stream)) {
        if (Object.keys(message).length) await send(id, message);
      }
      return stream;
    },
  };
}

async function handshake(request, response, body) {
  const known = sessions.get(request.headers["mcp-session-id"]);
  if (known) return known.handleRequest(request, response, body);
  if (body?.method !== "initialize") {
    const [status, message] = request.headers["mcp-session-id"] ? [404, "there is no such session"] : [400, "a session is needed"];
    response.writeHead(status, { "content-type": "application/json" });
    return response.end(JSON.stringify({ jsonrpc: "2.0", error: { code: -32000, message }, id: null }));
  }
  const transport = new NodeStreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID,
    eventStore: eventStore(),
    retryInterval: 500,
    onsessioninitialized: (id) => sessions.set(id, transport),
    onsessionclosed: (id) => sessions.delete(id),
  });
  await make().connect(transport);
  return transport.handleRequest(request, response, body);
}

const port = Number(process.argv[2] ?? 0);
let modern;
if (port === 0) {
  serveStdio(make);
} else {
  const local = (authority) => ["localhost", "127.0.0.1"].includes(authority?.split("//").at(-1).split(":")[0]);
  modern = createMcpHandler(make, { legacy: "reject" });
  const stateless = toNodeHandler(modern);
  createServer(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const raw = Buffer.concat(chunks).toString();
    const { host, origin } = request.headers;
    if (!local(host) || (origin && !local(origin))) {
      response.writeHead(403, { "content-type": "application/json" });
      return response.end(JSON.stringify({ jsonrpc: "2.0", error: { code: -32000, message: "only local clients" }, id: null }));
    }
    let body;
    try {
      body = raw === "" ? undefined : JSON.parse(raw);
    } catch {
      response.writeHead(400, { "content-type": "application/json" });
      return response.end(JSON.stringify({ jsonrpc: "2.0", error: { code: -32700, message: "no JSON" }, id: null }));
    }
    const asked = new Request(`http://${host}${request.url}`, {
      method: request.method,
      headers: Object.entries(request.headers).map(([name, value]) => [name, String(value)]),
      ...(body !== undefined && { body: raw }),
    });
    if (await isLegacyRequest(asked, body)) return handshake(request, response, body);
    return stateless(request, response, body);
  }).listen(port, "127.0.0.1");
}

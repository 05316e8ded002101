// The endpoint of a fake model: `node fake.mjs PORT`. The model calls the tool `echo` once, and ends when it has received the answer; if the
// prompt asks to just claim the answer, it does so without a call. Supports the protocols of OpenAI (chat completions and responses),
// Anthropic and Gemini, streamed or not.
import { createServer } from "node:http";

const TOOL = /(^|[^a-z])echo$/;
const SAYS = { message: "hello from a fake model" };
const ANSWER = "Echo: hello from a fake model";

// Returns the tools of a request in any protocol: their names, and the namespaces of those in a group.
function tools(body) {
  const found = [];
  const look = (tool, namespace) => {
    if (tool.type === "namespace" || Array.isArray(tool.tools)) tool.tools.forEach((inner) => look(inner, tool.name));
    else if (tool.functionDeclarations) tool.functionDeclarations.forEach((inner) => look(inner));
    else found.push({ name: tool.function?.name ?? tool.name, namespace });
  };
  (body.tools ?? []).forEach((tool) => look(tool));
  return found.filter((tool) => tool.name);
}

function reply(body) {
  const asked = JSON.stringify(body);
  if (asked.includes("just claim that it said it")) return { text: "The server answered: " + ANSWER };
  const tool = tools(body).find((tool) => TOOL.test(tool.name));
  if (asked.includes(ANSWER) || !tool) return { text: asked.includes(ANSWER) ? "The server answered: " + ANSWER : "There is no such tool." };
  return { call: tool };
}

const anthropic = ({ text, call }) => ({
  id: "msg_1", type: "message", role: "assistant", model: "fake-model", stop_sequence: null,
  content: [call ? { type: "tool_use", id: "toolu_1", name: call.name, input: SAYS } : { type: "text", text }],
  stop_reason: call ? "tool_use" : "end_turn", usage: { input_tokens: 10, output_tokens: 5 },
});

function* anthropicStream(said) {
  const message = anthropic(said);
  const [block] = message.content;
  yield ["message_start", { message: { ...message, content: [], stop_reason: null } }];
  yield ["content_block_start", { index: 0, content_block: said.call ? { ...block, input: {} } : { type: "text", text: "" } }];
  const delta = said.call ? { type: "input_json_delta", partial_json: JSON.stringify(SAYS) } : { type: "text_delta", text: said.text };
  yield ["content_block_delta", { index: 0, delta }];
  yield ["content_block_stop", { index: 0 }];
  yield ["message_delta", { delta: { stop_reason: message.stop_reason, stop_sequence: null }, usage: { output_tokens: 5 } }];
  yield ["message_stop", {}];
}

function chat({ text, call }, stream) {
  const calls = call && [{ index: 0, id: "call_1", type: "function", function: { name: call.name, arguments: JSON.stringify(SAYS) } }];
  const message = call ? { role: "assistant", content: null, tool_calls: calls } : { role: "assistant", content: text };
  const finish_reason = call ? "tool_calls" : "stop";
  const usage = { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 };
  const head = { id: "chatcmpl-1", created: 1, model: "fake-model" };
  if (!stream) return { ...head, object: "chat.completion", choices: [{ index: 0, message, finish_reason }], usage };
  const chunk = (delta, finish_reason = null) => ({ ...head, object: "chat.completion.chunk", choices: [{ index: 0, delta, finish_reason }] });
  return [chunk(message), chunk({}, finish_reason), { ...head, object: "chat.completion.chunk", choices: [], usage }];
}

function responses({ text, call }) {
  const item = call
    ? { type: "function_call", id: "fc_1", call_id: "call_1", name: call.name, arguments: JSON.stringify(SAYS), status: "completed", ...(call.namespace && { namespace: call.namespace }) }
    : { type: "message", id: "msg_1", role: "assistant", status: "completed", content: [{ type: "output_text", text, annotations: [] }] };
  const usage = { input_tokens: 10, output_tokens: 5, total_tokens: 15, input_tokens_details: { cached_tokens: 0 }, output_tokens_details: { reasoning_tokens: 0 } };
  const response = { id: "resp_1", object: "response", created_at: 1, model: "fake-model", status: "completed", output: [item], usage };
  return [
    { type: "response.created", response: { ...response, status: "in_progress", output: [] } },
    { type: "response.output_item.added", output_index: 0, item },
    { type: "response.output_item.done", output_index: 0, item },
    { type: "response.completed", response },
  ];
}

const gemini = ({ text, call }) => ({
  candidates: [{ index: 0, finishReason: "STOP", content: { role: "model", parts: [call ? { functionCall: { name: call.name, args: SAYS } } : { text }] } }],
  usageMetadata: { promptTokenCount: 10, candidatesTokenCount: 5, totalTokenCount: 15 }, modelVersion: "fake-model",
});

createServer((request, response) => {
  const chunks = [];
  request.on("data", (chunk) => chunks.push(chunk));
  request.on("end", () => {
    const path = new URL(request.url, "http://localhost").pathname;
    let body = {};
    try {
      body = JSON.parse(Buffer.concat(chunks).toString() || "{}");
    } catch {
      // Not a model request.
    }
    if (process.env.FAKE_LOG) console.error(request.method, path, tools(body).map((tool) => `${tool.namespace ?? ""}.${tool.name}`).join(" "), Object.keys(reply(body)));
    const json = (value) => {
      response.writeHead(200, { "content-type": "application/json" });
      response.end(JSON.stringify(value));
    };
    const events = (lines) => {
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.end(lines.map((line) => line + "\n\n").join(""));
    };
    const data = (value) => `data: ${JSON.stringify(value)}`;
    if (request.method !== "POST") return json({ data: [], models: [], object: "list" });
    if (path.endsWith("/count_tokens")) return json({ input_tokens: 10 });
    if (path.endsWith(":countTokens")) return json({ totalTokens: 10 });
    const said = reply(body);
    if (path.endsWith("/messages")) {
      if (!body.stream) return json(anthropic(said));
      return events([...anthropicStream(said)].map(([type, event]) => `event: ${type}\ndata: ${JSON.stringify({ type, ...event })}`));
    }
    if (path.endsWith("/chat/completions")) {
      const whole = chat(said, body.stream);
      return body.stream ? events([...whole.map(data), "data: [DONE]"]) : json(whole);
    }
    if (path.endsWith("/responses")) {
      const all = responses(said);
      return body.stream ? events(all.map((event) => `event: ${event.type}\n${data(event)}`)) : json(all.at(-1).response);
    }
    if (path.endsWith(":streamGenerateContent")) return events([data(gemini(said))]);
    if (path.endsWith(":generateContent")) return json(gemini(said));
    json({});
  });
}).listen(Number(process.argv[2]), "127.0.0.1");

"""A judge: sends the prompt on standard input to a model, and submits its answer. The model is too small to call tools, so its answer is
constrained to the schema of the tool's arguments."""

import json
import sys
import urllib.request

server, model = sys.argv[1:]


def post(url, body, headers=()):
    accept = "application/json, text/event-stream"
    headers = {"Content-Type": "application/json", "Accept": accept, **dict(headers)}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=240) as response:
        return response.headers, response.read().decode()


def answer(text):
    """Parses the JSON of an answer, or of the last event if the answer is a stream."""
    events = [line[5:] for line in text.splitlines() if line.startswith("data:") and line[5:].strip()]
    return json.loads(events[-1] if events else text)


categories = ["semantic_mismatch", "missing_information", "contains_extra_info", "n/a"]
schema = {
    "type": "object",
    "properties": {
        "reason": {"type": "string", "maxLength": 120},
        "passed": {"type": "boolean"},
        "failureCategory": {"enum": categories},
    },
    "required": ["reason", "passed", "failureCategory"],
    "additionalProperties": False,
}
_, text = post(f"{model}/v1/chat/completions", {
    "messages": [{"role": "user", "content": sys.stdin.read()}],
    "response_format": {"type": "json_schema", "json_schema": {"name": "verdict", "schema": schema}},
    "max_tokens": 160,
    "temperature": 0,
    "seed": 1,
})
verdict = json.loads(json.loads(text)["choices"][0]["message"]["content"])
# A pass has no failure category, which the model does not know.
if verdict["passed"]:
    verdict["failureCategory"] = "n/a"
print("the model says", verdict)

info = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "small", "version": "1"}}
headers, text = post(server, {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": info})
session = {"Mcp-Session-Id": headers["Mcp-Session-Id"], "MCP-Protocol-Version": answer(text)["result"]["protocolVersion"]}
post(server, {"jsonrpc": "2.0", "method": "notifications/initialized"}, session)
call = {"name": "submit_judgement", "arguments": verdict}
_, text = post(server, {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}, session)
result = answer(text)["result"]
print(result["content"][0]["text"])
sys.exit(1 if result.get("isError") else 0)

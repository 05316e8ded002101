import assert from "node:assert/strict";
import { test } from "node:test";
import { exactly, schemaOf } from "../src/kinds";

test("the content of a file determines its schema", () => {
  assert.equal(schemaOf("# a task\nkind: Task\napiVersion: mcp-eval/v1\n"), "task");
  assert.equal(schemaOf("apiVersion: gevals/v1alpha2\nkind: 'Eval'\n"), "eval");
  assert.equal(schemaOf("kind: McpEvals\n"), "evals");
  assert.equal(schemaOf("mcpServers:\n  a: {command: x}\n"), "mcp-config");
  assert.equal(schemaOf("apiVersion: tekton.dev/v1\nkind: Task\n"), undefined);
  assert.equal(schemaOf("apiVersion: v1\nkind: Service\n"), undefined);
  assert.equal(schemaOf("spec:\n  kind: Task\n"), undefined);
});

test("a pattern matches only the given names", () => {
  const pattern = new RegExp(exactly(["a.b", "c (1)|[x]"]));
  assert.ok(pattern.test("a.b") && pattern.test("c (1)|[x]"));
  assert.ok(!pattern.test("aXb") && !pattern.test("a.b2") && !pattern.test("c"));
});

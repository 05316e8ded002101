import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { definition, programAt, wordsOf } from "../src/program";

test("variables in the path of the program are expanded", () => {
  assert.equal(programAt("gevals", "/home/me", "/work"), "gevals");
  assert.equal(programAt(" ", "/home/me", "/work"), "gevals");
  assert.equal(programAt("~/.cargo/bin/gevals", "/home/$&me", undefined), "/home/$&me/.cargo/bin/gevals");
  assert.equal(programAt("${workspaceFolder}/target/debug/gevals", "/home/me", "/work"), "/work/target/debug/gevals");
  assert.equal(programAt("${userHome}/gevals", "/home/me", undefined), "/home/me/gevals");
  assert.equal(programAt("/opt/a~/b", "/home/me", undefined), "/opt/a~/b");
});

test("runs of different tasks are different VS Code tasks, of a declared type", () => {
  const runs = [definition("/e.yaml", null, undefined), definition("/e.yaml", "a", undefined), definition("/e.yaml", "b", undefined), definition("/e.yaml", "a", "setup")];
  assert.equal(new Set(runs.map((run) => JSON.stringify(run))).size, runs.length);
  assert.deepEqual(wordsOf(runs[3]!), ["run", "/e.yaml", "--run", "^(a)$", "--phase", "setup"]);
  const manifest = JSON.parse(readFileSync("package.json", "utf8")) as { contributes: { taskDefinitions: { type: string; properties: object }[] } };
  const known = manifest.contributes.taskDefinitions.find((one) => one.type === runs[0]?.type);
  for (const run of runs) for (const key of Object.keys(run)) assert.ok(key === "type" || key in known!.properties, key);
});

#!/usr/bin/env python3
"""Generates inputs for benchmarks: deterministic, valid, and similar to published suites.

    generate.py suite DIR [FILES]       one eval and FILES (326) task files of about 1.2 KB, half of them with scripts
    generate.py real DIR [COPIES]       COPIES (3) of the projects in tests/ledger, one eval each, and evals with overlapping globs
    generate.py findings DIR [COUNT]    tasks with COUNT (1000) findings
    generate.py results FILE [TASKS [RUNS]]   a results file of TASKS (1000) tasks, RUNS (5) runs each: one of seven runs fails
    generate.py workflows DIR BYTES     GitHub workflows with BYTES bytes, for linters that read nothing else
"""
import json
import os
import re
import sys
import time
from pathlib import Path

EVAL = """kind: Eval
metadata:
  name: bench
config:
  agent: {type: builtin.noop}
  mcpConfigFile: mcp.yaml
  taskSets:
    - glob: tasks/**/*.yaml
      assertions:
        minToolCalls: 1
        maxToolCalls: 40
"""
MCP = """mcpServers:
  kubernetes:
    command: npx
    args: ["-y", "kubernetes-mcp-server@1.0.0"]
    enableAllTools: true
"""
PORTABLE = """kind: Task
apiVersion: mcp-eval/v1
metadata:
  name: portable-{i}
  difficulty: {difficulty}
  description: >-
    Task {i} of the suite: the agent makes a deployment in a namespace of its own, waits until it is
    there, and says how many replicas are ready.
  labels:
    area: workloads
    suite: bench
spec:
  requires:
    - mcpServer: kubernetes
  env:
    NAMESPACE: bench-{i}-{{random.id}}
  setup:
    - command:
        run: kubectl create namespace "$NAMESPACE"
  prompt: |
    Create a deployment called web-{i} with three replicas of the image nginx:1.27 in the
    namespace {{env.NAMESPACE}}. Wait until it is available, then tell me how many of its replicas are ready.
  verify:
    - kubernetes.resources_get:
        id: deployment
        args: {{apiVersion: apps/v1, kind: Deployment, namespace: "{{env.NAMESPACE}}", name: web-{i}}}
        outputs:
          text: "{{content[0].text}}"
    - command:
        run: |
          set -e
          ready=$(kubectl get deployment -n "$NAMESPACE" web-{i} -o jsonpath={{.status.readyReplicas}})
          test "$ready" = 3
          printf '%s' "$TEXT" | grep -q web-{i}
        env:
          TEXT: "{{steps.deployment.outputs.text}}"
  cleanup:
    - command:
        run: kubectl delete namespace --ignore-not-found "$NAMESPACE"
"""
LEGACY = """kind: Task
metadata:
  name: legacy-{i}
  difficulty: {difficulty}
  description: >-
    Task {i} of the suite: the agent finds out why the deployment of this folder does not come up, mends it,
    and leaves everything else as it was.
  labels:
    area: troubleshooting
    suite: bench
steps:
  setup:
    file: setup.sh
  verify:
    file: verify.sh
  cleanup:
    inline: |-
      #!/usr/bin/env bash
      set -euo pipefail
      kubectl delete namespace --ignore-not-found bench-{i}
      kubectl delete clusterrole --ignore-not-found bench-{i}-reader
  prompt:
    inline: |
      The deployment app-{i} in the namespace bench-{i} does not come up. Find out why, and mend it. Do not
      delete the deployment, and do not change its image. Tell me in one sentence what was wrong, and which
      object you changed. There are several possible causes: look at the events, at the quota of the namespace
      and at the secrets that the pods refer to before you decide.
"""
SETUP = """#!/usr/bin/env bash
set -euo pipefail
kubectl create namespace bench-{i}
kubectl create clusterrole bench-{i}-reader --verb=get --resource=pods
kubectl -n bench-{i} create deployment app-{i} --image=nginx:1.27 --replicas=2
"""
VERIFY = """#!/usr/bin/env bash
set -euo pipefail
for attempt in 1 2 3 4 5; do
  if [ "$(kubectl -n bench-{i} get deployment app-{i} -o jsonpath='{{.status.availableReplicas}}')" = 2 ]; then
    exit 0
  fi
  sleep 2
done
echo "app-{i} is not available" >&2
exit 1
"""
WRONG = """kind: Task
apiVersion: mcp-eval/v1
metadata:
  name: wrong-{i}
spec:
  prompt: Create the pod web-{i}, and tell me its address.
  verify:
    - command:
        run: kubectl get pod web-{i}
        timout: 30s
    - command:
        run: echo {{steps.pod.outputs.name}}
"""
WORKFLOW = """name: build-{i}
on:
  push:
    branches: [main]
permissions: {{}}
jobs:
  test:
    runs-on: ubuntu-24.04
    steps:
      - name: Say what is built
        run: |
          set -e
          echo "building {i}"
          test -f Cargo.toml
      - name: Build
        run: cargo build --release
        env:
          NUMBER: "{i}"
"""


def write(path: Path, text: str, executable: bool = False) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    if executable:
        os.chmod(path, 0o755)


def suite(root: Path, files: int) -> None:
    write(root / "eval.yaml", EVAL)
    write(root / "mcp.yaml", MCP)
    for i in range(files):
        values = {"i": i, "difficulty": ["easy", "medium", "hard"][i % 3]}
        folder = root / "tasks" / f"group-{i % 20}" / f"task-{i}"
        write(folder / "task.yaml", [PORTABLE, LEGACY][i % 2].format(**values))
        if i % 2:
            write(folder / "setup.sh", SETUP.format(**values), executable=True)
            write(folder / "verify.sh", VERIFY.format(**values), executable=True)


BLOCK = re.compile(r"^```(?:yaml|bash|json|text) (?P<path>[^ \n]+)(?P<exec> exec)?\n(?P<text>.*?)^```$", re.M | re.S)
WIDE = """kind: Eval
metadata:
  name: wide-{i}
config:
  agent: {{type: builtin.noop}}
  mcpConfigFile: mcp.yaml
  taskSets:
    - glob: {glob}
    - glob: ../suites/{page}-*/**/task.yaml
    - glob: shared/**/*.yaml
"""


def real(root: Path, copies: int) -> None:
    """Writes many evals with scripts beside their tasks, all different, with wide globs and symlinked directories."""
    pages = sorted((Path(__file__).parent.parent / "tests" / "ledger").glob("*.md"))
    for copy in range(copies):
        for page in pages:
            project = page.read_text().split("\n## ")[0]
            for block in BLOCK.finditer(project):
                path = root / "suites" / f"{page.stem}-{copy}" / block["path"]
                write(path, block["text"].replace(f"name: {page.stem}", f"name: {page.stem}-{copy}"), bool(block["exec"]))
    for i, page in enumerate(pages[:12]):
        folder = root / f"wide-{i}"
        glob = ["../suites/**/*.yaml", "../suites/*/tasks/**/*.yaml", "../**/task.yaml"][i % 3]
        write(folder / "eval.yaml", WIDE.format(i=i, glob=glob, page=page.stem))
        write(folder / "mcp.yaml", MCP)
        link = folder / "shared"
        if not link.is_symlink():
            link.symlink_to(Path("..") / "suites" / f"{page.stem}-0" / "tasks")


def findings(root: Path, count: int) -> None:
    for i in range(count // 2):
        write(root / f"wrong-{i}.yaml", WRONG.format(i=i))


def workflows(root: Path, size: int) -> None:
    written, i = 0, 0
    while written < size:
        text = WORKFLOW.format(i=i)
        write(root / ".github" / "workflows" / f"build-{i}.yml", text)
        written, i = written + len(text), i + 1


def result(task: int, run: int, runs: int) -> dict:
    """Returns one run as gevals writes it: eight calls, the agent's output about them, and a check that may fail."""
    good = (task * runs + run) % 7 != 0
    began = 1764000000 + task

    def at(second: float) -> str:
        return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(began + int(second))) + f".{int(second * 1000) % 1000:03}Z"

    calls = [
        {
            "serverName": "kubernetes",
            "name": ["resources_list", "resources_get", "resources_create_or_update", "pods_log"][i % 4],
            "timestamp": at(i * 1.5),
            "success": True,
            "status": "ok",
            "durationSeconds": 0.2 + i / 10,
            "request": {"Session": {}, "Params": {"name": "x", "arguments": {"namespace": f"bench-{task}", "name": f"web-{i}"}}},
            "result": {"content": [{"type": "text", "text": f"NAME web-{i} READY 3/3 STATUS Running AGE {task}s\n" * 12}]},
        }
        for i in range(8)
    ]
    told = [step for i, call in enumerate(calls) for step in (
        {"type": "thinking", "content": f"I look at web-{i} of bench-{task} now.", "at": at(i * 1.5 - 0.5 if i else 0)},
        {"type": "tool_call", "toolCall": {"title": f"mcp__kubernetes__{call['name']}"}, "at": at(i * 1.5)},
    )]

    def step(name: str, outcome: str, **report) -> dict:
        message = report.pop("message", "")
        return {
            "type": "command", "meaning": f"run `kubectl get {name}`", "place": f"tasks/group-{task % 20}/task-{task}/task.yaml:{20 + run}",
            "success": outcome == "passed", "message": message, "id": f"verify/{name}",
            "report": {"outcome": outcome, "message": message, "duration": 0.1, "comparisons": 1, **report},
        }

    wrong = {"message": "`stdout` is not as expected", "filled": {"$NAMESPACE": f"bench-{task}"}, "stdout": "Pending\n" * 5, "differences": [
        {"subject": "stdout", "expected": "Running", "actual": f"Pending {task}", "place": f"tasks/group-{task % 20}/task-{task}/task.yaml:25"}]}
    steps = [step("namespace", "passed"), step("pod", "passed") if good else step("pod", "failed", **wrong)]
    return {
        "taskName": f"task-{task}", "taskPath": f"tasks/group-{task % 20}/task-{task}/task.yaml", "taskPassed": good,
        "prompt": f"Create a deployment called web-{task} with three replicas of the image nginx:1.27 in the namespace bench-{task}. " * 3,
        "taskOutput": f"The deployment web-{task} has three replicas, all of which are ready. " * 4,
        "difficulty": ["easy", "medium", "hard"][task % 3], "tags": [f"group-{task % 20}"], "runIndex": run, "totalRuns": runs,
        "assertionResults": {"minToolCalls": {"passed": True}}, "allAssertionsPassed": True,
        "callHistory": {"ToolCalls": calls, "ResourceReads": None, "PromptGets": None},
        "agentOutput": {"Steps": [], "Success": True, "Error": "", "agentDetails": {"toolCalls": [], "outputSteps": told}},
        "verifyOutput": {"Steps": steps, "Success": good, "Error": ""},
        "outcome": "passed" if good else "failed", "reason": "" if good else "verify/pod: `stdout` is not as expected",
        "durationSeconds": 12.5, "cleanupFailed": False, "planDigest": "0" * 64,
        "tokenEstimate": {"totalTokens": 4000 + task, "inputTokens": 3000, "outputTokens": 1000 + task, "source": "actual", "cost": 0.02},
    }


def results(path: Path, tasks: int, runs: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    names = [f"task-{task}" for task in range(tasks)]
    summary = {"eval": "bench", "agent": {"name": "a", "model": "m"}, "currency": "USD", "complete": True, "startedAt": "2025-11-24T16:00:00Z",
               "durationSeconds": tasks, "evals": {"names": names}, "version": 1}
    with path.open("w") as out:
        out.write('{"summary": ' + json.dumps(summary) + ', "results": [\n')
        out.write(",\n".join(json.dumps(result(task, run, runs)) for task in range(tasks) for run in range(runs)))
        out.write('\n], "findings": []}\n')


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["suite", root, *rest]:
            suite(Path(root), int(rest[0]) if rest else 326)
        case ["real", root, *rest]:
            real(Path(root), int(rest[0]) if rest else 3)
        case ["findings", root, *rest]:
            findings(Path(root), int(rest[0]) if rest else 1000)
        case ["results", path, *rest]:
            results(Path(path), *[int(n) for n in (rest + ["1000", "5"][len(rest):])])
        case ["workflows", root, size]:
            workflows(Path(root), int(size))
        case _:
            sys.exit(__doc__)

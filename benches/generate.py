#!/usr/bin/env python3
"""Writes suites for measuring: deterministic, valid, and shaped like those that people publish.

    generate.py suite DIR [FILES]       one eval and FILES (326) task files of about 1.2 KB, half of them with scripts
    generate.py real DIR [COPIES]       COPIES (3) of the projects in tests/ledger, an eval each, and evals whose globs overlap with theirs
    generate.py findings DIR [COUNT]    tasks with COUNT (1000) findings
    generate.py workflows DIR BYTES     GitHub workflows of as many bytes, for linters that read nothing else
"""
import os
import re
import sys
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
    """Many evals with scripts beside their tasks, of which no two are alike; wide globs; folders that are links."""
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


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["suite", root, *rest]:
            suite(Path(root), int(rest[0]) if rest else 326)
        case ["real", root, *rest]:
            real(Path(root), int(rest[0]) if rest else 3)
        case ["findings", root, *rest]:
            findings(Path(root), int(rest[0]) if rest else 1000)
        case ["workflows", root, size]:
            workflows(Path(root), int(size))
        case _:
            sys.exit(__doc__)

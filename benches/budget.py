#!/usr/bin/env python3
"""Counts the instructions of common commands, and compares them with those of the last commit, in budget.json.

    budget.py [--gevals PATH] [--write] [CASE]...

The program that `cargo build` makes is measured: a regression shows at any optimization level, and the measurement does not depend on
the load of the machine. A case that takes over 5 % more than the recorded figure fails (exit status 1), and so does one that
takes over 5 % less, so that the figures stay accurate. `--write` records new figures; the commit that does so must give the reason.
"""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
FIGURES = HERE / "budget.json"
LEEWAY = 0.05
CALLS = 100

TASK = """kind: Task
apiVersion: mcp-eval/v1
metadata: {{name: t{i}}}
spec:
  prompt: Do it.
  setup: [{{command: {{run: echo a > file}}}}]
  verify: [{{command: {{run: grep -q a file}}}}]
  cleanup: [{{command: {{run: rm file}}}}]
"""
EVAL = """kind: Eval
metadata: {name: e}
config:
  agent: {type: builtin.noop}
  mcpConfigFile: mcp.yaml
  taskSets: [{glob: tasks/*.yaml}]
"""


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def prepare(root: Path, gevals: Path) -> None:
    subprocess.run([sys.executable, HERE / "generate.py", "suite", root / "suite", "40"], check=True)
    write(root / "run" / "mcp.yaml", f"mcpServers:\n  notes: {{command: {gevals}, args: [demo-server, --dir, notes], enableAllTools: true}}\n")
    write(root / "run" / "eval.yaml", EVAL)
    for i in range(20):
        write(root / "run" / "tasks" / f"{i:02}.yaml", TASK.format(i=i))
    # Files that were modified just now are not cached, and a new file would invalidate the cache: hence create these first, and wait.
    write(root / "counts", "")
    (root / ".gevals").mkdir()
    time.sleep(0.2)
    # Fill the cache with the same executable that reads it, which here is valgrind.
    count(root, gevals, ["check", "."])
    edited = root / EDITED
    edited.write_text(edited.read_text() + "# edited\n")


def environment(root: Path) -> dict[str, str]:
    keep = {name: os.environ[name] for name in ("HOME", "PATH") if name in os.environ}
    # One thread makes the order of work deterministic. The cache is in a hidden directory, so no searched directory changes.
    return {**keep, "GEVALS_CACHE_DIR": str(root / ".gevals" / "cache"), "RAYON_NUM_THREADS": "1", "NO_COLOR": "1", "LC_ALL": "C.UTF-8"}


def messages() -> list[dict]:
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "budget", "version": "1"}}
    yield {"id": 0, "method": "initialize", "params": hello}
    yield {"method": "notifications/initialized"}
    for nth in range(1, CALLS + 1):
        yield {"id": nth, "method": "tools/call", "params": {"name": "notes_list", "arguments": {}}}


def converse(process: subprocess.Popen) -> None:
    """Makes one call after another, as an agent does."""
    for message in messages():
        process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        process.stdin.flush()
        while "id" in message:
            answer = json.loads(process.stdout.readline())
            assert "error" not in answer, answer
            if answer.get("id") == message["id"]:
                break


EDITED = "suite/tasks/group-1/task-1/task.yaml"
CASES = {
    "start": ["--version"],
    "check of one file": ["check", "--no-cache", "suite/tasks/group-0/task-0/task.yaml"],
    "check of 40 tasks": ["check", "--no-cache", "suite"],
    "check --affected of one": ["check", "--no-cache", "--affected", "suite/tasks/group-1/task-1/task.yaml", "suite"],
    "check --affected after an edit": ["check", "--affected", EDITED],
    "plan of 40 tasks": ["plan", "suite/eval.yaml"],
    "convert of one task": ["convert", "suite/tasks/group-1/task-1/task.yaml", "--target", "builtin", "--no-verify"],
    "run of 20 tasks": ["run", "run/eval.yaml", "--output-dir", "out"],
    f"proxy of {CALLS} calls": ["proxy", "--", "GEVALS", "demo-server", "--dir", "notes"],
}


def count(root: Path, gevals: Path, words: list[str]) -> int:
    counts = root / "counts"
    counter = ["valgrind", "--tool=cachegrind", "--cache-sim=no", f"--cachegrind-out-file={counts}", "--log-file=/dev/null"]
    process = subprocess.Popen(
        [*counter, gevals, *[str(gevals) if word == "GEVALS" else word for word in words]],
        cwd=root, env=environment(root),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )
    if words[0] == "proxy":
        converse(process)
    out, err = process.communicate(timeout=300)
    if process.returncode != 0:
        sys.exit(f"`gevals {' '.join(words)}` exited with {process.returncode}:\n{out.decode()[-2000:]}{err.decode()[-2000:]}")
    return int(re.search(r"^summary: (\d+)", counts.read_text(), re.M)[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gevals", default="target/debug/gevals", type=lambda path: Path(path).resolve())
    parser.add_argument("--write", action="store_true")
    parser.add_argument("cases", nargs="*", metavar="CASE")
    args = parser.parse_args()
    if not shutil.which("valgrind"):
        sys.exit("valgrind is missing")
    before = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
    after, beyond = dict(before), []
    print("| | before | now | |\n|---|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        prepare(root, args.gevals)
        for name, words in CASES.items():
            if args.cases and name not in args.cases:
                continue
            after[name] = now = count(root, args.gevals, words)
            was = before.get(name)
            change = (now - was) / was if was else None
            if change is None or abs(change) > LEEWAY:
                beyond.append(name)
            told = "new" if change is None else f"{change:+.1%}"
            print(f"| {name} | {(was or 0) / 1e6:.1f} M | {now / 1e6:.1f} M | {told} |", flush=True)
    if args.write:
        FIGURES.write_text(json.dumps({name: after[name] for name in CASES if name in after}, indent=2) + "\n")
    elif beyond:
        sys.exit(f"more than {LEEWAY:.0%} off {FIGURES.name}: {', '.join(beyond)}. Fix the cause, or record new figures with `--write` and give the reason")


if __name__ == "__main__":
    main()

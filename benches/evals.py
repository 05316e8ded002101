#!/usr/bin/env python3
"""Measures the evals that a server ships: listing 10,000 in pages of 100, and running 50 executions in one session. See README.md in this directory."""

import json, os, statistics, subprocess, tempfile, time

GEVALS = os.path.abspath(os.environ.get("GEVALS", "target/release/gevals"))
ROUNDS = int(os.environ.get("ROUNDS", "5"))

def write(path, evals):
    with open(path, "w") as out:
        json.dump({"kind": "McpEvals", "evals": evals}, out)

def execution(nth):
    return {
        "id": f"e{nth}", "name": f"Says that there is no note {nth}", "gradingType": "exact-match",
        "input": {"type": "execution", "toolName": "notes_read", "arguments": {"title": f"none-{nth}"}},
        "expected": {"type": "exact-match", "content": {"isError": True}},
    }

def timed(folder, file, *words):
    server = [GEVALS, "evals", "serve", file, "--page-size", "100", "--", GEVALS, "demo-server", "--dir", "notes"]
    started = time.perf_counter()
    done = subprocess.run([GEVALS, "evals", *words, "--", *server], cwd=folder, capture_output=True, text=True)
    wall = time.perf_counter() - started
    assert done.returncode == 0, (done.returncode, done.stdout[-2000:], done.stderr[-2000:])
    return wall, json.loads(done.stdout)

def middle(name, walls):
    print(f"{name}: {statistics.median(walls):.3f} s (best {min(walls):.3f} s)")

def main():
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} processors, median of {ROUNDS}; every measurement starts and ends both processes")
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(f"{folder}/notes")
        write(f"{folder}/one.json", [execution(0)])
        write(f"{folder}/many.json", [execution(nth) for nth in range(10_000)])
        write(f"{folder}/fifty.json", [execution(nth) for nth in range(50)])
        middle("1 eval listed", [timed(folder, "one.json", "list", "--format", "json")[0] for _ in range(ROUNDS)])
        walls = []
        for _ in range(ROUNDS):
            wall, listed = timed(folder, "many.json", "list", "--format", "json")
            assert len(listed["evals"]) == 10_000
            walls.append(wall)
        middle("10,000 evals listed through pages of 100", walls)
        run = ["run", "--allow-execution", "--format", "json"]
        middle("1 execution run", [timed(folder, "one.json", *run)[0] for _ in range(ROUNDS)])
        walls = []
        for _ in range(ROUNDS):
            wall, ran = timed(folder, "fifty.json", *run)
            assert len(ran["results"]) == 50
            walls.append(wall)
        middle("50 executions run", walls)

main()

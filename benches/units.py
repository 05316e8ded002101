"""Generates the results of many units, as `gevals exec-unit` writes them, as input for `gevals result merge --pack`.

    python3 benches/units.py GEVALS FOLDER TASKS RUNS

writes FOLDER/s.gevals, a pack of TASKS tasks with RUNS runs each, and FOLDER/out, with a results file for each unit. Only one unit is run;
the files of the others are derived from its file.
"""
import json
import subprocess
import sys
from pathlib import Path

gevals, folder, tasks, runs = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
project = folder / "p"
(project / "tasks").mkdir(parents=True)
(project / "gevals.toml").touch()
(project / "eval.yaml").write_text(
    "kind: Eval\nmetadata: {name: units}\nconfig:\n  agent: {type: builtin.noop}\n  taskSets: [{glob: tasks/*.yaml}]\n"
)
for nth in range(tasks):
    (project / f"tasks/{nth:06}.yaml").write_text(
        f"kind: Task\napiVersion: mcp-eval/v1\nmetadata: {{name: task-{nth:06}}}\n"
        "spec:\n  prompt: Do it.\n  verify: [{command: {run: test -d /tmp}}]\n"
    )


def run(*args):
    return subprocess.run([gevals, *args], cwd=folder, check=True, capture_output=True, text=True).stdout


run("pack", "p", "-o", "s.gevals", "-n", str(runs))
units = json.loads(run("units", "s.gevals", "--json"))["units"]
assert len(units) == tasks * runs
run("exec-unit", "s.gevals", "--unit", units[0]["id"], "--out", "first")
name = "gevals-units-out.json"
part = json.loads((folder / "first" / name).read_text())
for unit in units:
    part["summary"]["unit"]["id"] = unit["id"]
    result = part["results"][0]
    result["taskName"], result["taskPath"] = unit["task"], unit["path"]
    result["totalRuns"], result["runIndex"] = unit["runs"], unit["run"] - 1
    out = folder / "out" / unit["id"]
    out.mkdir(parents=True)
    (out / name).write_text(json.dumps(part, indent=2) + "\n")
print(f"{len(units)} units")

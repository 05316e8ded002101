"""Checks that every executed action is in the plan: `planned.py PLAN RESULTS`, with the output of `gevals plan --format json`.

Exits with status 1 if an executed action is not in the plan of its task, or if nothing was executed.
"""

import json
import re
import sys

plan, results = (json.load(open(path)) for path in sys.argv[1:])
planned = {task["name"]: {action["id"]: action for action in task["plan"]["actions"]} for task in plan["evals"][0]["tasks"]}


def nested(actions):
    """Returns these actions and all nested ones, by ID."""
    found = {}
    for action in actions:
        found[action["id"]] = action
        for key in ("blocks", "actions"):
            for inner in action.get(key, []):
                found |= nested(inner["actions"] if "actions" in inner and "id" not in inner else [inner])
    return found


def executed(steps):
    for step in steps or []:
        if step.get("report", {}).get("outcome") != "skipped":
            yield step["id"]
        yield from executed(step.get("steps"))


strangers, seen = [], 0
for result in results["results"]:
    known = nested(planned[result["taskName"]].values())
    for phase in ("setupOutput", "verifyOutput", "cleanupOutput"):
        for action in executed((result.get(phase) or {}).get("Steps")):
            seen += 1
            # IDs contain the number of a round in brackets, and the number of an attempt after `#`.
            if re.sub(r"\[\d+\]|#\d+", "", action) not in known:
                strangers.append(f"{result['taskName']}: {action}")
print(f"{seen} actions done, {len(strangers)} of them not planned")
for stranger in strangers:
    print(f"  {stranger}")
sys.exit(bool(strangers) or not seen)

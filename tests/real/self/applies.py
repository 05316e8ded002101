"""Checks that the scenarios of the conformance suite that apply to `gevals mcp` pass: `applies.py VERSION SAID`.

The others need tools of the suite's own example server, or resources, prompts and completion, which gevals does not declare. This also
applies to `server-stateless` and `caching`, although they are partly about tools."""

import re
import sys

APPLIES = {
    "server-initialize", "server-session-lifecycle", "ping", "tools-list", "server-sse-polling", "server-sse-multiple-streams",
    "dns-rebinding-protection", "http-header-validation",
}

version, said = sys.argv[1], open(sys.argv[2]).read()
found = {name: (int(passed), int(failed)) for name, passed, failed in re.findall(r"^[✓✗] ([\w-]+): (\d+) passed, (\d+) failed", said, re.M)}
if not found:
    sys.exit(f"{said[-2000:]}\nconformance: {version}: no scenario was run")
applying = {name: counts for name, counts in found.items() if name in APPLIES}
failed = [name for name, (_, failed) in applying.items() if failed]
checks = sum(passed for passed, _ in applying.values())
print(f"{version}: {len(applying) - len(failed)} of {len(applying)} scenarios that apply pass, {checks} checks; {len(found) - len(applying)} do not apply")
if failed or not applying:
    sys.exit(f"conformance: {version}: {', '.join(failed) or 'no scenario that applies was run'}")

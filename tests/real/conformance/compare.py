"""Compares the results of the conformance suite for a server directly and through the proxy: `compare.py RESULTS VERSION…`."""

import json
import re
import sys
from collections import Counter
from pathlib import Path


# These are about how a server closes its HTTP streams, which does not apply to a process.
OF_HTTP_ALONE = {"server-sse-polling", "server-sse-multiple-streams"}
# Over standard input and output, the SDK's server accepts any version that a client requests.
OF_THE_SDK = {"sep-2575-server-unsupported-version-error", "sep-2575-http-server-unsupported-version-400"}


def checks(folder):
    """Returns the status and message of each check, by scenario, ID, name and occurrence."""
    found = {}
    for file in sorted(folder.glob("server-*/checks.json")):
        # The name of the directory consists of the scenario and the time.
        scenario = re.fullmatch(r"server-(.*)-\d{4}-\d\d-\d\dT[-\d]+Z", file.parent.name)[1]
        seen = Counter()
        for check in json.loads(file.read_text()):
            key = scenario, check["id"], check["name"]
            seen[key] += 1
            found[(*key, seen[key])] = check["status"], check.get("errorMessage", "")
    return found


def main(results, *versions):
    differences = 0
    for version in versions:
        direct = checks(Path(results, version, "direct"))
        if not direct:
            sys.exit(f"conformance: {version}: no check was run")
        for way in ("http", "stdio"):
            proxied = checks(Path(results, version, way))
            both = [key for key in sorted(direct.keys() | proxied.keys()) if way == "http" or key[0] not in OF_HTTP_ALONE and key[1] not in OF_THE_SDK]
            # A missing check counts as INFO: the suite reports every event that it sees as INFO.
            different = [key for key in both if direct.get(key, ("INFO",))[0] != proxied.get(key, ("INFO",))[0]]
            passed = [sum(found.get(key, ("",))[0] == "SUCCESS" for key in both) for found in (direct, proxied)]
            left = len(direct.keys() | proxied.keys()) - len(both)
            print(f"{version}, {way}: {len(both)} checks compared, {left} left out; passed {passed[0]} directly, {passed[1]} through the proxy, {len(different)} differ")
            for key in different:
                print(f"  {key[0]}: {key[1]} ({key[2]})")
                for name, found in (("directly", direct), ("through", proxied)):
                    status, why = found.get(key, ("not run", ""))
                    print(f"    {name}: {status} {why[:300]}")
            differences += len(different)
    if differences:
        sys.exit(f"conformance: {differences} checks differ")


main(*sys.argv[1:])

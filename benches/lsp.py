"""Measures how long an editor waits for findings after it opens a suite, and while a task is edited.

usage: GEVALS=target/release/gevals python3 benches/lsp.py SUITE [CHANGES]

Prints the time to the first findings, and p50, p95 and p99 of the times from a change to the findings of the changed text.
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import time


class Server:
    def __init__(self, program, root):
        self.process = subprocess.Popen([program, "lsp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=root)
        self.id = 0

    def send(self, method, params, is_request=False):
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        if is_request:
            self.id += 1
            message["id"] = self.id
        body = json.dumps(message).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        self.process.stdin.flush()
        return self.id

    def read(self):
        length = 0
        while (line := self.process.stdout.readline().strip()) != b"":
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        return json.loads(self.process.stdout.read(length))

    def until(self, wanted):
        while not wanted(message := self.read()):
            pass
        return message


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    changes = int(sys.argv[2]) if len(sys.argv) > 2 else 100
    task = sorted(path for path in root.rglob("*.yaml") if "kind: Task" in path.read_text())[0]
    text = task.read_text()
    server = Server(str(pathlib.Path(os.environ.get("GEVALS", "gevals")).resolve()), root)
    uri = task.as_uri()
    begun = time.perf_counter()
    first = server.send("initialize", {"capabilities": {}, "rootUri": root.as_uri(), "processId": None}, True)
    server.until(lambda message: message.get("id") == first)
    server.send("initialized", {})
    server.send("textDocument/didOpen", {"textDocument": {"uri": uri, "languageId": "yaml", "version": 0, "text": text}})

    def findings(version):
        def is_it(message):
            params = message.get("params", {})
            return message.get("method") == "textDocument/publishDiagnostics" and params["uri"] == uri and params.get("version") == version

        return len(server.until(is_it)["params"]["diagnostics"])

    clean = findings(0)
    print(f"{task.relative_to(root)}: first findings after {1000 * (time.perf_counter() - begun):.0f} ms, {clean} findings")
    times = []
    for version in range(1, changes + 1):
        broken = version % 2 == 1
        change = {"text": text.replace("kind: Task", "kind: Task\nkinds: 1", 1) if broken else text}
        begun = time.perf_counter()
        server.send("textDocument/didChange", {"textDocument": {"uri": uri, "version": version}, "contentChanges": [change]})
        found = findings(version)
        times.append(1000 * (time.perf_counter() - begun))
        if (found > clean) != broken:
            sys.exit(f"version {version}: {found} findings; the original text has {clean}")
    times.sort()
    at = lambda part: times[min(len(times) - 1, int(part * len(times)))]
    print(f"{changes} changes: p50 {statistics.median(times):.1f} ms, p95 {at(0.95):.1f} ms, p99 {at(0.99):.1f} ms (including a pause of 15 ms each)")
    server.send("shutdown", None, True)
    server.send("exit", None)
    sys.exit(server.process.wait())


main()

"""Implements writes over the XML API of Google Cloud Storage in front of a server that supports only uploads of the JSON API.

    google.py PORT BEHIND      forwards requests on PORT to the server that listens on BEHIND

A PUT becomes an upload; `x-goog-if-generation-match` is respected, as described in
https://cloud.google.com/storage/docs/request-preconditions. GET and HEAD are forwarded with the headers Accept and Range.
"""

import http.client
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import quote, unquote

PORT, BEHIND = int(sys.argv[1]), int(sys.argv[2])
WRITING = threading.Lock()


def ask(method, path, body=None, headers=None):
    connection = http.client.HTTPConnection("127.0.0.1", BEHIND)
    connection.request(method, path, body, headers or {})
    answer = connection.getresponse()
    return answer.status, answer.getheaders(), answer.read()


class Front(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def say(self, status, headers, body=b"", length=None):
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                self.send_header(name, value)
        self.send_header("Content-Length", length or str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        headers = {name: value for name, value in self.headers.items() if name.lower() in ("range", "accept")}
        status, given, body = ask(self.command, self.path, headers=headers)
        self.say(status, given, body, dict(given).get("Content-Length") if self.command == "HEAD" else None)

    do_HEAD = do_GET

    def do_PUT(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        bucket, name = self.path.split("?")[0].lstrip("/").split("/", 1)
        wanted = self.headers.get("x-goog-if-generation-match")
        with WRITING:
            status, headers, _ = ask("HEAD", f"/{bucket}/{name}")
            there = dict(headers).get("X-Goog-Generation") if status == 200 else "0"
            if wanted not in (None, there):
                return self.say(412, [], b"<Error><Code>PreconditionFailed</Code></Error>")
            upload = f"/upload/storage/v1/b/{bucket}/o?uploadType=media&name={quote(unquote(name), safe='')}"
            status, _, answer = ask("POST", upload, body, {"Content-Type": "application/octet-stream"})
        if status != 200:
            return self.say(status, [], answer)
        written = json.loads(answer)
        self.say(200, [("ETag", f'"{written["etag"]}"'), ("x-goog-generation", written["generation"])])

    def log_message(self, *_):
        pass


ThreadingHTTPServer(("127.0.0.1", PORT), Front).serve_forever()

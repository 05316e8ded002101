#!/usr/bin/env python3
"""The part of a kubelet from which the API server requests logs and commands, over TLS: kubelet.py CERT KEY prints its port and serves.

A log has three lines with the names of the pod and the container; `tailLines` is respected. A command runs on this machine, and its output
is sent over a WebSocket (v4.channel.k8s.io)."""
import base64, hashlib, http.server, json, ssl, struct, subprocess, sys, urllib.parse


class Kubelet(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        asked = urllib.parse.parse_qs(url.query)
        what, *names = url.path.strip("/").split("/")
        if what == "containerLogs":
            lines = [f"{names[1]}/{names[2]} line {n}\n" for n in (1, 2, 3)]
            text = "".join(lines[-int(asked.get("tailLines", ["3"])[0]):]).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)
        elif what == "exec":
            self.execute(asked.get("command", []))

    do_POST = do_GET

    def execute(self, command):
        key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())
        self.send_header("Sec-WebSocket-Protocol", "v4.channel.k8s.io")
        self.end_headers()
        ran = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True)
        self.frame(2, b"\1" + ran.stdout)
        self.frame(2, b"\2" + ran.stderr)
        status = {"metadata": {}, "status": "Success"}
        if ran.returncode:
            causes = [{"reason": "ExitCode", "message": str(ran.returncode)}]
            status = {"metadata": {}, "status": "Failure", "reason": "NonZeroExitCode", "details": {"causes": causes}}
        self.frame(2, b"\3" + json.dumps(status).encode())
        self.frame(8, struct.pack(">H", 1000))
        self.close_connection = True

    def frame(self, kind, payload):
        length = bytes([len(payload)]) if len(payload) < 126 else b"\x7e" + struct.pack(">H", len(payload))
        self.wfile.write(bytes([0x80 | kind]) + length + payload)
        self.wfile.flush()


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Kubelet)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1], sys.argv[2])
server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_address[1], flush=True)
server.serve_forever()

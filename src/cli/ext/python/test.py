"""`python3 -m unittest` in this folder."""

import json
import subprocess
import tempfile
import unittest
from pathlib import Path

PROGRAM = Path(__file__).parent / "NAME"


def call(verb, name, **args):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump({"args": args, "context": {}}, file)
        file.flush()
        ran = subprocess.run([PROGRAM, verb, name, "--input", file.name], capture_output=True, text=True)
    return ran.returncode, json.loads(ran.stdout)


class Operations(unittest.TestCase):
    def test_what_is_written_is_read_and_removed(self):
        status, made = call("action", "write", file="NAME-test.txt", text="hello")
        self.assertEqual((status, made["success"]), (0, True))
        path = made["outputs"]["path"]
        self.assertEqual(call("check", "read", path=path)[1]["outputs"], {"text": "hello"})
        self.assertEqual(call("action", "remove", path=path)[0], 0)
        status, gone = call("check", "read", path=path)
        self.assertEqual((status, gone["success"]), (1, False))

    def test_what_is_missing_is_said(self):
        for verb, name in [("action", "unknown"), ("check", "write"), ("check", "read")]:
            status, answer = call(verb, name)
            self.assertEqual((status, answer["success"]), (1, False))
            self.assertTrue(answer["error"])


if __name__ == "__main__":
    unittest.main()

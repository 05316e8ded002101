#!/usr/bin/env python3
"""Fills a directory with files of other programs, to measure how fast `gevals check` skips them.

    foreign.py FOLDER [FILES]

The kinds of files are those in tests/fixtures/foreign.md; one file is a task. Each file has a different number in its name and text.
"""
import re
import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parent.parent / "tests" / "fixtures" / "foreign.md"
TASK = "kind: Task\nmetadata: {name: t}\nsteps:\n  verify: {inline: test -d /}\n  prompt: {inline: Do it.}\n"


def main() -> None:
    folder, files = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 10_040
    kinds = re.findall(r"^```(?:yaml|json) (\S+)\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    for number in range(files):
        path, text = kinds[number % len(kinds)]
        # Hidden directories are not searched.
        path = path.replace("N", f"n{number}").lstrip(".")
        place = folder / f"part-{number % 40}" / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text.replace("N", f"n{number}"))
    (folder / "task.yaml").write_text(TASK)
    print(f"{files} files of {len(kinds)} kinds and one task in {folder}")


if __name__ == "__main__":
    main()

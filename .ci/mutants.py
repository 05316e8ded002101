"""Runs the mutants that cargo-mutants lists, all from one build (`.ci/mutants` calls it).

cargo-mutants rebuilds the crate for each mutant. Here, every mutant is written into a copy of the sources beside the original,
`if mutant::on(7) { a != b } else { a == b }`, and GEVALS_MUTANT selects one when a test runs. A mutant that does not compile is
removed again: it is not viable. Each test is run once by itself to record which mutants it reaches; a mutant is run with the tests that reach
it, the fastest first, until one fails.
"""
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

import tree_sitter
import tree_sitter_rust

PARSER = tree_sitter.Parser(tree_sitter.Language(tree_sitter_rust.language()))
ON = "crate::mutant::on"
SWITCH = """//! Which mutant is on, and which were reached.
use std::io::Write;
use std::sync::{Mutex, OnceLock};

pub fn on(id: u32) -> bool {
    static ID: OnceLock<u32> = OnceLock::new();
    static REACHED: OnceLock<Option<Mutex<(Vec<bool>, std::fs::File)>>> = OnceLock::new();
    let reached = REACHED.get_or_init(|| {
        let directory = std::env::var("GEVALS_REACHED").ok()?;
        let path = std::path::Path::new(&directory).join(std::process::id().to_string());
        Some(Mutex::new((Vec::new(), std::fs::OpenOptions::new().create(true).append(true).open(path).ok()?)))
    });
    if let Some(reached) = reached {
        let mut reached = reached.lock().unwrap();
        let nth = id as usize;
        if reached.0.len() <= nth {
            reached.0.resize(nth + 1, false);
        }
        if !std::mem::replace(&mut reached.0[nth], true) {
            let _ = writeln!(reached.1, "{id}");
        }
    }
    *ID.get_or_init(|| std::env::var("GEVALS_MUTANT").ok().and_then(|t| t.parse().ok()).unwrap_or(0)) == id
}
"""
FILES = ["step", "verdicts", "parity", "run", "result", "agents", "mcp", "scenarios", "limits", "suite"]
ALONE = 6  # This many of the fastest tests run by themselves; the others run together, by program.


def walk(node):
    stack = [node]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(node.children)


class File:
    """A source file with the mutants of its nodes."""

    def __init__(self, root, path):
        self.path, self.full = path, os.path.join(root, path)
        text = open(self.full).read()
        self.source, self.lines = text.encode(), text.split("\n")
        self.starts = [0]
        for line in self.lines:
            self.starts.append(self.starts[-1] + len(line.encode()) + 1)
        self.tree = PARSER.parse(self.source)
        self.edits = {}

    def offset(self, place):
        line = place["line"] - 1
        return self.starts[line] + len(self.lines[line][: place["column"] - 1].encode())

    def text(self, start, end):
        return self.source[start:end].decode()

    def place(self, mutants):
        """Finds the node of each mutant; returns the mutants that cannot be written in this way."""
        operators, functions, arms, guards, fields = {}, [], {}, {}, {}
        for node in walk(self.tree.root_node):
            if node.type in ("binary_expression", "compound_assignment_expr"):
                operators[node.children[1].start_byte] = node
            elif node.type == "unary_expression":
                operators[node.children[0].start_byte] = node
            elif node.type == "function_item" and (body := node.child_by_field_name("body")):
                constant = re.match(r"(pub(\([^)]*\))? )?const fn", self.text(node.start_byte, body.start_byte))
                functions.append((body, bool(constant)))
            elif node.type == "match_arm":
                arms[node.start_byte] = node
            elif node.type == "match_pattern" and (condition := node.child_by_field_name("condition")):
                guards[condition.start_byte] = node
            elif node.type in ("field_initializer", "shorthand_field_initializer"):
                fields[node.start_byte] = node
        lost = []
        for mutant in mutants:
            start, end = self.offset(mutant["span"]["start"]), self.offset(mutant["span"]["end"])
            genre, node = mutant["genre"], None
            if genre == "FnValue":
                around = [f for f in functions if f[0].start_byte <= start and end <= f[0].end_byte]
                around.sort(key=lambda f: f[0].end_byte - f[0].start_byte)
                opaque = "impl " in mutant["function"]["return_type"]
                node = around[0][0] if around and not around[0][1] and not opaque else None
            elif genre in ("BinaryOperator", "UnaryOperator"):
                node = operators.get(start)
            elif genre == "MatchArm":
                node = arms.get(start)
            elif genre == "MatchArmGuard":
                node = guards.get(start)
            elif genre == "StructField" and (field := fields.get(start)):
                node = field
                while node and node.type != "struct_expression":
                    node = node.parent
                mutant["replacement"] = field.id
            if node is None:
                lost.append(mutant)
            else:
                self.edits.setdefault(node.id, []).append(mutant)
        return lost

    def render(self, node, dead, without=None):
        out, at, children = [], node.start_byte, list(node.children)
        for nth, child in enumerate(children):
            if child.start_byte < at:
                continue
            out.append(self.text(at, child.start_byte))
            at = child.end_byte
            if without is not None and child.id == without:
                behind = children[nth + 1] if nth + 1 < len(children) else None
                at = behind.end_byte if behind is not None and behind.type == "," else at
            else:
                out.append(self.render(child, dead, without))
        base = "".join(out) + self.text(at, node.end_byte)
        for mutant in self.edits.get(node.id, []) if without is None else []:
            if mutant["id"] not in dead:
                base = self.mutated(node, mutant, base, dead)
        return base

    def mutated(self, node, mutant, base, dead):
        on, new, genre = f"{ON}({mutant['id']})", mutant["replacement"], mutant["genre"]
        if genre == "FnValue":
            return f"{{ if {on} {{ return {new}; }} {base[1:]}"
        if genre == "BinaryOperator":
            left, _, right = node.children
            other = f"{self.render(left, dead)} {new} {self.render(right, dead)}"
            other = other if node.type == "compound_assignment_expr" else f"({other})"
            return f"(if {on} {{ {other} }} else {{ {base} }})"
        if genre == "UnaryOperator":
            return f"(if {on} {{ {self.render(node.children[-1], dead)} }} else {{ {base} }})"
        if genre == "StructField":
            return f"(if {on} {{ {self.render(node, dead, without=new)} }} else {{ {base} }})"
        pattern = node if genre == "MatchArmGuard" else node.child_by_field_name("pattern")
        condition = pattern.child_by_field_name("condition")
        before = [c for c in pattern.children if condition is None or c.end_byte <= condition.start_byte and c.type != "if"]
        bare = self.text(pattern.start_byte, before[-1].end_byte if before else pattern.end_byte)
        if genre == "MatchArmGuard":
            # Several mutants of one guard are nested.
            inner = base[len(bare) + 4 :] if f"{bare} if (if {ON}" in base else self.render(condition, dead)
            return f"{bare} if (if {on} {{ {new} }} else {{ {inner} }})"
        guard = f" && ({self.render(condition, dead)})" if condition is not None else ""
        tail, at = "", pattern.end_byte
        for child in node.children:
            if child.start_byte >= pattern.end_byte:
                tail += self.text(at, child.start_byte) + self.render(child, dead)
                at = child.end_byte
        return f"{self.text(node.start_byte, pattern.start_byte)}{bare} if !{on}{guard}{tail}"


def spots(text):
    """Returns for each mutant in a written file the range of its own text, and of everything written for it."""
    source, found = text.encode(), []
    for node in walk(PARSER.parse(source).root_node):
        condition = node.child_by_field_name("condition") if node.type in ("if_expression", "match_pattern") else None
        if condition is None:
            continue
        written = re.match(rb"!?crate::mutant::on\((\d+)\)", source[condition.start_byte : condition.end_byte])
        if not written:
            continue
        whole = node if node.type == "if_expression" else node.parent.parent.parent
        own = node.child_by_field_name("consequence") if node.type == "if_expression" else whole
        found.append((own.start_byte, own.end_byte, int(written[1]), whole.start_byte, whole.end_byte))
    return found


def blamed(message, texts, placed):
    """Returns the mutants that a compiler error is about."""
    found = set()
    for span in [s for s in message["spans"] if s["is_primary"]] or message["spans"]:
        start, end, own = span["byte_start"], span["byte_end"], placed.get(span["file_name"], [])
        inside = [s for s in own if s[0] <= start and end <= s[1]] or [s for s in own if s[3] <= start and end <= s[4]]
        inside = inside or [s for s in own if start <= s[0] and s[1] <= end]
        if inside:
            found.add(min(inside, key=lambda s: s[1] - s[0])[2])
    return found


def build(root, mutants):
    """Writes the mutants into the sources, and removes those that do not compile. Returns the others, and the removed ones."""
    files, dead = [], {}
    for path in sorted({m["file"] for m in mutants}):
        file = File(root, path)
        for mutant in file.place([m for m in mutants if m["file"] == path]):
            dead[mutant["id"]] = "cannot be written beside the original"
        files.append(file)
    open(os.path.join(root, "src/mutant.rs"), "w").write(SWITCH)
    library = os.path.join(root, "src/lib.rs")
    text = open(library).read()
    if "pub mod mutant;" not in text:
        open(library, "w").write(text.replace("pub mod ", "pub mod mutant;\npub mod ", 1))
    while True:
        texts = {file.path: file.render(file.tree.root_node, dead) for file in files}
        for file in files:
            open(file.full, "w").write(texts[file.path])
        check = ["cargo", "check", "--lib", "--message-format=json"]
        checked = subprocess.run(check, cwd=root, capture_output=True, text=True)
        if checked.returncode == 0:
            break
        messages = [json.loads(line) for line in checked.stdout.splitlines() if line.startswith("{")]
        errors = [m["message"] for m in messages if m.get("reason") == "compiler-message" and m["message"]["level"] == "error"]
        placed = {path: spots(text) for path, text in texts.items()}
        bad = {id: e["message"] for e in errors for id in blamed(e, texts, placed)}
        print(f"{len(bad)} mutants do not compile", flush=True)
        if not bad:
            sys.exit("\n".join(e["rendered"] for e in errors[:5]) or checked.stderr)
        dead.update(bad)
    return [m for m in mutants if m["id"] not in dead], dead


def run(root, executable, tests, mutant, limit, **more):
    """Returns whether tests of an executable pass with a mutant, within a time limit in seconds."""
    env = dict(os.environ, GEVALS_MUTANT=str(mutant), RUST_BACKTRACE="0", CI="true", RUST_TEST_THREADS="2", **more)
    # A failing input of one mutant must not be tried with the next one.
    env.update(PROPTEST_RNG_SEED="20261122", PROPTEST_DISABLE_FAILURE_PERSISTENCE="true")
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "stdin": subprocess.DEVNULL}
    process = subprocess.Popen([executable, "-q", "--exact", *tests], cwd=root, env=env, start_new_session=True, **pipes)
    try:
        return process.wait(timeout=limit) == 0
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return False


def reach(root, executables, out):
    """Runs every test by itself. Returns for each its duration in seconds and the mutants that it reaches."""
    found = {}
    for program, executable in executables.items():
        listed = subprocess.run([executable, "--list"], cwd=root, capture_output=True, text=True, check=True).stdout
        for test in re.findall(r"^(.*): test$", listed, re.M):
            if program == "all" and test.split("::")[0] not in FILES:
                continue
            directory = os.path.join(out, "reached")
            shutil.rmtree(directory, ignore_errors=True)
            os.makedirs(directory)
            begun = time.time()
            if not run(root, executable, [test], 0, 600, GEVALS_REACHED=os.path.abspath(directory)):
                sys.exit(f"`{test}` of `{program}` fails without a mutant")
            seconds, reached = time.time() - begun, set()
            for name in os.listdir(directory):
                reached.update(int(line) for line in open(os.path.join(directory, name)))
            found[program, test] = seconds, reached
    return found


def main():
    out = os.environ.get("MUTANTS_OUT", "target/mutants")
    root = os.path.abspath(os.path.join(out, "tree"))
    wanted = set(sys.argv[1:])
    listed = subprocess.run(["cargo", "mutants", "--list", "--json"], capture_output=True, text=True, check=True)
    mutants = [m for m in json.loads(listed.stdout) if not wanted or m["file"] in wanted]
    if not mutants:
        sys.exit("no file of this name has mutants: see .cargo/mutants.toml")
    for number, mutant in enumerate(mutants, 1):
        mutant["id"] = number
    shutil.rmtree(root, ignore_errors=True)
    os.makedirs(root)
    files = subprocess.run(["git", "ls-files", "-z"], capture_output=True, check=True).stdout.split(b"\0")
    for path in (f.decode() for f in files if f and os.path.exists(f)):
        os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
        shutil.copy2(path, os.path.join(root, path))
    os.environ["CARGO_TARGET_DIR"] = os.path.abspath(os.path.join(out, "build"))
    os.environ.setdefault("CARGO_PROFILE_DEV_DEBUG", "none")
    viable, dead = build(root, mutants)
    print(f"{len(mutants)} mutants, {len(viable)} viable", flush=True)
    made = subprocess.run(["cargo", "test", "--no-run", "--message-format=json", "--lib", "--test", "all"], cwd=root, capture_output=True, text=True)
    made.check_returncode()
    artifacts = [json.loads(line) for line in made.stdout.splitlines() if line.startswith("{")]
    executables = {a["target"]["name"]: a["executable"] for a in artifacts if a.get("executable") and a["profile"]["test"]}
    reached = reach(root, executables, out)
    print(f"{len(reached)} tests, {sum(s for s, _ in reached.values()):.0f} s", flush=True)
    waiting, results, lock = queue.Queue(), {}, threading.Lock()
    for mutant in viable:
        waiting.put(mutant)

    def caught(mutant):
        tests = sorted((seconds, test) for test, (seconds, ids) in reached.items() if mutant["id"] in ids)
        groups = [(seconds, program, [test]) for seconds, (program, test) in tests[:ALONE]]
        for name in executables:
            of = [(seconds, test) for seconds, (program, test) in tests[ALONE:] if program == name]
            if of:
                groups.append((sum(s for s, _ in of), name, [test for _, test in of]))
        for seconds, name, tests in groups:
            if not run(root, executables[name], tests, mutant["id"], seconds * 5 + 20):
                return name
        return None

    def work():
        while True:
            try:
                mutant = waiting.get_nowait()
            except queue.Empty:
                return
            test = caught(mutant)
            with lock:
                results[mutant["name"]] = test
                if test is None:
                    print("missed:", mutant["name"], flush=True)

    threads = [threading.Thread(target=work) for _ in range(os.cpu_count() or 2)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    for path in sorted({m["file"] for m in viable}):
        own = [results[m["name"]] for m in viable if m["file"] == path]
        print(f"{path}: {sum(r is not None for r in own)} of {len(own)} caught")
    caught = sum(r is not None for r in results.values())
    print(f"{caught} of {len(results)} caught; {len(dead)} not viable")
    with open(os.path.join(out, "missed.txt"), "w") as file:
        file.writelines(f"{name}\n" for name, test in results.items() if test is None)
    sys.exit(0 if caught >= 0.95 * len(results) else 1)


main()

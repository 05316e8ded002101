//! Scripts as statements, the statuses with which they can end, and the findings of rules in scripts that authors
//! write.

use std::{path::Path, sync::Arc};

use gevals::{
    bash::{
        self,
        flow::{self, Status},
        program::Program,
        syntax::{self, Grammar},
    },
    compile,
    diagnostic::Diagnostics,
    source::{MemoryFiles, Sources},
    yaml::{self, Node},
};
use proptest::prelude::*;

fn program(text: &str) -> Program {
    bash::parse(text).unwrap().program()
}

fn outcome(text: &str) -> &'static str {
    let program = program(text);
    assert!(program.sound, "not understood: {text}");
    match flow::outcome(&program) {
        Status { zero: true, other: true } => "either",
        Status { zero: true, other: false } => "success",
        Status { zero: false, other: true } => "failure",
        Status { zero: false, other: false } => "never",
    }
}

/// Collects every text in the YAML files of a directory, and every script.
fn texts(dir: &Path, found: &mut Vec<String>) {
    fn scalars(node: Node<'_>, found: &mut Vec<String>) {
        found.extend(node.text().map(str::to_owned));
        node.items().for_each(|item| scalars(item, found));
        node.entries().for_each(|entry| scalars(entry.value, found));
    }
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let extension = path.extension().unwrap_or_default().to_string_lossy().into_owned();
        match extension.as_str() {
            _ if path.is_dir() => texts(&path, found),
            "sh" => found.extend(std::fs::read_to_string(&path).ok()),
            "yaml" | "md" => {
                let Ok(text) = std::fs::read_to_string(&path) else { continue };
                // In a page, the fenced blocks.
                let blocks = text.split("```").enumerate().filter(|(i, _)| i % 2 == 1).map(|(_, block)| block);
                let blocks = blocks.map(|block| block.split_once('\n').map_or("", |(_, yaml)| yaml)).collect();
                for yaml in if extension == "md" { blocks } else { vec![text.as_str()] } {
                    let (sources, mut out) = (Sources::default(), Diagnostics::default());
                    let file = sources.add(&path, yaml);
                    if let Ok(tree) = yaml::parse(file, Arc::from(yaml), &mut out) {
                        scalars(tree.root(), found);
                    }
                }
            }
            _ => {}
        }
    }
}

/// Returns for each script whether a shell refuses it; each one is in its own file.
fn refused(shell: &str, scripts: &[String]) -> Vec<bool> {
    let dir = std::env::temp_dir().join(format!("gevals-syntax-{}-{shell}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    for (index, script) in scripts.iter().enumerate() {
        std::fs::write(dir.join(index.to_string()), script).unwrap();
    }
    // One process forks for all of them. For a broken `[[`, bash prints an error but exits with 0.
    let all = format!(
        "for i in $(seq 0 {}); do e=$({shell} -n $i 2>&1) && case $e in *error* | *expected*) false;; esac; echo $?; done",
        scripts.len() - 1
    );
    let output = std::process::Command::new("sh").arg("-c").arg(all).current_dir(&dir).output().unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
    String::from_utf8(output.stdout).unwrap().lines().map(|line| line != "0").collect()
}

/// Returns the script with one mistake: a line or a token that is missing, duplicated, or replaced.
fn mutant(text: &str, random: &mut fastrand::Rng) -> String {
    const TOKENS: [&str; 24] = [
        "fi", "done", "esac", "then", "do", "else", "elif", "if", "while", "for", "case", "in", "{", "}", "(", ")",
        ";;", ";", "&&", "|", "\"", "'", "`", "$(",
    ];
    let lines: Vec<&str> = text.split('\n').collect();
    let words: Vec<(usize, &str)> = text
        .split_inclusive(|c: char| c.is_whitespace() || "();|&\"'`$".contains(c))
        .scan(0, |at, word| {
            *at += word.len();
            Some((*at - word.len(), word))
        })
        .collect();
    let spliced = |at: usize, len: usize, with: &str| format!("{}{with}{}", &text[..at], &text[at + len..]);
    let (at, word) = words[random.usize(..words.len())];
    match random.u8(..6) {
        0 => spliced(at, word.len(), ""),
        1 => spliced(at, 0, word),
        2 => spliced(at, word.len(), &format!("{} ", TOKENS[random.usize(..TOKENS.len())])),
        3 => spliced(at, 0, &format!("{} ", TOKENS[random.usize(..TOKENS.len())])),
        4 => {
            let mut lines = lines;
            lines.remove(random.usize(..lines.len()));
            lines.join("\n")
        }
        _ => {
            let mut lines = lines;
            let (one, other) = (random.usize(..lines.len()), random.usize(..lines.len()));
            lines.swap(one, other);
            lines.join("\n")
        }
    }
}

/// `bash -n` and `dash -n` are the reference. Nothing that a shell accepts is refused.
#[test]
fn only_scripts_that_a_shell_rejects_are_rejected() {
    let mut all = Vec::new();
    for dir in ["tests", "examples", "lints"] {
        texts(Path::new(dir), &mut all);
    }
    let is_script = |text: &String| {
        text.trim_start().starts_with("#!/") && text.lines().next().is_some_and(|l| l.ends_with("sh"))
            || (text.contains('\n') || text.contains("&&")) && bash::parse(text).is_some_and(|script| script.is_sound())
    };
    all.retain(|text| is_script(text) && !text.contains('\0') && text.len() < 4000);
    all.sort();
    all.dedup();
    assert!(all.len() > 300, "{}", all.len());
    let number = std::env::var("GEVALS_MUTANTS").map_or(1500, |n| n.parse().unwrap());
    let mut random = fastrand::Rng::with_seed(number as u64);
    let mutants: Vec<_> = (0..number).map(|_| mutant(&all[random.usize(..all.len())], &mut random)).collect();
    all.extend(mutants);
    let counted = all.len();
    // What shells parse in their own way: single lines, pairs (some constructs take several lines), and groups of five.
    let corners: Vec<&str> = include_str!("support/corners.txt").lines().collect();
    for size in [1, 2, 5] {
        all.extend(corners.windows(size).map(|lines| lines.join("\n") + "\n"));
    }
    // If there is no operand before `]]`, bash stops silently and exits with 0.
    let silent = regex::Regex::new(r"(\[\[|&&|\|\||!)\s+\]\]").unwrap();
    for (shell, grammar) in [("bash", Grammar::Bash), ("dash", Grammar::Posix)] {
        let (mut agreed, mut refusals, mut wrong) = (0, 0, Vec::new());
        let truth = refused(shell, &all);
        for (index, (text, truth)) in all.iter().zip(truth).enumerate() {
            if silent.is_match(text) {
                continue;
            }
            let found = syntax::check(text, grammar).fault;
            // `check` does not look for syntax errors in scripts that are read without the parser.
            assert!(!truth || shell != "bash" || bash::plain(text).is_none(), "bash refuses:\n{text}");
            refusals += usize::from(truth);
            agreed += usize::from(index < counted && found.is_some() == truth);
            if let Some(fault) = &found {
                assert!(text.get(fault.at.clone()).is_some(), "{fault:?}");
                if !truth && (shell == "bash" || !refused("bash", std::slice::from_ref(text))[0]) {
                    wrong.push(format!("{shell} takes it:\n{text}\n{fault:?}"));
                }
            } else if truth && std::env::var("GEVALS_MUTANTS").is_ok() {
                eprintln!("{shell} refuses:\n{text}\n----");
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n====\n"));
        let share = agreed as f64 / counted as f64;
        eprintln!("{shell}: {agreed} of {counted} agree ({share:.4}); of all, {refusals} are refused");
        assert!(shell != "bash" || share >= 0.995, "{shell}: {share}");
    }
}

/// Most scripts are read without the parser, with the same result.
#[test]
fn the_fast_reader_agrees_with_the_parser() {
    let mut all = Vec::new();
    for dir in ["tests/convert", "tests/scenarios", "tests/flow", "tests/suite", "tests/fixtures", "examples", "lints"]
    {
        texts(Path::new(dir), &mut all);
    }
    let read: Vec<_> = all.iter().filter_map(|text| Some((text, bash::plain(text)?))).collect();
    for (text, plain) in &read {
        let (script, parsed) = (bash::parse(text).unwrap(), program(text));
        // They may differ if the grammar misreads the script without reporting an error.
        let astray = !parsed.sound && script.is_sound();
        assert!(astray || *plain == parsed, "{text}\n{plain:?}\n{parsed:?}");
    }
    assert!(read.len() > 1000, "{} of {} texts are read", read.len(), all.len());
}

/// The grammar omits the `-` before a redirection; both readers of scripts restore it.
#[test]
fn a_dash_before_a_here_document_is_a_word() {
    for text in ["kubectl apply -f - <<EOF\na\nEOF\n", "kubectl apply -f - <<-'EOF' >/dev/null\na\nEOF\n"] {
        let program = program(text);
        let words: Vec<_> = program.commands()[0].words().iter().map(|w| w.text.clone()).collect();
        assert_eq!(words, ["kubectl", "apply", "-f", "-"], "{text}");
        let list = bash::ast::read(&bash::parse(text).unwrap()).unwrap();
        let bash::ast::Kind::Simple(simple) = &list[0].kind else { panic!("{list:?}") };
        assert_eq!(simple.words.iter().map(|w| w.source.clone()).collect::<Vec<_>>(), words, "{text}");
    }
}

#[test]
fn the_possible_exit_statuses_of_a_script_are_determined() {
    let cases = [
        ("echo a", "success"),
        ("x", "either"),
        ("x; exit 0", "success"),
        ("x; exit $?", "either"),
        ("x || true", "success"),
        ("x || exit 1", "either"),
        ("x && exit 1", "failure"),
        ("set -e; x; exit 0", "either"),
        ("set -e; x || true; exit 0", "success"),
        ("if x; then echo a; else echo b; fi", "success"),
        ("if x; then exit 0; else exit 1; fi", "either"),
        ("if ! x; then echo no; exit 1; fi", "either"),
        ("x | true", "success"),
        ("set -o pipefail; x | true", "either"),
        ("A=b", "success"),
        ("A=$(x)", "either"),
        ("A=$(x); echo $A", "success"),
        ("[ a = b ]", "either"),
        ("(exit 1)", "failure"),
        ("(exit 1); true", "success"),
        ("false", "failure"),
        ("! false", "success"),
        ("x &", "success"),
        ("while true; do if x; then exit 0; fi; sleep 1; done", "either"),
        ("while true; do if x; then break; fi; sleep 1; done; exit 1", "failure"),
        ("while true; do sleep 1; done", "failure"),
        ("while true; do x; done", "never"),
        ("until x; do sleep 1; done", "either"),
        ("set -e; x && exit 0; true", "success"),
        ("set -e; x && y; exit 0", "either"),
        ("for i in 1 2; do x; done", "either"),
        ("for i in 1 2; do x && exit 0; sleep 1; done; exit 1", "either"),
        ("f() { return 1; }; f", "failure"),
        ("f() { x || return 1; }; f; echo a", "success"),
        ("f() { x || exit 1; }; f; echo a", "either"),
        ("f() { f; }; f", "either"),
        ("case $x in a) exit 1;; *) ;; esac", "either"),
        ("cat <<EOF | kubectl apply -f -\na\nEOF", "either"),
        ("cat <<EOF | kubectl apply -f - || true\na\nEOF", "success"),
        ("exec x", "either"),
        ("source x; exit 0", "either"),
        ("trap 'exit 1' ERR; x; exit 0", "either"),
        ("((i < 3))", "either"),
        ("x & wait", "success"),
        ("x & wait $!", "either"),
        ("x & wait $! || exit 1", "either"),
        (": ${FOUND:?nothing}", "either"),
        ("exec 3<f || exit 1", "either"),
        ("> f || exit 1", "either"),
        ("shopt -q extglob", "either"),
        ("", "success"),
    ];
    for (text, expected) in cases {
        assert_eq!(outcome(text), expected, "{text}");
    }
}

/// Returns the findings in a task whose verify runs this script.
fn findings(phase: &str, script: &str) -> Vec<String> {
    let mut files = MemoryFiles::default();
    let verify = if phase == "verify" { "" } else { "  verify: []\n" };
    let task = format!(
        "kind: Task\napiVersion: mcp-eval/v1\nmetadata: {{name: a}}\nspec:\n  prompt: Do it.\n{verify}  {phase}:\n    - script: {{file: a.sh}}\n"
    );
    files.add("t/a.yaml", task, false);
    files.add("t/a.sh", format!("#!/usr/bin/env bash\n{script}"), true);
    if script.contains("$0") {
        files.add("t/x.sh", "verify_vm() { false; }\n", false);
    }
    let sources = Sources::default();
    let compiled = compile(&["t/a.yaml".into()], &sources, &files);
    // These rules need other phases, in which resources of the script would be created or released.
    let of_the_task = ["no-verdict", "no-verify", "resource-not-released", "deletes-foreign-resource"];
    let found = compiled.diagnostics.iter().map(|d| d.rule.name).filter(|n| !of_the_task.contains(n));
    found.map(str::to_owned).collect()
}

/// Idioms of public suites that work as intended.
#[test]
fn correct_scripts_have_no_findings() {
    let verify = [
        "kubectl get pod web",
        "set -euo pipefail\nkubectl get pod web\necho ok\n",
        "if ! kubectl wait --for=condition=Ready pod/x -n ns --timeout=120s; then\n  echo no\n  exit 1\nfi\necho ok\nexit 0\n",
        "NAMESPACE=\"${NS:-web}\"\nif kubectl get pod x -n \"$NAMESPACE\" &>/dev/null; then\n  echo ok\n  exit 0\nelse\n  exit 1\nfi\n",
        "kubectl get crd X >/dev/null 2>&1; exit $?",
        "V=$(kubectl get x y -o jsonpath='{.spec.x}')\nif [[ \"$V\" != \"blue\" ]]; then echo no; exit 1; fi\n",
        "for i in {1..30}; do\n  if kubectl get deploy | grep -q web; then exit 0; fi\n  sleep 2\ndone\nexit 1\n",
        "for i in $(seq 1 30); do\n  kubectl get deploy && break\n  sleep 2\ndone\nkubectl get deploy web\n",
        "ok=0\nfor i in 1 2 3; do\n  if check; then ok=1; break; fi\n  sleep 1\ndone\n[ \"$ok\" = 1 ]\n",
        "for i in {1..30}; do\n  if check; then exit 0; fi\n  if [ $i -eq 30 ]; then echo late; exit 1; fi\n  sleep 2\ndone\n",
        "until kubectl get pod web; do sleep 1; done\n",
        "while true; do\n  if kubectl get pod web; then break; fi\n  sleep 1\ndone\n",
        "n=0\nwhile [ $n -lt 30 ]; do\n  check && exit 0\n  n=$((n+1))\n  sleep 1\ndone\necho late\nexit 1\n",
        "wait_for() {\n  for i in {1..3}; do\n    check \"$1\" && return 0\n    sleep 1\n  done\n  return 1\n}\nwait_for web || exit 1\n",
        "kubectl run probe --image=busybox --restart=Never -- true || exit 1\nkubectl delete pod probe\n",
        "if kubectl auth can-i delete pods --as=\"$SA\" -n ns; then\n  exit 1\nfi\n",
        "while read -r line; do\n  [ -n \"$line\" ] || exit 1\ndone < out.txt\n",
        "kubectl exec -i web -- cat /etc/hosts | grep -q web || exit 1\n",
        "jq -e '.a' <<< \"$OUT\"",
        "test -f a \\\n  && grep -q b a\n",
        "server &\nPID=$!\ntrap 'kill $PID' EXIT\nset -e\ncurl -fsS localhost\n",
        "[ -f lib/x.sh ] && source lib/x.sh\ncheck || exit 1\n",
        "source \"$(dirname \"$0\")/x.sh\"\nverify_vm || exit 1\n",
        "echo \"checking\"\nkubectl get pod web\n",
    ];
    for script in verify {
        assert_eq!(findings("verify", script), Vec::<String>::new(), "{script}");
    }
    let setup = [
        "kubectl delete namespace web --ignore-not-found\nkubectl create namespace web\n",
        "set -e\ncat <<EOF | kubectl apply -f -\na: b\nEOF\nkubectl wait --for=condition=Ready pod/web\n",
        "mkdir -p out\nrm -f out/*\ncat > out/a <<'EOF'\nx\nEOF\n",
        "cat > env.sh <<'EOF'\nA=b\nEOF\nset -e\nsource ./env.sh\necho $A\n",
        "echo nothing to do",
    ];
    for script in setup {
        assert_eq!(findings("setup", script), Vec::<String>::new(), "{script}");
    }
    let cleanup = [
        "kubectl delete pod a --ignore-not-found\nkubectl delete pod b || true\n",
        "rm -rf out\nkubectl delete --ignore-not-found -f a/*.yaml\nexit 0\n",
    ];
    for script in cleanup {
        assert_eq!(findings("cleanup", script), Vec::<String>::new(), "{script}");
    }
}

#[test]
fn faulty_scripts_have_a_finding() {
    let cases = [
        ("verify", "grep -q ok /tmp/out\necho checked\n", "last-command-decides"),
        ("verify", "kubectl get pod a | grep -q Running\nkubectl get pod b\n", "last-command-decides"),
        ("setup", "kubectl create namespace a\nkubectl apply -f a.yaml\n", "last-command-decides"),
        ("verify", "kubectl get pod a || true\n", "script-cannot-fail"),
        ("verify", "echo ok\n", "script-cannot-fail"),
        ("verify", "check\nexit 0\n", "script-cannot-fail"),
        ("verify", "for i in {1..3}; do\n  if check; then exit 0; fi\n  sleep 1\ndone\n", "poll-ends-in-success"),
        (
            "verify",
            "for i in {1..3}; do\n  if check; then break; fi\n  sleep 1\ndone\necho done\n",
            "poll-ends-in-success",
        ),
        ("verify", "set -e\nfor i in {1..3}; do\n  check && exit 0\n  sleep 1\ndone\n", "poll-ends-in-success"),
        (
            "verify",
            "w() {\n  for i in {1..3}; do\n    check && return 0\n    sleep 1\n  done\n}\nw\n",
            "poll-ends-in-success",
        ),
        ("setup", "for i in $(seq 3); do\n  kubectl get x && break\n  sleep 1\ndone\n", "poll-ends-in-success"),
        ("verify", "set -e\nsource ../nothing/x.sh\nverify x\n", "unresolved-source"),
        ("verify", "set -e\nkubectl get pod web\nkubectl delete pod web\n", "verify-deletes"),
        ("cleanup", "kubectl delete clusterrole dev-* --ignore-not-found\n", "glob-in-delete"),
    ];
    for (phase, script, rule) in cases {
        assert_eq!(findings(phase, script), [rule], "{script}");
    }
}

proptest! {
    /// Any text can be read.
    #[test]
    fn any_text_is_read(text in r#"([a-z ;&|<>(){}$"'`!\\\n=\[\]-]|if |then |fi|do |done|while |for |exit 0|<<E\n|é){0,60}"#) {
        let program = program(&text);
        flow::outcome(&program);
        let mut ranges = Vec::new();
        program.walk(&mut |s| ranges.push(s.range.clone()));
        for range in ranges {
            prop_assert!(text.get(range.clone()).is_some());
            flow::outcome_after(&program, &range, false);
        }
    }
}

#[test]
fn deep_nesting_does_not_overflow_the_stack() {
    for text in
        ["(".repeat(20_000), "a && ".repeat(20_000), "$(".repeat(20_000), "! ".repeat(20_000), "if ".repeat(20_000)]
    {
        // Scripts that are nested too deeply are not analyzed.
        if let Some(program) = bash::program(&text) {
            flow::outcome(&program);
        }
        for grammar in [Grammar::Bash, Grammar::Posix] {
            let _ = syntax::check(&text, grammar);
        }
    }
    assert!(bash::parse(&("( ".repeat(3_000) + "true" + &" )".repeat(3_000))).is_none());
    let deep = "( ".repeat(200) + "true" + &" )".repeat(200);
    flow::outcome(&program(&deep));
}

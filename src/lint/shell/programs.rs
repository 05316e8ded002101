//! Programs of steps in other languages than the shell: variables that their step does not set, and errors reported as success.

use crate::{
    ascii::{Ascii, ascii},
    diagnostic::{Diagnostic, Diagnostics, Strength},
    effects::script::Reader,
    hir::{ArgKind, PhaseKind},
    lint::{
        TaskView,
        analysis::{facts, orders::DELETES, texts::has_word},
        shell::{error_branch::ERROR_BRANCH_CONTINUES, unset::UNSET_VARIABLE},
    },
};

static READS: Ascii = ascii(
    r#"\b(?:os\.environ\[|os\.getenv\(|process\.env\.|process\.env\[|ENV\[|ENV\.fetch\()["']?([A-Z][A-Z0-9_]+)["']?[\])]?"#,
);

/// Variables that libraries, interpreters and other programs read, or that the system sets.
static COMMON: Ascii = ascii(
    r"^(?:PG|AWS_|MYSQL|REDIS|MONGO|KUBE|PYTHON|NODE|NPM|LC_|HTTPS?_|NO_PROXY|SSL_|REQUESTS_|GOOGLE_|GCLOUD_|AZURE_|ARM_|DOCKER_|GIT_|GH_|GITHUB_|GITLAB_|TF_|ANSIBLE_|OPENAI_|ANTHROPIC_|GEVALS|EVAL_|MCP|CI$|DEBUG$|TZ$|LANG$|PATH$|HOME$|USER$|SHELL$|PWD$|TERM$|TMP|TEMP|XDG_|HOSTNAME$|VIRTUAL_ENV$|RUBY|GEM_|BUNDLE_)",
);

/// `os.environ["OUT"]` in a program whose step sets `REPORT`, which the program does not read.
pub fn unset(view: &TaskView<'_>, out: &mut Diagnostics) {
    for script in view.scripts.iter().filter(|script| script.reader == Reader::Foreign) {
        let Some(ArgKind::Record(env)) = script.step.arg("env").map(|env| &env.kind) else { continue };
        let content = &script.content;
        let text = content.text.as_str();
        let unread = env.iter().find(|(name, _)| !has_word(text, &name.value) && !COMMON.is_match(&name.value));
        let Some((unread, _)) = unread else { continue };
        let elsewhere = facts::elsewhere(view);
        let missing = READS.captures_iter(text).find_map(|read| {
            let (whole, name) = (read.get(0)?, read.get(1)?);
            let behind = text.get(whole.end()..)?.trim_start_matches(' ');
            let provided = [",", "||", "??", "or "].iter().any(|default| behind.starts_with(default));
            let assigned = behind.starts_with('=') && !behind.starts_with("==");
            let known = env.iter().any(|(key, _)| key.value == name.as_str()) || view.declares(name.as_str());
            // A hole with this name is filled from the environment of gevals, which the program may inherit.
            let hole = format!("{{env.{}", name.as_str());
            let outer =
                COMMON.is_match(name.as_str()) || elsewhere.verify.contains(&hole) || elsewhere.rest.contains(&hole);
            (!provided && !assigned && !known && !outer).then_some(name)
        });
        let Some(name) = missing else { continue };
        let message = format!(
            "the step does not set `{}`, but `{}`, which the program does not read",
            name.as_str(),
            unread.value
        );
        out.push(
            Diagnostic::new(&UNSET_VARIABLE, content.span(name.range()), message)
                .label(unread.span, "set here")
                .help(format!("rename it: `{}`", name.as_str()))
                .strength(Strength::Warning),
        );
    }
}

static PASSED: Ascii = ascii(r#"\bpassed\b["']?\s*[:=]\s*[Tt]rue\b"#);
static FAILURE: Ascii = ascii(
    r"(?i)\b(?:no|not|cannot|can't|could not|couldn't|fail(?:ed|ure|s)?|missing|invalid|unreadable|error|broken)\b",
);

/// `except ValueError as e: print(json.dumps({"passed": True, "reason": f"no report: {e}"}))`.
pub fn caught(view: &TaskView<'_>, out: &mut Diagnostics) {
    for script in view.scripts.iter().filter(|s| s.phase == PhaseKind::Verify && s.reader == Reader::Foreign) {
        let json = script.step.arg("protocol").and_then(|protocol| protocol.as_literal()) == Some("json");
        // What the prompt asks to delete is expected to be missing.
        if !json || !PASSED.is_match(&script.content.text) || DELETES.is_match(&view.effects.prompt.shown()) {
            continue;
        }
        let mut handler: Option<usize> = None;
        let mut at = 0;
        for line in script.content.text.split_inclusive('\n') {
            let start = at;
            at += line.len();
            let inner = line.trim();
            let indent = line.len() - line.trim_start().len();
            if handler.is_some_and(|depth| indent <= depth && !inner.is_empty()) {
                handler = None;
            }
            let only_missing = inner.contains("FileNotFoundError") && !inner.contains(',');
            let catches = inner.starts_with("except") || inner.starts_with("} catch") || inner.starts_with("catch");
            if catches && !only_missing {
                handler = Some(indent);
            }
            let found = PASSED.find_iter(line).next().filter(|_| handler.is_some() && FAILURE.is_match(line));
            if let Some(found) = found {
                let range = start + found.start()..start + found.end();
                let message = "this reports that the check has passed, although an error was caught";
                out.push(
                    Diagnostic::new(&ERROR_BRANCH_CONTINUES, script.content.span(range), message)
                        .help("report `false` here"),
                );
            }
        }
    }
}

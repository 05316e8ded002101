//! What a shell in the jail does without a process: starting one for each command takes nearly all of the time of a proof.
//!
//! A line that is one plain command is answered directly ([`words`]). And each bash gets functions in place of the commands of the
//! outside world: they ask the program of the jail over a connection ([`serve`]), and leave nothing behind.
//! What a function cannot do (`curl` writes files) and what bash does not start (`xargs kubectl`) is done by the commands themselves,
//! which are always on the PATH. A script that would notice the difference gets no functions.
#![expect(clippy::disallowed_methods, reason = "a shell reads its functions from a file of the jail")]

use std::{
    collections::BTreeSet,
    fs,
    io::Read,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use super::{
    shim::{self, DATE, SECONDS, SLEPT},
    trace::{PAUSE, RECORD, TRACE, WATCHED},
    world::{Call, HANGS, LARGEST, World, hangs},
};
use crate::bash;

/// The file that every bash of the jail reads first.
pub const BASH_ENV: &str = "/world/functions";
/// The directory of the commands.
const COMMANDS: &str = "/usr/local/bin";

/// The commands of this jail.
pub fn commands() -> BTreeSet<String> {
    let names = fs::read_dir(COMMANDS).into_iter().flatten().flatten();
    let is_command = |name: &String| !name.starts_with("gevals") && name != "jq";
    names.filter_map(|entry| entry.file_name().into_string().ok()).filter(is_command).collect()
}

/// The words of a line that every shell reads in the same way, as exactly one command: plain characters, quotes that contain nothing
/// special to a shell, and set variables in double quotes. `None` if the line needs a shell.
pub fn words(line: &str, variable: &dyn Fn(&str) -> Option<String>) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut rest = line.trim_end_matches([' ', '\n']);
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        match c {
            ' ' => words.extend(word.take()),
            '\'' => {
                let (text, behind) = rest.split_once('\'')?;
                word.get_or_insert_default().push_str(text);
                rest = behind;
            }
            '"' => {
                let (text, behind) = rest.split_once('"')?;
                word.get_or_insert_default().push_str(&filled(text, variable)?);
                rest = behind;
            }
            c if c.is_ascii_alphanumeric() || "._/:,@%+=-".contains(c) => word.get_or_insert_default().push(c),
            _ => return None,
        }
    }
    words.extend(word);
    Some(words)
}

/// Whether a shell sets this variable itself.
pub fn is_own(variable: &str) -> bool {
    const NAMES: [&str; 13] = [
        "_", "EUID", "GROUPS", "HOSTNAME", "IFS", "LINENO", "OLDPWD", "OPTIND", "PPID", "PWD", "SECONDS", "SHLVL",
        "UID",
    ];
    NAMES.contains(&variable) || ["BASH", "EPOCH", "RANDOM", "SRANDOM"].iter().any(|start| variable.starts_with(start))
}

/// Expands a text in double quotes.
fn filled(text: &str, variable: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    if text.contains(['\\', '`', '!']) {
        return None;
    }
    let mut pieces = text.split('$');
    let mut out = pieces.next()?.to_owned();
    for piece in pieces {
        let end = piece.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(piece.len());
        let (name, behind) = piece.split_at(end);
        if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        out += &variable(name)?;
        out += behind;
    }
    Some(out)
}

/// Whether a script could tell a function from a command, or inspects functions.
pub fn notices(script: &str) -> bool {
    const ASKING: [&str; 9] = ["type", "which", "whence", "hash", "typeset", "compgen", "alias", "enable", "builtin"];
    const WORDS: [&str; 9] =
        ["errtrace", "functrace", "xtrace", "DEBUG", "RETURN", "PIPE", "BASH_ENV", "caller", "posix"];
    // Its output is discarded.
    let quiet = |rest: &str| {
        let ends = [";", "|", ")", "&&"].into_iter().filter_map(|end| rest.find(end));
        let own = &rest[..ends.min().unwrap_or(rest.len())];
        let own = own.replace("2>/dev/null", "").replace("2> /dev/null", "");
        own.contains(">/dev/null") || own.contains("> /dev/null")
    };
    // Commands that report what a name is; elsewhere these are words like any other.
    let asks = |script: &str| {
        bash::program(script).is_none_or(|program| {
            program
                .commands()
                .iter()
                .any(|command| command.words().first().is_some_and(|word| ASKING.contains(&word.text.as_str())))
        })
    };
    asks(script) || script.lines().any(|line| {
        let words: Vec<&str> =
            line.split_whitespace().map(|word| word.rsplit(['$', '(', '`', '"', '!', ';', '{', '|']).next().unwrap_or(word)).collect();
        let mut loud = line.match_indices("command ").filter(|(at, _)| !line[..*at].ends_with(|c: char| c.is_ascii_alphanumeric()));
        loud.any(|(at, _)| !quiet(&line[at..]))
            || line.contains("FUNCNAME")
            || words.iter().any(|word| WORDS.contains(word) || word.starts_with("PATH="))
            || words.windows(2).any(|pair| match pair {
                ["declare" | "unset" | "export", options] => options.starts_with('-') && options.contains(['f', 'F', 'p']),
                _ => false,
            })
            // `set -Eeuo pipefail`, `bash -x`
            || words.iter().enumerate().any(|(at, word)| {
                let options = || words[at + 1..].iter().take_while(|word| word.starts_with(['-', '+']));
                (matches!(*word, "set" | "bash") || word.ends_with("/bash")) && options().any(|word| word.contains(['E', 'T', 'x']))
            })
    })
}

/// Whether a script is read by a shell that gets no functions.
pub fn is_foreign(script: &str) -> bool {
    script.strip_prefix("#!").is_some_and(|rest| !rest.lines().next().unwrap_or_default().contains("bash"))
}

/// `command -v jq`: the world decides whether the program exists.
const LOOKUP: &str = r#"command() {
    if [[ $# -eq 2 && "$1" == -v ]] && type -P -- "$2" >/dev/null; then
        __gevals_ask command -v "$2" || return 1
    fi
    builtin command "$@"
}
"#;

/// Writes the functions for these commands, which ask at a port; with `lookups` also one that asks which programs exist.
pub fn write(commands: &BTreeSet<String>, port: u16, lookups: bool) -> std::io::Result<()> {
    let mut text = if lookups { LOOKUP.to_owned() } else { String::new() };
    text += &format!(
        r#"sleep() {{
    local __gevals_time __gevals_rounds __gevals_limit __gevals_most __gevals_endless
    case "$#$1" in
        1[0-9] | 1[0-9][0-9] | 1[0-9][0-9][0-9]) ;;
        *)
            builtin command sleep "$@"
            return
            ;;
    esac
    IFS=' ' read -r __gevals_time __gevals_rounds __gevals_limit __gevals_most __gevals_endless <{SLEPT} || :
    case "$__gevals_time$__gevals_rounds$__gevals_limit$__gevals_most" in
        '' | *[!0-9]*)
            builtin command sleep "$@"
            return
            ;;
    esac
    if ((__gevals_time + 10#$1 >= __gevals_limit || __gevals_rounds + 1 > __gevals_most)); then
        builtin command sleep "$@"
        return
    fi
    printf '%s %s %s %s %s\n' "$((__gevals_time + 10#$1))" "$((__gevals_rounds + 1))" "$__gevals_limit" "$__gevals_most" "$__gevals_endless" >|{SLEPT}
    printf '{pause}\n' >>{TRACE}
    # The shell's own clock goes by this time, and no other.
    SECONDS=$((__gevals_slept = ${{__gevals_slept:-0}} + 10#$1))
}}
date() {{
    local __gevals_word
    for __gevals_word; do
        if [[ "$__gevals_word" == '+%s' ]]; then
            printf '%s\n' '{SECONDS}'
            return
        fi
    done
    printf '%s\n' '{DATE}'
}}
__gevals_ask() {{
    # The options of the script apply again when this returns.
    local - __gevals __gevals_before='' __gevals_in='-' __gevals_word __gevals_out='' __gevals_err='' __gevals_status=''
    set +eux
    for __gevals_word; do
        if ((${{#__gevals_word}} >= {LARGEST})); then
            printf '%s: Argument list too long\n' "$1" >&2
            return 126
        fi
    done
    case "$1" in
        kubectl | oc)
            for __gevals_word; do
                if [ "$__gevals_before$__gevals_word" = '-f-' ] || [ "$__gevals_before$__gevals_word" = '--filename-' ]; then
                    IFS= read -r -d '' __gevals_in
                    __gevals_in="+$__gevals_in"
                    break
                fi
                __gevals_before="$__gevals_word"
            done
            ;;
    esac
    if {{ exec {{__gevals}}<>"/dev/tcp/127.0.0.1/{port}"; }} 2>/dev/null; then
        printf '%s\0' "$#" "$BASHPID" "$__gevals_in" "$@" >&"$__gevals"
        IFS= read -r -d '' __gevals_out <&"$__gevals"
        IFS= read -r -d '' __gevals_err <&"$__gevals"
        IFS= read -r -d '' __gevals_status <&"$__gevals"
        exec {{__gevals}}>&-
        case "$__gevals_status" in
            hangs) kill -9 0 ;;
            *[0-9]*)
                # A reader that ends early must not decide the exit status: it would be another one each time.
                trap '' PIPE
                printf %s "$__gevals_out" 2>/dev/null
                printf %s "$__gevals_err" >&2
                trap - PIPE
                return "$__gevals_status"
                ;;
        esac
    fi
    __gevals="$1"
    shift
    "{COMMANDS}/$__gevals" "$@"
}}
"#,
        pause = PAUSE.trim_end()
    );
    let named = |name: &&String| {
        let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
        plain && name.starts_with(|c: char| c.is_ascii_alphabetic()) && is_plain(name)
    };
    for name in commands.iter().filter(named) {
        text += &format!("{name}() {{ __gevals_ask {name} \"$@\"; }}\n");
    }
    text += &format!(
        r#"if [[ -e {WATCHED} ]]; then
    exec {{__gevals_watched}}>>{WATCHED}
    BASH_XTRACEFD="$__gevals_watched"
    PS4=$'{RECORD}$BASH_SOURCE|$LINENO|'
    set -x
fi
"#
    );
    fs::write(BASH_ENV, text)
}

/// Whether the answer of a command depends only on the world and its words.
pub fn is_plain(name: &str) -> bool {
    !matches!(name, "sleep" | "curl" | "date" | "timeout") && !shim::DATABASES.contains(&name)
}

/// Answers the questions of functions, in the world of the current run.
pub async fn serve(listener: TcpListener, world: Arc<Mutex<Option<World>>>) {
    while let Ok((stream, _)) = listener.accept().await {
        let world = Arc::clone(&world);
        tokio::spawn(async move {
            let _ = answer(stream, &world).await;
        });
    }
}

async fn answer(mut stream: TcpStream, world: &Mutex<Option<World>>) -> std::io::Result<()> {
    let mut bytes = Vec::new();
    let (cwd, input, call) = loop {
        if let Some(question) = question(&bytes) {
            break question;
        }
        if stream.read_buf(&mut bytes).await? == 0 {
            return Ok(());
        }
    };
    let answer = {
        let world = world.lock().unwrap_or_else(PoisonError::into_inner);
        world.as_ref().and_then(|world| {
            let mut input = input.as_deref().map(str::as_bytes);
            let call = shim::asked(world, call, &cwd, input.as_mut().map(|input| input as &mut dyn Read))?;
            Some(shim::answer(world, &call, &cwd))
        })
    };
    let (stdout, stderr, status) = match answer {
        // The command itself has to do it.
        None => (String::new(), String::new(), "unknown".to_owned()),
        Some(answer) if answer.status == HANGS => {
            hangs();
            (String::new(), String::new(), "hangs".to_owned())
        }
        Some(answer) => {
            let status = shim::status(&answer).to_string();
            (answer.stdout, answer.stderr, status)
        }
    };
    stream.write_all(format!("{stdout}\0{stderr}\0{status}\0").as_bytes()).await
}

/// The working directory of the process that asks, its input, and its words; `None` if that is not the whole question.
fn question(bytes: &[u8]) -> Option<(PathBuf, Option<String>, Call)> {
    let fields: Vec<_> = bytes.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
    let [count, process, input, words @ ..] = fields.as_slice() else { return None };
    let count = count.parse::<usize>().ok()?;
    // The field after the last NUL is empty.
    if words.len() < count + 1 {
        return None;
    }
    let cwd = fs::read_link(Path::new("/proc").join(process.as_ref()).join("cwd")).ok()?;
    let argv = words[..count].iter().map(ToString::to_string).collect();
    Some((cwd, input.strip_prefix('+').map(str::to_owned), Call { argv, stdin: None }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_lines_are_parsed_as_by_a_shell() {
        let variable = |name: &str| (name == "NAME").then(|| "a b*".to_owned());
        let read = |line: &str| words(line, &variable);
        let plain: [(&str, &[&str]); 5] = [
            ("kubectl get pod a -n shop\n", &["kubectl", "get", "pod", "a", "-n", "shop"]),
            (
                "kubectl get  -l 'app in (a)' -o jsonpath='{.x}'",
                &["kubectl", "get", "-l", "app in (a)", "-o", "jsonpath={.x}"],
            ),
            ("kubectl get \"$NAME\" --x=\"p/$NAME.y\" ''", &["kubectl", "get", "a b*", "--x=p/a b*.y", ""]),
            ("kubectl get \"a' b\" 'c\"d'e", &["kubectl", "get", "a' b", "c\"de"]),
            ("kubectl get \"\"", &["kubectl", "get", ""]),
        ];
        for (line, expected) in plain {
            assert_eq!(read(line).unwrap(), expected, "{line}");
        }
        for line in [
            "kubectl get pods | wc -l",
            "kubectl get pods; true",
            "kubectl get pods > x",
            "kubectl get pods &",
            "kubectl get $NAME",
            "kubectl get \"$OTHER\"",
            "kubectl get \"${NAME}\"",
            "kubectl get \"$(ls)\"",
            "kubectl get \"`ls`\"",
            "kubectl get \"$1\"",
            "kubectl get *",
            "kubectl get a{b,c}",
            "kubectl get ~",
            "kubectl get \\a",
            "kubectl get 'a",
            "kubectl get # all",
            "kubectl get a\nkubectl get b",
            "kubectl get a\tb",
            "! kubectl get a",
            "kubectl get ü",
        ] {
            assert_eq!(read(line), None, "{line}");
        }
    }

    #[test]
    fn variables_set_by_the_shell_are_not_inputs() {
        assert!(["PWD", "RANDOM", "BASHPID", "_"].iter().all(|name| is_own(name)));
        assert!(["NAME", "HOME", "FILE", "KUBECONFIG"].iter().all(|name| !is_own(name)));
    }

    #[test]
    fn scripts_that_detect_functions_get_no_functions() {
        for script in [
            "K=$(command -v kubectl)\n$K get pods",
            "if [ -x \"$(command -v helm)\" ]; then true; fi",
            "type kubectl",
            "which kubectl >/dev/null",
            "if ! K=$(which kubectl); then exit 1; fi",
            "set -Eeuo pipefail",
            "set -o errtrace",
            "#!/bin/bash -x",
            "set -eux",
            "trap 'echo x' DEBUG",
            "trap '' PIPE",
            "export PATH=/bin",
            "K=$(command -v kubectl 2>/dev/null); echo >/dev/null",
            "declare -f kubectl",
            "unset -f kubectl",
        ] {
            assert!(notices(script), "{script}");
        }
        for script in [
            "command -v kubectl >/dev/null 2>&1 || exit 1",
            "if ! command -v oc &>/dev/null; then exit 1; fi",
            "set -euo pipefail",
            "echo \"$NAME is still of type LoadBalancer, which is wrong\"",
            "kubectl get pods -n x -o jsonpath='{.x}'\nsleep 2",
            "declare -A PORTS=([a]=1)",
            "kubectl patch pod x --type=merge -p '{\"a\":[{\"type\":1}]}'",
            "unset X",
            "#!/usr/bin/env bash",
            "for tool in a b; do command -v \"$tool\" >/dev/null 2>&1 || die; done",
        ] {
            assert!(!notices(script), "{script}");
        }
    }
}

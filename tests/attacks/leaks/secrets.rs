//! Secrets of every shape, planted wherever one can be written, and printed by every program involved: nothing that
//! gevals writes or prints contains one.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use base64::{
    Engine,
    engine::general_purpose::{STANDARD, URL_SAFE},
};
use serde_json::{Value, json};

use crate::support::world::World;

/// Where a secret is planted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    /// In the environment of gevals, in a variable with a secret name.
    Process(&'static str),
    /// In the environment, as the password in a URL in a variable with an ordinary name.
    Url(&'static str),
    /// In an MCP config: in a variable, literally, and from the environment in a variable with an ordinary name.
    ServerEnv(&'static str),
    Expanded,
    /// In the arguments of a server: after an option, and as part of it.
    Option(&'static str),
    Equals(&'static str),
    /// In the headers and the URL of a server.
    Header(&'static str),
    ServerUrl,
    /// In the command of an agent.
    Agent,
    /// In the variables of a task, of a step, and in a header of a step.
    TaskEnv(&'static str),
    StepEnv(&'static str),
    StepHeader(&'static str),
    /// Nowhere: it is recognized by its format.
    Nowhere,
}

use Place::*;

/// Forty shapes.
const SHAPES: [(Place, &str); 40] = [
    (Process("APP_TOKEN"), "hex"),
    (Process("APP_KEY"), "symbols"),
    (Process("APP_SECRET"), "words"),
    (Process("APP_PASSWORD"), "quotes"),
    (Process("DB_PASS"), "symbols"),
    (Process("DB_PWD"), "hex"),
    (Process("GH_PAT"), "hex"),
    (Process("AWS_CREDENTIAL"), "slashes"),
    (Process("SENTRY_DSN"), "hex"),
    (Process("SLACK_WEBHOOK"), "slashes"),
    (Process("PGPASSWORD"), "quotes"),
    (Process("SSHPASS"), "words"),
    (Process("apiKey"), "uuid"),
    (Process("TLS_KEY"), "pem"),
    (Process("AUTH_COOKIE"), "unicode"),
    (Process("SERVICE_CREDENTIALS"), "json"),
    (Url("DATABASE_URL"), "hex"),
    (Url("CACHE"), "uuid"),
    (ServerEnv("NOTES_TOKEN"), "slashes"),
    (ServerEnv("NOTES_PASS"), "symbols"),
    (Expanded, "hex"),
    (Option("--api-key"), "hex"),
    (Option("--password"), "symbols"),
    (Equals("--token"), "uuid"),
    (Header("Authorization"), "bearer"),
    (Header("X-Api-Key"), "uuid"),
    (Header("X-Custom"), "hex"),
    (ServerUrl, "hex"),
    (Agent, "hex"),
    (TaskEnv("TASK_TOKEN"), "slashes"),
    (StepEnv("STEP_PASSWORD"), "quotes"),
    (StepHeader("Authorization"), "bearer"),
    (StepHeader("X-Session"), "hex"),
    (Nowhere, "ghp"),
    (Nowhere, "glpat"),
    (Nowhere, "xoxb"),
    (Nowhere, "akia"),
    (Nowhere, "aiza"),
    (Nowhere, "jwt"),
    (Nowhere, "anthropic"),
];

/// Returns letters that are always the same for one number, and different for others.
fn drawn(nth: usize, length: usize, alphabet: &str) -> String {
    let letters: Vec<char> = alphabet.chars().collect();
    let mut state = nth as u64 + 1;
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) as usize
    };
    (0..length).map(|_| letters[next() % letters.len()]).collect()
}

const HEX: &str = "0123456789abcdef";
const LETTERS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

fn secret(shape: &str, nth: usize) -> String {
    let own = |length, alphabet| drawn(nth, length, alphabet);
    match shape {
        "symbols" => format!("p@{}&<%$>{}", own(6, LETTERS), own(4, HEX)),
        "words" => format!("{} {} {}", own(5, LETTERS), drawn(nth + 1000, 6, LETTERS), own(4, HEX)),
        "quotes" => format!("{}\"{}\\'{}", own(5, LETTERS), drawn(nth + 1000, 5, LETTERS), own(4, HEX)),
        "slashes" => format!("{}/{}+{}=", own(10, LETTERS), drawn(nth + 1000, 10, LETTERS), own(8, LETTERS)),
        "uuid" => format!("{}-{}-{}", own(8, HEX), drawn(nth + 1000, 4, HEX), drawn(nth + 2000, 12, HEX)),
        "unicode" => format!("gehäim-{}-ключ-{}", own(6, LETTERS), own(4, HEX)),
        "pem" => {
            let line = |n: usize| drawn(nth + n * 1000, 64, LETTERS);
            format!("-----BEGIN PRIVATE KEY-----\n{}\n{}\n-----END PRIVATE KEY-----\n", line(1), line(2))
        }
        "json" => json!({ "type": "service", "private": own(24, LETTERS) }).to_string(),
        "ghp" => format!("ghp_{}", own(36, LETTERS)),
        "glpat" => format!("glpat-{}", own(20, LETTERS)),
        "xoxb" => format!("xoxb-{}-{}", own(11, HEX), drawn(nth + 1000, 24, LETTERS)),
        "akia" => format!("AKIA{}", own(16, "ABCDEFGHJKMNPQRSTUVWYZ23456789")),
        "aiza" => format!("AIza{}", own(35, LETTERS)),
        "jwt" => format!("eyJ{}.eyJ{}.{}", own(20, LETTERS), drawn(nth + 1000, 30, LETTERS), own(43, LETTERS)),
        "anthropic" => format!("sk-ant-{}", own(40, LETTERS)),
        _ => own(32, HEX),
    }
}

fn percent(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.~".contains(&b);
    text.bytes().map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}

/// Returns the forms that must not occur anywhere; for a secret of several lines, each line.
fn forms(secret: &str, known: bool) -> Vec<String> {
    let mut forms = vec![secret.trim().to_owned()];
    let json = Value::from(secret).to_string();
    forms.push(json[1..json.len() - 1].to_owned());
    if known {
        forms.extend([STANDARD.encode(secret), URL_SAFE.encode(secret), percent(secret)]);
    }
    forms.extend(secret.lines().skip(1).filter(|line| line.len() == 64).map(str::to_owned));
    forms
}

struct Planted {
    world: World,
    /// The name and the forms of each one.
    secrets: Vec<(String, Vec<String>)>,
    environment: BTreeMap<String, String>,
}

fn planted() -> Planted {
    let world = World::new(&[]);
    let (mut secrets, mut environment) = (Vec::new(), BTreeMap::new());
    let (mut server_env, mut args, mut headers) = (serde_json::Map::new(), Vec::new(), serde_json::Map::new());
    let (mut task_env, mut step_env, mut step_headers) =
        (serde_json::Map::new(), serde_json::Map::new(), serde_json::Map::new());
    let (mut url, mut agent) = (String::new(), String::new());
    let (mut said, mut said_by_agent, mut unsaid) = (String::new(), String::new(), String::new());
    for round in 0..5 {
        for (nth, (place, shape)) in SHAPES.iter().enumerate() {
            let value = secret(shape, round * 100 + nth);
            let bearer = format!("Bearer {value}");
            let shown = if *shape == "bearer" { bearer } else { value.clone() };
            let name = |name: &str| format!("{}{name}", ["", "A_", "B_", "C_", "D_"][round]);
            match place {
                Process(own) => drop(environment.insert(name(own), value.clone())),
                Url(own) => drop(environment.insert(name(own), format!("postgres://me:{value}@db.example/x"))),
                ServerEnv(own) => drop(server_env.insert(name(own), json!(value.replace('$', "")))),
                Expanded => {
                    environment.insert(name("PLAIN"), value.clone());
                    server_env.insert(name("HARMLESS"), json!(format!("${{{}}}", name("PLAIN"))));
                }
                Option(option) => args.extend([(*option).to_owned(), value.replace('$', "")]),
                Equals(option) => args.push(format!("{option}={value}")),
                Header(header) => {
                    drop(headers.insert(format!("{header}{}", ["", "-A", "-B", "-C", "-D"][round]), json!(shown)))
                }
                ServerUrl => url = format!("http://me:{value}@127.0.0.1:9/mcp"),
                Agent => agent += &format!("API_TOKEN={value} true --token {value}; "),
                TaskEnv(own) => drop(task_env.insert(name(own), json!(value))),
                StepEnv(own) => drop(step_env.insert(name(own), json!(value))),
                StepHeader(header) => {
                    drop(step_headers.insert(format!("{header}{}", ["", "-A", "-B", "-C", "-D"][round]), json!(shown)))
                }
                Nowhere => {}
            }
            let value = match place {
                ServerEnv(_) | Option(_) => value.replace('$', ""),
                _ => value,
            };
            // There is one HTTP server, and its last URL is the one used.
            if *place == ServerUrl && round < 4 {
                continue;
            }
            // The agent's secret is known only to its own eval; that of the web server to another one, in which nothing
            // is printed.
            let said = match place {
                Agent => &mut said_by_agent,
                Header(_) | ServerUrl => &mut unsaid,
                _ => &mut said,
            };
            let known = *place != Nowhere;
            *said += &format!(
                "plain {value} end\n{}\n",
                json!({ "echo": value, "nested": json!({ "in": value }).to_string() })
            );
            if known {
                let percent = percent(&value);
                *said += &format!(
                    "{} {percent}\nBasic {}\n",
                    STANDARD.encode(&value),
                    STANDARD.encode(format!("me:{value}"))
                );
            }
            secrets.push((format!("{place:?} {shape} {round}"), forms(&value, known)));
        }
    }
    world.write("vault/said.txt", &said);
    world.write("vault/agent.txt", &said_by_agent);
    let cat = format!("cat {}", world.path("vault/said.txt").display());
    let serve = format!("{cat} >&2; exec \"$GEVALS\" demo-server --dir {}", world.path("vault/notes").display());
    let args: Vec<String> = [vec!["-c".to_owned(), serve, "sh".to_owned()], args].concat();
    let notes = json!({ "command": "sh", "args": &args, "env": &server_env, "enableAllTools": true });
    let web = json!({ "url": url, "headers": headers, "enableAllTools": true });
    let mut args = args;
    args[1] = format!("{cat} >&2; exit 1");
    let dying = json!({ "command": "sh", "args": args, "env": server_env });
    for (name, servers) in
        [("notes", json!({ "notes": notes })), ("web", json!({ "web": web })), ("dying", json!({ "dying": dying }))]
    {
        world.write(&format!("source/{name}.json"), &json!({ "mcpServers": servers }).to_string());
    }
    let task = |name: &str, verdict: &str| {
        json!({
            "kind": "Task", "apiVersion": "mcp-eval/v1",
            "metadata": { "name": name },
            "spec": {
                "env": task_env,
                "prompt": "Do it.",
                "setup": [{ "command": { "id": "look", "run": cat, "env": step_env } }],
                "verify": [
                    { "command": { "run": format!("{cat} >&2; {verdict}"), "env": step_env } },
                    { "http": { "method": "GET", "url": "http://127.0.0.1:9/", "headers": step_headers, "timeout": "1s" , "continueOnError": true } },
                    { "command": { "run": "echo {steps.look.outputs.stdout}", "expect": { "stdout": { "contains": "never said" } } } },
                ],
                "cleanup": [{ "command": { "run": format!("{cat} >&2; {verdict}") } }],
            },
        })
    };
    world.write("source/good.yaml", &task("good", "test -d /").to_string());
    world.write("source/bad.yaml", &task("bad", "test -e /nowhere").to_string());
    world.write("source/quiet.yaml", "kind: Task\napiVersion: mcp-eval/v1\nmetadata: {name: quiet}\nspec: {prompt: x, verify: [{command: {run: test -d /}}]}\n");
    let call = |tool: &str, args: Value| json!({ "server": "notes", "tool": tool, "args": args });
    let calls = json!([
        call("notes_create", json!({ "title": "a", "body": said })),
        call("notes_read", json!({ "title": "a" })),
        call("notes_read", json!({ "title": said })),
        call("notes_delete", json!({ "title": "a" })),
    ]);
    let entry = json!({ "calls": calls, "output": said });
    // Text with braces must not be a template here.
    let entry: Value = serde_json::from_str(&entry.to_string().replace("{\\\"", "\\\\{\\\"")).unwrap_or(entry);
    world.write(
        "source/script.yaml",
        &json!({ "kind": "Oracle", "tasks": { "good": entry, "bad": entry } }).to_string(),
    );
    let agent = json!({ "kind": "Agent", "metadata": { "name": "shell" }, "commands": { "runPrompt": format!("{agent}{cat} {0}; {cat} {0} >&2; echo {{{{ .Prompt }}}}", world.path("vault/agent.txt").display()) } });
    world.write("source/agent.yaml", &agent.to_string());
    for (name, agent, mcp) in [
        ("oracle", json!({ "type": "builtin.script", "path": "script.yaml" }), "notes.json"),
        ("shell", json!({ "type": "file", "path": "agent.yaml" }), "notes.json"),
        ("web", json!({ "type": "builtin.noop" }), "web.json"),
        ("dying", json!({ "type": "builtin.noop" }), "dying.json"),
    ] {
        let tasks = match name {
            "web" => json!([{ "path": "quiet.yaml" }]),
            _ => json!([{ "path": "good.yaml" }, { "path": "bad.yaml" }]),
        };
        let eval = json!({ "kind": "Eval", "metadata": { "name": name }, "config": {
            "agent": agent, "mcpConfigFile": mcp, "taskSets": tasks } });
        world.write(&format!("source/{name}.yaml"), &eval.to_string());
    }
    Planted { world, secrets, environment }
}

impl Planted {
    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.world.command(args);
        command.envs(&self.environment).env("GITHUB_STEP_SUMMARY", self.world.path("page.md"));
        command
    }

    /// Returns everything that gevals has written here, without the sources and what the programs wrote themselves.
    fn written(&self) -> Vec<(PathBuf, String)> {
        fn walk(dir: &Path, out: &mut Vec<PathBuf>) {
            for entry in fs::read_dir(dir).unwrap().flatten() {
                let path = entry.path();
                match path.is_dir() {
                    true if !path.ends_with("vault") && !path.ends_with("source") => walk(&path, out),
                    true => {}
                    false => out.push(path),
                }
            }
        }
        let mut found = Vec::new();
        walk(&self.world.path("."), &mut found);
        found
            .into_iter()
            .map(|path| (path.clone(), String::from_utf8_lossy(&fs::read(&path).unwrap_or_default()).into_owned()))
            .collect()
    }

    #[track_caller]
    fn holds_none(&self, what: &str) {
        let mut leaks = Vec::new();
        for (path, text) in self.written() {
            for (name, forms) in &self.secrets {
                for (nth, form) in forms.iter().enumerate() {
                    if let Some(at) = text.find(form.as_str()) {
                        let from = text.floor_char_boundary(at.saturating_sub(60));
                        leaks.push(format!(
                            "{} has {name}, form {nth}: …{}",
                            path.display(),
                            &text[from..text.ceil_char_boundary(at + 20)]
                        ));
                        break;
                    }
                }
            }
        }
        assert!(leaks.is_empty(), "{what}: {} leaks\n{}", leaks.len(), leaks[..leaks.len().min(12)].join("\n"));
    }
}

#[test]
fn no_secret_is_written_or_printed() {
    let planted = planted();
    assert!(planted.secrets.len() > 190, "{}", planted.secrets.len());
    let run = |args: &[&str]| planted.world.start(planted.command(args)).end();
    let (mut said, mut masks) = (0, 0);
    for args in [
        &["check", "source"][..],
        &["check", "source", "--format", "json"],
        &["check", "source", "--format", "sarif"],
        &["check", "source", "--format", "github"],
        &["check", "source", "--fix", "--unsafe-fixes", "--dry-run"],
        &["plan", "source/oracle.yaml", "--expand"],
        &["plan", "source/shell.yaml", "--format", "json"],
        &["plan", "source/web.yaml", "--format", "html"],
        &["plan", "source/oracle.yaml", "--format", "svg"],
        &["run", "source/oracle.yaml", "--verbose"],
        &["run", "source/shell.yaml", "--format", "json"],
        &["run", "source/oracle.yaml", "--format", "github"],
        &["run", "source/web.yaml"],
        &["run", "source/dying.yaml", "--verbose"],
        &["result", "view", "gevals-oracle-out.json", "--max-output-lines", "10000", "--max-line-length", "100000"],
        &["result", "view", "gevals-shell-out.json", "--max-events", "0"],
        &["result", "summary", "gevals-oracle-out.json"],
        &["result", "diff", "gevals-oracle-out.json", "gevals-shell-out.json", "-o", "markdown"],
        &["result", "convert", "junit", "gevals-oracle-out.json", "--output-file", "junit.xml"],
        &["result", "merge", "gevals-oracle-out.json"],
    ] {
        let ran = run(args);
        assert!(matches!(ran.code, Some(0..=4)), "{args:?}: {}{}", ran.out, ran.err);
        planted.holds_none(&args.join(" "));
        said += ran.out.len() + ran.err.len();
        masks += ran.out.matches("***").count();
    }
    assert!(said > 10_000 && masks > 100, "{said} {masks}");
    for eval in ["oracle", "shell"] {
        let text = planted.world.read(&format!("gevals-{eval}-out.json"));
        assert!(text.matches("***").count() > 100, "{eval}: {}", run(&["run", &format!("source/{eval}.yaml")]).err);
    }
    // The journal and the recording contained many of them, masked.
    let kept: Vec<_> =
        planted.written().into_iter().filter(|(path, _)| path.extension().is_some_and(|e| e == "jsonl")).collect();
    for name in ["journal.jsonl", "recording.jsonl"] {
        let masks: usize =
            kept.iter().filter(|(path, _)| path.ends_with(name)).map(|(_, text)| text.matches("***").count()).sum();
        assert!(masks > 200, "{name}: {masks} of {}", kept.len());
    }
}

#[test]
fn crashes_and_recoveries_leak_no_secrets() {
    let planted = planted();
    let agent = planted.world.read("source/agent.yaml").replace("; echo {{", "; touch begun; sleep 60; echo {{");
    planted.world.write(
        "source/agent.yaml",
        &agent.replace("touch begun", &format!("touch {}", planted.world.path("vault/begun").display())),
    );
    let running = planted.world.start(planted.command(&["run", "source/shell.yaml", "--verbose"]));
    planted.world.wait_for("vault/begun");
    running.signal(rustix::process::Signal::KILL);
    let _ = running.end();
    planted.holds_none("a crash");
    let ran = planted.world.start(planted.command(&["recover"])).end();
    assert!(matches!(ran.code, Some(0 | 4)), "{}{}", ran.out, ran.err);
    planted.holds_none("a recovery");
}

#[test]
fn values_that_are_not_secrets_are_not_masked() {
    let world = World::new(&[]);
    world.write("task.yaml", &json!({
        "kind": "Task", "apiVersion": "mcp-eval/v1", "metadata": { "name": "t" },
        "spec": {
            "env": { "KEY": "a", "PASS": "yes", "KEYBOARD": "qwertz-layout", "MONKEY": "business", "AUTH": "enabled", "KEY_FILE": "keys/id_file" },
            "prompt": "x",
            "verify": [{ "command": { "run": "echo a yes qwertz-layout business enabled keys/id_file; pwd; echo $SSH_AUTH_SOCK $GPG_KEY $SSH_ASKPASS", "expect": { "stdout": { "contains": "never" } } } }],
        },
    }).to_string());
    world.write(
        "eval.yaml",
        "kind: Eval\nmetadata: {name: e}\nconfig: {agent: {type: builtin.noop}, taskSets: [{path: task.yaml}]}\n",
    );
    let mut command = world.command(&["run", "eval.yaml", "--verbose"]);
    let here = world.path(".").canonicalize().unwrap();
    command.env("PWD", &here).env("OLDPWD", "/usr").env("SSH_AUTH_SOCK", "/tmp/ssh-abcdef/agent.1");
    command.env("GPG_KEY", "A035C8C19219BA821ECEA86B64E628F8D684696D").env("SSH_ASKPASS", "/usr/lib/ssh/askpass");
    world.start(command).end();
    let stdout = world.results("e").to_string();
    for text in [
        "a yes qwertz-layout business enabled keys/id_file",
        here.to_str().unwrap(),
        "/tmp/ssh-abcdef/agent.1",
        "A035C8C19219BA821ECEA86B64E628F8D684696D",
        "/usr/lib/ssh/askpass",
    ] {
        assert!(stdout.contains(text), "`{text}` is masked:\n{stdout}");
    }
}

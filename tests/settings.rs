//! `gevals config`, `gevals self check`, and colors on a terminal.
#![cfg(all(feature = "run", target_os = "linux"))]

use serde_json::Value;

use crate::support::world::{self, World};

const BAD: &str = "kind: Task\napiVersion: mcp-eval/v1\nmetadata: {name: t}\nspec:\n  prompt: Do it.\n  verfy: []\n";
const SECRET: &str = "sk-verysecretverysecret";

fn json(world: &World, args: &[&str], env: &[(&str, &str)], code: i32) -> Value {
    let mut command = world.command(args);
    command.envs(env.iter().copied());
    serde_json::from_str(&world.start(command).end().expect(code, &[]).out).unwrap()
}

#[test]
fn settings_show_their_source_and_no_secrets() {
    let world = World::new(&[("gevals.toml", "exclude = [\"old/**\"]\n[rules]\nprompt-disagrees = \"error\"\n")]);
    let env = [
        ("OPENAI_API_KEY", SECRET),
        ("OTEL_EXPORTER_OTLP_HEADERS", "x-api=verysecretverysecret"),
        ("MCP_HEADERS", "{\"X\": \"verysecretverysecret\"}"),
        ("MCP_URL", "http://me:verysecretverysecret@localhost/mcp"),
        ("GEVALS_CACHE_DIR", "/var/tmp/g"),
        ("NO_COLOR", "1"),
    ];
    let told = json(&world, &["config", "--format", "json"], &env, 0);
    assert!(!told.to_string().contains("verysecret"), "{told}");
    let setting = |name: &str| {
        let found = told["settings"].as_array().unwrap().iter().find(|s| s["name"] == name);
        found.unwrap_or_else(|| panic!("no {name}: {told}")).clone()
    };
    assert_eq!(
        (&setting("OPENAI_API_KEY")["value"], &setting("OPENAI_API_KEY")["origin"]),
        (&"***".into(), &"the environment".into())
    );
    assert_eq!(setting("ANTHROPIC_API_KEY")["value"], Value::Null);
    assert_eq!((&setting("color")["value"], &setting("color")["origin"]), (&"off".into(), &"NO_COLOR".into()));
    assert_eq!(
        (&setting("downloads")["value"], &setting("downloads")["origin"]),
        (&"/var/tmp/g".into(), &"GEVALS_CACHE_DIR".into())
    );
    assert_eq!(setting("checks")["value"], "/var/tmp/g/checks");
    assert_eq!(
        (&setting("rules.prompt-disagrees")["value"], &setting("exclude")["value"]),
        (&"error".into(), &"old/**".into())
    );
    assert_eq!(setting("root")["value"], world.path("").display().to_string().trim_end_matches('/'));
    for s in told["settings"].as_array().unwrap() {
        assert!(!s["about"].as_str().unwrap().is_empty() && !s["origin"].as_str().unwrap().is_empty(), "{s}");
    }
    // Variables that gevals sets for other programs are not settings.
    assert!(told["settings"].as_array().unwrap().iter().all(|s| s["name"] != "GEVALS_PROMPT"));
    world.run(&["config", "rules"]).expect(0, &["rules.prompt-disagrees", "error  (", "gevals.toml)"]);
    world.run(&["config", "NO_COLOUR"]).expect(2, &["did you mean `NO_COLOR`?"]);
    let short = world.run(&["config"]).expect(0, &["more are not set"]).out;
    assert!(!short.contains("TRACEPARENT"), "{short}");
    world.run(&["config", "effects"]).expect(0, &["not set", "your own programs"]);
    world.run(&["config", "--all"]).expect(0, &["TRACEPARENT", "not set"]);
    world.write("gevals.toml", "exclude = 3\n");
    world.run(&["config"]).expect(1, &["invalid-config", "root"]);
}

#[test]
fn self_check_inspects_the_machine_and_suggests_fixes() {
    let world = World::new(&[]);
    let env = [("OPENAI_API_KEY", SECRET)];
    let told = json(&world, &["self", "check", "--format", "json"], &env, 0);
    let things = told["things"].as_array().unwrap();
    assert!(!told.to_string().contains(SECRET));
    for thing in things {
        let texts = ["reason", "cure"].map(|key| thing[key].as_str().unwrap().len());
        assert!(
            texts.iter().all(|length| *length > 5) && thing["found"].is_string() == (thing["here"] == true),
            "{thing}"
        );
    }
    let here = |name: &str| things.iter().find(|thing| thing["name"] == name).unwrap()["here"].clone();
    assert_eq!((here("sh"), here("openai-key")), (true.into(), true.into()));
    // A machine without anything: no programs, no writable directory.
    let nothing = [("PATH", "/nowhere"), ("TMPDIR", "/nowhere"), ("OPENAI_API_KEY", "")];
    let told = json(&world, &["self", "check", "--format", "json"], &nothing, 1);
    let missing = told["things"].as_array().unwrap().iter().filter(|thing| thing["here"] == false);
    let missing: Vec<&str> = missing.map(|thing| thing["name"].as_str().unwrap()).collect();
    for name in
        ["sh", "temporary-folder", "git", "bubblewrap", "docker", "node", "npx", "python", "kubectl", "openai-key"]
    {
        assert!(missing.contains(&name), "{name}: {missing:?}");
    }
    // Only what was named decides.
    let mut command = world.command(&["self", "check", "processes", "user-namespaces", "npx"]);
    command.env("PATH", "/nowhere");
    world.start(command).end().expect(1, &["missing  npx", "get: "]);
    world.run(&["self", "check", "sh", "processes"]).expect(0, &["ok       sh", "everything is available"]);
    world.run(&["self", "check", "bublewrap"]).expect(2, &["did you mean `bubblewrap`?"]);
}

/// Returns what a command prints if its streams are a terminal, which Python creates, or a pipe.
fn printed(world: &World, terminal: bool, env: &str, args: &str) -> String {
    let program = world::gevals().into_string().unwrap();
    let script = "import os, pty, sys\n\
        def read(fd):\n    return os.read(fd, 65536)\n\
        sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:], read)))";
    let clean = "env -u NO_COLOR -u FORCE_COLOR -u CLICOLOR_FORCE -u CLICOLOR -u CI TERM=xterm";
    let command = format!("{clean} {env} {program} {args}");
    let line = match terminal {
        true => format!("python3 -c '{script}' {command} < /dev/null"),
        false => format!("{command} 2>&1 | cat"),
    };
    let ran = world.shell(&line);
    format!("{}{}", ran.out, ran.err)
}

#[test]
fn every_command_respects_color_settings_of_the_environment() {
    let world = World::new(&[("bad.yaml", BAD)]);
    world.copy("examples/quickstart", "q");
    let commands = ["check bad.yaml", "plan q/eval.yaml", "--help", "check --no-such-option", "plan bad.yaml"];
    let coloured = |text: &str| text.contains("\u{1b}[") && text.contains('m');
    for args in commands {
        let on = |terminal: bool, env: &str| {
            let text = printed(&world, terminal, env, args);
            assert!(text.len() > 40, "{args}: {text}");
            coloured(&text)
        };
        assert!(on(true, ""), "{args} on a terminal");
        for env in ["NO_COLOR=1", "TERM=dumb", "CLICOLOR=0", "NO_COLOR=1 FORCE_COLOR=1"] {
            assert!(!on(true, env), "{args} on a terminal with {env}");
        }
        assert!(!on(false, ""), "{args} in a pipe");
        for env in ["FORCE_COLOR=1", "CLICOLOR_FORCE=1", "TERM=dumb FORCE_COLOR=1"] {
            assert!(on(false, env), "{args} in a pipe with {env}");
        }
        assert!(!on(false, "FORCE_COLOR=0"), "{args} in a pipe with FORCE_COLOR=0");
        let never = if args.contains("--no-such") {
            "--color=never --no-such-option".to_owned()
        } else {
            format!("{args} --color=never")
        };
        assert!(!coloured(&printed(&world, true, "", &never)), "{never}");
    }
    // No escape sequences at all, including progress.
    let run = printed(&world, true, "TERM=dumb", "run q/eval.yaml --run ^write-note$");
    assert!(run.contains("1 of 1 task passed") && !run.contains('\u{1b}'), "{run}");
    assert!(coloured(&printed(&world, true, "", "run q/eval.yaml --run ^write-note$")));
}

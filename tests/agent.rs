//! The agents, and above all: a prompt reaches a shell agent as data, whatever it contains and wherever it appears.
#![cfg(all(feature = "run", target_os = "linux"))]

use std::{
    path::Path,
    process::Command,
    sync::{LazyLock, Mutex},
    time::Duration,
};

use futures_util::future::BoxFuture;
use gevals::{
    agent::{self, AgentCalls, AgentContext, AgentDone, AgentFault, AgentServer},
    bash::{
        gotext,
        prompt::{Context, Frame, VARIABLE, prompt_context},
    },
    hir::{Arg, ArgKind, CallKind, Def, OracleCall, Part, ShellAgent, Template},
    host::{FakeHost, Host, RealHost},
    plan::AgentKind,
    source::{Sources, Span, Spanned},
};
use proptest::prelude::*;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

static HOST: LazyLock<RealHost> = LazyLock::new(RealHost::new);

/// Every syntactic context, each of which passes the prompt to a stand-in agent that terminates its arguments with NUL.
const EVERYWHERE: &str = r#"
p() { printf '%s\0' "$1"; }
r() { cat; printf '\0'; }
p {{ .Prompt }}
p --x={{ .Prompt }}.
p "a {{ .Prompt }} \$b"
p "<{{ .Prompt }}{{ .Prompt }}>"
p 'c {{ .Prompt }} d'
r <<'EOT'
{{ .Prompt }}
EOT
r <<EOT
	<{{ .Prompt }}> \$x
EOT
r <<-EOT
	{{ .Prompt }}
	EOT
if true; then P={{ .Prompt }}; export Q="{{ .Prompt }}"; fi
p "$P"
(p "$Q" | cat) && r <<'ONE' # and a comment
EO{{ .Prompt }}
{{ .Prompt }}
ONE
"#;

fn fragment() -> impl Strategy<Value = String> {
    let nasty = [
        "'",
        "\"",
        "$",
        "`",
        "\\",
        "\n",
        "EOT",
        "\nEOT\n",
        "ONE\n",
        "GEVALS_END",
        "$(touch /tmp/gevals-injected)",
        "!",
        "*",
        "~",
        "#",
        "${GEVALS_PROMPT}",
        "{{ .Prompt }}",
        "/prompt/",
        "\t",
        " ",
        "\r",
        "%s",
        ";",
        "&",
        "|",
        ">",
        "(",
        ")",
        "\\\n",
        "T",
        "é𝄞",
        "\u{1}",
    ];
    prop_oneof![3 => prop::sample::select(nasty.to_vec()).prop_map(str::to_owned), 1 => "[^\\x00]{0,3}"]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn an_agent_reads_exactly_the_prompt(fragments in prop::collection::vec(fragment(), 0..12)) {
        let p: String = fragments.concat();
        let frame = Frame::new(EVERYWHERE, &[], &p).unwrap();
        let output = Command::new("bash").args(["-c", &frame.fill()]).env(VARIABLE, &p).output().unwrap();
        let expected = [
            p.clone(), format!("--x={p}."), format!("a {p} $b"), format!("<{p}{p}>"), format!("c {p} d"), format!("{p}\n"),
            format!("\t<{p}> $x\n"), format!("{p}\n"), p.clone(), p.clone(), format!("EO{p}\n{p}\n"),
        ];
        let got = String::from_utf8(output.stdout).unwrap();
        prop_assert_eq!(got, expected.map(|text| text + "\0").concat());
        prop_assert_eq!(String::from_utf8_lossy(&output.stderr), "");
        prop_assert!(!Path::new("/tmp/gevals-injected").exists());
    }
}

proptest! {
    #[test]
    fn any_template_is_parsed_or_rejected_with_a_location(
        parts in prop::collection::vec(prop::sample::select(vec![
            "{{", "}}", "{{-", "-}}", " ", ".Prompt", "$.Prompt", ".A", "if ", "else ", "end", "range ", "with ", "define ", "\"", "`",
            "'", "/*", "*/", "printf ", "slice ", "len ", "\"%q\" ", "1", "$x ", ":= ", "= ", "|", "(", ")", "é", "\n", "\\", "%!", "template ",
        ]), 0..24),
    ) {
        let template = parts.concat();
        for fault in gotext::faults(&template, &["Prompt"]) {
            prop_assert!(template.get(fault.range.clone()).is_some(), "{template:?}: {fault:?}");
        }
        if let Err(fault) = prompt_context(&template) {
            prop_assert!(template.get(fault.range.clone()).is_some(), "{template:?}: {fault:?}");
        }
    }
}

#[test]
fn the_context_of_a_prompt() {
    let of = |text: &str| prompt_context(text).map(|found| found.into_iter().map(|(_, c)| c).collect::<Vec<_>>());
    for (text, context) in [
        ("a {{ .Prompt }}", Context::Bare),
        ("a -p={{.Prompt}} > out", Context::Bare),
        (
            "cd x && FOO=1 a {{ .McpServerFileArgs }} --allow '{{ .AllowedToolArgs }}' \"{{ .Prompt }}\" | tee log",
            Context::DoubleQuoted,
        ),
        ("a -p 'Do: {{ .Prompt }}'", Context::SingleQuoted),
        ("a {{ .McpServerFileArgs }} <<'EOT'\n{{ .Prompt }}\nEOT\n", Context::QuotedHeredoc),
        ("a <<\\EOT 2>&1 | grep x\n{{ .Prompt }}\nEOT\n", Context::QuotedHeredoc),
        ("a <<'EOT' 2>/dev/null | b 2>&1 | tee -a log\n{{ .Prompt }}\nEOT\n", Context::QuotedHeredoc),
        ("a <<EOT\nDo $THIS: {{ .Prompt }}\nEOT\n", Context::Heredoc),
        ("a <<< \"{{ .Prompt }}\"", Context::DoubleQuoted),
        ("bash agent.sh \"{{ .Prompt }}\"", Context::DoubleQuoted),
        ("bash -c 'a \"$1\"' _ {{ .Prompt }}", Context::Bare),
        ("bash agent.sh <<'EOT'\n{{ .Prompt }}\nEOT\n", Context::QuotedHeredoc),
        ("a --shell bash \"{{ .Prompt }}\"", Context::DoubleQuoted),
        ("a watch {{ .Prompt }}", Context::Bare),
    ] {
        assert_eq!(of(text), Ok(vec![context]), "{text}");
    }
    for (text, why) in [
        ("a \"$(b {{ .Prompt }})\"", "`$(…)`"),
        ("a `b {{ .Prompt }}`", "`$(…)`"),
        ("a \"`b {{ .Prompt }}`\"", "`$(…)`"),
        ("a \"${X:-{{ .Prompt }}}\"", "not allowed"),
        ("a $'{{ .Prompt }}'", "`$'…'`"),
        ("a \\{{ .Prompt }}", "directly after"),
        ("a \"${{ .Prompt }}\"", "directly after"),
        ("a # {{ .Prompt }}", "comment"),
        ("{{ .Prompt }}", "command"),
        ("a > {{ .Prompt }}", "file"),
        ("a <<'E' 2>&1 | b > {{ .Prompt }}\nE\n", "not allowed"),
        ("eval \"a {{ .Prompt }}\"", "`eval`"),
        ("bash -c 'a \"{{ .Prompt }}\"'", "`bash -c`"),
        ("sudo -u x /bin/sh -ec \"a '{{ .Prompt }}'\"", "`sh -c`"),
        ("bash <<'EOT'\na \"{{ .Prompt }}\"\nEOT\n", "standard input of `bash`"),
        ("ssh host <<'EOT'\na \"{{ .Prompt }}\"\nEOT\n", "`ssh`"),
        ("echo '{{ .Prompt }}' | bash", "standard input of `bash`"),
        ("a <<EOT\n`b {{ .Prompt }}`\nEOT\n", "not allowed"),
        ("a <<EOT\n$(b {{ .Prompt }})\nEOT\n", "not allowed"),
        ("a <<-'EOT'\n\t{{ .Prompt }}\n\tEOT\n", "tabs"),
        ("a $((1 + {{ .Prompt }}))", "cannot be parsed as bash"),
        ("a \"{{ .Prompt }}", "cannot be parsed"),
        ("a {{ .Promt }}", "unknown field `Promt`"),
        ("a {{ if .Prompt }}", "no `{{ end }}`"),
        ("a {{ frob .Prompt }}", "unknown function `frob`"),
        ("a {{ if .McpServerFileArgs }}$(b {{ .Prompt }}){{ end }}", "`$(…)`"),
    ] {
        let fault = prompt_context(text).expect_err(text);
        assert!(fault.message.contains(why), "{text}: {fault}");
        assert!(text.get(fault.range).is_some());
    }
    assert_eq!(of("a no prompt"), Ok(vec![]));
    for (text, contexts) in [
        ("a {{ printf \"%q\" .Prompt }}", vec![Context::Bare]),
        ("a {{ .Prompt | printf \"--p='%s'\" }}", vec![Context::SingleQuoted]),
        (
            "a {{ with .Prompt }}\"{{ . }}\" {{ end }}{{ $p := $.Prompt }}{{ $p }}",
            vec![Context::DoubleQuoted, Context::Bare],
        ),
        (
            "a{{ if .McpServerFileArgs }} --mcp {{ .Prompt }}{{ else }} '{{ .Prompt }}'{{ end }}",
            vec![Context::Bare, Context::SingleQuoted],
        ),
    ] {
        assert_eq!(of(text), Ok(contexts), "{text}");
    }
}

#[test]
fn template_functions_receive_the_prompt_and_return_data() {
    let prompt = "a \"b\" '$HOME' `id` <é>\n\\ /prompt0/ EOT\nEOT\n";
    let quoted = "\"a \\\"b\\\" '$HOME' `id` <é>\\n\\\\ /prompt0/ EOT\\nEOT\\n\"";
    for (argument, expected) in [
        ("{{ printf \"%q\" .Prompt }}", prompt.to_owned()),
        ("--p={{ printf \"%q\" .Prompt }}.", format!("--p={prompt}.")),
        ("'{\"p\": {{ printf \"%q\" .Prompt }}}'", format!("{{\"p\": {quoted}}}")),
        ("\"{{ printf \"%q\" .Prompt }}\"", quoted.to_owned()),
        ("{{ slice .Prompt 0 9 }}", prompt[..9].to_owned()),
        ("\"{{ slice .Prompt 0 15 }}\"", prompt[..15].to_owned()),
        ("\"{{ printf \"%.3s|%s\" .Prompt \"x\" }}\"", format!("{}|x", &prompt[..3])),
        ("{{ len .Prompt }}", prompt.len().to_string()),
        ("{{ if eq .Prompt \"no\" }}no{{ else }}yes{{ end }}", "yes".to_owned()),
        (
            "{{ html .Prompt }}",
            prompt.replace('<', "&lt;").replace('>', "&gt;").replace('"', "&#34;").replace('\'', "&#39;"),
        ),
    ] {
        let line = format!("printf '%s\\0' {argument}");
        let frame = Frame::new(&line, &[], prompt);
        let output = Command::new("bash").args(["-c", &frame.unwrap().fill()]).env(VARIABLE, prompt).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected + "\0", "{line}");
    }
    let heredoc = "cat <<EOT\n{{ printf \"%q\" .Prompt }}\nEOT\n";
    let line = Frame::new(heredoc, &[], prompt).unwrap().fill();
    let output = Command::new("bash").args(["-c", &line]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{quoted}\n"));
}

struct Server(Mutex<Vec<String>>);

impl AgentCalls for Server {
    fn tools<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Vec<Value>, String>> {
        Box::pin(async { Ok(vec![json!({ "name": "get" }), json!({ "name": "delete" })]) })
    }

    fn call<'a>(
        &'a self,
        server: &'a str,
        kind: CallKind,
        name: &'a str,
        args: Value,
    ) -> BoxFuture<'a, Result<Value, String>> {
        self.0.lock().unwrap().push(format!("{server} {} {name} {args}", kind.name()));
        let n = self.0.lock().unwrap().len();
        let lost = server == "lost";
        Box::pin(async move { if lost { Err("it is lost".to_owned()) } else { Ok(json!({ "content": n })) } })
    }
}

struct Turn {
    server: Server,
    servers: Vec<AgentServer>,
    timeout: Duration,
    prompt: &'static str,
}

impl Turn {
    fn new(prompt: &'static str) -> Self {
        let server = AgentServer {
            name: "kube".to_owned(),
            url: "http://127.0.0.1:9/mcp".to_owned(),
            allowed: vec!["get".to_owned(), "list".to_owned()],
            titles: Vec::new(),
            enable_all_tools: false,
        };
        Self { server: Server(Mutex::default()), servers: vec![server], timeout: Duration::from_secs(10), prompt }
    }

    async fn go(&self, host: &dyn Host, kind: &AgentKind) -> AgentDone {
        // `§` in a text stands for the results so far.
        let fill = |arg: &Arg<Def>, calls: &Value| match &arg.kind {
            ArgKind::Text(text) => Ok(json!(text.as_literal().unwrap().replace('§', &calls.to_string()))),
            _ => Err("no text".to_owned()),
        };
        let cx = AgentContext {
            host,
            prompt: self.prompt,
            task: "t",
            run: 0,
            dir: Path::new("/"),
            servers: &self.servers,
            skills: None,
            timeout: self.timeout,
            cancel: &CancellationToken::new(),
            fill: &fill,
            used: &|_| {},
            calls: &self.server,
            jail: None,
        };
        agent::run(kind, cx).await
    }
}

fn span() -> Span {
    Span { file: Sources::default().add("x", ""), start: 0, end: 0 }
}

fn name(text: &str) -> Spanned<String> {
    Spanned { value: text.to_owned(), span: span() }
}

fn call(server: &str, tool: &str, arg: &str) -> OracleCall<Def> {
    OracleCall {
        span: span(),
        kind: CallKind::Tool,
        server: name(server),
        name: Template { parts: vec![Part::Text(tool.to_owned())], span: span(), suspects: Vec::new() },
        args: vec![(name("a"), Arg::text(arg, span()))],
    }
}

#[tokio::test]
async fn the_scripted_agent() {
    let (host, turn) = (FakeHost::new(), Turn::new("p"));
    let output = Some(Template::literal("said §", span()));
    let calls = vec![call("kube", "get", "x"), call("kube", "list", "§")];
    let script = |calls| AgentKind::Script { calls, output: output.clone(), entry: true };
    let done = turn.go(&host, &script(calls)).await;
    assert_eq!((done.result, done.exit_code), (Ok(()), 0));
    let answer = |n| format!(r#"{{"content":{n},"isError":false,"structuredContent":null}}"#);
    assert_eq!(done.output, format!("said [{},{}]", answer(1), answer(2)));
    assert!(done.transcript.contains("get on kube") && done.transcript.ends_with(&done.output));
    let seen = turn.server.0.lock().unwrap().clone();
    let first = json!(format!("[{}]", answer(1)));
    assert_eq!(seen, [r#"kube tool get {"a":"x"}"#.to_owned(), format!(r#"kube tool list {{"a":{first}}}"#)]);

    let done = turn.go(&host, &script(vec![call("lost", "get", "x")])).await;
    assert_eq!(done.result, Err(AgentFault::Failed("call 0 of the oracle: it is lost".to_owned())));
    let none = AgentKind::Script { calls: Vec::new(), output: None, entry: false };
    assert!(matches!(turn.go(&host, &none).await.result, Err(AgentFault::Failed(why)) if why.contains("`t`")));
    assert_eq!(turn.go(&host, &AgentKind::Noop).await.result, Ok(()));
    assert!(matches!(turn.go(&host, &AgentKind::Unspecified).await.result, Err(AgentFault::NotStarted(_))));
}

fn shell(run_prompt: &str) -> AgentKind {
    AgentKind::Shell(ShellAgent {
        span: span(),
        mcp_server_arg: Some(name("--mcp {{ .File }}")),
        allowed_tool_arg: Some(name("mcp__{{ .ServerName }}__{{ .ToolName }}")),
        allowed_tools_separator: Some(name(",")),
        run_prompt: Some(name(run_prompt)),
        use_virtual_home: None,
        get_version: None,
    })
}

#[tokio::test]
async fn the_shell_agent() {
    let mut turn = Turn::new("it's $HOME");
    let kind = shell(
        "say() { stat -c %a \"$2\"; cat \"$2\"; echo \"$3 $GEVALS_PROMPT\" >&2; printf %s \"$4\"; }\n\
         say {{ .McpServerFileArgs }} '{{ .AllowedToolArgs }}' {{ .Prompt }}",
    );
    let done = turn.go(&*HOST, &kind).await;
    assert_eq!((done.result, done.exit_code), (Ok(()), 0), "{}", done.output);
    let config = "600\n{\n  \"mcpServers\": {\n    \"kube\": {\n      \"type\": \"http\",\n      \
                  \"url\": \"http://127.0.0.1:9/mcp\",\n      \"enableAllTools\": false\n    }\n  }\n}\n";
    assert_eq!(done.output, format!("{config}mcp__kube__get,mcp__kube__list it's $HOME\nit's $HOME"));

    let done = turn.go(&*HOST, &shell("echo {{ .Prompt }} > said; pwd; exit 3")).await;
    let Err(AgentFault::Failed(why)) = done.result else { panic!("{done:?}") };
    assert!(why.contains("status 3") && done.exit_code == 3);
    assert_eq!(std::fs::read_to_string(Path::new(&done.output).join("said")).unwrap(), "it's $HOME\n");
    HOST.remove(Path::new(&done.output)).unwrap();
    let done = turn.go(&*HOST, &shell("pwd")).await;
    assert!(done.result.is_ok() && !Path::new(&done.output).exists());

    turn.timeout = Duration::from_millis(200);
    assert_eq!(turn.go(&*HOST, &shell("sleep 60")).await.result, Err(AgentFault::TimedOut(turn.timeout)));

    for (kind, why) in [
        (shell("a $(b {{ .Prompt }})"), "`$(…)`"),
        (shell("a {{ .Tools }}"), "`Tools`"),
        (shell(" "), "no `runPrompt`"),
    ] {
        assert!(matches!(turn.go(&*HOST, &kind).await.result, Err(AgentFault::NotStarted(w)) if w.contains(why)));
    }
    turn.servers[0].allowed.push("x; rm -rf ~".to_owned());
    assert!(matches!(turn.go(&*HOST, &kind).await.result, Err(AgentFault::NotStarted(w)) if w.contains("tool name")));
    turn.servers[0].allowed.pop();
    let server = turn.servers[0].clone();
    turn.servers.push(AgentServer { name: "other".to_owned(), url: "http://127.0.0.1:8/mcp".to_owned(), ..server });
    // One file lists both; a template with a URL is filled in for each.
    let done = turn.go(&*HOST, &shell("cat $(echo {{ .McpServerFileArgs }} | cut -d' ' -f2); : {{ .Prompt }}")).await;
    let config: Value = serde_json::from_str(&done.output).unwrap();
    assert_eq!(config["mcpServers"].as_object().unwrap().keys().collect::<Vec<_>>(), ["kube", "other"]);
    let AgentKind::Shell(agent) = shell("echo {{ .McpServerFileArgs }}; : {{ .Prompt }}") else { panic!() };
    let agent = ShellAgent { mcp_server_arg: Some(name("--url {{ .URL }} ")), ..agent };
    let done = turn.go(&*HOST, &AgentKind::Shell(agent)).await;
    assert_eq!(done.output, "--url http://127.0.0.1:9/mcp --url http://127.0.0.1:8/mcp");
}

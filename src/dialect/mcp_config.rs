//! MCP-config files (§4.1 of the upstream behaviour; `decisions.md` §2 for `${VAR}`).

use super::command;
use crate::{
    decode::{Leniency, Partial, Reader, key, quote},
    diagnostic::{Diagnostic, Diagnostics, Strength, nearest},
    hir::{Expand, ExpandPart, McpConfig, Server, Transport},
    rule,
    source::FileId,
    yaml::{Data, Entry, Node},
};

rule! {
    pub static INVALID_SERVER = "invalid-server", Hard;
}

/// Decodes an MCP-config file.
pub fn decode(root: Node<'_>, file: FileId, dir: &std::path::Path, out: &mut Diagnostics) -> Partial<McpConfig> {
    let mut reader = Reader::new(out, Leniency::Config);
    let mut config = McpConfig { file, dir: dir.to_owned(), servers: Vec::new() };
    if let Some(mut fields) = reader.fields(root, "an MCP config") {
        let help = "add `mcpServers: {NAME: {command: …}}`, or use `url`";
        let servers = fields.require_entry(&mut reader, "mcpServers", root.span(), Some(help)).map(|e| e.value);
        fields.finish(&mut reader);
        match servers {
            Some(node) if matches!(node.data(), Data::Map) => {
                config.servers = node.entries().filter_map(|e| server(&mut reader, e)).collect();
                if node.entries().next().is_none() {
                    reader.error(
                        Diagnostic::new(&INVALID_SERVER, node.span(), "no servers are configured")
                            .help("add `NAME: {command: …}` or `NAME: {url: …}`"),
                    );
                }
            }
            Some(node) => reader.wrong_type(node, "a mapping from a name to a server", "`mcpServers`"),
            None => {}
        }
    }
    reader.finish(config)
}

fn server(reader: &mut Reader<'_>, entry: Entry<'_>) -> Option<Server> {
    let node = entry.value;
    if matches!(node.data(), Data::Null) {
        reader.error(
            Diagnostic::new(
                &INVALID_SERVER,
                entry.key.span(),
                format!("the server `{}` has no configuration", entry.name),
            )
            .help("add `command:` for a program, or `url:` for a streamable HTTP server"),
        );
        return None;
    }
    let mut fields = reader.fields(node, "a server")?;
    let kind = fields.take(reader, "type");
    let command = fields.take_entry(reader, "command");
    let args = fields.take_entry(reader, "args");
    let env = fields.take_entry(reader, "env");
    let url = fields.take(reader, "url");
    let headers = fields.take_entry(reader, "headers");
    let disabled = fields.take(reader, "disabled").and_then(|n| reader.bool(n, "`disabled`"));
    let allowed = fields.take(reader, "alwaysAllow").map(|n| reader.words(n, "`alwaysAllow`")).unwrap_or_default();
    let all = fields.take(reader, "enableAllTools").and_then(|n| reader.bool(n, "`enableAllTools`"));
    let nameless = command.is_none() && url.is_none() && fields.misspells(["command", "url"]);
    fields.finish(reader);
    if nameless {
        return None;
    }
    let http = match kind {
        None => url.is_some(),
        Some(n) => match reader.string(n, "the type of a server")?.value.as_str() {
            "http" | "streamable-http" | "streamableHttp" => true,
            "stdio" => false,
            other => {
                let mut diagnostic =
                    Diagnostic::new(&INVALID_SERVER, n.span(), format!("unknown server type `{other}`")).help(
                        "expected `stdio` or `http` (streamable HTTP; the older `sse` transport is not supported)",
                    );
                if let Some(near) = nearest(other, ["stdio", "http"]) {
                    diagnostic = diagnostic.fix(format!("write `{near}`"), n.span(), near);
                }
                reader.error(diagnostic);
                return None;
            }
        },
    };
    let expand = |reader: &mut Reader<'_>, n: Node<'_>, what: &str| {
        let text = reader.string(n, what)?;
        Some(expand(reader, n, &text.value))
    };
    let pairs = |reader: &mut Reader<'_>, e: Option<Entry<'_>>, what: &'static str| {
        let Some(e) = e else { return Vec::new() };
        if !matches!(e.value.data(), Data::Map) {
            reader.wrong_type(e.value, "a mapping", what);
            return Vec::new();
        }
        reader
            .present(e.value)
            .into_iter()
            .filter_map(|e| Some((key(e), expand(reader, e.value, &format!("`{}`", e.name))?)))
            .collect()
    };
    let missing = |reader: &mut Reader<'_>, what: &str| {
        reader.error(
            Diagnostic::new(&INVALID_SERVER, entry.key.span(), format!("the server `{}` has no `{what}`", entry.name))
                .help("add `command:` for a program, or `url:` for a streamable HTTP server"),
        );
    };
    let unused = |reader: &mut Reader<'_>, span, what: &str, other: &str| {
        reader.out.push(
            Diagnostic::new(
                &crate::decode::UNKNOWN_FIELD,
                span,
                format!("`{what}` has no effect on a server with `{other}`"),
            )
            .help("remove it"),
        );
    };
    let transport = if http {
        let Some(url) = url else {
            missing(reader, "url");
            return None;
        };
        for (e, name) in [(args, "args"), (env, "env")] {
            if let Some(e) = e {
                unused(reader, e.key.span(), name, "url");
            }
        }
        if let Some(c) = command {
            unused(reader, c.value.span(), "command", "url");
        }
        headers.iter().flat_map(|e| e.value.entries()).for_each(|e| unfilled(reader, e.value));
        let headers = pairs(reader, headers, "`headers`");
        let text = expand(reader, url, "`url`")?;
        address(reader, url, &text);
        Transport::Http { url: text, headers }
    } else {
        let Some(command) = command else {
            missing(reader, "command");
            return None;
        };
        if let Some(e) = headers {
            unused(reader, e.key.span(), "headers", "command");
        }
        command::one_word(reader, command, node, args.map(|e| e.value));
        let list = args.map(|e| e.value);
        let args = list.map(|list| reader.arguments(list)).unwrap_or_default();
        unexpanded(reader, command.value, &args);
        if let Some(list) = list {
            command::arguments(reader, command.value.as_str().unwrap_or_default(), list, &args);
            command::container(reader, command, &args, env);
        }
        Transport::Stdio {
            command: expand(reader, command.value, "`command`")?,
            args: args.into_iter().filter_map(|n| expand(reader, n, "an argument")).collect(),
            env: pairs(reader, env, "`env`"),
        }
    };
    Some(Server {
        name: key(entry),
        transport,
        disabled: disabled.is_some_and(|b| b.value),
        always_allow: allowed,
        enable_all_tools: all,
    })
}

/// Checks the URL of a server, which is reached over HTTP.
fn address(reader: &mut Reader<'_>, node: Node<'_>, url: &Expand) {
    // The value of a variable is not known.
    let Some(ExpandPart::Text(text)) = url.parts.first() else { return };
    let begins = |scheme: &str| text.get(..scheme.len()).is_some_and(|head| head.eq_ignore_ascii_case(scheme));
    if begins("http://") || begins("https://") || url.has_variables() && !text.contains([':', '/', '.']) {
        return;
    }
    let whole = url.display();
    let diagnostic =
        Diagnostic::new(&INVALID_SERVER, node.span(), format!("`{whole}` is not the URL of an HTTP server"));
    let local = ["localhost", "127.", "[::1]", "0.0.0.0"].iter().any(|host| text.starts_with(host));
    reader.error(match text.contains("://") {
        true => diagnostic.help("it must start with `http://` or `https://`"),
        false if local => {
            let written = format!("http://{whole}");
            diagnostic.help(format!("write `{written}`")).fix("add the scheme", node.span(), written)
        }
        false => diagnostic.help(format!("add the scheme: `https://{whole}`")),
    });
}

/// Reports `Bearer $TOKEN` and `Bearer {env.TOKEN}`: only `${TOKEN}` is filled.
fn unfilled(reader: &mut Reader<'_>, header: Node<'_>) {
    let Some(text) = header.as_str() else { return };
    let dollars = text.split_whitespace().filter_map(|word| Some((word.to_owned(), word.strip_prefix('$')?)));
    let hole = |word: &'_ str| word.strip_prefix("{env.").and_then(|rest| rest.strip_suffix('}')).map(str::to_owned);
    let holes: Vec<_> = text.split_whitespace().filter_map(|word| Some((word.to_owned(), hole(word)?))).collect();
    let holes = holes.iter().map(|(word, name)| (word.clone(), name.as_str()));
    for (bare, name) in dollars.chain(holes).filter(|(_, name)| is_variable(name)) {
        let braced = format!("${{{name}}}");
        let start = text.find(&bare).unwrap_or_default();
        // Inside a flow collection, braces require quotes.
        let (place, written) = match header.is_plain() {
            true => (header.span(), quote(&text.replace(&bare, &braced))),
            false => (header.cooked(start..start + bare.len()), braced.clone()),
        };
        let message = format!("`{bare}` is sent literally: it is not expanded");
        reader.out.push(
            Diagnostic::new(&INVALID_SERVER, header.span(), message)
                .strength(Strength::Warning)
                .help(format!("write `{braced}`"))
                .fix(format!("write `{braced}`"), place, written),
        );
    }
}

/// Reports `$HOME/notes` in an argument and `~/bin/server` as a program, because no shell expands them. `$HOME` is not reported if
/// the program or one of the arguments may be a shell or a text for one. `~` in arguments is allowed, because many programs expand
/// it themselves.
fn unexpanded(reader: &mut Reader<'_>, command: Node<'_>, args: &[Node<'_>]) {
    const SHELLS: [&str; 9] = ["sh", "bash", "zsh", "dash", "ash", "fish", "ksh", "ssh", "eval"];
    let is_shell = |node: &Node<'_>| {
        let text = node.as_str().unwrap_or_default();
        let name = text.rsplit('/').next().unwrap_or(text);
        SHELLS.contains(&name) || matches!(text, "-c" | "--call" | "-lc" | "-ic") || text.contains(char::is_whitespace)
    };
    if command.as_str().is_some_and(|text| text.starts_with("~/")) {
        literal(reader, command, "~", "${HOME}", 0);
    }
    if is_shell(&command) || args.iter().any(is_shell) {
        return;
    }
    for node in std::iter::once(&command).chain(args) {
        let Some(text) = node.as_str() else { continue };
        for (at, bare) in text.match_indices("$HOME") {
            let ends = text[at + bare.len()..].chars().next().is_none_or(|c| matches!(c, '/' | ':' | ','));
            let begins = text[..at].chars().next_back().is_none_or(|c| matches!(c, '=' | ':' | ','));
            if begins && ends {
                literal(reader, *node, bare, "${HOME}", at);
            }
        }
    }
}

fn literal(reader: &mut Reader<'_>, node: Node<'_>, bare: &str, written: &str, at: usize) {
    let text = node.as_str().unwrap_or_default();
    let (place, new) = match node.is_plain() {
        true => (node.span(), quote(&format!("{}{written}{}", &text[..at], &text[at + bare.len()..]))),
        false => (node.cooked(at..at + bare.len()), written.to_owned()),
    };
    reader.out.push(
        Diagnostic::new(&INVALID_SERVER, node.span(), format!("`{bare}` is not expanded: no shell runs this command"))
            .strength(Strength::Warning)
            .help(format!("write `{written}`"))
            .fix(format!("write `{written}`"), place, new),
    );
}

fn is_variable(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
}

/// Finds `${VAR}` and `${VAR:-default}`. Anything else is plain text.
fn expand(reader: &mut Reader<'_>, node: Node<'_>, text: &str) -> Expand {
    let mut parts = Vec::new();
    let mut literal = String::new();
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        if rest.starts_with("${") {
            let inner = rest.find('}').map(|end| &rest[2..end]);
            let parsed = inner.and_then(|inner| {
                let (name, default) = match inner.split_once(":-") {
                    Some((name, default)) => (name, Some(default.to_owned())),
                    None => (inner, None),
                };
                let fits = !name.is_empty()
                    && !name.starts_with(|c: char| c.is_ascii_digit())
                    && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
                fits.then(|| (inner.len() + 3, name.to_owned(), default))
            });
            match parsed {
                Some((width, name, default)) => {
                    if !literal.is_empty() {
                        parts.push(ExpandPart::Text(std::mem::take(&mut literal)));
                    }
                    parts.push(ExpandPart::Var { name, default });
                    at += width;
                    continue;
                }
                None => reader.error(
                    Diagnostic::new(
                        &INVALID_SERVER,
                        node.cooked(at..at + 2),
                        "`${` starts a variable, but its name is invalid",
                    )
                    .help("write `${NAME}` or `${NAME:-default}`"),
                ),
            }
        }
        let width = rest.chars().next().map_or(1, char::len_utf8);
        literal.push_str(&rest[..width]);
        at += width;
    }
    if !literal.is_empty() {
        parts.push(ExpandPart::Text(literal));
    }
    Expand { span: node.span(), parts }
}

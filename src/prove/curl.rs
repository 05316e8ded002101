//! `curl` in the jail: a request that goes to no network, and the world's answer. It parses options itself, independently of the
//! lifter.
#![expect(clippy::disallowed_methods, reason = "this is a program of its own")]

use std::{fs, io::Write};

use super::{
    trace::record,
    world::{Answer, BREAKS_OFF, Call, Dice, Given, Mood, Time, World, hang},
};

/// The name of a request in the trace.
pub const REQUEST: &str = "http";

/// Records a request in the trace and returns the status and text of its answer. Without a status there was no answer, or a part of it.
pub fn ask(
    world: &World,
    method: &str,
    url: &str,
    headers: &[(String, String)],
    body: Option<&str>,
) -> (Option<u16>, String) {
    let call = Call { argv: words(method, url, headers), stdin: body.map(str::to_owned) };
    answered(world, &call, record(&call))
}

fn words(method: &str, url: &str, headers: &[(String, String)]) -> Vec<String> {
    let mut headers: Vec<String> = headers.iter().map(|(n, v)| format!("{}: {v}", n.to_ascii_lowercase())).collect();
    headers.sort();
    vec![REQUEST.to_owned(), method.to_owned(), url.to_owned(), headers.join("; ")]
}

/// The request of a `curl` command line that prints the answer, in the words of a trace.
pub fn request(argv: &[String]) -> Option<Vec<String>> {
    let asked = Asked::read(argv);
    let prints = asked.output.is_none() && asked.write_out.is_none() && asked.body.is_none();
    (argv.first().is_some_and(|name| name == "curl") && prints)
        .then(|| words(&asked.method, &asked.url, &asked.headers))
}

/// The answer to a request: its status and text. An answer that breaks off has a text and no status.
pub fn answered(world: &World, call: &Call, time: Time) -> (Option<u16>, String) {
    let Answer { status, stdout, .. } = world.answer(call, time);
    // Status codes that scripts ask for, and some that no script asks for.
    let known = world.words.iter().filter_map(|w| w.parse::<u16>().ok()).filter(|c| (100..600).contains(c));
    let codes: Vec<u16> = known.chain([200, 200, 201, 400, 404, 500]).collect();
    let mut dice = Dice::new(world.seed, &call.key());
    let chance = if world.mood == Mood::Good { 100 } else { 60 };
    let breaks_off = status == BREAKS_OFF;
    let silent = world.mood == Mood::Silent || world.gives(call, time).is_some() && !breaks_off;
    if let Some(web) = call.argv.get(2).and_then(|url| world.web(url))
        && (status == 0 || breaks_off)
        && !silent
        && dice.below(100) < chance
    {
        let one = |dice: &mut Dice, n: usize| dice.below(n.max(1));
        let code = web.statuses.get(one(&mut dice, web.statuses.len())).copied().unwrap_or(200);
        let text = web.bodies.get(one(&mut dice, web.bodies.len())).cloned().unwrap_or(stdout);
        return ((!breaks_off).then_some(code), text);
    }
    match status {
        // If a body is expected, there usually is one.
        0 if world.hints(call, time.half).is_some() && dice.below(5) > 0 => (Some(200), stdout),
        0 => (Some(codes[dice.below(codes.len())]), stdout),
        1 => (Some(503), stdout),
        _ if breaks_off => (None, stdout),
        _ => (None, String::new()),
    }
}

/// Options with a value on which no answer depends, by their letters and by their names.
const VALUED: (&str, &[&str]) = (
    "ACDEFKPQTUYbceryuxz",
    &[
        "--user",
        "--user-agent",
        "--cookie",
        "--cookie-jar",
        "--cacert",
        "--capath",
        "--cert",
        "--key",
        "--cert-type",
        "--key-type",
        "--ciphers",
        "--connect-to",
        "--dump-header",
        "--form",
        "--interface",
        "--limit-rate",
        "--max-redirs",
        "--noproxy",
        "--proxy",
        "--proxy-user",
        "--range",
        "--referer",
        "--resolve",
        "--retry",
        "--retry-delay",
        "--retry-max-time",
        "--stderr",
        "--tls-max",
        "--trace",
        "--unix-socket",
        "--upload-file",
        "--oauth2-bearer",
        "--aws-sigv4",
    ],
);

/// Whether the next word is the value of this option. For a short option this is so if its letter comes last.
fn is_valued(arg: &str) -> bool {
    let (letters, names) = VALUED;
    match arg.strip_prefix('-').filter(|flags| !flags.starts_with('-')) {
        Some(flags) => {
            flags.chars().position(|c| letters.contains(c)).is_some_and(|at| at + 1 == flags.chars().count())
        }
        None => names.contains(&arg),
    }
}

/// What a command line asks for.
struct Asked {
    method: String,
    url: String,
    headers: Vec<(String, String)>,
    body: Option<String>,
    fail: bool,
    output: Option<String>,
    write_out: Option<String>,
}

impl Asked {
    fn read(argv: &[String]) -> Self {
        let mut method = None;
        let mut url = String::new();
        let mut headers: Vec<(String, String)> = Vec::new();
        let mut body: Option<String> = None;
        let (mut fail, mut output, mut write_out) = (false, None, None);
        let mut args = argv.iter().skip(1).cloned();
        while let Some(arg) = args.next() {
            let long = |name: &str, short: char, args: &mut dyn Iterator<Item = String>| -> Option<String> {
                let letters = arg.strip_prefix('-').filter(|a| !a.starts_with('-'));
                match letters {
                    Some(flags) if flags.ends_with(short) => args.next(),
                    _ if arg == name => args.next(),
                    _ => None,
                }
            };
            if let Some(value) = long("--request", 'X', &mut args) {
                method = Some(value);
            } else if let Some(value) = long("--header", 'H', &mut args) {
                if let Some((name, value)) = value.split_once(':') {
                    headers.push((name.to_owned(), value.trim().to_owned()));
                }
            } else if let Some(value) =
                long("--data", 'd', &mut args).or_else(|| if arg == "--data-raw" { args.next() } else { None })
            {
                body = Some(body.map_or_else(|| value.clone(), |before| format!("{before}&{value}")));
            } else if let Some(value) = long("--output", 'o', &mut args) {
                output = Some(value);
            } else if let Some(value) = long("--write-out", 'w', &mut args) {
                write_out = Some(value);
            } else if long("--max-time", 'm', &mut args).is_some() || arg == "--connect-timeout" {
                if arg == "--connect-timeout" {
                    args.next();
                }
            } else if is_valued(&arg) {
                args.next();
            } else if !arg.starts_with('-') {
                url = arg.clone();
            }
            fail |= arg == "--fail" || arg.starts_with('-') && !arg.starts_with("--") && arg.contains('f');
        }
        if body.is_some() && !headers.iter().any(|(n, _)| n.eq_ignore_ascii_case("content-type")) {
            headers.push(("content-type".to_owned(), "application/x-www-form-urlencoded".to_owned()));
        }
        let method = method.unwrap_or_else(|| if body.is_some() { "POST" } else { "GET" }.to_owned());
        Self { method, url, headers, body, fail, output, write_out }
    }
}

/// The exit status for a URL that is none.
const MALFORMED: u8 = 3;

pub fn main(world: &World, call: &Call) -> u8 {
    let Asked { method, url, headers, body, fail, output, write_out } = Asked::read(&call.argv);
    if url.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return MALFORMED;
    }
    let (status, text) = ask(world, &method, &url, &headers, body.as_deref());
    let breaks_off = status.is_none() && !text.is_empty();
    let code = status.unwrap_or(if breaks_off { 200 } else { 0 });
    let bad = fail && code >= 400;
    if code > 0 && !bad {
        match output.as_deref() {
            None => drop(std::io::stdout().write_all(text.as_bytes())),
            Some(path) => drop(fs::write(path, &text)),
        }
    }
    if let Some(format) = write_out {
        let text = format.replace("%{http_code}", &format!("{code:03}")).replace("\\n", "\n");
        let _ = std::io::stdout().write_all(text.as_bytes());
    }
    if status.is_none() && world.given.values().any(|given| *given == Given::Hangs) {
        return hang();
    }
    match (status, bad) {
        (None, _) if breaks_off => u8::try_from(BREAKS_OFF).unwrap_or(1),
        (None, _) => 7,
        (_, true) => 22,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_of_an_option_is_not_a_url() {
        assert!(["-u", "-su", "--user", "--retry", "--resolve"].into_iter().all(is_valued));
        assert!(!["-s", "-uname:word", "--user=a", "http://a", "-sS", "--compressed"].into_iter().any(is_valued));
    }
}

//! The request that a `curl` command sends, according to its words.

use super::value::Value;

/// A request, as far as it is known.
#[derive(Debug)]
pub struct Sent {
    /// In capitals.
    pub method: String,
    pub url: Value,
    pub body: String,
    /// Whether the command fails if the server refuses the request.
    pub fails: bool,
}

/// Options whose value is the next word and does not change what is requested.
const VALUES: [&str; 19] = [
    "-H",
    "--header",
    "-o",
    "--output",
    "-w",
    "--write-out",
    "-u",
    "--user",
    "-m",
    "--max-time",
    "-A",
    "-b",
    "-c",
    "-e",
    "-K",
    "--retry",
    "--connect-timeout",
    "--cacert",
    "-x",
];
const BODIES: [&str; 8] = ["-d", "--data", "--data-raw", "--data-binary", "--data-urlencode", "--json", "-F", "--form"];

/// The request of a command, given as its words. Returns `None` if there is no URL among them.
pub fn sent(words: &[Value]) -> Option<Sent> {
    let (mut method, mut url, mut body, mut gets) = (None, None, String::new(), false);
    let fails = words.iter().filter_map(Value::literal).any(|word| {
        word.starts_with("--fail") || word.starts_with('-') && !word.starts_with("--") && word.contains('f')
    });
    let mut words = words.iter().skip(1);
    while let Some(word) = words.next() {
        let text = word.shown();
        let letters = text.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
        match text.as_str() {
            "-X" | "--request" => method = words.next().map(Value::shown),
            "-T" | "--upload-file" => {
                words.next();
                method = method.or_else(|| Some("PUT".to_owned()));
            }
            "-G" | "--get" => gets = true,
            "-I" | "--head" => method = Some("HEAD".to_owned()),
            option if BODIES.contains(&option) => {
                body.push_str(&words.next()?.shown());
                body.push('\n');
            }
            option if VALUES.contains(&option) => {
                words.next();
            }
            "--url" => url = words.next(),
            // `-fsSX DELETE`.
            _ if letters.is_some_and(|letters| letters.ends_with('X')) => method = words.next().map(Value::shown),
            // `-sXDELETE`.
            _ if letters.is_some_and(|letters| letters.contains('X')) => {
                method = text.split_once('X').map(|(_, method)| method.to_owned());
            }
            option if option.starts_with("--request=") => method = option.split('=').nth(1).map(str::to_owned),
            _ if letters.is_some_and(|letters| letters.ends_with('d')) => body.push_str(&words.next()?.shown()),
            _ if letters.is_some_and(|letters| letters.ends_with(['o', 'w', 'H', 'u'])) => {
                words.next();
            }
            option if option.starts_with('-') => {}
            _ if text.contains('/') => url = url.or(Some(word)),
            _ => {}
        }
    }
    let usual = if body.is_empty() || gets { "GET" } else { "POST" };
    let method = method.unwrap_or_else(|| usual.to_owned()).to_uppercase();
    Some(Sent { method, url: url?.clone(), body, fails })
}

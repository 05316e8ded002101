//! A self-contained HTML page. Its content security policy allows only its own style and script, by their digests, and no
//! requests.
//!
//! Data is embedded as JSON that no browser can interpret as anything else.

use std::fmt::Write;

use base64::{Engine, engine::general_purpose::STANDARD};
use sha2::{Digest, Sha256};

/// The style shared by all pages: colors, boxes and frames.
pub const STYLE: &str = include_str!("page/base.css");

/// The parts of a page. `title` is text; `body` is HTML.
#[derive(Clone, Copy, Debug)]
pub struct Page<'a> {
    pub title: &'a str,
    pub style: &'a str,
    pub body: &'a str,
    pub script: &'a str,
}

impl Page<'_> {
    /// The whole document. The output of `data` is placed before the script.
    pub fn text(&self, size: usize, data: impl FnOnce(&mut String)) -> String {
        let Self { title, style, body, script } = self;
        let digest = |text: &str| STANDARD.encode(Sha256::digest(text.as_bytes()));
        let style = format!("{STYLE}{style}");
        let mut out = String::with_capacity(body.len() + style.len() + script.len() + size + 4096);
        let _ = write!(
            out,
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'sha256-{}'; \
             script-src 'sha256-{}'; base-uri 'none'; form-action 'none'\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n<meta name=\"referrer\" content=\"no-referrer\">\n\
             <title>{}</title>\n<style>{style}</style>\n</head>\n<body>\n{body}\n",
            digest(&style),
            digest(script),
            escaped(title),
        );
        data(&mut out);
        let _ = write!(out, "<script>{script}</script>\n</body>\n</html>\n");
        out
    }
}

/// A data block with this id. Characters with a meaning in HTML are escaped, which JSON allows.
pub fn data(out: &mut String, id: &str, json: &str) {
    let _ = write!(out, "<script type=\"application/json\" id=\"{id}\">");
    let mut plain = 0;
    for (at, byte) in json.bytes().enumerate() {
        let instead = match byte {
            b'<' => "\\u003c",
            b'>' => "\\u003e",
            b'&' => "\\u0026",
            _ => continue,
        };
        out.push_str(&json[plain..at]);
        out.push_str(instead);
        plain = at + 1;
    }
    out.push_str(&json[plain..]);
    out.push_str("</script>\n");
}

/// Escapes text for XML and HTML, including attribute values.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // Not valid characters in XML.
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            c if c.is_control() && c != '\n' && c != '\t' => out.push('\u{fffd}'),
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_and_title_cannot_escape_their_elements() {
        let page = Page { title: "</title><script>alert(1)</script>", style: "", body: "", script: "1" };
        let text = page.text(0, |out| data(out, "d", r#"{"a":"</script><script>alert(2)</script>&"}"#));
        assert_eq!(text.matches("<script").count(), 2, "{text}");
        assert!(
            text.contains(r#"{"a":"\u003c/script\u003e\u003cscript\u003ealert(2)\u003c/script\u003e\u0026"}"#),
            "{text}"
        );
        assert!(text.contains("<title>&lt;/title&gt;&lt;script&gt;"), "{text}");
    }
}

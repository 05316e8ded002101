//! URLs of HTTP endpoints, as an author writes them.

use std::borrow::Cow;

/// Returns what is wrong with the base URL of a model's endpoint, if anything.
pub fn fault(url: &str) -> Option<&'static str> {
    let Some(rest) = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://")) else {
        return Some("it must start with `http://` or `https://`");
    };
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    if authority.contains('@') {
        return Some("it contains a user name or a password; endpoints authenticate with a key");
    }
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if !host.ends_with(':') && !port.ends_with(']') => match port.parse::<u16>() {
            Ok(1..) => host,
            _ => return Some("its port must be a number from 1 to 65535"),
        },
        _ => authority,
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._[]:".contains(c);
    if host.is_empty() {
        Some("it has no host")
    } else if !host.chars().all(plain) {
        Some("it has no host: variables are not expanded here")
    } else if path.contains(|c: char| c.is_whitespace() || "${}<>\"".contains(c)) {
        Some("its path contains invalid characters: variables are not expanded here")
    } else if path.contains(['?', '#']) {
        Some("it has a query or a fragment, but paths are appended to it")
    } else {
        None
    }
}

/// Returns the user before the host, including a password.
pub fn user(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    let authority = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
    authority.rsplit_once('@').map(|(user, _)| user)
}

/// Returns the URL without the user.
pub fn without_user(url: &str) -> Cow<'_, str> {
    match user(url) {
        Some(user) => Cow::Owned(url.replacen(&format!("{user}@"), "", 1)),
        None => Cow::Borrowed(url),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_an_http_url_without_credentials() {
        for good in [
            "http://localhost:8000/v1",
            "https://api.openai.com",
            "http://127.0.0.1:1/v1/",
            "http://[::1]:80/v1",
            "http://[::1]",
        ] {
            assert_eq!(fault(good), None, "{good}");
        }
        for (bad, why) in [
            ("localhost:8000", "must start"),
            ("127.0.0.1:1/v1", "must start"),
            ("${LB}/v1", "must start"),
            ("ftp://x/v1", "must start"),
            ("http://", "no host"),
            ("http:///v1", "no host"),
            ("http://${LB}/v1", "variables"),
            ("http://x/${LB}", "variables"),
            ("http://x/v1?api-version=1", "query"),
            ("http://x?", "query"),
            ("http://x/v1#a", "fragment"),
            ("http://x:0/v1", "port"),
            ("http://x:y/v1", "port"),
            ("http://user:secret@x/v1", "user"),
        ] {
            assert!(fault(bad).is_some_and(|found| found.contains(why)), "{bad}: {:?}", fault(bad));
        }
        assert_eq!(user("http://user:secret@x/v1"), Some("user:secret"));
        assert_eq!(user("http://x/a@b"), None);
        assert_eq!(without_user("http://user:secret@x/v1"), "http://x/v1");
        assert_eq!(without_user("http://@x/a@b"), "http://x/a@b");
    }
}

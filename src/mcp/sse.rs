//! Reads and writes server-sent events.

use std::{fmt::Display, time::Duration};

use tokio_util::bytes::Bytes;

use super::message;

/// Formats an event. A line feed in a message is white space and is restored as the break between two data lines; a
/// carriage return would not be.
pub(super) fn event(id: Option<&dyn Display>, message: &Bytes) -> Bytes {
    let plain = if message.contains(&b'\r') { message::single_line(message.clone()) } else { message.clone() };
    let mut event = Vec::with_capacity(plain.len() + 48);
    if let Some(id) = id {
        event.extend_from_slice(format!("id: {id}\n").as_bytes());
    }
    event.extend_from_slice(b"event: message\n");
    for line in plain.split(|byte| *byte == b'\n') {
        event.extend_from_slice(b"data: ");
        event.extend_from_slice(line);
        event.push(b'\n');
    }
    event.push(b'\n');
    event.into()
}

/// The first event of a resumable stream: an id, and when to reconnect.
pub(super) fn beginning(id: &dyn Display, retry: Duration) -> Bytes {
    format!("id: {id}\nretry: {}\ndata: \n\n", retry.as_millis()).into()
}

/// A parser of server-sent events, fed in pieces.
#[derive(Default)]
pub(super) struct Events {
    line: Vec<u8>,
    /// The last byte was a carriage return, so a following line feed does not end a line.
    after_return: bool,
    data: Option<Vec<u8>>,
    id: Option<String>,
    retry: Option<Duration>,
}

pub(super) struct Event {
    pub data: Vec<u8>,
    pub id: Option<String>,
    pub retry: Option<Duration>,
}

impl Events {
    pub fn feed(&mut self, chunk: &[u8]) -> Vec<Event> {
        let mut events = Vec::new();
        let mut rest = chunk;
        while !rest.is_empty() {
            if std::mem::take(&mut self.after_return) && rest[0] == b'\n' {
                rest = &rest[1..];
                continue;
            }
            let Some(end) = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) else {
                self.line.extend_from_slice(rest);
                break;
            };
            self.line.extend_from_slice(&rest[..end]);
            self.after_return = rest[end] == b'\r';
            rest = &rest[end + 1..];
            let line = std::mem::take(&mut self.line);
            events.extend(self.line(&line));
        }
        events
    }

    pub fn size(&self) -> usize {
        self.line.len() + self.data.as_ref().map_or(0, Vec::len)
    }

    fn line(&mut self, line: &[u8]) -> Option<Event> {
        if line.is_empty() {
            let (data, id, retry) = (self.data.take(), self.id.take(), self.retry.take());
            return (data.is_some() || id.is_some() || retry.is_some()).then(|| Event {
                data: data.unwrap_or_default(),
                id,
                retry,
            });
        }
        let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
        let value = line.get(colon + 1..).unwrap_or_default();
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match &line[..colon] {
            b"data" => match &mut self.data {
                Some(data) => {
                    data.push(b'\n');
                    data.extend_from_slice(value);
                }
                None => self.data = Some(value.to_vec()),
            },
            b"id" => self.id = String::from_utf8(value.to_vec()).ok().filter(|id| !id.contains('\0')),
            b"retry" => {
                self.retry = str::from_utf8(value).ok().and_then(|text| text.parse().ok()).map(Duration::from_millis);
            }
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_do_not_depend_on_chunk_boundaries() {
        let text =
            "\u{feff}: hello\n\ndata: a\ndata:b\r\nid: 7\r\n\r\nretry: 20\nid\n\nevent: x\rdata: c\r\rdata: unfinished";
        let all = |size: usize| {
            let mut parser = Events::default();
            text.as_bytes()
                .chunks(size)
                .flat_map(|chunk| parser.feed(chunk))
                .map(|event| (String::from_utf8(event.data).unwrap(), event.id, event.retry))
                .collect::<Vec<_>>()
        };
        let expected = [
            ("a\nb".to_owned(), Some("7".to_owned()), None),
            (String::new(), Some(String::new()), Some(Duration::from_millis(20))),
            ("c".to_owned(), None, None),
        ];
        for size in 1..text.len() {
            assert_eq!(all(size), expected);
        }
    }
}

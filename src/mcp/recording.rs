//! The recording of a run: all messages between agents or gevals and servers, as JSON lines.
//!
//! It is written as messages arrive, through one small buffer, so that a run of any length needs no more memory for it.
//! Secrets are masked. A reader skips line types that it does not know, and refuses an unknown version.

use std::{
    borrow::Cow,
    fmt,
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, value::RawValue};

use super::relay::{Direction, Tap, Traffic};
use crate::{
    builtin::count,
    event::{
        TaskRun,
        recording::{Line, Way},
    },
    secrets::Secrets,
};

/// The maximum sizes of a recording and of a message in it, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordingBounds {
    /// A longer message is omitted; its length is recorded.
    pub message: usize,
    /// A line that would make the file larger than this is omitted, as is everything after it.
    pub file: u64,
}

impl Default for RecordingBounds {
    fn default() -> Self {
        Self { message: 8 << 20, file: 1 << 30 }
    }
}

/// A recording that is being written.
pub struct Recording {
    file: Mutex<Written>,
    bounds: RecordingBounds,
    secrets: Box<dyn Fn() -> Arc<Secrets> + Send + Sync>,
}

struct Written {
    file: BufWriter<File>,
    failure: Option<String>,
    bytes: u64,
    /// How many messages were too long.
    cut: usize,
    /// The limit was reached; nothing more is recorded.
    full: bool,
}

impl fmt::Debug for Recording {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Recording")
    }
}

impl Recording {
    /// Starts or continues a recording; `first` is the first line of a new one. `secrets` is called for every line,
    /// because secrets are added during the run.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn open(
        path: &Path,
        first: &Line,
        bounds: RecordingBounds,
        secrets: impl Fn() -> Arc<Secrets> + Send + Sync + 'static,
    ) -> io::Result<Arc<Self>> {
        use std::os::unix::fs::OpenOptionsExt;
        let file = fs::OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
        let bytes = file.metadata()?.len();
        let file = BufWriter::with_capacity(64 << 10, file);
        let file = Mutex::new(Written { file, failure: None, bytes, cut: 0, full: false });
        let recording = Self { file, bounds, secrets: Box::new(secrets) };
        if bytes == 0 {
            recording.say(first);
        }
        Ok(Arc::new(recording))
    }

    /// Writes a line that is not a message.
    pub fn say(&self, line: &Line) {
        let text = serde_json::to_string(line).unwrap_or_default();
        let masked = match (self.secrets)().mask(&text) {
            Cow::Borrowed(_) => None,
            Cow::Owned(masked) => Some(masked),
        };
        self.write(&[masked.unwrap_or(text).as_bytes()]);
    }

    /// A tap that records the messages of a hub.
    pub fn tap(self: &Arc<Self>) -> Tap {
        let recording = Arc::clone(self);
        Arc::new(move |traffic: Traffic<'_>| recording.message(&traffic))
    }

    fn message(&self, traffic: &Traffic<'_>) {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Head<'a> {
            r#type: &'a str,
            at: Timestamp,
            #[serde(skip_serializing_if = "Option::is_none")]
            task: Option<&'a TaskRun>,
            server: &'a str,
            session: u64,
            direction: Way,
        }
        let head = Head {
            r#type: "message",
            at: Timestamp::now(),
            task: traffic.agent.and_then(|recorder| recorder.task()),
            server: traffic.server,
            session: traffic.session,
            direction: match traffic.direction {
                Direction::ToServer => Way::ToServer,
                Direction::FromServer => Way::FromServer,
            },
        };
        let mut head = serde_json::to_vec(&head).unwrap_or_default();
        head.pop();
        if traffic.message.len() > self.bounds.message {
            let length = traffic.message.len().to_string();
            self.write(&[&head, b",\"message\":null,\"cut\":", length.as_bytes(), b"}"]);
            self.file.lock().unwrap_or_else(PoisonError::into_inner).cut += 1;
            return;
        }
        let message = self.masked(traffic.message);
        self.write(&[&head, b",\"message\":", &message, b"}"]);
    }

    /// The message as one line of JSON, even if it is not JSON itself.
    fn masked<'m>(&self, message: &'m [u8]) -> Cow<'m, [u8]> {
        let text = String::from_utf8_lossy(message);
        let is_json = |text: &str| serde_json::from_str::<&RawValue>(text).is_ok();
        let secrets = (self.secrets)();
        let is_secret = || {
            // Escaped secrets are visible only after decoding.
            let read = || serde_json::from_str::<Value>(&text).ok();
            let differs = |value: Value| {
                let mut masked = value.clone();
                secrets.mask_json(&mut masked);
                masked != value
            };
            matches!(secrets.mask(&text), Cow::Owned(_)) || text.contains('\\') && read().is_some_and(differs)
        };
        if !is_secret() {
            return match is_json(&text) {
                true if message.contains(&b'\n') => {
                    // These are between tokens: strings contain no raw line feeds.
                    Cow::Owned(message.iter().map(|b| if *b == b'\n' { b' ' } else { *b }).collect())
                }
                true => Cow::Borrowed(message),
                false => Cow::Owned(Value::from(text).to_string().into_bytes()),
            };
        }
        // Masking a number in the text would leave invalid JSON, so the values are masked one by one.
        let mut value = serde_json::from_str(&text).unwrap_or_else(|_| Value::from(text.as_ref()));
        secrets.mask_json(&mut value);
        Cow::Owned(value.to_string().into_bytes())
    }

    fn write(&self, parts: &[&[u8]]) {
        let mut written = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if written.failure.is_some() || written.full {
            return;
        }
        let length = parts.iter().map(|part| part.len() as u64).sum::<u64>() + 1;
        let last;
        let parts = if written.bytes + length > self.bounds.file {
            written.full = true;
            last = serde_json::to_vec(&Line::Cut { at: Timestamp::now() }).unwrap_or_default();
            &[last.as_slice()]
        } else {
            parts
        };
        written.bytes += length;
        let done = parts.iter().chain([&b"\n".as_slice()]).try_for_each(|part| written.file.write_all(part));
        if let Err(error) = done {
            written.failure = Some(error.to_string());
        }
    }

    /// Describes, for people, what was not recorded and because of which limit.
    pub fn cuts(&self) -> Vec<String> {
        let written = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let long = (written.cut > 0).then(|| {
            let (cut, most) = (count(written.cut, "message is", "messages are"), self.bounds.message >> 20);
            format!(
                "{cut} not in the recording, being longer than {most} MiB; `--max-recorded` says how long they may be"
            )
        });
        let full = written.full.then(|| {
            let most = self.bounds.file >> 20;
            format!("the recording ends before the run, at {most} MiB; `--max-recording` says how large it may be")
        });
        long.into_iter().chain(full).collect()
    }

    /// Passes the contents of the buffer to the operating system.
    ///
    /// # Errors
    /// The reason why the recording is not complete.
    pub fn flush(&self) -> Result<(), String> {
        let mut written = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        match &written.failure {
            Some(why) => Err(why.clone()),
            None => written.file.flush().map_err(|error| {
                let why = error.to_string();
                written.failure = Some(why.clone());
                why
            }),
        }
    }
}

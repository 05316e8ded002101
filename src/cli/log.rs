//! Prints the output of commands. If a CI runner reads it, no line is a command to the runner except our own
//! annotations.

use std::{
    borrow::Cow,
    io::{self, Write},
};

use crate::{ci, secrets::Secrets};

/// Standard output or standard error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stream {
    Out,
    Err,
}

/// Whether a CI runner reads this stream. It does not if the stream goes to a file.
fn is_log(stream: Stream) -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty() && value != "false");
    ci::VARIABLES.iter().any(|name| is_set(name)) && !is_file(stream)
}

#[cfg(unix)]
fn is_file(stream: Stream) -> bool {
    use std::os::fd::AsFd;
    let descriptor = match stream {
        Stream::Out => io::stdout().as_fd().try_clone_to_owned(),
        Stream::Err => io::stderr().as_fd().try_clone_to_owned(),
    };
    descriptor.is_ok_and(|owned| std::fs::File::from(owned).metadata().is_ok_and(|meta| meta.is_file()))
}

#[cfg(not(unix))]
fn is_file(_: Stream) -> bool {
    false
}

/// The text as it is printed to the stream.
pub fn guarded(stream: Stream, text: &str) -> Cow<'_, str> {
    if is_log(stream) { ci::harmless(text) } else { Cow::Borrowed(text) }
}

/// Prints a text that may contain what others wrote. Nearly all output of commands goes through here.
pub fn put(stream: Stream, text: &str) -> io::Result<()> {
    put_own(stream, &guarded(stream, text))
}

/// Prints a text that may contain our own annotations, in which what others wrote is already escaped.
pub fn put_own(stream: Stream, text: &str) -> io::Result<()> {
    write(stream, &Secrets::default().mask(text))
}

/// Prints the text of a file without masking secrets that its author wrote.
pub fn put_source(stream: Stream, text: &str) -> io::Result<()> {
    write(stream, &guarded(stream, text))
}

fn write(stream: Stream, text: &str) -> io::Result<()> {
    let write = |out: &mut dyn Write| out.write_all(text.as_bytes()).and_then(|()| out.flush());
    match stream {
        Stream::Out => write(&mut super::Output),
        Stream::Err => write(&mut io::stderr().lock()),
    }
}

/// Standard output for a report, which is written piece by piece; `own` as in [`put_own`].
#[cfg(feature = "run")]
pub struct Report {
    pub own: bool,
}

#[cfg(feature = "run")]
impl Write for Report {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        let whole = String::from_utf8_lossy(text);
        match self.own {
            true => put_own(Stream::Out, &whole)?,
            false => put(Stream::Out, &whole)?,
        }
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        super::Output.flush()
    }
}

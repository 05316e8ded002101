//! Messages of the Language Server Protocol on byte streams: a header with the length, then JSON.
//!
//! `lsp-server` does the same, but its IDs are numbers in an untagged enum. serde cannot read them if `serde_json`
//! preserves numbers as written, which this program needs elsewhere.

use std::io::{self, BufRead, Write};

use serde_json::Value;

/// The maximum length of a message that is read, in bytes.
const LONGEST: usize = 64 << 20;

/// The next message; `None` at the end of the input.
///
/// # Errors
/// The input is not a message of the protocol. Later messages can no longer be separated.
pub fn read(input: &mut impl BufRead) -> io::Result<Option<Value>> {
    let odd = |why: &str| io::Error::new(io::ErrorKind::InvalidData, why);
    let mut length = None;
    let mut line = String::new();
    loop {
        line.clear();
        if input.read_line(&mut line)? == 0 {
            return match length {
                None => Ok(None),
                Some(_) => Err(odd("the input ends within a header")),
            };
        }
        match line.trim_end_matches(['\r', '\n']) {
            "" => break,
            header => {
                let (name, value) = header.split_once(':').ok_or_else(|| odd("a header line without a colon"))?;
                if name.trim().eq_ignore_ascii_case("content-length") {
                    length = Some(value.trim().parse::<usize>().map_err(|_| odd("a length that is not a number"))?);
                }
            }
        }
    }
    let length = length.ok_or_else(|| odd("a message without Content-Length"))?;
    if length > LONGEST {
        return Err(odd("a message that is too long"));
    }
    let mut body = vec![0; length];
    input.read_exact(&mut body)?;
    serde_json::from_slice(&body).map(Some).map_err(|error| odd(&error.to_string()))
}

/// Writes a message.
///
/// # Errors
/// The client has stopped reading.
pub fn write(output: &mut impl Write, message: &Value) -> io::Result<()> {
    let body = message.to_string();
    write!(output, "Content-Length: {}\r\n\r\n{body}", body.len())?;
    output.flush()
}

//! Messages of the Language Server Protocol on byte streams: a header with the length, then JSON.
//!
//! `lsp-server` does the same, but its ids are numbers in an untagged enum, which serde cannot read while `serde_json` keeps numbers as
//! they are written; this program needs that elsewhere.

use std::io::{self, BufRead, Write};

use serde_json::Value;

/// The longest message that is read, in bytes.
const LONGEST: usize = 64 << 20;

/// The next message; none at the end of the input.
///
/// # Errors
/// The input is no message of the protocol; what follows cannot be told apart any more.
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
/// The client reads no more.
pub fn write(output: &mut impl Write, message: &Value) -> io::Result<()> {
    let body = message.to_string();
    write!(output, "Content-Length: {}\r\n\r\n{body}", body.len())?;
    output.flush()
}

//! `jq` in the jail: the real program, whose output is kept by what it depends on. jq 1.6 takes longer to start than a whole world.
#![expect(clippy::disallowed_methods, reason = "this is a program of its own")]

use std::{
    fs,
    io::{Read, Write},
    os::unix::process::{CommandExt, ExitStatusExt},
    path::Path,
    process::{Command, Stdio},
};

use sha2::{Digest, Sha256};

/// The real jq.
pub const JQ: &str = "/usr/local/bin/gevals-jq";
/// Where outputs are kept.
const KEPT: &str = "/world/jq";
/// The longest output that is kept, in bytes.
const LONGEST: usize = 4096;
/// The exit status in a shell of a program that writes to a pipe which nothing reads any more.
const NO_READER: u8 = 141;

/// Acts as jq, and returns its exit status.
pub fn jq(args: &[String]) -> u8 {
    let Some(input) = input(args) else { return run_directly(args) };
    let mut key = Sha256::new();
    for part in args.iter().map(String::as_bytes).chain([b"".as_slice(), &input]) {
        key.update(part.len().to_le_bytes());
        key.update(part);
    }
    let path = Path::new(KEPT).join(hex::encode(key.finalize()));
    let kept = fs::read(&path).ok().and_then(|bytes| Output::read(&bytes));
    let Some(output) = kept.or_else(|| ran(args, &input)) else { return 127 };
    if output.stdout.len().max(output.stderr.len()) <= LONGEST && !path.exists() {
        // Two may finish at the same time: a rename replaces the whole file.
        let temporary = path.with_extension(std::process::id().to_string());
        let _ = fs::create_dir_all(KEPT);
        let _ = fs::write(&temporary, output.written()).and_then(|()| fs::rename(&temporary, &path));
    }
    // jq writes to a pipe when it ends, after its messages.
    let _ = std::io::stderr().write_all(&output.stderr);
    if std::io::stdout().write_all(&output.stdout).is_ok() { output.status } else { NO_READER }
}

struct Output {
    status: u8,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl Output {
    fn written(&self) -> Vec<u8> {
        let length = u32::try_from(self.stdout.len()).unwrap_or(u32::MAX).to_le_bytes();
        [&[self.status], length.as_slice(), &self.stdout, &self.stderr].concat()
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let (status, rest) = bytes.split_first()?;
        let (length, rest) = rest.split_first_chunk::<4>()?;
        let (stdout, stderr) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        Some(Self { status: *status, stdout: stdout.to_owned(), stderr: stderr.to_owned() })
    }
}

/// Everything that jq reads; `None` if its output may depend on something else, or if it may write before it has read everything.
fn input(args: &[String]) -> Option<Vec<u8>> {
    let (mut operands, mut null) = (Vec::new(), false);
    let mut words = args.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--arg" | "--argjson" => drop((words.next()?, words.next()?)),
            "--indent" => drop(words.next()?),
            "--raw-output" | "--exit-status" | "--compact-output" | "--slurp" | "--raw-input" | "--sort-keys" => {}
            "--null-input" => null = true,
            _ if word.starts_with("--") => return None,
            _ if word.len() > 1 && word.starts_with('-') => {
                word[1..].chars().all(|flag| "nresRScjM".contains(flag)).then_some(())?;
                null |= word.contains('n');
            }
            _ => operands.push(word),
        }
    }
    let (filter, files) = operands.split_first()?;
    let depends = [
        "env",
        "$ENV",
        "now",
        "input_filename",
        "localtime",
        "mktime",
        "strftime",
        "strptime",
        "import",
        "include",
        "$__",
    ];
    (!depends.iter().any(|name| filter.contains(name))).then_some(())?;
    let mut all = Vec::new();
    for file in files {
        // A pipe, as in `jq . <(COMMAND)`, can be read only once.
        fs::metadata(file).is_ok_and(|meta| meta.is_file()).then_some(())?;
        let text = fs::read(file).ok()?;
        all.extend(text.len().to_le_bytes());
        all.extend(text);
    }
    if files.is_empty() && !null {
        std::io::stdin().lock().read_to_end(&mut all).ok()?;
    }
    (!null || !filter.contains("input")).then_some(all)
}

/// Runs jq with this as its standard input, unless it reads files.
fn ran(args: &[String], input: &[u8]) -> Option<Output> {
    let mut child =
        Command::new(JQ).args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().ok()?;
    let mut stdin = child.stdin.take()?;
    let input = input.to_owned();
    // jq may print before it has read everything.
    let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let done = child.wait_with_output().ok()?;
    let _ = writer.join();
    let status = done.status.code().or(done.status.signal().map(|signal| 128 + signal))?;
    Some(Output { status: u8::try_from(status).unwrap_or(1), stdout: done.stdout, stderr: done.stderr })
}

/// Becomes jq.
fn run_directly(args: &[String]) -> u8 {
    let _ = Command::new(JQ).args(args).exec();
    127
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_that_depend_on_more_than_arguments_and_input_are_not_kept() {
        let input = |args: &[&str]| input(&args.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(input(&["-nr", "--arg", "a", "$ENV", "$a"]), Some(Vec::new()));
        assert!(input(&["-R", ".", file!()]).is_some());
        for args in [
            &["-n", "input"][..],
            &["-n", "now"],
            &["-n", "env.HOME"],
            &["-n", "$ENV.HOME"],
            &["-f", "filter.jq"],
            &["-n", "--slurpfile", "a", "b", "$a"],
            &["-n", "--unknown", "1"],
            &[".", "/no/such/file"],
            // What can be read only once.
            &[".", "/dev/null"],
            &["-r"],
        ] {
            assert_eq!(input(args), None, "{args:?}");
        }
    }
}

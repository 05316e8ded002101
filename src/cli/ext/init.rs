//! `gevals ext init`: creates a working extension to start from.

use std::path::{Path, PathBuf};

use clap::ValueEnum;

use super::super::{complain, print, shown, status};
use crate::{
    host::disk::{Disk, write_with},
    source::Files,
};

/// Create a working extension with passing tests, as a starting point. Existing files are never overwritten.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The directory of the extension, which also gives it its name.
    folder: PathBuf,
    /// The programming language.
    #[arg(long, value_enum, default_value_t = Language::Python)]
    language: Language,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Language {
    Python,
    Rust,
}

/// The name of a file, its content, and whether it is executable.
type Template = (&'static str, &'static str, bool);

const BOTH: [Template; 4] = [
    ("extension.yaml", include_str!("extension.yaml"), false),
    ("eval.yaml", include_str!("eval.yaml"), false),
    ("task.yaml", include_str!("task.yaml"), false),
    (".github/workflows/release.yml", include_str!("release.yml"), false),
];
const PYTHON: [Template; 2] =
    [("NAME", include_str!("python/program"), true), ("test_NAME.py", include_str!("python/test.py"), false)];
const RUST: [Template; 4] = [
    ("Cargo.toml", include_str!("rust/Cargo.toml.txt"), false),
    ("src/main.rs", include_str!("rust/main.rs.txt"), false),
    ("tests/operations.rs", include_str!("rust/test.rs.txt"), false),
    ("build.sh", include_str!("rust/build.sh"), true),
];
const PYTHON_RELEASE: &str = "      - run: |
          for platform in linux-amd64 linux-arm64 darwin-arm64; do cp NAME \"NAME-$platform\"; done";
const RUST_RELEASE: &str = "      - run: |
          cargo test
          cargo build --release
          cp target/release/NAME NAME-linux-amd64";

pub fn main(args: &Args) -> u8 {
    let absolute = std::path::absolute(&args.folder).unwrap_or_else(|_| args.folder.clone());
    let name = absolute.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if !name.starts_with(|c: char| c.is_ascii_lowercase()) || !name.chars().all(good) || name.ends_with('-') {
        complain(&format!("`{name}` is not a valid name of an extension: use lowercase letters, digits and `-`"));
        return status::USAGE;
    }
    let (own, release, next): (&[Template], _, _) = match args.language {
        Language::Python => (&PYTHON, PYTHON_RELEASE, "python3 -m unittest"),
        Language::Rust => (&RUST, RUST_RELEASE, "cargo test && ./build.sh"),
    };
    let files: Vec<(PathBuf, String, bool)> = BOTH
        .iter()
        .chain(own)
        // The test is a Python module, so its name must not contain `-`.
        .map(|(file, text, executable)| {
            let name_of_file = if file.starts_with("test_") { name.replace('-', "_") } else { name.clone() };
            let text = text.replace("STEPS", release).replace("NAME", &name);
            (args.folder.join(file.replace("NAME", &name_of_file)), text, *executable)
        })
        .collect();
    if let Some((taken, ..)) = files.iter().find(|(path, ..)| Disk.stat(path).is_some()) {
        complain(&format!("`{}` already exists: nothing was written", shown(taken)));
        return status::USAGE;
    }
    for (path, text, executable) in &files {
        if let Err(error) = write(path, text, *executable) {
            complain(&format!("cannot write `{}`: {error}", shown(path)));
            return status::BROKEN;
        }
    }
    let folder = shown(&args.folder);
    let list: String = files.iter().map(|(path, ..)| format!("wrote {}\n", shown(path))).collect();
    print(&format!(
        "{list}\ntry it:\n  (cd {folder} && {next})\n  gevals ext conformance {folder}\n  gevals run {folder}/eval.yaml\n"
    ));
    status::OK
}

fn write(path: &Path, text: &str, executable: bool) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    write_with(path, text.as_bytes(), Some(if executable { 0o755 } else { 0o644 }))
}

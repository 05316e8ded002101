//! Writes the tables of `src/bash` as JSON: people write them in TOML, which is slower to parse, and the program reads
//! them at every start. Links the program for a fixed address.

#![expect(clippy::disallowed_methods, reason = "a build script reads and writes files")]

use std::{env, error::Error, fs, path::Path};

const TABLES: &str = "src/bash/tools";
const FIELDS: &str = "src/bash/fields.toml";

fn main() -> Result<(), Box<dyn Error>> {
    let out = env::var_os("OUT_DIR").ok_or("cargo says where to write")?;
    let mut files = vec![FIELDS.into()];
    for entry in fs::read_dir(TABLES)? {
        files.push(entry?.path());
    }
    for file in files.iter().filter(|file| file.extension().is_some_and(|extension| extension == "toml")) {
        let table: toml::Table =
            toml::from_str(&fs::read_to_string(file)?).map_err(|e| format!("{}: {e}", file.display()))?;
        let name = Path::new(file.file_name().ok_or("a file has a name")?).with_extension("json");
        fs::write(Path::new(&out).join(name), serde_json::to_string(&table)?)?;
    }
    // Without relocations, the program starts in less time and with half the page faults (`benches/README.md`). Its own
    // code is then not randomized; its heap, its stack and shared libraries are.
    let target = |key| env::var(format!("CARGO_CFG_TARGET_{key}")).unwrap_or_default();
    if target("OS") == "linux" && target("ENV") == "gnu" {
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
    println!("cargo::rerun-if-changed={TABLES}");
    println!("cargo::rerun-if-changed={FIELDS}");
    Ok(())
}

//! Finding the program of an extension, its manifest, and what it is given.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::{
    host::{Host, absent},
    lock::Manifest,
    package::{self, Source},
    plan::PlannedExtension,
    source::Stat,
};

/// An extension's program, ready to be started.
#[derive(Clone, Debug)]
pub struct Program {
    /// For messages: the package.
    pub name: String,
    pub path: PathBuf,
    pub args: Vec<String>,
    /// `extension.yaml`, where there is one.
    pub manifest: Option<Manifest>,
    pub env: Vec<(String, String)>,
    pub config: Map<String, Value>,
}

/// Finds the program of an extension and fills what it is given.
///
/// # Errors
/// Why it cannot be started, as a predicate: `cannot be started: there is no …`.
pub fn locate(host: &dyn Host, planned: &PlannedExtension) -> Result<Program, String> {
    let source = planned.source.as_ref().map_err(Clone::clone)?;
    let mut program = match source {
        Source::Path(path) => at_path(host, path)?,
        Source::Builtin(name) => return Err(format!("this gevals has no extension `builtin:{name}`")),
        Source::Release { owner, repo, .. } => {
            return Err(format!(
                "`{source}` is not on this machine, and this version fetches no releases: get the program from https://github.com/{owner}/{repo}/releases and name its path"
            ));
        }
    };
    program.name.clone_from(&planned.package);
    let lookup = |name: &str| host.env(name);
    let env = planned.env.iter().map(|(name, value)| Ok((name.clone(), expand(value, &lookup)?)));
    program.env = env.collect::<Result<_, String>>().map_err(|why| format!("its `env`: {why}"))?;
    program.config = match &planned.config {
        Value::Object(config) => {
            let filled = config.iter().map(|(key, value)| Ok((key.clone(), expand_all(value, &lookup)?)));
            filled.collect::<Result<_, String>>().map_err(|why| format!("its `config`: {why}"))?
        }
        _ => Map::new(),
    };
    if let Some(manifest) = &program.manifest {
        for command in &manifest.requires {
            if host.which(command).is_none() {
                return Err(format!("it requires `{command}`, which {}", absent(command)));
            }
        }
    }
    Ok(program)
}

fn at_path(host: &dyn Host, path: &Path) -> Result<Program, String> {
    let path = match path.strip_prefix("~/") {
        Ok(rest) => match host.env("HOME") {
            Some(home) => PathBuf::from(home).join(rest),
            None => return Err(format!("`{}` is in no folder: HOME is not set", path.display())),
        },
        Err(_) => path.to_owned(),
    };
    let shown = path.display();
    let (dir, file) = match host.files().stat(&path) {
        None => return Err(format!("there is no `{shown}`")),
        Some(Stat::Dir) => (path.clone(), None),
        Some(Stat::File { .. }) => (path.parent().map(Path::to_owned).unwrap_or_default(), Some(path.clone())),
    };
    let place = dir.join(Manifest::FILE_NAME);
    let manifest = match host.files().stat(&place) {
        Some(Stat::File { .. }) => {
            let bytes = host.files().read(&place).map_err(|e| format!("`{}` cannot be read: {e}", place.display()))?;
            let manifest = Manifest::parse(&String::from_utf8_lossy(&bytes));
            Some(manifest.map_err(|why| format!("its manifest `{}` is none: {why}", place.display()))?)
        }
        _ => None,
    };
    let found = match (file, &manifest) {
        (Some(file), _) => file,
        (None, None) => return Err(format!("the folder `{shown}` has no `{}`", Manifest::FILE_NAME)),
        (None, Some(manifest)) => in_folder(host, &dir, manifest)?,
    };
    match host.files().stat(&found) {
        Some(Stat::File { executable: true }) => Ok(Program {
            name: String::new(),
            path: absolute(&found),
            args: Vec::new(),
            manifest,
            env: Vec::new(),
            config: Map::new(),
        }),
        _ => Err(format!("`{}` is not executable; make it so with `chmod +x`", found.display())),
    }
}

/// The program of a folder: what the manifest names, else the release's name of it for this machine, else its plain name.
fn in_folder(host: &dyn Host, dir: &Path, manifest: &Manifest) -> Result<PathBuf, String> {
    let candidates = match (&manifest.program, manifest.name.as_str()) {
        (Some(program), _) => vec![program.clone()],
        (None, "") => return Err("its manifest has neither a `name` nor a `program`".to_owned()),
        (None, name) => vec![platform(name), name.to_owned()],
    };
    let paths = candidates.iter().map(|name| dir.join(name));
    let found = paths.into_iter().find(|path| matches!(host.files().stat(path), Some(Stat::File { .. })));
    found.ok_or_else(|| {
        let names: Vec<_> = candidates.iter().map(|name| format!("`{name}`")).collect();
        format!("the folder `{}` has no program {}", dir.display(), names.join(" or "))
    })
}

/// As releases name a program for this machine, in Go's words.
pub fn platform(name: &str) -> String {
    let os = if cfg!(target_os = "macos") { "darwin" } else { std::env::consts::OS };
    let arch = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" => "386",
        other => other,
    };
    format!("{name}-{os}-{arch}")
}

#[expect(clippy::disallowed_methods, reason = "it asks for the current folder, and the disk for nothing")]
pub(super) fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf())
}

fn expand_all(value: &Value, lookup: &dyn Fn(&str) -> Option<String>) -> Result<Value, String> {
    Ok(match value {
        Value::String(text) => Value::String(expand(text, lookup)?),
        Value::Array(items) => items.iter().map(|item| expand_all(item, lookup)).collect::<Result<_, _>>()?,
        Value::Object(fields) => {
            let fields = fields.iter().map(|(key, value)| Ok((key.clone(), expand_all(value, lookup)?)));
            Value::Object(fields.collect::<Result<_, String>>()?)
        }
        other => other.clone(),
    })
}

/// `${NAME}` and `{env.NAME}` (§7.1 of the upstream behaviour).
fn expand(text: &str, lookup: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut out = String::new();
    for piece in package::pieces(text)? {
        match piece {
            package::Piece::Text(text) => out += text,
            package::Piece::Variable(name) => {
                out += &lookup(name).ok_or_else(|| format!("the variable `{name}` is not set"))?;
            }
        }
    }
    Ok(out)
}

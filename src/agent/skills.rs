//! Skills: directories that are copied to where an agent looks for them (§3.3 of the upstream behaviour).

use std::path::{Component, Path};

use super::AgentContext;
use crate::{host::Host, source::Stat};

/// Maximum nesting of directories, before a cycle of links is assumed.
const DEPTH: usize = 32;

/// Copies the eval's skills into the agent's directory, completely: links are followed, modes are kept, and of two
/// files with the same name the one from the later source is used.
pub fn mount(cx: &AgentContext<'_>, dir: &Path) -> Result<(), String> {
    let Some(skills) = cx.skills else { return Ok(()) };
    let path = Path::new(&skills.path);
    if !path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir)) {
        return Err(format!("skills are mounted within the agent's directory, but `{}` leads outside it", skills.path));
    }
    for source in &skills.sources {
        match cx.host.files().stat(source) {
            Some(Stat::Dir) => copy(cx.host, source, &dir.join(path), 0)?,
            found => {
                let why = if found.is_some() { "is not a directory" } else { "does not exist" };
                return Err(format!("the source of skills `{}` {why}", source.display()));
            }
        }
    }
    Ok(())
}

fn copy(host: &dyn Host, from: &Path, to: &Path, depth: usize) -> Result<(), String> {
    let fault =
        |path: &Path, e: &dyn std::fmt::Display| format!("the skill `{}` cannot be mounted: {e}", path.display());
    if depth > DEPTH {
        return Err(fault(from, &"its directories are nested endlessly"));
    }
    host.create_dir_all(to).map_err(|e| fault(from, &e))?;
    for (name, is_dir) in host.files().entries(from).iter() {
        let (from, to) = (from.join(name), to.join(name));
        if *is_dir {
            copy(host, &from, &to, depth + 1)?;
            continue;
        }
        let bytes = host.files().read(&from).map_err(|e| fault(&from, &e))?;
        let mode = host.mode(&from).map_err(|e| fault(&from, &e))?;
        host.write(&to, &bytes, Some(mode)).map_err(|e| fault(&from, &e))?;
    }
    Ok(())
}

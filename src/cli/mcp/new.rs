//! The tool `new`, in two forms: one that returns texts, and one that can also write them.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    project::inside,
    tool::{Answer, Effect, Tool, given, schema, taken},
};
use crate::cli::{
    new::{Form, first_files, write_new},
    project_files,
};

pub const TOOL: Tool = Tool {
    name: "new",
    title: "Create a task or an eval",
    about: "Returns the text of a first task, or of an eval with everything it needs: servers, a scripted agent, a task, the lock. They pass \
            `check` and run unchanged, as a starting point. Nothing is written.",
    effect: Effect::Reads,
    input: schema::<Input>,
    output: schema::<Output>,
    call: |arguments, _| {
        let Input { what, path, dialect } = taken(arguments)?;
        new(Writing { what, path, dialect, write: false })
    },
};

pub const WRITER: Tool = Tool {
    about: "Returns the text of a first task, or of an eval with everything it needs: servers, a scripted agent, a task, the lock. They pass \
            `check` and run unchanged, as a starting point. With `write` they are written below the root; no file is overwritten.",
    effect: Effect::Adds,
    input: schema::<Writing>,
    call: |arguments, _| new(taken(arguments)?),
    ..TOOL
};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    what: What,
    /// The path of the file, below the root: the task is named after it.
    path: String,
    /// The dialect of a task.
    #[serde(default)]
    dialect: Option<Form>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Writing {
    what: What,
    /// The path of the file, below the root: the task is named after it.
    path: String,
    /// The dialect of a task.
    #[serde(default)]
    dialect: Option<Form>,
    /// Whether the files are written.
    #[serde(default)]
    write: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum What {
    Task,
    Eval,
}

#[derive(Serialize, JsonSchema)]
struct Output {
    files: Vec<File>,
    /// Whether they are written.
    written: bool,
}

#[derive(Serialize, JsonSchema)]
struct File {
    path: String,
    text: String,
}

fn new(input: Writing) -> Answer {
    let dialect = match (input.what, input.dialect) {
        (What::Eval, Some(_)) => return Err("an eval has no `dialect`".to_owned()),
        (What::Eval, None) => None,
        (What::Task, dialect) => Some(dialect.unwrap_or(Form::Portable)),
    };
    let path = super::path(&input.path);
    inside(&path)?;
    let files = first_files(&path, dialect)?;
    if input.write {
        files.iter().try_for_each(|(path, _)| writable(path))?;
        write_new(&files)?;
    }
    let file = |(path, text): (PathBuf, String)| File { path: path.display().to_string(), text };
    given(&Output { files: files.into_iter().map(file).collect(), written: input.write })
}

/// Refuses to write through a link, which may lead out of the root.
fn writable(path: &std::path::Path) -> Result<(), String> {
    inside(path)?;
    match project_files(&[]).link(path) {
        Some(link) => Err(format!("`{}` is a symbolic link: nothing is written through it", link.display())),
        None => Ok(()),
    }
}

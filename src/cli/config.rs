//! `gevals config`: the settings that apply here, and where each comes from.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use serde_json::json;

use super::{Global, ROOT, complain, explain, print, print_findings, project_files, status};
use crate::{
    diagnostic::{Diagnostics, Rule, nearest},
    lint::{RULES, rule},
    policy::{FILE_NAME, Policy},
    secrets::{MASK, Secrets, is_secret_name, of_environment, told},
    source::Sources,
};

const EXAMPLES: &str = "\
Examples:
  gevals config                       show the settings in effect here
  gevals config --all                 also show environment variables that are not set
  gevals config NO_COLOR rules        describe these settings and show their values
  gevals config --format json         write JSON, for other programs

A setting is a key of gevals.toml, an environment variable, or a value derived from them. Secrets
are never shown: for a variable that contains one, only the fact that it is set.

Exit status: 0 shown, 1 gevals.toml has errors, 2 no such setting";

/// Show the settings in effect, their values, and where they come from.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Show only these settings, with a description.
    names: Vec<String>,
    /// Also show settings that are not set.
    #[arg(long)]
    all: bool,
    /// Output format.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Format {
    Text,
    Json,
}

/// One setting.
struct Setting {
    name: String,
    /// Its current value, if it is set.
    value: Option<String>,
    /// Where the value comes from.
    origin: String,
    /// What the setting is for.
    about: String,
}

pub fn main(args: &Args, global: Global) -> u8 {
    let sources = Sources::default();
    let mut found = Diagnostics::default();
    let rules: Vec<_> = RULES.iter().map(|lint| lint.rule).collect();
    let files = project_files(&[]);
    let policy = Policy::find(Path::new("."), &rules, &sources, &files, &mut found);
    let found: Vec<_> = found.iter().cloned().collect();
    let file = sources.all().first().map(|source| source.path().to_owned());
    let text = sources.all().first().map(|source| source.text().to_owned()).unwrap_or_default();
    let mut settings = derived(file.as_deref(), files.roots().next().map(Path::to_owned), &policy, global);
    settings.extend(written(file.as_deref(), &text));
    settings.extend(variables());
    let code = match found.iter().any(|d| d.strength.is_error()) {
        true => {
            print_findings(&found, &sources, 1, global);
            status::NO
        }
        false => status::OK,
    };
    let chosen: Vec<&Setting> = match args.names.as_slice() {
        [] => settings.iter().filter(|s| args.all || args.format == Format::Json || s.value.is_some()).collect(),
        names => {
            let mut chosen = Vec::new();
            for name in names {
                let before = chosen.len();
                // The name of a table selects all of its keys.
                let below = |s: &&Setting| {
                    s.name == *name || s.name.strip_prefix(name.as_str()).is_some_and(|rest| rest.starts_with('.'))
                };
                chosen.extend(settings.iter().filter(below));
                if chosen.len() == before {
                    let near = nearest(name, settings.iter().map(|s| s.name.as_str()));
                    let hint = near.map_or_else(
                        || "`gevals config --all` lists them".to_owned(),
                        |n| format!("did you mean `{n}`?"),
                    );
                    complain(&format!("unknown setting `{name}`; {hint}"));
                    return status::USAGE;
                }
            }
            chosen
        }
    };
    print(&match args.format {
        Format::Json => as_json(&chosen),
        Format::Text => as_text(&chosen, settings.len() - chosen.len(), !args.names.is_empty()),
    });
    code
}

/// Settings that depend on arguments, files and variables together.
fn derived(file: Option<&Path>, root: Option<PathBuf>, policy: &Policy, global: Global) -> Vec<Setting> {
    let root = root.unwrap_or_default();
    let from = match (ROOT.get(), root.join(".git").exists(), root.join(FILE_NAME).exists()) {
        (Some(_), ..) => "--root",
        (None, true, _) => "the repository",
        (None, false, true) => FILE_NAME,
        (None, false, false) => "the current directory",
    };
    let (colour, by) = global.colour_by(&std::io::stdout());
    let setting = |name: &str, value: Option<String>, origin: &str, about: &str| Setting {
        name: name.to_owned(),
        value,
        origin: origin.to_owned(),
        about: about.to_owned(),
    };
    let mut all = vec![
        setting(
            "root",
            Some(root.display().to_string()),
            from,
            "the directory of the project; no file outside it is read",
        ),
        setting(
            FILE_NAME,
            file.map(|file| std::path::absolute(file).unwrap_or_else(|_| file.to_owned()).display().to_string()),
            if file.is_some() { "found here or above" } else { "not found" },
            "rule levels, excluded paths, your own programs",
        ),
        setting("color", Some(if colour { "on" } else { "off" }.to_owned()), by, "colors on standard output"),
    ];
    let exclude = (!policy.exclude.is_empty()).then(|| policy.exclude.join(", "));
    let origin = if exclude.is_some() { FILE_NAME } else { "not set" };
    all.push(setting("exclude", exclude, origin, "path patterns that are excluded when a directory is searched"));
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let by = ["GEVALS_CACHE_DIR", "XDG_CACHE_HOME"].into_iter().find(|name| set(name)).unwrap_or("HOME");
    let folder = super::check::kept_in().map(|folder| folder.display().to_string());
    let origin = if folder.is_some() { by } else { "nothing is cached" };
    all.push(setting(
        "checks",
        folder,
        origin,
        "where `gevals check` caches its output and what it knows about tasks; safe to remove at any time",
    ));
    #[cfg(feature = "run")]
    {
        let folder = crate::fetch::Cache::new(None);
        let (value, origin) = match &folder {
            Ok(cache) => (Some(cache.path().display().to_string()), by.to_owned()),
            Err(why) => (None, why.clone()),
        };
        all.push(setting("downloads", value, &origin, "where sources and extension releases are cached"));
        let ci = super::in_ci();
        let value = Some(if ci { "yes" } else { "no" }.to_owned());
        all.push(setting(
            "unattended",
            value,
            if set("CI") { "CI" } else { "CI is not set" },
            "plain progress, only pinned or allowed extensions, strict replays",
        ));
    }
    all
}

/// The settings of `gevals.toml` for rules and programs.
fn written(file: Option<&Path>, text: &str) -> Vec<Setting> {
    let document = toml::from_str::<toml::Table>(text).unwrap_or_default();
    let origin = file.map_or_else(String::new, |file| file.display().to_string());
    let table = |key: &str| document.get(key).and_then(toml::Value::as_table).into_iter().flatten();
    let rules = table("rules").map(|(name, level)| {
        let about = rule(name).map_or("unknown rule in this version of gevals", Rule::summary);
        let value = level.as_str().map(str::to_owned);
        Setting { name: format!("rules.{name}"), value, origin: origin.clone(), about: about.to_owned() }
    });
    let programs = table("effects").map(|(name, about)| {
        let commands = about.get("commands").and_then(toml::Value::as_array).map_or(0, Vec::len);
        Setting {
            name: format!("effects.{name}"),
            value: Some(crate::builtin::count(commands, "command", "commands")),
            origin: origin.clone(),
            about: "the effects of one of your own programs".to_owned(),
        }
    });
    let mut settings: Vec<Setting> = rules.chain(programs).collect();
    let tables = [("rules", "the level of a rule's findings"), ("effects", "the effects of your own programs")];
    for (name, about) in tables.into_iter().filter(|(name, _)| table(name).next().is_none()) {
        let (name, origin, about) = (name.to_owned(), "not set".to_owned(), about.to_owned());
        settings.push(Setting { name, value: None, origin, about });
    }
    settings
}

/// Every variable that gevals reads, as `docs/reference/config.md` lists them.
fn variables() -> Vec<Setting> {
    let environment: Vec<(String, String)> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    let secrets = Secrets::new(of_environment(environment.iter().cloned()));
    let mut settings: Vec<Setting> = Vec::new();
    for (name, about) in listed() {
        if settings.iter().any(|setting| setting.name == name) {
            continue;
        }
        let value = environment.iter().find(|(known, _)| *known == name).map(|(_, value)| match holds_secrets(&name) {
            true if value.is_empty() => String::new(),
            true => MASK.to_owned(),
            false => Secrets::new(told(value)).mask(&secrets.mask(value)).into_owned(),
        });
        let origin = if value.is_some() { "the environment" } else { "not set" };
        settings.push(Setting { name, value, origin: origin.to_owned(), about });
    }
    settings
}

/// Whether the value is hidden: it is a secret, or may contain one.
fn holds_secrets(name: &str) -> bool {
    is_secret_name(name) || ["HEADERS", "_ENV", "_ARGS"].iter().any(|end| name.ends_with(end))
}

/// The variables in the tables below `Environment` with their descriptions, except for those that gevals sets itself.
fn listed() -> Vec<(String, String)> {
    let page = explain::page("config").unwrap_or_default();
    let section = page.split("\n## ").find(|section| section.starts_with("Environment\n")).unwrap_or_default();
    let read = section.split("\nVariables that gevals se").next().unwrap_or_default();
    let mut found = Vec::new();
    for row in read.lines().filter(|line| line.starts_with("| `")) {
        let mut cells = row.trim_matches('|').splitn(2, " | ");
        let (names, about) = (cells.next().unwrap_or_default(), cells.next().unwrap_or_default().trim());
        for name in names.split('`').skip(1).step_by(2) {
            let name = name.split('=').next().unwrap_or_default();
            found.push((name.to_owned(), about.replace('`', "")));
        }
    }
    found
}

fn as_json(settings: &[&Setting]) -> String {
    let one = |s: &&Setting| json!({ "name": s.name, "value": s.value, "origin": s.origin, "about": s.about });
    format!("{:#}\n", json!({ "version": 1, "settings": settings.iter().map(one).collect::<Vec<_>>() }))
}

/// One line per setting, with its description if it was requested by name.
fn as_text(settings: &[&Setting], others: usize, named: bool) -> String {
    let width = settings.iter().map(|s| s.name.chars().count()).max().unwrap_or(0);
    let mut out = String::new();
    for s in settings {
        let value = match &s.value {
            Some(value) if s.origin == "not set" || value.is_empty() => format!("(empty)  {}", s.origin),
            Some(value) => format!("{}  ({})", crate::diagnostic::visible(value), s.origin),
            None => s.origin.clone(),
        };
        out += &format!("{:width$}  {value}\n", s.name);
        if named {
            out += &format!("{:width$}  {}\n", "", s.about);
        }
    }
    if others > 0 && !named {
        out += &format!(
            "\n{others} more are not set: `gevals config --all` lists them; `gevals explain config` describes all\n"
        );
    }
    out
}

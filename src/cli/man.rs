//! `gevals man`: manual pages of all commands.

use std::path::PathBuf;

use clap::{Command, CommandFactory};
use clap_mangen::{
    Man,
    roff::{Roff, bold, roman},
};

use super::{Cli, complain, print, status};
use crate::host::disk;

const EXAMPLES: &str = "\
Examples:
  gevals man ~/.local/share/man/man1     makes `man gevals-run` work

Exit status: 0 written, 2 usage error, 3 a page cannot be written";

/// Write the manual pages of all commands to a directory.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The directory; created if it does not exist. Existing pages are replaced.
    folder: PathBuf,
}

pub fn main(args: &Args) -> u8 {
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    let mut pages = Vec::new();
    collect(&command, &mut pages);
    for (name, page) in &pages {
        let path = args.folder.join(name);
        let written = std::fs::create_dir_all(&args.folder).and_then(|()| disk::write_atomic(&path, page.as_bytes()));
        if let Err(error) = written {
            complain(&format!("cannot write `{}`: {error}", path.display()));
            return status::BROKEN;
        }
    }
    print(&format!("wrote {} pages to {}\n", pages.len(), args.folder.display()));
    status::OK
}

/// Adds the page of a command with its file name, and those of its subcommands.
fn collect(command: &Command, pages: &mut Vec<(String, String)>) {
    // An empty date would be left out, and the next word used as the date.
    let source = concat!("gevals ", env!("CARGO_PKG_VERSION"));
    let man = Man::new(command.clone()).date(" ").source(source).manual("gevals");
    let mut page = Vec::new();
    // Writing to a vector cannot fail.
    let _ = render(&man, command, &mut page);
    pages.push((man.get_filename(), String::from_utf8_lossy(&page).into_owned()));
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
        collect(inner, pages);
    }
}

fn render(man: &Man, command: &Command, page: &mut Vec<u8>) -> std::io::Result<()> {
    man.render_title(page)?;
    man.render_name_section(page)?;
    man.render_synopsis_section(page)?;
    man.render_description_section(page)?;
    man.render_options_section(page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(page)?;
    }
    let mut roff = Roff::default();
    if let Some(below) = command.get_after_help() {
        below.to_string().split("\n\n").for_each(|block| section(block, &mut roff));
    }
    if command.get_name() != "gevals" {
        roff.control("SH", ["SEE ALSO"]).text([bold("gevals"), roman("(1)")]);
    }
    roff.to_writer(page)
}

/// Writes a block of the text below the options: a paragraph, or one with a heading of one or two words and a colon.
/// Lines are preserved if they are indented.
fn section(block: &str, roff: &mut Roff) {
    let headed = block.split_once(':').filter(|(heading, _)| heading.split(' ').count() <= 2);
    match headed {
        Some((heading, _)) => roff.control("SH", [heading.to_uppercase().as_str()]),
        None => roff.control("PP", []),
    };
    let text = headed.map_or(block, |(_, text)| text);
    let keeps = text.starts_with("\n  ");
    if keeps {
        roff.control("nf", []);
    }
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        roff.text([roman(if keeps { line } else { line.trim_start() })]);
    }
    if keeps {
        roff.control("fi", []);
    }
}

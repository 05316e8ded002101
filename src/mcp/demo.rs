//! The demonstration server: notes in a directory, one Markdown file each.

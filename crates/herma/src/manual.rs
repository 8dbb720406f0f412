//! `herma completions` and `herma man`: what shells and `man` read, made from the command line itself.

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Command, CommandFactory};

use crate::arguments::{Arguments, CompletionsFlags, ManFlags};
use crate::output;

/// Prints the completions for a shell.
pub(crate) fn completions(flags: &CompletionsFlags) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(flags.shell, &mut Arguments::command(), "herma", &mut script);
    io::stdout().lock().write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the page of the program, or writes the pages of all commands.
pub(crate) fn pages(flags: &ManFlags) -> anyhow::Result<ExitCode> {
    // `herma help` is not a command that needs a page.
    let mut command = Arguments::command().disable_help_subcommand(true);
    command.build();
    let Some(directory) = &flags.output else {
        io::stdout().lock().write_all(&page(&command)?)?;
        return Ok(ExitCode::SUCCESS);
    };
    let shown = directory.display();
    fs::create_dir_all(directory).with_context(|| format!("cannot make the directory {shown}"))?;
    write_pages(&command, directory).with_context(|| format!("cannot write to {shown}"))?;
    output::note(&format!("the pages are in {shown}"));
    Ok(ExitCode::SUCCESS)
}

/// Writes the page of a command, and those of its subcommands.
fn write_pages(command: &Command, directory: &Path) -> io::Result<()> {
    let file = format!("{}.1", command.get_display_name().unwrap_or_else(|| command.get_name()));
    fs::write(directory.join(file), page(command)?)?;
    command.get_subcommands().try_for_each(|subcommand| write_pages(subcommand, directory))
}

/// A manual page. What stands below the help of a command is laid out already, so the page keeps its lines.
fn page(command: &Command) -> io::Result<Vec<u8>> {
    let man = clap_mangen::Man::new(command.clone()).source(concat!("herma ", env!("CARGO_PKG_VERSION")));
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ").trim_start();
    write!(page, ".SH SYNOPSIS\n.nf\n{}\n.fi\n", as_roff(usage))?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    if let Some(below) = command.get_after_help() {
        below.to_string().split("\n\n").try_for_each(|paragraph| write_paragraph(&mut page, paragraph))?;
    }
    Ok(page)
}

/// Writes a paragraph from below the help of a command. One with indented lines is laid out already and keeps its lines.
fn write_paragraph(page: &mut Vec<u8>, paragraph: &str) -> io::Result<()> {
    match paragraph.strip_prefix("Examples:\n") {
        Some(examples) => write!(page, ".SH EXAMPLES\n.nf\n{}\n.fi\n", as_roff(examples)),
        None if paragraph.contains("\n ") => write!(page, ".PP\n.nf\n{}\n.fi\n", as_roff(paragraph)),
        None => write!(page, ".PP\n{}\n", as_roff(paragraph)),
    }
}

/// The text as the source of a page: backslashes, dashes and leading dots stand for themselves.
fn as_roff(text: &str) -> String {
    let plain = text.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq");
    let lines = plain.lines().map(|line| if line.starts_with('.') { format!("\\&{line}") } else { line.to_owned() });
    lines.collect::<Vec<_>>().join("\n")
}

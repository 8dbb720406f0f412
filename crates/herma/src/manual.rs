//! `herma completions` and `herma man`: what shells and `man` read, made from the command line itself.

use std::fs;
use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Context;
use clap::CommandFactory;

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
    let command = Arguments::command();
    let Some(directory) = &flags.output else {
        let mut page = Vec::new();
        clap_mangen::Man::new(command).render(&mut page)?;
        io::stdout().lock().write_all(&page)?;
        return Ok(ExitCode::SUCCESS);
    };
    let shown = directory.display();
    fs::create_dir_all(directory).with_context(|| format!("cannot make the directory {shown}"))?;
    clap_mangen::generate_to(command, directory).with_context(|| format!("cannot write to {shown}"))?;
    output::note(&format!("the pages are in {shown}"));
    Ok(ExitCode::SUCCESS)
}

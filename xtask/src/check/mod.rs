//! `cargo xtask check`: rules of the workspace that no other tool checks.
//!
//! Each rule is a pure function from its input to its findings. Only this file calls the rules and decides what fails
//! the check. `arrows` also runs cargo.

mod arrows;
mod leftovers;
mod links;
mod modules;
mod sizes;

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::workspace;

/// A violation of a rule, with a message that says what to do.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    path: PathBuf,
    line: Option<usize>,
    message: String,
}

impl Finding {
    fn new(path: impl Into<PathBuf>, message: impl Into<String>) -> Self {
        Self { path: path.into(), line: None, message: message.into() }
    }

    fn at(path: impl Into<PathBuf>, line: usize, message: impl Into<String>) -> Self {
        Self { path: path.into(), line: Some(line), message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.path.display())?;
        if let Some(line) = self.line {
            write!(f, "{line}:")?;
        }
        write!(f, " {}", self.message)
    }
}

/// Runs every rule and prints the findings.
pub(crate) fn run() -> ExitCode {
    match findings() {
        Ok(report) => {
            for note in &report.notes {
                println!("note: {note}");
            }
            for error in &report.errors {
                eprintln!("error: {error}");
            }
            if report.errors.is_empty() {
                println!("check: {} files, nothing to complain about", report.files);
                return ExitCode::SUCCESS;
            }
            eprintln!("check: {} to put right", report.errors.len());
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("check: {error}");
            ExitCode::FAILURE
        }
    }
}

struct Report {
    files: usize,
    notes: Vec<Finding>,
    errors: Vec<Finding>,
}

fn findings() -> io::Result<Report> {
    let files = workspace::files()?;
    let mut notes = Vec::new();
    let mut errors = arrows::check()?;
    for file in &files {
        match sizes::check(file) {
            Some(sizes::Size::TooLong(finding)) => errors.push(finding),
            Some(sizes::Size::Long(finding)) => notes.push(finding),
            None => {}
        }
        errors.extend(modules::check(file));
        errors.extend(leftovers::check(file));
    }
    errors.extend(links::check(&files));
    Ok(Report { files: files.len(), notes, errors })
}

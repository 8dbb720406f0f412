//! `cargo xtask docs`: writes the pages that follow from the code: settings, commands and routes.
//!
//! The text above the mark of a page is written by hand and stays. Everything below it is made from what `herma config
//! --all` and `herma help` print and from the OpenAPI document. With `--check` nothing is written: a page that differs
//! fails.

mod routes;

use std::fmt::Write as _;
use std::io;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use crate::{build, workspace};

const MARK: &str = "<!-- Made by `cargo xtask docs`. Change the code, not the text below this line. -->\n";

/// Writes or checks all pages.
pub(crate) fn run(arguments: &[String]) -> ExitCode {
    let checks = match arguments {
        [] => false,
        [flag] if flag == "--check" => true,
        _ => {
            eprintln!("usage: cargo xtask docs [--check]");
            return ExitCode::from(2);
        }
    };
    match pages().and_then(|pages| pages.iter().try_fold(true, |fine, page| Ok(fine & page.settle(checks)?))) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("docs: {error}");
            ExitCode::FAILURE
        }
    }
}

/// A page, and what belongs below its mark.
struct Page {
    path: &'static str,
    text: String,
}

impl Page {
    /// Writes the page, or only compares it. False if it is not as it should be.
    fn settle(&self, checks: bool) -> io::Result<bool> {
        let path = workspace::root().join(self.path);
        let page = std::fs::read_to_string(&path)?;
        let by_hand = page.split(MARK).next().unwrap_or_default();
        let right = format!("{by_hand}{MARK}\n{}", self.text);
        if checks && page != right {
            eprintln!("docs: {} does not say what the code says: run `cargo xtask docs`", self.path);
            return Ok(false);
        }
        if page != right {
            std::fs::write(&path, right)?;
            println!("docs: wrote {}", self.path);
        }
        Ok(true)
    }
}

fn pages() -> io::Result<Vec<Page>> {
    let herma = build::herma()?;
    let openapi = std::fs::read_to_string(workspace::root().join("crates/http/src/openapi.json"))?;
    Ok(vec![
        Page { path: "docs/reference/CONFIGURATION.md", text: settings(&printed(&herma, &["config", "--all"])?) },
        Page { path: "docs/reference/CLI.md", text: commands(&herma, &mut Vec::new())? },
        Page { path: "docs/reference/ROUTES.md", text: finish(&routes::page(&serde_json::from_str(&openapi)?)) },
    ])
}

/// What a command prints where no setting, terminal or home of this machine counts.
fn printed(herma: &Path, arguments: &[&str]) -> io::Result<String> {
    let mut command = Command::new(herma);
    command.args(arguments).env_clear().env("HOME", "/home/you").current_dir("/").stdin(Stdio::null());
    workspace::output(&mut command)
}

/// A heading for each section of a configuration file.
fn settings(file: &str) -> String {
    let mut text = String::new();
    for section in file.split("\n\n") {
        let lines: Vec<&str> = section.lines().collect();
        let Some(at) = lines.iter().position(|line| line.trim_start_matches("# ").starts_with('[')) else { continue };
        let name = lines[at].trim_start_matches("# ").trim_matches(['[', ']']);
        let about: Vec<&str> = lines[..at].iter().map(|line| line.trim_start_matches("# ")).collect();
        let body = lines[at..].join("\n");
        let _ = writeln!(text, "## `{name}`\n\n{}\n\n```toml\n{body}\n```\n", about.join("\n"));
    }
    finish(&text)
}

/// A heading for each command with its help, then those of its subcommands.
fn commands(herma: &Path, path: &mut Vec<String>) -> io::Result<String> {
    let mut arguments: Vec<&str> = path.iter().map(String::as_str).collect();
    arguments.push("--help");
    let help = printed(herma, &arguments)?;
    let name = ["herma"].into_iter().chain(path.iter().map(String::as_str)).collect::<Vec<_>>().join(" ");
    // The options of every command are shown once, on the first page.
    let shown = if path.is_empty() { help.clone() } else { without_common(&help) };
    let mut text = format!("## `{name}`\n\n```text\n{}\n```\n\n", shown.trim_end());
    for subcommand in subcommands(&help) {
        path.push(subcommand);
        text.push_str(&commands(herma, path)?);
        path.pop();
    }
    Ok(if path.is_empty() { finish(&text) } else { text })
}

/// The names in the list of commands of a help text.
fn subcommands(help: &str) -> Vec<String> {
    let list = help.split_once("\nCommands:\n").map_or("", |(_, rest)| rest.split("\n\n").next().unwrap_or_default());
    let names = list.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = names.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help");
    names.map(str::to_owned).collect()
}

/// A help text without the options that every command has.
fn without_common(help: &str) -> String {
    let mut is_common = false;
    let paragraphs = help.split("\n\n").filter(|paragraph| {
        // In the long form each option is a paragraph of its own, and begins with spaces.
        is_common = paragraph.starts_with("Where things are:") || (is_common && paragraph.starts_with(' '));
        !is_common
    });
    paragraphs.collect::<Vec<_>>().join("\n\n")
}

fn finish(text: &str) -> String {
    format!("{}\n", text.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_section_of_the_settings_has_a_heading() {
        let file =
            "# The configuration.\n\n# Where it listens.\n[server]\n# HOST:PORT\nlisten = 1\n\n# Off.\n# [jobs]\n";
        let page = "## `server`\n\nWhere it listens.\n\n```toml\n[server]\n# HOST:PORT\nlisten = 1\n```\n\n\
                    ## `jobs`\n\nOff.\n\n```toml\n# [jobs]\n```\n";
        assert_eq!(settings(file), page);
    }

    #[test]
    fn commands_are_found_in_a_help_text() {
        let help = "About.\n\nUsage: x\n\nCommands:\n  serve  Answer\n         on\n  help   Print\n\nOptions:\n  -h\n";
        assert_eq!(subcommands(help), ["serve"]);
        assert_eq!(without_common("A\n\nWhere things are:\n  --data\n\nExamples:\n  x"), "A\n\nExamples:\n  x");
        let long = "A\n\nWhere things are:\n  --data\n\n  --store\n\nExamples:\n  x\n\n  y";
        assert_eq!(without_common(long), "A\n\nExamples:\n  x\n\n  y");
    }
}

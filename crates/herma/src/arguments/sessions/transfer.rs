//! Export and import of conversations.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use herma_gateway::access::DEFAULT_TENANT;
use herma_model::{Alias, SessionKind};

use super::browse::kinds;
use crate::arguments::tenant;

pub(super) const EXPORT_HELP: &str = "\
Examples:
  herma sessions export trip                       read it, as Markdown
  herma sessions export trip --output trip.md
  herma sessions export --all --output all.jsonl   everything there is, to be imported again
  herma sessions export trip recipe --format jsonl | gzip > two.jsonl.gz

Everything that was said is part of it, also before compactions. JSON Lines have every fact that `herma sessions import` \
needs to have the conversations again; keys and secrets are in neither. A branch has with it what it inherits. A file is \
there whole or not at all. docs/IMPORT.md describes the lines.";

/// Flags of `sessions export`.
#[derive(Args)]
pub(crate) struct ExportFlags {
    /// Conversations, by short id, any id or name that leads to them, or as much of an id's beginning as is unique
    #[arg(
        value_name = "ID",
        value_parser = |text: &str| Alias::parse(text),
        required_unless_present = "all",
        conflicts_with = "all"
    )]
    pub(crate) ids: Vec<Alias>,
    /// Every conversation there is, archived ones too
    #[arg(long)]
    pub(crate) all: bool,
    /// Of all, only this kind: main, auxiliary, background, branch or continuation
    #[arg(long, value_name = "KIND", value_parser = kinds(), hide_possible_values = true, requires = "all")]
    pub(crate) kind: Option<SessionKind>,
    /// Of all, only what was archived
    #[arg(long, requires = "all")]
    pub(crate) archived: bool,
    /// How it is written [default: jsonl if the file's name ends so, else markdown]
    #[arg(long, value_name = "FORMAT", value_enum, hide_possible_values = false)]
    format: Option<ExportFormat>,
    /// File to write [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Write over a file that is there
    #[arg(long, requires = "output")]
    pub(crate) force: bool,
    /// Tenant whose conversations they are
    #[arg(long, value_name = "NAME", value_parser = tenant, default_value = DEFAULT_TENANT)]
    pub(crate) tenant: String,
}

/// How conversations are written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    /// For people.
    Markdown,
    /// For programs, and for import.
    Jsonl,
}

impl ExportFlags {
    /// The format of `--format`, else the one that the file's extension names.
    pub(crate) fn format(&self) -> ExportFormat {
        let named = self.output.as_deref().and_then(|file| file.extension()).and_then(|ending| ending.to_str());
        self.format.unwrap_or(match named {
            Some("jsonl" | "ndjson") => ExportFormat::Jsonl,
            _ => ExportFormat::Markdown,
        })
    }
}

pub(super) const IMPORT_HELP: &str = "\
Examples:
  herma sessions import all.jsonl
  herma sessions import all.jsonl --dry-run        see what would come of it
  zcat all.jsonl.gz | herma sessions import -

Every conversation comes back under its ids, names and kinds, and goes on where it was. What is here already is not \
brought twice, and what is different here is left as it is. A conversation whose id or name is another one's here is \
refused, and the others go on. Exit code 1 if one was refused or the file is damaged: run it again when that is put \
right.";

/// Flags of `sessions import`.
#[derive(Args)]
pub(crate) struct ImportFlags {
    /// What `herma sessions export` wrote as JSON Lines; - is standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Say what would come of it, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Tenant whose conversations they become
    #[arg(long, value_name = "NAME", value_parser = tenant, default_value = DEFAULT_TENANT)]
    pub(crate) tenant: String,
    /// Print a report as JSON in place of text
    #[arg(long)]
    pub(crate) json: bool,
}

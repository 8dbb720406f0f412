//! The command line of `herma sessions`.
//!
//! - [`browse`]: verbs that only read.
//! - [`manage`]: verbs that change or branch a conversation.
//! - [`transfer`]: export and import.

mod browse;
mod manage;
mod transfer;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use herma_gateway::access::DEFAULT_TENANT;
use herma_model::Alias;
use herma_model::provenance::CompactionMode;

use super::tenant;
use browse::{LIST_HELP, SEARCH_HELP, SHOW_HELP, TREE_HELP};
pub(crate) use browse::{ListFlags, SearchFlags, ShowFlags};
use manage::{
    ARCHIVE_HELP, BRANCH_HELP, DELETE_HELP, END_HELP, RENAME_HELP, REOPEN_HELP, RESTORE_HELP, REWIND_HELP,
    UNARCHIVE_HELP,
};
pub(crate) use manage::{BranchFlags, DeleteFlags, NamedMessage, RenameFlags, RewindFlags};
use transfer::{EXPORT_HELP, IMPORT_HELP};
pub(crate) use transfer::{ExportFlags, ExportFormat, ImportFlags};

#[derive(Subcommand)]
pub(crate) enum SessionsCommand {
    /// List conversations, most recently changed first
    #[command(after_help = LIST_HELP)]
    List(ListFlags),
    /// Show what a conversation is, and what was said last
    #[command(after_help = SHOW_HELP)]
    Show(ShowFlags),
    /// Draw where a conversation comes from and what came from it
    #[command(after_help = TREE_HELP)]
    Tree(SessionName),
    /// Find what was said, and titles
    #[command(after_help = SEARCH_HELP)]
    Search(SearchFlags),
    /// Begin a conversation with what was said in another one
    #[command(after_help = BRANCH_HELP)]
    Branch(BranchFlags),
    /// Give a conversation a title
    #[command(after_help = RENAME_HELP)]
    Rename(RenameFlags),
    /// End a conversation: it takes no turns until it is opened again
    #[command(after_help = END_HELP)]
    End(SessionName),
    /// Open an ended conversation again
    #[command(after_help = REOPEN_HELP)]
    Reopen(SessionName),
    /// Go back to an earlier message, or by some turns: the model is not shown what came after
    #[command(after_help = REWIND_HELP)]
    Rewind(RewindFlags),
    /// Give the model back what was rewound since the last turn
    #[command(after_help = RESTORE_HELP)]
    Restore(SessionName),
    /// Put a conversation away: lists leave it out, and it takes turns as before
    #[command(after_help = ARCHIVE_HELP)]
    Archive(SessionName),
    /// Bring an archived conversation back into lists
    #[command(after_help = UNARCHIVE_HELP)]
    Unarchive(SessionName),
    /// Delete a conversation for good
    #[command(after_help = DELETE_HELP, visible_alias = "rm")]
    Delete(DeleteFlags),
    /// Put a summary in place of what is old in a conversation, now
    #[command(after_help = COMPACT_HELP)]
    Compact(CompactFlags),
    /// List the compactions of a conversation, newest first
    #[command(after_help = COMPACTIONS_HELP)]
    Compactions(SessionName),
    /// Undo a compaction: the model is shown again what the summary replaced
    #[command(after_help = UNDO_HELP)]
    Undo(UndoFlags),
    /// Write conversations down, as Markdown for people or as JSON Lines for programs and for import
    #[command(after_help = EXPORT_HELP)]
    Export(ExportFlags),
    /// Bring back what was exported as JSON Lines, under the same ids
    #[command(after_help = IMPORT_HELP)]
    Import(ImportFlags),
}

const COMPACT_HELP: &str = "\
Examples:
  herma sessions compact trip --dry-run            see what would be kept, summarised and written
  herma sessions compact trip                      do it; the summary is made anew
  herma sessions compact trip --mode in_place      keep the session's id

Nothing that was said is lost: the full view still has it, and `herma sessions undo` takes a compaction back. A running \
turn is waited for.";

/// Flags of `sessions compact`.
#[derive(Args)]
pub(crate) struct CompactFlags {
    #[command(flatten)]
    pub(crate) session: SessionName,
    /// Show what it would do, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// What it does to the session: split starts a new one, in_place keeps it [default: compaction.mode]
    #[arg(long, value_name = "MODE", value_parser = modes(), hide_possible_values = true)]
    pub(crate) mode: Option<CompactionMode>,
    /// Model whose context window the conversation has to fit [default: the configured one]
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
}

const COMPACTIONS_HELP: &str = "\
Examples:
  herma sessions compactions trip
  herma sessions compactions trip --json | jq -r '.[0].summary'      the newest summary

Failed ones and undos are rows of their own. MESSAGES are numbers of the full view.";

const UNDO_HELP: &str = "\
Examples:
  herma sessions undo trip                         the last one
  herma sessions undo trip 0451e1f5                exactly this one

This undoes compactions, not turns: `herma sessions rewind` takes turns back, as /undo does in the chat. Only the last \
compaction that was not undone yet can be undone. The conversation keeps its newest session.";

/// Flags of `sessions undo`.
#[derive(Args)]
pub(crate) struct UndoFlags {
    #[command(flatten)]
    pub(crate) session: SessionName,
    /// Compaction to take back, by its short id or its id [default: the last that is not undone]
    #[arg(value_name = "CMP_ID")]
    pub(crate) compaction: Option<String>,
    /// Model whose context window the conversation has to fit then [default: the configured one]
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
}

/// Which conversation, and how to print.
#[derive(Args)]
pub(crate) struct SessionName {
    /// Conversation, by its short id, any id or name that leads to it, or as much of an id's beginning as is unique
    #[arg(value_name = "ID", value_parser = |text: &str| Alias::parse(text))]
    pub(crate) id: Alias,
    #[command(flatten)]
    pub(crate) shared: SharedFlags,
}

/// Whose conversations, and how to print.
#[derive(Args)]
pub(crate) struct SharedFlags {
    /// Tenant whose conversations they are
    #[arg(long, value_name = "NAME", value_parser = tenant, default_value = DEFAULT_TENANT)]
    pub(crate) tenant: String,
    /// Print JSON in place of text
    #[arg(long)]
    pub(crate) json: bool,
}

fn modes() -> impl TypedValueParser<Value = CompactionMode> {
    PossibleValuesParser::new(["split", "in_place"]).try_map(|word| CompactionMode::parse(&word).ok_or("is no mode"))
}

//! Verbs that only read.

use clap::Args;
use clap::builder::RangedU64ValueParser;
use herma_model::SessionKind;

use super::{SessionName, SharedFlags};

pub(super) const LIST_HELP: &str = "\
Examples:
  herma sessions list                              the last ones
  herma sessions list --kind background --limit 5
  herma sessions list --all --json | jq -r .id     a row a line, as over HTTP

KIND is that of the live session: one that a compaction began is a continuation. What was archived,
and what never had an answer, is left out unless asked for.";

/// Flags of `sessions list`.
#[derive(Args)]
pub(crate) struct ListFlags {
    #[command(flatten)]
    pub(crate) shared: SharedFlags,
    /// Only this kind: main, auxiliary, background, branch or continuation
    #[arg(long, value_name = "KIND", value_parser = kind)]
    pub(crate) kind: Option<SessionKind>,
    /// Only what was archived
    #[arg(long)]
    pub(crate) archived: bool,
    /// Also what never had an answer
    #[arg(long)]
    pub(crate) unanswered: bool,
    /// Most rows
    #[arg(long, value_name = "ROWS", default_value = "20", value_parser = count())]
    pub(crate) limit: usize,
    /// As many rows as there are
    #[arg(long, conflicts_with = "limit")]
    pub(crate) all: bool,
}

pub(super) const SHOW_HELP: &str = "\
Examples:
  herma sessions show trip
  herma sessions show sess_0190 --messages 50      as much of an id as is unique is enough
  herma sessions show trip --exact                 that very session, not where it goes on now
  herma sessions show trip --json                  the row, as over HTTP";

/// Flags of `sessions show`.
#[derive(Args)]
pub(crate) struct ShowFlags {
    #[command(flatten)]
    pub(crate) session: SessionName,
    /// How many of the last messages
    #[arg(long, value_name = "COUNT", default_value = "10", value_parser = count())]
    pub(crate) messages: usize,
    /// The very session of this id, as it is or ended, in place of the conversation's live one
    #[arg(long)]
    pub(crate) exact: bool,
}

pub(super) const TREE_HELP: &str = "\
Examples:
  herma sessions tree trip
  herma sessions tree trip --json | jq '.edges'

The continuations of a conversation stand one after the other below its first session, each with
what came from it. The arrow marks the session that was named, or the live one.";

pub(super) const SEARCH_HELP: &str = "\
Examples:
  herma sessions search fjord
  herma sessions search '\"midnight sun\" -rain'    a phrase, without a word
  herma sessions search 'osl* OR bergen' --limit 5

All words must occur, in any order. A conversation is in the answer once, with its best hit.";

/// Flags of `sessions search`.
#[derive(Args)]
pub(crate) struct SearchFlags {
    /// Words to look for; a phrase in double quotes, a beginning as word*, either as a OR b
    #[arg(value_name = "QUERY", required = true)]
    query: Vec<String>,
    #[command(flatten)]
    pub(crate) shared: SharedFlags,
    /// Most rows
    #[arg(long, value_name = "ROWS", default_value = "20", value_parser = count())]
    pub(crate) limit: usize,
}

impl SearchFlags {
    /// The words of the query as one search.
    pub(crate) fn query(&self) -> String {
        self.query.join(" ")
    }
}

pub(super) fn kind(text: &str) -> Result<SessionKind, &'static str> {
    SessionKind::parse(text).ok_or("must be main, auxiliary, background, branch or continuation")
}

fn count() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..)
}

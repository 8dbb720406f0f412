//! Verbs that only read.

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use herma_gateway::now;
use herma_model::{Alias, SessionKey, SessionKind, Timestamp};
use herma_store::ListOrder;

use super::{SessionName, SharedFlags};
use crate::arguments::at_least_one;
use crate::local_time;

pub(super) const LIST_HELP: &str = "\
Examples:
  herma sessions list                              the last ones
  herma sessions list --all                        every one, also what is left out otherwise
  herma sessions list --kind background --limit 5
  herma sessions list --title oslo --since 7d
  herma sessions list --all --json | jq -r .id     a row a line, as over HTTP

KIND is what the conversation began as; a compaction does not change it. ID is the short id, which every command takes. \
Helpers, background work, what never had an answer and what was archived are left out unless asked for.";

/// Flags of `sessions list`.
#[derive(Args)]
pub(crate) struct ListFlags {
    #[command(flatten)]
    pub(crate) shared: SharedFlags,
    /// Only what began as this kind: main, auxiliary, background or branch; continuation: what was split
    #[arg(long, value_name = "KIND", value_parser = kinds(), hide_possible_values = true)]
    pub(crate) kind: Option<SessionKind>,
    /// Only conversations that began there: cli, api, acp or delegate_task; imported ones keep what they had
    #[arg(long, value_name = "NAME")]
    pub(crate) source: Option<String>,
    /// Only this session key
    #[arg(long, value_name = "KEY", value_parser = |text: &str| SessionKey::parse(text))]
    pub(crate) session_key: Option<SessionKey>,
    /// Only conversations whose editor works in this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<String>,
    /// Only direct children of this conversation
    #[arg(long, value_name = "ID", value_parser = |text: &str| Alias::parse(text))]
    pub(crate) parent: Option<Alias>,
    /// Only conversations with the same first session as this one
    #[arg(long, value_name = "ID", value_parser = |text: &str| Alias::parse(text))]
    pub(crate) root: Option<Alias>,
    /// Only titles with this text
    #[arg(long, value_name = "TEXT")]
    pub(crate) title: Option<String>,
    /// Only what changed since then: an age such as 7d, a day, or a moment such as 2026-05-01T12:00:00Z
    #[arg(long, value_name = "WHEN", value_parser = when)]
    pub(crate) since: Option<Timestamp>,
    /// Only what changed last before then
    #[arg(long, value_name = "WHEN", value_parser = when)]
    pub(crate) until: Option<Timestamp>,
    /// The order: updated or created, newest first; -updated or -created, oldest first
    #[arg(
        long,
        value_name = "ORDER",
        default_value = "updated",
        value_parser = orders(),
        hide_possible_values = true,
        allow_hyphen_values = true
    )]
    pub(crate) order: ListOrder,
    /// A row for each session in place of each conversation
    #[arg(long)]
    pub(crate) by_session: bool,
    /// Only what was archived, helpers too
    #[arg(long)]
    pub(crate) archived: bool,
    /// Only what never had an answer
    #[arg(long)]
    pub(crate) unanswered: bool,
    /// Most rows [default: 20, or as many as there are with --all]
    #[arg(long, value_name = "ROWS", value_parser = at_least_one::<usize>)]
    pub(crate) limit: Option<usize>,
    /// Also helpers, background work, what has no answer, and what was archived
    #[arg(long)]
    pub(crate) all: bool,
}

pub(super) const SHOW_HELP: &str = "\
Examples:
  herma sessions show trip
  herma sessions show sess_0190 --messages 50      as much of an id as is unique is enough
  herma sessions show trip --full                  messages are not cut
  herma sessions show trip --exact                 that very session, not where it goes on now
  herma sessions show trip --json                  the row, as over HTTP

Each message has a number, which `branch --at` and `rewind --to` take.";

/// Flags of `sessions show`.
#[derive(Args)]
pub(crate) struct ShowFlags {
    #[command(flatten)]
    pub(crate) session: SessionName,
    /// How many of the last messages
    #[arg(long, value_name = "COUNT", default_value = "10", value_parser = at_least_one::<usize>)]
    pub(crate) messages: usize,
    /// Messages as long as they are [default: their beginning]
    #[arg(long)]
    pub(crate) full: bool,
    /// The very session of this id, as it is or ended, in place of the conversation's live one
    #[arg(long)]
    pub(crate) exact: bool,
}

pub(super) const TREE_HELP: &str = "\
Examples:
  herma sessions tree trip
  herma sessions tree trip --json | jq '.edges'

The continuations of a conversation stand one after the other below its first session, each with what came from it. \
`live` is where the next message of a conversation goes. The arrow marks the session that was named.";

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
    #[arg(long, value_name = "ROWS", default_value = "20", value_parser = at_least_one::<usize>)]
    pub(crate) limit: usize,
}

impl SearchFlags {
    /// The words of the query as one search.
    pub(crate) fn query(&self) -> String {
        self.query.join(" ")
    }
}

/// A kind of session. Shells complete its words.
pub(super) fn kinds() -> impl TypedValueParser<Value = SessionKind> {
    const WORDS: [&str; 5] = ["main", "auxiliary", "background", "branch", "continuation"];
    PossibleValuesParser::new(WORDS).try_map(|word| SessionKind::parse(&word).ok_or("is no kind"))
}

fn when(text: &str) -> Result<Timestamp, &'static str> {
    local_time::typed(text, now())
        .ok_or("must be an age such as 7d or 12h, a day such as 2026-05-01, or a moment such as 2026-05-01T12:00:00Z")
}

fn orders() -> impl TypedValueParser<Value = ListOrder> {
    PossibleValuesParser::new(["updated", "-updated", "created", "-created"]).map(|word| match word.as_str() {
        "-updated" => ListOrder::UpdatedAscending,
        "created" => ListOrder::CreatedDescending,
        "-created" => ListOrder::CreatedAscending,
        _ => ListOrder::UpdatedDescending,
    })
}

//! Verbs that change or branch a conversation.

use std::str::FromStr;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use herma_model::{Alias, MessageId, Seq};
use herma_store::{Children, Facts};
use herma_wire::resource::title;

use super::SessionName;
use crate::arguments::at_least_one;

pub(super) const BRANCH_HELP: &str = "\
Examples:
  herma sessions branch trip                       at the end, under a new id
  herma sessions branch trip --id trip-by-train --title 'By train'
  herma sessions branch trip --at 3                after the answer that message 3 belongs to

`herma sessions show` prints the numbers of messages.

The conversation that is left never notices.";

/// Flags of `sessions branch`.
#[derive(Args)]
pub(crate) struct BranchFlags {
    #[command(flatten)]
    pub(crate) session: SessionName,
    /// Message after whose answer it begins: its number in `herma sessions show`, or its id [default: the last]
    #[arg(long, value_name = "MESSAGE")]
    pub(crate) at: Option<NamedMessage>,
    /// Name for the branch [default: a new id]
    #[arg(long = "id", id = "branch_id", value_name = "NAME", value_parser = |text: &str| Alias::parse(text))]
    pub(crate) name: Option<Alias>,
    /// Title of the branch
    #[arg(long, value_name = "TITLE", value_parser = title)]
    pub(crate) title: Option<String>,
}

pub(super) const RENAME_HELP: &str = "\
Examples:
  herma sessions rename trip 'Oslo in May'
  herma sessions rename trip ''                    remove the title

Ids stay as they are.";

/// Flags of `sessions rename`.
#[derive(Args)]
pub(crate) struct RenameFlags {
    #[command(flatten)]
    pub(crate) session: SessionName,
    /// What it is called from now on; an empty text removes the title
    #[arg(value_name = "TITLE", value_parser = title_or_none)]
    pub(crate) title: Title,
}

/// The new title. `None` removes the title.
#[derive(Clone)]
pub(crate) struct Title(pub(crate) Option<String>);

pub(super) const END_HELP: &str = "\
Examples:
  herma sessions end trip
  herma sessions reopen trip                       take it back";

pub(super) const REOPEN_HELP: &str = "\
Examples:
  herma sessions reopen trip";

pub(super) const REWIND_HELP: &str = "\
Examples:
  herma sessions rewind trip --turns 1             the model is not shown the last turn any more
  herma sessions rewind trip --to 3                the model's view ends with message 3
  herma sessions restore trip                      take it back, until the next turn

`herma sessions show` prints the numbers of messages. The full view keeps everything, and marks it as rewound.";

/// Flags of `sessions rewind`.
#[derive(Args)]
pub(crate) struct RewindFlags {
    #[command(flatten)]
    pub(crate) session: SessionName,
    #[command(flatten)]
    pub(crate) back: Back,
}

/// How far back; one of both.
#[derive(Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Back {
    /// Message with which the model's view ends: its number in `herma sessions show`, or its id
    #[arg(long, value_name = "MESSAGE")]
    pub(crate) to: Option<NamedMessage>,
    /// How many of the last turns go
    #[arg(long, value_name = "N", value_parser = at_least_one::<u32>)]
    pub(crate) turns: Option<u32>,
}

pub(super) const RESTORE_HELP: &str = "\
Examples:
  herma sessions restore trip

This gives back everything that was rewound since the last turn.";

pub(super) const ARCHIVE_HELP: &str = "\
Examples:
  herma sessions archive trip
  herma sessions list --archived                   what was put away
  herma sessions unarchive trip                    take it back";

pub(super) const UNARCHIVE_HELP: &str = "\
Examples:
  herma sessions unarchive trip";

pub(super) const DELETE_HELP: &str = "\
Examples:
  herma sessions delete trip                       asks first
  herma sessions delete trip --children delete --yes

With --yes the conversation is named whole, not by a short id or a beginning.

This cannot be undone. What branches inherit stays readable in them, unless they go as well.";

/// Flags of `sessions delete`.
#[derive(Args)]
pub(crate) struct DeleteFlags {
    #[command(flatten)]
    pub(crate) session: SessionName,
    /// What becomes of branches and helpers that came from it: keep or delete
    #[arg(long, value_name = "WHAT", default_value = "keep", value_parser = children(), hide_possible_values = true)]
    pub(crate) children: Children,
    /// What becomes of the facts that were learnt in it: keep or delete
    #[arg(long, value_name = "WHAT", default_value = "delete", value_parser = memories(), hide_possible_values = true)]
    pub(crate) memories: Facts,
    /// Do not ask
    #[arg(long)]
    pub(crate) yes: bool,
}

fn title_or_none(text: &str) -> Result<Title, String> {
    if text.is_empty() { Ok(Title(None)) } else { title(text).map(|title| Title(Some(title))) }
}

fn children() -> impl TypedValueParser<Value = Children> {
    keep_or_delete().map(|word| if word == KEEP { Children::Keep } else { Children::Delete })
}

fn memories() -> impl TypedValueParser<Value = Facts> {
    keep_or_delete().map(|word| if word == KEEP { Facts::Keep } else { Facts::Erase })
}

const KEEP: &str = "keep";

fn keep_or_delete() -> PossibleValuesParser {
    PossibleValuesParser::new([KEEP, "delete"])
}

/// A message of a conversation, as it is typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NamedMessage {
    /// Its number in the full view.
    Number(Seq),
    /// Its id.
    Id(MessageId),
}

impl FromStr for NamedMessage {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = text.parse().ok().filter(|number| *number > 0).map(|number| Self::Number(Seq(number)));
        number
            .or_else(|| text.parse().ok().map(Self::Id))
            .ok_or("must be the number of a message, as `herma sessions show` prints it, or a whole id, msg_...")
    }
}

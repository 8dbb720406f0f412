//! `herma sessions show`: prints facts about a conversation, and its last messages.

use std::collections::{HashMap, HashSet};

use herma_gateway::{GatewayError, Sessions};
use herma_model::limits::MAX_PAGE;
use herma_model::provenance::CompactionMode;
use herma_model::{Alias, Seq, SessionKind, TurnId, TurnState, Utterance};
use herma_store::{ConversationRow, Entry, MessageRange, Order, Pin};

use super::id_prefix::short_id;
use super::local_store;
use crate::arguments::ShowFlags;
use crate::terminal::{Colour, Stream, Style};
use crate::text_width::{columns, named, wrapped};
use crate::{excerpt, next_command, output, table};

/// The most characters of a title.
const TITLE: usize = 256;

/// How far the rest of a message is indented in a narrow terminal.
const INDENT: usize = 2;
/// The columns of a fact's name, with the space behind it.
const NAME: usize = 15;

/// Prints a conversation at its head, or exactly the named session.
pub(super) async fn print(sessions: &Sessions<'_>, alias: &Alias, flags: &ShowFlags) -> anyhow::Result<()> {
    let pin = if flags.exact { Pin::Exact } else { Pin::Head };
    let row = sessions.find(alias, pin).await?;
    if flags.session.shared.json {
        return local_store::print_row(&row);
    }
    let facts = std::iter::once(("short id", short_id(row.facts.id))).chain(facts(&row));
    let width = Stream::Stdout.width();
    let mut lines: Vec<String> = facts.flat_map(|(name, fact)| named(name, &fact, NAME, width)).collect();
    let said = last(sessions, alias, pin, flags.messages).await?;
    if !said.entries.is_empty() {
        lines.push(String::new());
        lines.extend(said.lines(flags.full).iter().flat_map(|text| text.lines()).map(|line| fitted(line, width)));
    }
    output::answer(&lines.join("\n"))?;
    if !flags.full && said.entries.iter().any(|entry| excerpt::is_cut(text_of(entry))) {
        output::note(&format!(
            "… stands for the rest of a message; --full shows all of it, and so does {}",
            export(&row)
        ));
    }
    Ok(())
}

/// A line that is wrapped at words if the terminal is too narrow for it.
fn fitted(line: &str, width: Option<usize>) -> String {
    match width {
        Some(width) if columns(line) > width && !line.contains('\u{1b}') => wrapped(line, width - INDENT)
            .iter()
            .enumerate()
            .map(|(number, part)| if number == 0 { part.clone() } else { format!("{}{part}", " ".repeat(INDENT)) })
            .collect::<Vec<_>>()
            .join("\n"),
        _ => line.to_owned(),
    }
}

/// The end of a conversation.
#[derive(Default)]
struct LastEntries {
    /// Newest first.
    entries: Vec<Entry>,
    /// How the turn of each message ended.
    states: HashMap<Seq, TurnState>,
    /// The messages that were taken back.
    rewound: HashSet<Seq>,
}

impl LastEntries {
    /// The entries, oldest first. After the last message of a turn stands that it was taken back, or how it ended if it
    /// has no answer.
    fn lines(&self, full: bool) -> Vec<String> {
        let mut lines = Vec::new();
        let mut entries = self.entries.iter().rev().peekable();
        while let Some(one) = entries.next() {
            lines.push(if full { whole(one) } else { entry(one) });
            if turn_of(one) != entries.peek().and_then(|next| turn_of(next)) {
                let failed = self.states.get(&one.seq()).copied().and_then(unanswered);
                let rewound =
                    self.rewound.contains(&one.seq()).then_some("the turn was taken back: the model is not shown it");
                let endings: Vec<_> = failed.into_iter().chain(rewound).collect();
                if !endings.is_empty() {
                    lines.push(marked(&format!("  ({})", endings.join("; "))));
                }
            }
        }
        lines
    }
}

fn turn_of(entry: &Entry) -> Option<TurnId> {
    match entry {
        Entry::Said(message) => Some(message.turn),
        Entry::Summary(_) => None,
    }
}

/// A line that a reader should notice.
fn marked(line: &str) -> String {
    if Stream::Stdout.has_colours() { Style::colour(Colour::Red).paint(line) } else { line.to_owned() }
}

fn unanswered(state: TurnState) -> Option<&'static str> {
    match state {
        TurnState::Failed => Some("the turn failed"),
        TurnState::Cancelled => Some("the turn was cancelled"),
        TurnState::Interrupted => Some("the turn was interrupted"),
        TurnState::Queued | TurnState::Running | TurnState::Completed => None,
    }
}

/// The last entries of the full view.
async fn last(sessions: &Sessions<'_>, alias: &Alias, pin: Pin, most: usize) -> Result<LastEntries, GatewayError> {
    let (mut last, mut before) = (LastEntries::default(), None);
    loop {
        let limit = MAX_PAGE.min(most - last.entries.len());
        let range = MessageRange { order: Order::NewestFirst { before }, limit, pin };
        let page = sessions.messages(alias, range).await?;
        last.entries.extend(page.entries);
        last.states.extend(page.turn_states);
        last.rewound.extend(page.rewound);
        before = last.entries.last().map(Entry::seq);
        if !page.has_more || last.entries.len() >= most {
            return Ok(last);
        }
    }
}

fn entry(entry: &Entry) -> String {
    match entry {
        Entry::Said(message) => format!("{} {}", message.seq.0, excerpt::of(message)),
        Entry::Summary(summary) => format!("{} {}", summary.seq.0, excerpt::of_summary(summary)),
    }
}

/// An entry with all of its text. Further lines are indented, so that the numbers of entries stand out.
fn whole(entry: &Entry) -> String {
    let text = match entry {
        Entry::Said(message) => excerpt::whole(message),
        Entry::Summary(summary) => excerpt::whole_summary(summary),
    };
    format!("{} {text}", entry.seq().0).replace('\n', "\n  ")
}

fn text_of(entry: &Entry) -> &Utterance {
    match entry {
        Entry::Said(message) => &message.said,
        Entry::Summary(summary) => &summary.said,
    }
}

/// The command that writes everything down.
fn export(row: &ConversationRow) -> String {
    let name = row.facts.name().map_or_else(|| short_id(row.facts.id), str::to_owned);
    next_command::of(&["sessions", "export", &name])
}

/// The facts about a conversation, each with its name. Facts that do not apply are left out.
pub(super) fn facts(row: &ConversationRow) -> Vec<(&'static str, String)> {
    let (conversation, session) = (&row.facts, &row.session);
    let parent = session.parent.as_ref().map(|(parent, relation)| format!("{parent} ({})", relation.as_str()));
    let compactions = conversation.compaction_mode.map(|mode| match mode {
        CompactionMode::Split => format!("{}; the last one began a session", conversation.compaction_count),
        CompactionMode::InPlace => format!("{}; the last one kept the session", conversation.compaction_count),
    });
    // Of a conversation that was split, the row is about its last session. Its kind and maker say nothing of the whole.
    let is_continuation = session.kind == SessionKind::Continuation;
    let continues = (session.depth > 0).then(|| match session.depth {
        1 => "1 earlier session".to_owned(),
        depth => format!("{depth} earlier sessions"),
    });
    let facts = [
        ("name", conversation.name().map(output::printable)),
        ("title", row.title.as_deref().map(|title| excerpt::line(title, TITLE))),
        ("session", Some(session.id.to_string())),
        ("conversation", Some(conversation.id.to_string())),
        ("kind", Some(conversation.origin_kind.as_str().to_owned())),
        ("state", Some(state(row))),
        ("session key", conversation.session_key.as_ref().map(|key| output::printable(key.as_str()))),
        ("source", Some(output::printable(&row.source))),
        ("made by", (!is_continuation).then(|| session.creator.as_str().to_owned())),
        ("reason", session.reason.as_deref().filter(|_| !is_continuation).map(output::printable)),
        ("parent", parent),
        ("first session", (conversation.root != session.id).then(|| conversation.root.to_string())),
        ("compactions", compactions),
        ("continues", continues),
        ("created", Some(table::minute(row.created_at))),
        ("changed", Some(table::minute(row.updated_at))),
        ("messages", Some(messages(row))),
        ("tokens", Some(format!("{} in, {} out", row.usage.input, row.usage.output))),
        ("tree tokens", below(row)),
        ("cost", row.cost.map(|cost| cost.units().to_string())),
    ];
    facts.into_iter().filter_map(|(name, fact)| fact.map(|fact| (name, fact))).collect()
}

fn messages(row: &ConversationRow) -> String {
    let turns = if row.turn_count == 1 { "turn" } else { "turns" };
    match row.facts.origin_kind {
        SessionKind::Branch => {
            format!("{} with those it inherits; {} {turns} of its own", row.message_count, row.turn_count)
        }
        _ => format!("{} in {} {turns}", row.message_count, row.turn_count),
    }
}

/// The tokens of the conversation and everything below it, if these are more than its own.
fn below(row: &ConversationRow) -> Option<String> {
    let tree = row.usage_tree;
    (tree.total() > row.usage.total()).then(|| format!("{} in, {} out", tree.input, tree.output))
}

fn state(row: &ConversationRow) -> String {
    let state = match row.ended {
        Some((at, reason)) => format!("ended {} ({})", table::minute(at), reason.as_str()),
        None if row.running => "a turn is running".to_owned(),
        None => "open".to_owned(),
    };
    if row.archived { format!("{state}, archived") } else { state }
}

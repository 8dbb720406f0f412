//! A conversation as Markdown: facts about it, and all messages with role and time.
//!
//! Messages are quoted, and input and output of tools is fenced. So no text in them can be taken for a part of this
//! page.

mod message;
mod text;

use std::collections::HashMap;

use herma_model::compaction::CompactionOutcome;
use herma_model::copy::{CopiedCompaction, CopiedConversation, CopiedMessage, CopiedSource, Piece};
use herma_model::{CompactionId, TurnId, TurnState, Utterance};
use herma_store::ConversationRow;
use herma_wire::chat::shown_text;

use self::message::ParsedPayload;
use self::text::{code, escaped, quoted, second};
use super::Pieces;
use super::target::Target;
use crate::output;
use crate::sessions::show;

/// Writes a conversation. If others were written before, a rule separates it from them.
pub(super) async fn conversation(
    row: &ConversationRow,
    pieces: &mut Pieces,
    target: &mut Target,
    follows: bool,
) -> anyhow::Result<()> {
    if follows {
        target.line("\n---\n")?;
    }
    target.line(&output::printable(&heading(row)))?;
    let mut page = MarkdownPage::default();
    while let Some(piece) = pieces.recv().await {
        if let Some(part) = page.add(piece?) {
            target.line(&output::printable(&format!("\n{part}")))?;
        }
    }
    Ok(())
}

/// The title, and a line for each fact.
fn heading(row: &ConversationRow) -> String {
    let name = row.title.as_deref().unwrap_or_else(|| row.session.id.as_str());
    let facts = show::facts(row).into_iter().filter(|(name, _)| *name != "title");
    // Messages have their times with the second, in UTC.
    let exact = |name: &str, fact: String| match name {
        "created" => second(row.created_at),
        "changed" => second(row.updated_at),
        _ => fact,
    };
    let facts: Vec<String> = facts.map(|(name, fact)| format!("- {name}: {}", code(&exact(name, fact)))).collect();
    format!("# {}\n\n{}", escaped(name), facts.join("\n"))
}

/// What is needed of earlier pieces to write the messages.
#[derive(Default)]
struct MarkdownPage {
    turns: HashMap<TurnId, (TurnState, u32)>,
    compactions: HashMap<CompactionId, CopiedCompaction>,
    has_source: bool,
}

impl MarkdownPage {
    /// Adds a piece. Returns the text to write for it, if any.
    fn add(&mut self, piece: Piece) -> Option<String> {
        match piece {
            Piece::Inherited(source) => Some(self.inherited(&source)),
            Piece::Conversation(conversation) => self.begun(&conversation),
            Piece::Session(_) => None,
            Piece::Turn(turn) => {
                self.turns.insert(turn.id, (turn.state, turn.attempt));
                None
            }
            Piece::Compaction(compaction) => {
                self.compactions.insert(compaction.id, *compaction);
                None
            }
            Piece::Message(message) => Some(match message.compaction_id {
                Some(compaction) => self.summary(&message, compaction),
                None => self.said(&message),
            }),
        }
    }

    fn inherited(&mut self, source: &CopiedSource) -> String {
        self.has_source = true;
        format!("*What it inherits of {}:*", code(&source.id.to_string()))
    }

    /// Marks where the conversation's own messages begin, and writes its system messages.
    fn begun(&self, conversation: &CopiedConversation) -> Option<String> {
        let own = self.has_source.then(|| "*Its own:*".to_owned());
        let system = conversation.system.iter().map(|payload| {
            let parsed = ParsedPayload::read(payload);
            format!("## {}\n\n{}", parsed.role, quoted(&parsed.text()))
        });
        let parts: Vec<String> = own.into_iter().chain(system).collect();
        (!parts.is_empty()).then(|| parts.join("\n\n"))
    }

    fn said(&self, message: &CopiedMessage) -> String {
        let turn = message.turn_id.and_then(|turn| self.turns.get(&turn)).copied();
        message::to_markdown(message, turn)
    }

    /// A compaction: the summary that replaced messages in the model's context from here on.
    fn summary(&self, message: &CopiedMessage, compaction: CompactionId) -> String {
        let facts = self.compactions.get(&compaction);
        let is_trimmed = facts.is_some_and(|compaction| compaction.outcome == CompactionOutcome::Trimmed);
        let (heading, what) = if is_trimmed { ("left out", "this note in place") } else { ("summary", "this summary") };
        let facts = facts.map(|compaction| {
            let carried: Vec<String> = compaction.carried.iter().map(|place| place.0.to_string()).collect();
            let kept = match carried.as_slice() {
                [] => String::new(),
                carried => format!(", but for {}, kept word for word", carried.join(", ")),
            };
            let undone = if compaction.outcome == CompactionOutcome::Undone { ", undone later" } else { "" };
            let mode = compaction.mode.as_str();
            let (first, last) = (compaction.first_place.0, compaction.last_place.0);
            format!(" of messages {first} to {last}{kept} ({mode}{undone})")
        });
        let facts = facts.unwrap_or_default();
        let text = shown(&message.said);
        format!(
            "---\n\n## {} · {heading} · {}\n\n*Compaction {}: from here on the model was shown {what}{facts}.*\n\n{}\n\n---",
            message.place.0,
            second(message.created_at),
            code(&compaction.to_string()),
            quoted(&text)
        )
    }
}

fn shown(said: &Utterance) -> String {
    shown_text(said).unwrap_or_default()
}

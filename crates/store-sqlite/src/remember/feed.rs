//! What this process has just indexed, added to the lists that are known. So they need not be read again.
//!
//! Each write of the index has a number. Between two writes of this process another one may have written; then the
//! lists lack something, and are read again when they are asked for.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use herma_model::{ConversationId, MessageId, Role, Seq, SessionKey, TenantId, Timestamp};

use super::cache::Entries;
use super::known::Known;
use super::said::{Fed, Said, SaidList};
use crate::search::terms;

/// The longest text that is kept before anyone asks for it, in bytes.
const LONGEST_TEXT: usize = 2 * 1024;
/// How many of the newest messages of a list may have the same text.
const SAME_TEXT: usize = 4;

/// What one write of the index has added.
pub(crate) struct Written {
    /// The number of the write.
    pub(crate) number: i64,
    /// Whether the rows are all that it added, in the order of their keys. If not, they were indexed again.
    pub(crate) is_new: bool,
    /// Only messages with a session key.
    pub(crate) messages: Vec<IndexedMessage>,
}

/// A message that was indexed under a session key.
pub(crate) struct IndexedMessage {
    pub(crate) key: i64,
    pub(crate) tenant: i64,
    pub(crate) session_key: String,
    pub(crate) conversation: ConversationId,
    pub(crate) message: MessageId,
    pub(crate) role: Role,
    pub(crate) created_at: Timestamp,
    pub(crate) seq: Seq,
    pub(crate) digest: [u8; 16],
    /// Whether its turn is recorded. `None`: that is not known yet.
    pub(crate) recorded: Option<bool>,
    /// Its text. `None` if the message may have to stay hidden.
    pub(crate) text: Option<String>,
    /// What the index has of it.
    pub(crate) terms: String,
}

impl IndexedMessage {
    /// The message, with the text of an equal one that is known, if there is one.
    fn said(&mut self, known: Option<&SaidList>) -> Said {
        let newest = known.into_iter().flat_map(|list| list.rows.iter().take(SAME_TEXT));
        let mut same = newest.filter(|row| row.said.digest == self.digest).filter_map(|row| row.said.text.get()?.clone());
        let text = self.text.take().filter(|text| text.len() <= LONGEST_TEXT && !text.trim().is_empty());
        let text = text.map(|text| same.next().unwrap_or_else(|| Arc::from(text)));
        Said {
            key: self.key,
            conversation: self.conversation,
            message: self.message,
            role: self.role,
            created_at: self.created_at,
            seq: self.seq,
            digest: self.digest,
            text: text.map_or_else(OnceLock::new, |text| OnceLock::from(Some(text))),
        }
    }
}

impl Entries {
    /// Adds what this process has indexed.
    pub(super) fn feed(&mut self, written: Written, now: Instant) {
        let Written { number, is_new, messages } = written;
        let from = match self.fed {
            Some(fed) if fed.through == number - 1 => fed.from,
            Some(_) | None => number - 1,
        };
        let mut grown: HashMap<(TenantId, SessionKey), usize> = HashMap::new();
        for mut message in messages {
            let Ok(session_key) = SessionKey::parse(&message.session_key) else { continue };
            let scope = (TenantId(message.tenant), session_key);
            let Some(entry) = self.all.get_mut(&scope) else { continue };
            if is_new {
                let bytes = entry.known.add(&mut message, from, number);
                *grown.entry(scope).or_default() += bytes;
            } else if grown.insert(scope, 0).is_none() {
                // Its place among the others is anywhere.
                entry.known.leave_feed();
            }
        }
        self.fed = Some(Fed { from, through: number, at: now });
        grown.into_iter().for_each(|(scope, bytes)| self.grow(&scope, bytes));
    }
}

impl Known {
    /// Adds a message to all lists that it belongs to. Returns by about how many bytes that has grown.
    fn add(&mut self, message: &mut IndexedMessage, from: i64, number: i64) -> usize {
        let (mut grown, mut said) = (0, None);
        let terms = std::mem::take(&mut message.terms);
        for term in terms::words_of_line(&terms) {
            terms::each_word_found_by(term, |word| {
                let Some(known) = self.words.get_mut(word) else { return };
                for (except, list) in known.lists() {
                    if !list.takes(from, number) || except == Some(message.conversation) {
                        continue;
                    }
                    match message.recorded {
                        Some(true) => {
                            let said = said.get_or_insert_with(|| {
                                let said = Arc::new(message.said(Some(list)));
                                grown += said.bytes();
                                said
                            });
                            grown += list.add(said);
                        }
                        Some(false) => {}
                        None => list.leave(),
                    }
                }
            });
        }
        grown
    }
}

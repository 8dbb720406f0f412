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
        let mut same =
            newest.filter(|row| row.said.digest == self.digest).filter_map(|row| row.said.text.get()?.clone());
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use herma_model::Seq;
    use uuid::Uuid;

    use super::*;
    use crate::remember::said::Moment;
    use crate::search::terms::RowOwner;

    const LATER: Duration = Duration::from_secs(3600);

    fn conversation(number: u128) -> ConversationId {
        ConversationId::from_uuid(Uuid::from_u128(number))
    }

    fn key(text: &str) -> SessionKey {
        SessionKey::parse(text).unwrap()
    }

    fn message(number: i64, words: &str) -> IndexedMessage {
        IndexedMessage {
            key: number,
            tenant: 1,
            session_key: "ann".to_owned(),
            conversation: conversation(1),
            message: MessageId::from_uuid(Uuid::from_u128(7)),
            role: Role::User,
            created_at: Timestamp(1),
            seq: Seq(1),
            digest: [u8::try_from(number).unwrap(); 16],
            recorded: Some(true),
            text: Some(words.to_owned()),
            terms: terms::of_text(
                words,
                RowOwner { key: number, tenant: 1, conversation: 1, session_key: Some("ann") },
                |_| false,
            ),
        }
    }

    /// A cache whose index has been written nine times, with empty lists of some words of a key.
    fn entries(words: &[&str]) -> Entries {
        let mut entries = Entries::default();
        read(&mut entries, words, None, 9);
        entries
    }

    /// Keeps empty lists of some words that were read when the index had been written so often.
    fn read(entries: &mut Entries, words: &[&str], except: Option<ConversationId>, through: i64) {
        let mut known = Known::nothing(1);
        for word in words {
            known.word_to_fill(word).put(except, SaidList::new(Vec::new(), false, true, through, Instant::now()));
        }
        entries.keep(&(TenantId(1), key("ann")), known);
    }

    fn new(number: i64, messages: Vec<IndexedMessage>) -> Written {
        Written { number, is_new: true, messages }
    }

    /// The keys of a list, if a recall an hour later may use it.
    fn fresh(entries: &Entries, word: &str, except: Option<ConversationId>, indexed: i64) -> Option<Vec<i64>> {
        let moment = Moment { fed: entries.fed, indexed, now: Instant::now() + LATER };
        let list = entries.all[&(TenantId(1), key("ann"))].known.word(word).unwrap().list(except).unwrap();
        list.is_fresh(moment).then(|| list.rows.iter().map(|row| row.key).collect())
    }

    #[test]
    fn what_is_indexed_is_added_to_the_lists_of_its_words_newest_first() {
        let mut entries = entries(&["dog", "cats", "bird"]);
        read(&mut entries, &["dog"], Some(conversation(1)), 9);
        entries.feed(new(10, vec![message(1, "a dog and dogs"), message(2, "my cat")]), Instant::now());
        let other = IndexedMessage { conversation: conversation(2), ..message(4, "dogs") };
        entries.feed(new(11, vec![message(3, "the dog"), other]), Instant::now());
        for (word, except, keys) in [
            ("dog", None, vec![4, 3, 1]),
            ("dog", Some(conversation(1)), vec![4]),
            ("cats", None, vec![2]),
            ("bird", None, vec![]),
        ] {
            assert_eq!(fresh(&entries, word, except, 11), Some(keys), "{word} {except:?}");
        }
        assert_eq!(fresh(&entries, "dog", None, 12), None, "more was indexed than was added");
    }

    #[test]
    fn a_write_of_another_process_leaves_lists_behind_until_they_are_read_again() {
        let mut entries = entries(&["dog"]);
        entries.feed(new(10, vec![message(1, "dog")]), Instant::now());
        // Another process has written for the eleventh time.
        entries.feed(new(12, vec![message(3, "dog")]), Instant::now());
        assert_eq!(fresh(&entries, "dog", None, 12), None);
        read(&mut entries, &["dog"], None, 12);
        entries.feed(new(13, vec![message(4, "dog")]), Instant::now());
        assert_eq!(fresh(&entries, "dog", None, 13), Some(vec![4]));
    }

    #[test]
    fn a_list_that_was_read_before_something_was_added_to_the_others_is_not_complete() {
        let mut entries = entries(&["dog"]);
        entries.feed(new(10, vec![message(1, "dog")]), Instant::now());
        read(&mut entries, &["cat"], None, 9);
        entries.feed(new(11, Vec::new()), Instant::now());
        assert_eq!(fresh(&entries, "cat", None, 11), None);
        assert_eq!(fresh(&entries, "dog", None, 11), Some(vec![1]));
        // One that was read after the write, but before it was added, has it once.
        read(&mut entries, &["bird"], None, 12);
        entries.feed(new(12, vec![message(2, "bird")]), Instant::now());
        assert_eq!(fresh(&entries, "bird", None, 12), Some(vec![]));
    }

    #[test]
    fn a_list_is_read_again_if_a_message_may_belong_anywhere_in_it_or_nowhere() {
        let undecided = IndexedMessage { recorded: None, ..message(2, "dog") };
        let older = message(1, "dog");
        for (what, written) in [
            ("undecided", new(11, vec![undecided])),
            ("older", new(11, vec![older])),
            ("indexed again", Written { is_new: false, ..new(11, vec![message(9, "dog")]) }),
        ] {
            let mut entries = entries(&["dog"]);
            entries.feed(new(10, vec![message(2, "dog")]), Instant::now());
            assert_eq!(fresh(&entries, "dog", None, 10), Some(vec![2]));
            entries.feed(written, Instant::now());
            assert_eq!(fresh(&entries, "dog", None, 11), None, "{what}");
        }
    }

    #[test]
    fn nothing_is_added_to_lists_of_another_key_or_tenant() {
        let mut entries = entries(&["dog"]);
        let others = IndexedMessage { session_key: "bob".to_owned(), ..message(1, "dog") };
        let strangers = IndexedMessage { tenant: 2, ..message(2, "dog") };
        entries.feed(new(10, vec![others, strangers]), Instant::now());
        assert_eq!((fresh(&entries, "dog", None, 10), entries.all.len()), (Some(vec![]), 1));
    }

    #[test]
    fn a_key_with_very_much_keeps_the_words_that_were_asked_last() {
        let mut entries = entries(&["dog"]);
        let long = "dog ".repeat(500);
        for number in 10..2_000 {
            let mut one = message(1, "dog");
            (one.key, one.text, one.digest) = (number, Some(format!("{number} {long}")), [0; 16]);
            one.digest[..8].copy_from_slice(&number.to_le_bytes());
            entries.feed(new(number, vec![one]), Instant::now());
        }
        assert_eq!(fresh(&entries, "dog", None, 1_999).map(|keys| keys.len()), Some(96));
        assert!(entries.all[&(TenantId(1), key("ann"))].known.bytes() < 1024 * 1024);
        let words: Vec<String> = (0..4000).map(|number| format!("word{number}")).collect();
        for part in words.chunks(5) {
            let mut known = Known::nothing(1);
            for word in part {
                let rows = (0..96).rev().map(|key| Arc::new(message(key, &"x".repeat(150)).said(None))).collect();
                known.word_to_fill(word).put(None, SaidList::new(rows, true, true, 2_000, Instant::now()));
            }
            known.grown = known.bytes();
            entries.keep(&(TenantId(1), key("ann")), known);
        }
        let known = &entries.all[&(TenantId(1), key("ann"))].known;
        assert!(known.bytes() <= 48 * 1024 * 1024, "{}", known.bytes());
        assert!(known.word(&words[3999]).is_some() && known.word(&words[0]).is_none());
        assert!(known.words.len() > 100, "{}", known.words.len());
    }
}

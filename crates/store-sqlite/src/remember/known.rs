//! What is known about one session key: the rows of words, facts and messages.
//!
//! It is good at one version of the key. Lists of messages are good for a while, because more may have been said.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use herma_model::{ConversationId, Seq};
use herma_store::{MemoryQuery, Passage, Shown};

use crate::memories::StoredMemory;

/// How long a list of messages is used if the index has not grown. Messages that are indexed again do not make it grow.
const FRESH: Duration = Duration::from_secs(1);
/// The same for a full list if the index has grown. An index that is written all the time must not make every recall
/// read. What was said is indexed after a second, and recalled half a second later.
const FRESH_ENOUGH: Duration = Duration::from_millis(500);
/// How long a list that is not fresh may be used while another recall reads it again.
const USABLE: Duration = Duration::from_millis(1500);
/// How long a recall may take to read a list again before another one does.
const READ_AGAIN: Duration = Duration::from_millis(250);

/// Bytes that an entry costs besides its text.
const ENTRY: usize = 160;

/// A message that has a word.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SaidRow {
    pub(super) key: i64,
    pub(super) conversation: ConversationId,
}

/// The newest messages with a word.
#[derive(Clone)]
pub(crate) struct SaidList {
    pub(super) rows: Arc<[SaidRow]>,
    /// Whether there may be older ones.
    pub(super) is_cut: bool,
    /// How much was indexed when it was read, and when that was.
    indexed: i64,
    read_at: Instant,
    /// When a recall began to read it again.
    read_again: Option<Instant>,
}

impl SaidList {
    /// A list that was read at a moment.
    pub(super) fn new(rows: Vec<SaidRow>, is_cut: bool, indexed: i64, read_at: Instant) -> Self {
        Self { rows: Arc::from(rows), is_cut, indexed, read_at, read_again: None }
    }

    /// Whether it need not be read again.
    fn is_fresh(&self, indexed: i64, now: Instant) -> bool {
        let limit = match (self.indexed == indexed, self.is_cut) {
            (true, _) => FRESH,
            (false, true) => FRESH_ENOUGH,
            // A short list is soon read, and what is new may be all that there is.
            (false, false) => return false,
        };
        now.duration_since(self.read_at) < limit
    }

    /// Whether the caller must read it again. Of several recalls at a time one must, and the others go on with it.
    fn must_be_read_again(&mut self, indexed: i64, now: Instant) -> bool {
        let is_read = self.read_again.is_some_and(|since| now.duration_since(since) < READ_AGAIN);
        let is_usable = is_read && now.duration_since(self.read_at) < USABLE;
        if self.is_fresh(indexed, now) || is_usable {
            return false;
        }
        self.read_again = Some(now);
        true
    }
}

/// A message that may be recalled where it is not shown.
pub(crate) struct StoredPassage {
    pub(super) passage: Passage,
    pub(super) digest: [u8; 16],
    pub(super) seq: Seq,
}

impl StoredPassage {
    /// Whether the asking conversation still shows it.
    pub(super) fn is_shown(&self, shown: &Shown) -> bool {
        self.passage.conversation == shown.conversation && shown.hidden_through.is_none_or(|hidden| self.seq > hidden)
    }
}

/// The messages with a word.
#[derive(Default)]
pub(crate) struct SaidLists {
    /// Of all conversations.
    all: Option<SaidList>,
    /// Without those of one conversation.
    others: HashMap<ConversationId, SaidList>,
}

impl SaidLists {
    pub(super) fn get(&self, except: Option<ConversationId>) -> Option<&SaidList> {
        match except {
            None => self.all.as_ref(),
            Some(conversation) => self.others.get(&conversation),
        }
    }

    /// Keeps the list that was read later.
    pub(super) fn put(&mut self, except: Option<ConversationId>, list: SaidList) {
        if self.get(except).is_some_and(|known| known.read_at > list.read_at) {
            return;
        }
        match except {
            None => self.all = Some(list),
            Some(conversation) => drop(self.others.insert(conversation, list)),
        }
    }

    /// Whether a recall for a conversation must read one of them again. It then reads all that are not fresh.
    pub(super) fn must_be_read_again(&mut self, own: ConversationId, indexed: i64, now: Instant) -> bool {
        let mut must = false;
        for list in self.all.iter_mut().chain(self.others.get_mut(&own)) {
            must |= list.must_be_read_again(indexed, now);
        }
        must
    }

    fn bytes(&self, word: &str) -> usize {
        let lists = self.all.iter().chain(self.others.values());
        word.len() + lists.map(|list| size_of_val(&*list.rows) + ENTRY).sum::<usize>()
    }
}

/// What is known about one session key at one version.
pub(crate) struct Known {
    pub(super) version: i64,
    /// How many of the newest facts were asked for, and these.
    pub(super) newest_facts: Option<(usize, Arc<[StoredMemory]>)>,
    pub(super) facts_with: HashMap<String, Arc<[i64]>>,
    pub(super) facts: HashMap<i64, Option<Arc<StoredMemory>>>,
    pub(super) said_with: HashMap<String, SaidLists>,
    /// Messages whose turns are recorded, with their conversations. Only while a recall reads.
    pub(super) recorded: HashMap<i64, ConversationId>,
    /// `None` for a message that must not be recalled.
    pub(super) said: HashMap<i64, Option<Arc<StoredPassage>>>,
}

impl Known {
    /// Nothing, at a version.
    pub(super) fn nothing(version: i64) -> Self {
        Self {
            version,
            newest_facts: None,
            facts_with: HashMap::new(),
            facts: HashMap::new(),
            said_with: HashMap::new(),
            recorded: HashMap::new(),
            said: HashMap::new(),
        }
    }

    /// What a query needs of it, without lists of messages that are not fresh any more.
    pub(super) fn needed_for(&self, query: &MemoryQuery, now: Instant) -> Self {
        let mut needed = Self { newest_facts: self.newest_facts.clone(), ..Self::nothing(self.version) };
        for word in &query.words {
            if let Some(rows) = self.facts_with.get(word) {
                let facts = rows.iter().filter_map(|key| self.facts.get(key).map(|fact| (*key, fact.clone())));
                needed.facts.extend(facts);
                needed.facts_with.insert(word.clone(), Arc::clone(rows));
            }
            let Some(lists) = self.said_with.get(word) else { continue };
            for except in [None, Some(query.shown.conversation)] {
                let Some(list) = lists.get(except) else { continue };
                let said = list.rows.iter().filter_map(|row| self.said.get(&row.key).map(|one| (row.key, one.clone())));
                needed.said.extend(said);
                needed.recorded.extend(list.rows.iter().map(|row| (row.key, row.conversation)));
                if query.as_of.is_some_and(|as_of| list.is_fresh(as_of.indexed, now)) {
                    needed.said_with.entry(word.clone()).or_default().put(except, list.clone());
                }
            }
        }
        needed
    }

    /// Adds what is known at the same version. Returns by about how many bytes it has grown.
    pub(super) fn extend(&mut self, other: Self) -> usize {
        let mut grown = 0;
        if let Some((asked, _)) = other.newest_facts
            && self.newest_facts.as_ref().is_none_or(|(known, _)| *known < asked)
        {
            self.newest_facts = other.newest_facts;
        }
        for (word, rows) in other.facts_with {
            let bytes = bytes_of_rows(&word, &rows);
            grown += if self.facts_with.insert(word, rows).is_none() { bytes } else { 0 };
        }
        for (key, fact) in other.facts {
            let bytes = bytes_of_fact(fact.as_deref());
            grown += if self.facts.insert(key, fact).is_none() { bytes } else { 0 };
        }
        for (key, said) in other.said {
            let bytes = bytes_of_passage(said.as_deref());
            grown += if self.said.insert(key, said).is_none() { bytes } else { 0 };
        }
        for (word, lists) in other.said_with {
            let bytes = lists.bytes(&word);
            let known = self.said_with.entry(word).or_insert_with(|| {
                grown += bytes;
                SaidLists::default()
            });
            lists.all.into_iter().for_each(|list| known.put(None, list));
            lists.others.into_iter().for_each(|(except, list)| known.put(Some(except), list));
        }
        grown
    }

    /// About how many bytes it takes.
    pub(super) fn bytes(&self) -> usize {
        let newest = self.newest_facts.iter().flat_map(|(_, newest)| newest.iter());
        newest.map(|fact| bytes_of_fact(Some(fact))).sum::<usize>()
            + self.facts_with.iter().map(|(word, rows)| bytes_of_rows(word, rows)).sum::<usize>()
            + self.facts.values().map(|fact| bytes_of_fact(fact.as_deref())).sum::<usize>()
            + self.said.values().map(|said| bytes_of_passage(said.as_deref())).sum::<usize>()
            + self.said_with.iter().map(|(word, lists)| lists.bytes(word)).sum::<usize>()
    }
}

fn bytes_of_rows(word: &str, rows: &[i64]) -> usize {
    word.len() + size_of_val(rows) + ENTRY
}

fn bytes_of_fact(fact: Option<&StoredMemory>) -> usize {
    fact.map_or(0, |fact| fact.memory.text.len()) + ENTRY
}

fn bytes_of_passage(said: Option<&StoredPassage>) -> usize {
    said.map_or(0, |said| said.passage.text.len()) + ENTRY
}

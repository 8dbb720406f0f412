//! What is known about one session key: the rows of words, facts and messages.
//!
//! It is good at one version of the key. Lists of messages are good as long as nothing else was indexed: [`super::said`].

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use herma_model::{ConversationId, Memory};
use herma_store::{MemoryQuery, Shown};

use super::rank::NEWEST;
use super::said::{Fed, Moment, Said, SaidList};
use crate::memories::StoredMemory;
use crate::search::terms;

/// Bytes that an entry costs besides its text.
const ENTRY: usize = 160;

/// What is known about a word under a key.
#[derive(Default)]
pub(crate) struct KnownWord {
    /// When a recall last asked for it.
    pub(super) used: u64,
    /// The newest facts with it.
    pub(super) facts: Option<Arc<[i64]>>,
    /// The newest messages with it.
    pub(super) said: Option<SaidList>,
    /// The same without those of one conversation.
    others: Vec<(ConversationId, SaidList)>,
}

impl KnownWord {
    pub(super) fn said_by_others(&self, own: ConversationId) -> Option<&SaidList> {
        self.others.iter().find(|(except, _)| *except == own).map(|(_, list)| list)
    }

    pub(super) fn list(&self, except: Option<ConversationId>) -> Option<&SaidList> {
        except.map_or(self.said.as_ref(), |own| self.said_by_others(own))
    }

    /// Its lists, each with the conversation whose messages it leaves out.
    pub(super) fn lists(&mut self) -> impl Iterator<Item = (Option<ConversationId>, &mut SaidList)> {
        let others = self.others.iter_mut().map(|(except, list)| (Some(*except), list));
        self.said.iter_mut().map(|list| (None, list)).chain(others)
    }

    /// Whether a recall needs the list without the asking conversation: that shows most of the newest messages.
    pub(super) fn needs_others(&self, shown: &Shown) -> bool {
        let is_short = |list: &SaidList| list.is_cut && list.count_not_shown(shown) < NEWEST;
        self.said.as_ref().is_some_and(is_short)
    }

    /// Whether a recall must read one of the lists that it needs again.
    fn must_be_read_again(&mut self, shown: &Shown, moment: Moment) -> bool {
        if self.said.as_mut().is_some_and(|list| list.must_be_read_again(moment)) {
            return true;
        }
        let own = shown.conversation;
        self.needs_others(shown)
            && self.others.iter_mut().any(|(except, list)| *except == own && list.must_be_read_again(moment))
    }

    pub(super) fn put(&mut self, except: Option<ConversationId>, list: SaidList) {
        match except {
            None => self.said = Some(list),
            Some(own) => match self.others.iter_mut().find(|(except, _)| *except == own) {
                Some((_, known)) => *known = list,
                None => self.others.push((own, list)),
            },
        }
    }

    /// Takes over what is better in another one.
    fn extend(&mut self, other: Self, fed: Option<Fed>) {
        if other.facts.is_some() {
            self.facts = other.facts;
        }
        let others = other.others.into_iter().map(|(except, list)| (Some(except), list));
        for (except, mut list) in other.said.map(|list| (None, list)).into_iter().chain(others) {
            list.join(fed);
            if self.list(except).is_none_or(|known| known.gives_way_to(&list, fed)) {
                self.put(except, list);
            }
        }
    }

    fn bytes(&self) -> usize {
        let facts = self.facts.as_ref().map_or(0, |rows| size_of_val(&**rows));
        let lists = self.said.iter().chain(self.others.iter().map(|(_, list)| list));
        ENTRY + facts + lists.map(|list| ENTRY + list.bytes()).sum::<usize>()
    }
}

/// A word as lists and the index have it.
pub(super) fn stored_form(word: &str) -> Cow<'_, str> {
    if word.len() <= terms::LONGEST { Cow::Borrowed(word) } else { Cow::Owned(terms::cut(word)) }
}

/// What is known about one session key at one version.
pub(crate) struct Known {
    pub(super) version: i64,
    /// How many of the newest facts were asked for, and these.
    pub(super) newest_facts: Option<(usize, Arc<[StoredMemory]>)>,
    pub(super) words: HashMap<String, KnownWord>,
    pub(super) facts: HashMap<i64, Option<Arc<Memory>>>,
    /// The facts that were found for some words, and how many were asked for.
    pub(super) found_facts: HashMap<Vec<String>, (usize, Arc<[Memory]>)>,
    /// Messages of recorded turns. Only while a recall reads.
    pub(super) said: HashMap<i64, Arc<Said>>,
    /// About how many bytes were added since its size was last noted.
    pub(super) grown: usize,
}

impl Known {
    /// Nothing, at a version.
    pub(super) fn nothing(version: i64) -> Self {
        Self {
            version,
            newest_facts: None,
            words: HashMap::new(),
            facts: HashMap::new(),
            found_facts: HashMap::new(),
            said: HashMap::new(),
            grown: 0,
        }
    }

    pub(super) fn word(&self, word: &str) -> Option<&KnownWord> {
        self.words.get(&*stored_form(word))
    }

    /// What is known of a word, to be filled in.
    pub(super) fn word_to_fill(&mut self, word: &str) -> &mut KnownWord {
        self.words.entry(stored_form(word).into_owned()).or_default()
    }

    /// Whether a recall must read a list again. It then reads all that are not fresh.
    pub(super) fn must_read_again(&mut self, query: &MemoryQuery, moment: Moment, used: u64) -> bool {
        let mut must = false;
        for word in &query.words {
            let Some(known) = self.words.get_mut(&*stored_form(word)) else { continue };
            known.used = used;
            must |= known.must_be_read_again(&query.shown, moment);
        }
        must
    }

    /// What a query needs of it, without lists of messages that are not fresh any more.
    pub(super) fn needed_for(&self, query: &MemoryQuery, moment: Option<Moment>) -> Self {
        let mut needed = Self { newest_facts: self.newest_facts.clone(), ..Self::nothing(self.version) };
        if let Some((words, found)) = self.found_facts.get_key_value(&query.words) {
            needed.found_facts.insert(words.clone(), found.clone());
        }
        for word in &query.words {
            let Some(known) = self.word(word) else { continue };
            let filled = needed.words.entry(stored_form(word).into_owned()).or_default();
            filled.used = known.used;
            if let Some(rows) = &known.facts {
                let facts = rows.iter().filter_map(|key| self.facts.get(key).map(|fact| (*key, fact.clone())));
                needed.facts.extend(facts);
                filled.facts = Some(Arc::clone(rows));
            }
            for except in [None, Some(query.shown.conversation)] {
                let Some(list) = known.list(except) else { continue };
                match moment.is_some_and(|moment| list.is_fresh(moment)) {
                    true => filled.put(except, list.clone()),
                    false => needed.said.extend(list.rows.iter().map(|row| (row.key, Arc::clone(&row.said)))),
                }
            }
        }
        needed
    }

    /// Adds what was read at the same version.
    pub(super) fn extend(&mut self, other: Self, fed: Option<Fed>) {
        if let Some((asked, _)) = other.newest_facts
            && self.newest_facts.as_ref().is_none_or(|(known, _)| *known < asked)
        {
            self.newest_facts = other.newest_facts;
        }
        self.facts.extend(other.facts);
        self.found_facts.extend(other.found_facts);
        for (word, known) in other.words {
            let own = self.words.entry(word).or_default();
            own.used = own.used.max(known.used);
            own.extend(known, fed);
        }
    }

    /// No list stays complete any longer.
    pub(super) fn leave_feed(&mut self) {
        self.words.values_mut().flat_map(KnownWord::lists).for_each(|(_, list)| list.leave());
    }

    /// Drops the words that were used least recently, until the rest takes at most this many bytes.
    pub(super) fn shrink(&mut self, most: usize) {
        let mut used: Vec<(u64, usize)> = self.words.values().map(|known| (known.used, known.bytes())).collect();
        used.sort_unstable_by_key(|(used, _)| std::cmp::Reverse(*used));
        let mut left = most / 4 * 3;
        let kept = used.iter().take_while(|(_, bytes)| {
            let fits = *bytes <= left;
            left = left.saturating_sub(*bytes);
            fits
        });
        let oldest_kept = kept.last().map_or(u64::MAX, |(used, _)| *used);
        self.words.retain(|_, known| known.used >= oldest_kept);
        let needed: HashSet<i64> =
            self.words.values().flat_map(|known| known.facts.iter().flat_map(|rows| rows.iter().copied())).collect();
        self.facts.retain(|key, _| needed.contains(key));
        let words = &self.words;
        self.found_facts.retain(|asked, _| asked.iter().all(|word| words.contains_key(&*stored_form(word))));
    }

    /// About how many bytes it takes.
    pub(super) fn bytes(&self) -> usize {
        let newest = self.newest_facts.iter().flat_map(|(_, newest)| newest.iter());
        newest.map(|fact| bytes_of_fact(Some(&fact.memory))).sum::<usize>()
            + self.words.iter().map(|(word, known)| word.len() + known.bytes()).sum::<usize>()
            + self.facts.values().map(|fact| bytes_of_fact(fact.as_deref())).sum::<usize>()
            + self.found_facts.iter().map(|(words, (_, found))| bytes_of_found(words, found)).sum::<usize>()
    }
}

/// The texts of found facts are those of [`Known::facts`].
pub(super) fn bytes_of_found(words: &[String], found: &[Memory]) -> usize {
    ENTRY + words.iter().map(|word| 32 + word.len()).sum::<usize>() + size_of_val(found)
}

pub(super) fn bytes_of_fact(fact: Option<&Memory>) -> usize {
    fact.map_or(0, |fact| fact.text.len()) + ENTRY
}

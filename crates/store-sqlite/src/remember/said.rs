//! Messages that were said under a key, and the lists of those with a word.
//!
//! A list is *complete* through a write of the index if it has all messages with the word that the index had then, up to
//! its length. It stays complete while this process itself adds what it indexes: see [`super::feed`]. A list that does
//! not stay complete is used for a while and then read again.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use herma_model::{ConversationId, MessageId, Role, Seq, Timestamp};
use herma_store::Shown;

use super::rank::NEWEST_BESIDE_OWN;

/// How long a list is used that has all that the index has, but may lack the message of a turn that was not decided
/// when the list was read.
const FRESH: Duration = Duration::from_secs(1);
/// How long a list is used if more was indexed since, if it is full, or if this process adds to it: that happens a
/// moment after the write. An index that is written all the time must not make every recall read. What was said is
/// indexed after a second, and recalled half a second later.
const FRESH_ENOUGH: Duration = Duration::from_millis(500);
/// How long a list that is not fresh may be used while another recall reads it again.
const USABLE: Duration = Duration::from_millis(1500);
/// How long a recall may take to read a list again before another one does.
const READ_AGAIN: Duration = Duration::from_millis(250);

/// Bytes that a message costs besides its text.
pub(super) const SAID: usize = size_of::<Said>() + 48;

/// A message of a recorded turn.
pub(crate) struct Said {
    pub(super) key: i64,
    pub(super) conversation: ConversationId,
    pub(super) message: MessageId,
    pub(super) role: Role,
    pub(super) created_at: Timestamp,
    pub(super) seq: Seq,
    pub(super) digest: [u8; 16],
    /// Its text, once it is known. `None` in it: the message must not be recalled.
    pub(super) text: OnceLock<Option<Arc<str>>>,
}

impl Said {
    /// Whether the asking conversation still shows it.
    pub(super) fn is_shown(&self, shown: &Shown) -> bool {
        self.conversation == shown.conversation && shown.hidden_through.is_none_or(|hidden| self.seq > hidden)
    }

    pub(super) fn bytes(&self) -> usize {
        SAID + self.text.get().and_then(Option::as_ref).map_or(0, |text| text.len())
    }
}

/// A message in a list. Most rows are ranked without looking at the message itself, which is somewhere else in memory.
#[derive(Clone)]
pub(crate) struct SaidRow {
    pub(super) key: i64,
    /// The second half of the id of its conversation.
    conversation: u64,
    pub(super) said: Arc<Said>,
}

impl SaidRow {
    fn of(said: Arc<Said>) -> Self {
        Self { key: said.key, conversation: half(said.conversation), said }
    }

    pub(super) fn is_of(&self, conversation: ConversationId) -> bool {
        self.conversation == half(conversation) && self.said.conversation == conversation
    }

    /// Whether the asking conversation still shows it.
    pub(super) fn is_shown(&self, shown: &Shown) -> bool {
        self.conversation == half(shown.conversation) && self.said.is_shown(shown)
    }
}

fn half(conversation: ConversationId) -> u64 {
    conversation.uuid().as_u64_pair().1
}

/// How far this process has added to lists what it indexed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fed {
    /// Lists that were complete through this write, and were kept since, are complete through the next one too.
    pub(super) from: i64,
    pub(super) through: i64,
    pub(super) at: Instant,
}

/// What decides whether a list can be used.
#[derive(Clone, Copy)]
pub(super) struct Moment {
    pub(super) fed: Option<Fed>,
    /// How often the index was written when the asking turn was admitted.
    pub(super) indexed: i64,
    pub(super) now: Instant,
}

/// The newest messages with a word.
#[derive(Clone)]
pub(crate) struct SaidList {
    /// Newest first.
    pub(super) rows: Arc<VecDeque<SaidRow>>,
    /// Whether there may be older ones.
    pub(super) is_cut: bool,
    /// Whether later turns decide nothing about what it has: no message with the word belongs to a turn that may still
    /// be recorded.
    is_decided: bool,
    /// Whether what is indexed is added to it.
    is_fed: bool,
    /// The write of the index through which it was complete when it was read, and when that was.
    read_through: i64,
    read_at: Instant,
    /// When a recall began to read it again.
    read_again: Option<Instant>,
}

impl SaidList {
    /// A list that was read at a moment, when the index had been written `read_through` times.
    pub(super) fn new(
        rows: Vec<Arc<Said>>,
        is_cut: bool,
        is_decided: bool,
        read_through: i64,
        read_at: Instant,
    ) -> Self {
        let rows = Arc::new(rows.into_iter().map(SaidRow::of).collect());
        Self { rows, is_cut, is_decided, is_fed: false, read_through, read_at, read_again: None }
    }

    /// Has what is indexed from now on added to it. That is not possible if it lacks what was added to other lists
    /// while it was read.
    pub(super) fn join(&mut self, fed: Option<Fed>) {
        self.is_fed = self.is_decided && fed.is_none_or(|fed| self.read_through >= fed.through);
    }

    /// The write of the index through which it is complete.
    fn complete_through(&self, fed: Option<Fed>) -> i64 {
        match fed {
            Some(fed) if self.is_fed && self.read_through >= fed.from => self.read_through.max(fed.through),
            Some(_) | None => self.read_through,
        }
    }

    /// When it was last known to be complete.
    fn complete_at(&self, fed: Option<Fed>) -> Instant {
        match fed {
            Some(fed) if self.complete_through(Some(fed)) > self.read_through => fed.at.max(self.read_at),
            Some(_) | None => self.read_at,
        }
    }

    /// Whether it need not be read again.
    pub(super) fn is_fresh(&self, moment: Moment) -> bool {
        let complete = self.complete_through(moment.fed);
        let has_all = complete >= moment.indexed;
        let is_added_to = complete > self.read_through;
        let limit = match (has_all, self.is_cut || is_added_to) {
            (true, _) if self.is_decided => return true,
            (true, _) => FRESH,
            (false, true) => FRESH_ENOUGH,
            // A short list is soon read, and what is new may be all that there is.
            (false, false) => return false,
        };
        moment.now.duration_since(self.complete_at(moment.fed)) < limit
    }

    /// Whether the caller must read it again. Of several recalls at a time one must, and the others go on with it.
    pub(super) fn must_be_read_again(&mut self, moment: Moment) -> bool {
        if self.is_fresh(moment) {
            return false;
        }
        let now = moment.now;
        let is_read = self.read_again.is_some_and(|since| now.duration_since(since) < READ_AGAIN);
        if is_read && now.duration_since(self.complete_at(moment.fed)) < USABLE {
            return false;
        }
        self.read_again = Some(now);
        true
    }

    /// Whether another list of the same word is to take its place.
    pub(super) fn gives_way_to(&self, other: &Self, fed: Option<Fed>) -> bool {
        let (own, others) = (self.complete_through(fed), other.complete_through(fed));
        own < others || (own == others && self.read_at < other.read_at && !self.is_fed)
    }

    /// Whether what write `number` of the index added is to be added to it.
    pub(super) fn takes(&self, fed_from: i64, number: i64) -> bool {
        self.is_fed && (fed_from..number).contains(&self.read_through)
    }

    /// Adds a message that is newer than all others. Returns by how many bytes it has grown.
    pub(super) fn add(&mut self, said: &Arc<Said>) -> usize {
        match self.rows.front() {
            // It has the word in the singular and in the plural.
            Some(newest) if newest.key == said.key => return 0,
            Some(newest) if newest.key > said.key => {
                self.is_fed = false;
                return 0;
            }
            Some(_) | None => {}
        }
        let rows = Arc::make_mut(&mut self.rows);
        rows.push_front(SaidRow::of(Arc::clone(said)));
        if rows.len() <= NEWEST_BESIDE_OWN {
            return size_of::<SaidRow>();
        }
        rows.truncate(NEWEST_BESIDE_OWN);
        self.is_cut = true;
        0
    }

    /// Notes that a message with the word was indexed whose turn may still be recorded, so that it is found when the
    /// list is read again.
    pub(super) fn leave(&mut self) {
        self.is_fed = false;
    }

    /// How many of its messages the asking conversation does not show.
    pub(super) fn count_not_shown(&self, shown: &Shown) -> usize {
        self.rows.iter().filter(|row| !row.is_shown(shown)).count()
    }

    /// About how many bytes it takes. Messages are shared by lists.
    pub(super) fn bytes(&self) -> usize {
        let of_row = |row: &SaidRow| size_of::<SaidRow>() + row.said.bytes() / Arc::strong_count(&row.said).max(1);
        self.rows.iter().map(of_row).sum()
    }
}

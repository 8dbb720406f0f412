//! What the editor knows of a session, and what it is still to be told of changes that this connection did not tell.
//!
//! Each compaction is told once: by the turn or command of this connection that made it, or as news from the event
//! feed. The feed has both, so each of the two asks [`Told`] first.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use herma_model::{CompactionId, EventId};

use crate::agent::Agent;
use crate::news::News;
use crate::schema::Meta;
use crate::session::OpenSession;

/// What the editor knows of a session. A load of a session that is open takes it over.
pub(crate) struct Known {
    /// Held while the editor is told, so that an older title or provenance never comes after a newer one. Never wait
    /// for it while `pending` is locked.
    pub(crate) told: tokio::sync::Mutex<Told>,
    pending: Mutex<Pending>,
}

/// What the editor was told.
pub(crate) struct Told {
    pub(crate) title: Option<String>,
    /// `_meta` with the provenance.
    pub(crate) provenance: Meta,
    compactions: HashMap<CompactionId, Shown>,
}

/// How the editor was told of a compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shown {
    /// As a part of a replay. The answer to the load may have the provenance before it.
    Replayed,
    /// As it happened, with all that it changed.
    Live,
}

impl Told {
    /// How the editor was told of a compaction, if it was.
    pub(crate) fn shown(&self, compaction: CompactionId) -> Option<Shown> {
        self.compactions.get(&compaction).copied()
    }

    /// Notes that the editor is told of a compaction. What was told as it happened stays so.
    pub(crate) fn show(&mut self, compaction: CompactionId, how: Shown) {
        let known = self.compactions.entry(compaction).or_insert(how);
        if how == Shown::Live {
            *known = how;
        }
    }

    /// Notes a title. True if the editor knows another one.
    pub(crate) fn is_new_title(&mut self, title: Option<&str>) -> bool {
        let is_new = self.title.as_deref() != title;
        self.title = title.map(str::to_owned);
        is_new
    }

    /// Notes a provenance. True if the editor knows another one.
    pub(crate) fn is_new_provenance(&mut self, provenance: &Meta) -> bool {
        let is_new = self.provenance != *provenance;
        self.provenance = provenance.clone();
        is_new
    }
}

/// Changes of a session that the event feed has told.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Changes {
    /// Compactions, with the `_meta` that has the provenance after each.
    pub(crate) compactions: Vec<(CompactionId, Meta)>,
    /// The provenance may be another one.
    pub(crate) is_moved: bool,
    /// A compaction was undone, so the context is longer.
    pub(crate) is_undone: bool,
    pub(crate) is_renamed: bool,
    pub(crate) is_deleted: bool,
}

struct Pending {
    /// The answer that opened the session has all changes up to here.
    since: EventId,
    /// Whether that answer is sent.
    is_answered: bool,
    /// Turns and compactions of this connection that run in the session.
    own_work: usize,
    changes: Changes,
}

impl Known {
    /// Knows what the answer says that opens a session: the conversation as it was at this place of the feed.
    pub(crate) fn new(title: Option<String>, provenance: Meta, since: EventId) -> Self {
        let told = Told { title, provenance, compactions: HashMap::new() };
        let pending = Pending { since, is_answered: false, own_work: 0, changes: Changes::default() };
        Self { told: tokio::sync::Mutex::new(told), pending: Mutex::new(pending) }
    }

    /// The same for a session that is opened again. What runs in it goes on.
    pub(crate) async fn renew(&self, title: Option<String>, provenance: Meta, since: EventId) {
        let mut told = self.told.lock().await;
        (told.title, told.provenance) = (title, provenance);
        let mut pending = self.lock();
        (pending.since, pending.is_answered) = (since, false);
        pending.changes = Changes::default();
    }

    fn lock(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The answer that opened the session is sent: from now on changes may be told.
    pub(crate) fn answered(&self) {
        self.lock().is_answered = true;
    }

    /// Notes a change that happened at this place of the feed, unless the editor knows it by the session's answer.
    pub(crate) fn note(&self, at: EventId, change: impl FnOnce(&mut Changes)) {
        let mut pending = self.lock();
        if at.number > pending.since.number {
            change(&mut pending.changes);
        }
    }

    /// The changes that can be told now.
    ///
    /// While a turn of this connection runs, no other process can compact. So compactions that come then are the turn's
    /// own, and the turn tells them in their place between its messages.
    pub(crate) fn take(&self) -> Changes {
        let mut pending = self.lock();
        if !pending.is_answered {
            return Changes::default();
        }
        let mut taken = std::mem::take(&mut pending.changes);
        if pending.own_work > 0 {
            let compactions = std::mem::take(&mut taken.compactions);
            let (is_moved, is_undone) = (taken.is_moved, taken.is_undone);
            (taken.is_moved, taken.is_undone) = (false, false);
            pending.changes = Changes { compactions, is_moved, is_undone, ..Changes::default() };
        }
        taken
    }

    /// Begins work of this connection that may compact the conversation, until the guard is dropped.
    fn begin_work(self: &Arc<Self>, news: &Arc<News>) -> OwnWork {
        self.lock().own_work += 1;
        OwnWork { known: Arc::clone(self), news: Arc::clone(news) }
    }
}

impl Agent {
    /// Begins work of this connection that tells the compactions it makes.
    pub(crate) fn begin_work(&self, session: &OpenSession) -> OwnWork {
        session.known.begin_work(&self.news)
    }

    /// Keeps news of a session back until the request that has opened it is answered.
    pub(crate) fn opening(&self, session: &OpenSession) -> Opening {
        Opening { known: Arc::clone(&session.known), news: Arc::clone(&self.news) }
    }
}

/// A request that opens a session. News of it are told when this is dropped: after the answer, or when the request
/// came to nothing.
pub(crate) struct Opening {
    known: Arc<Known>,
    news: Arc<News>,
}

impl Drop for Opening {
    fn drop(&mut self) {
        self.known.answered();
        self.news.wake();
    }
}

/// Work of this connection that tells its own compactions.
pub(crate) struct OwnWork {
    known: Arc<Known>,
    news: Arc<News>,
}

impl Drop for OwnWork {
    fn drop(&mut self) {
        let mut pending = self.known.lock();
        pending.own_work -= 1;
        if pending.changes != Changes::default() {
            self.news.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    const fn at(number: u64) -> EventId {
        EventId { feed: 1, number }
    }

    fn compaction(number: u128) -> CompactionId {
        CompactionId::from_uuid(Uuid::from_u128(number))
    }

    fn compacted(known: &Known, event: u64, number: u128) {
        known.note(at(event), |changes| changes.compactions.push((compaction(number), Meta::new())));
    }

    #[test]
    fn nothing_is_told_that_the_answer_has_or_before_the_answer() {
        let known = Known::new(None, Meta::new(), at(5));
        compacted(&known, 5, 1);
        compacted(&known, 6, 2);
        assert_eq!(known.take(), Changes::default());
        known.answered();
        assert_eq!(known.take().compactions, [(compaction(2), Meta::new())]);
        assert_eq!(known.take(), Changes::default());
    }

    #[test]
    fn compactions_wait_for_the_work_of_this_connection_and_titles_do_not() {
        let known = Arc::new(Known::new(None, Meta::new(), at(0)));
        known.answered();
        let work = known.begin_work(&Arc::default());
        compacted(&known, 1, 1);
        known.note(at(2), |changes| (changes.is_moved, changes.is_renamed) = (true, true));
        assert_eq!(known.take(), Changes { is_renamed: true, ..Changes::default() });
        drop(work);
        let waited = vec![(compaction(1), Meta::new())];
        assert_eq!(known.take(), Changes { compactions: waited, is_moved: true, ..Changes::default() });
    }

    #[tokio::test]
    async fn a_compaction_that_was_told_live_stays_so_when_it_is_replayed() {
        let known = Known::new(Some("a".to_owned()), Meta::new(), at(0));
        let mut told = known.told.lock().await;
        told.show(compaction(1), Shown::Live);
        told.show(compaction(1), Shown::Replayed);
        told.show(compaction(2), Shown::Replayed);
        assert_eq!([1, 2, 3].map(|id| told.shown(compaction(id))), [Some(Shown::Live), Some(Shown::Replayed), None]);
        assert!(!told.is_new_title(Some("a")) && told.is_new_title(None) && !told.is_new_title(None));
    }
}

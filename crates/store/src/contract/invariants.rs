//! Invariants that hold for a store after every test.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use herma_model::alias::Namespace;
use herma_model::compaction::MadeBy;
use herma_model::{
    CreatorKind, EndReason, Message, MessageStatus, ParentRelation, Seq, SessionKind, Step, TurnId, TurnState,
    Unanswered,
};

use super::World;
use super::fixture::name;
use crate::{ConversationRow, Entry, Extent, LedgerPage, Pin, Scope, Snapshot, Store, TurnRecord};

impl<S: Store> World<S> {
    /// Checks every conversation of both tenants, then closes both instances.
    pub async fn holds_together(&self) {
        for scope in [&self.scope, &self.stranger] {
            let rows = self.all(scope).await;
            let ids: HashSet<_> = rows.iter().map(|row| row.facts.id).collect();
            assert_eq!(ids.len(), rows.len(), "a conversation is listed once");
            self.events_hold_together(scope, &rows).await;
            for row in rows {
                self.conversation_holds_together(scope, &row).await;
            }
        }
        self.one.close().await;
        self.two.close().await;
    }

    async fn conversation_holds_together(&self, scope: &Scope, row: &ConversationRow) {
        let id = row.facts.id.to_string();
        let mut view = self.view(scope, &id).await;
        let led_to = self.two.conversation(scope, &name(&id), Pin::Head).await.unwrap();
        assert_eq!(led_to.unwrap().facts, row.facts, "{id} leads to its one head");
        let sessions = self.sessions_hold_together(scope, row).await;
        assert!(view.entries.ends_with(&sessions), "every entry is in one session, in order");
        view.inherited = view.entries.len() - sessions.len();
        self.inheritance_holds_together(scope, &view).await;
        view.messages_hold_together();
        view.base_holds_together();
        // A rewind may hide the end of a turn, or all of it.
        if view.whole.rewound.is_empty() {
            view.turns_hold_together();
        }
    }

    /// Reads until the version is the same before and after. An engine may notice at any moment that a turn's process
    /// has died.
    async fn view(&self, scope: &Scope, id: &str) -> View {
        let open = async |extent| self.two.open(scope, &name(id), Namespace::Session, extent).await.unwrap().unwrap();
        loop {
            let whole = open(Extent::Whole).await;
            let row = self.two.conversation(scope, &name(id), Pin::Head).await.unwrap().unwrap();
            let entries = self.entries(scope, id, Pin::Head).await;
            let back = self.entries_back(scope, id, Pin::Head).await;
            let ledger = self.two.compactions(scope, &name(id), None, 1000).await.unwrap().unwrap();
            let mut turns: Vec<TurnRecord> = Vec::new();
            for message in whole.messages.iter().filter(|message| !is_left_behind(&whole, message)) {
                if turns.last().is_none_or(|turn| turn.id != message.turn) {
                    // A branch of a deleted conversation has its messages, but its turns are gone.
                    let turn = self.two.turn(scope, message.turn).await.unwrap();
                    turns.extend(turn.filter(|turn| !is_later_elsewhere(&whole, turn)));
                }
            }
            let shown = open(Extent::View).await;
            if shown.version == whole.version {
                assert!(entries.iter().eq(back.iter().rev()), "both orders have the same entries");
                let rewritten = self.rewritten.load(Ordering::Relaxed);
                return View { row, whole, shown, entries, inherited: 0, ledger, turns, rewritten };
            }
        }
    }

    /// Checks that a branch begins with the messages of its source, and that other conversations inherit nothing.
    async fn inheritance_holds_together(&self, scope: &Scope, view: &View) {
        let facts = &view.row.facts;
        let root = self.two.conversation(scope, &name(facts.root.as_str()), Pin::Exact).await.unwrap().unwrap().session;
        let is_imported = root.creator == CreatorKind::Import;
        let Some((source, ParentRelation::Branch)) = root.parent.filter(|_| !is_imported) else {
            assert_eq!((view.inherited, facts.origin_kind == SessionKind::Branch && !is_imported), (0, false));
            return;
        };
        let kinds = (root.kind, facts.origin_kind, root.creator);
        assert_eq!(kinds, (SessionKind::Branch, SessionKind::Branch, CreatorKind::Branch));
        let (inherited, later) = view.entries.split_at(view.inherited);
        if view.rewritten {
            return;
        }
        let Some(last) = inherited.iter().rev().find_map(said) else { return };
        let Some(turn) = self.two.turn(scope, last.turn).await.unwrap() else { return };
        assert_eq!(turn.state, TurnState::Completed, "a branch begins after an answer");
        let end = inherited.last().map_or(0, |end| end.seq().0);
        assert!(later.first().is_none_or(|first| first.seq().0 == end + 1 || facts.compaction_count > 0));
        // After a source is deleted, another conversation may take its name.
        let source = self.two.conversation(scope, &name(source.as_str()), Pin::Exact).await.unwrap();
        if let Some(source) = source.filter(|source| source.created_at < view.row.created_at) {
            let entries = self.entries(scope, source.session.id.as_str(), Pin::Head).await;
            assert!(entries.starts_with(inherited), "a branch begins as its source does");
        }
    }

    /// Follows the sessions from the head to the root; returns their entries, oldest first.
    async fn sessions_hold_together(&self, scope: &Scope, row: &ConversationRow) -> Vec<Entry> {
        let parent = row.facts.head.parent.as_ref().filter(|(_, how)| *how == ParentRelation::Continuation);
        assert_eq!(
            row.facts.previous,
            parent.map(|(parent, _)| parent.clone()),
            "the previous session is the parent of the head"
        );
        let mut all = Vec::new();
        let mut next = Some(row.facts.head.clone());
        while let Some(session) = next {
            let id = session.id.as_str();
            let head = self.two.conversation(scope, &name(id), Pin::Head).await.unwrap().unwrap();
            assert_eq!(head.facts, row.facts, "{id} leads to the one head");
            let exact = self.two.conversation(scope, &name(id), Pin::Exact).await.unwrap().unwrap();
            assert_eq!(exact.session, session);
            let is_head = session.id == row.facts.head.id;
            let ended_by = exact.ended.map(|(_, reason)| reason);
            assert_eq!(ended_by == Some(EndReason::Compression), !is_head, "only the head is live");
            let mut own = self.entries(scope, id, Pin::Exact).await;
            assert!(own.iter().eq(self.entries_back(scope, id, Pin::Exact).await.iter().rev()));
            own.extend(all);
            all = own;
            next = match session.parent {
                Some((parent, ParentRelation::Continuation)) => {
                    let parent = self.two.conversation(scope, &name(parent.as_str()), Pin::Exact).await.unwrap();
                    let parent = parent.unwrap().session;
                    assert_eq!(parent.depth + 1, session.depth);
                    Some(parent)
                }
                _ => {
                    assert_eq!((&session.id, session.depth), (&row.facts.root, 0), "the chain begins at the root");
                    None
                }
            };
        }
        all
    }
}

/// One conversation, read in all ways at one version.
struct View {
    row: ConversationRow,
    whole: Snapshot,
    shown: Snapshot,
    entries: Vec<Entry>,
    /// How many entries are inherited.
    inherited: usize,
    ledger: LedgerPage,
    /// In the order of their messages.
    turns: Vec<TurnRecord>,
    /// Whether there may be gaps, and turns with missing messages.
    rewritten: bool,
}

impl View {
    fn messages_hold_together(&self) {
        assert_eq!((&self.whole.facts, &self.shown.facts), (&self.row.facts, &self.row.facts));
        let places: Vec<Seq> = self.entries.iter().map(Entry::seq).collect();
        assert!(places.is_sorted_by(|one, next| one < next), "entries are in order");
        if !self.rewritten && !self.entries.iter().any(|entry| matches!(entry, Entry::Summary(_))) {
            let expected: Vec<Seq> = (1..=places.len() as i64).map(Seq).collect();
            assert_eq!(places, expected, "places have no gaps");
        }
        let said: Vec<Arc<Message>> = self.entries.iter().filter_map(said).collect();
        assert_eq!(self.row.message_count, said.len() as u64, "messages are counted");
        let ids: HashSet<_> = said.iter().map(|message| message.id).collect();
        assert_eq!(ids.len(), said.len(), "a message is written once");
        let mut whole = [&self.whole.messages[..], &self.whole.rewound].concat();
        whole.sort_by_key(|message| message.seq);
        assert_eq!(said, whole, "pages have the same messages as the whole read");
        assert!(self.whole.whole);
    }

    fn base_holds_together(&self) {
        let boundaries = self.entries[self.inherited..].iter().filter_map(|entry| match entry {
            Entry::Said(_) => None,
            Entry::Summary(summary) => Some((**summary).clone()),
        });
        let written = self.ledger.rows.iter().rev().filter_map(|row| row.summary.clone());
        assert!(boundaries.eq(written), "every summary belongs to a compaction");
        let compactions = self.ledger.rows.iter().filter(|row| row.summary.is_some()).count();
        assert_eq!(self.row.facts.compaction_count as usize, compactions, "compactions are counted");
        assert_eq!(self.shown.base, self.whole.base);
        assert_eq!(self.shown.counted, self.whole.counted);
        assert_eq!(self.shown.whole, self.shown.base.is_none());
        let through = self.shown.base.as_ref().map_or(Seq(0), |base| base.through);
        let before = self.whole.messages.partition_point(|message| message.seq <= through);
        assert_eq!(
            self.shown.messages,
            self.whole.messages[before..],
            "the view has the last messages of the whole read"
        );
        if let Some(base) = &self.shown.base {
            let boundary = self.entries.iter().position(|entry| entry.seq() == base.summary.seq).unwrap();
            assert_eq!(self.entries[boundary], Entry::Summary(Arc::new(base.summary.clone())));
            let row = self.ledger.rows.iter().find(|row| row.id == base.summary.compaction);
            assert_eq!(
                row.is_some(),
                boundary >= self.inherited,
                "a ledger has only its conversation's own compactions"
            );
            if let Some(row) = row {
                assert_eq!((row.summary.as_ref(), row.through), (Some(&base.summary), base.through));
                assert!(base.carried.iter().map(|kept| kept.seq).eq(row.carried.iter().copied()));
            }
            assert!(base.carried.iter().all(|kept| self.whole.messages[..before].contains(kept)));
        }
    }

    fn turns_hold_together(&self) {
        let distinct: HashSet<TurnId> = self.turns.iter().map(|turn| turn.id).collect();
        assert_eq!(distinct.len(), self.turns.len(), "turns do not interleave");
        let own = self.turns.iter().filter(|turn| turn.facts.id == self.row.facts.id).count();
        assert!(self.row.turn_count == own as u64 || self.rewritten, "turns are counted");
        let mut unanswered = HashMap::new();
        let mut running = 0;
        for turn in &self.turns {
            self.record_holds_together(turn);
            match turn.state {
                TurnState::Running => running += 1,
                TurnState::Completed => {
                    assert!(turn.finish.is_some() && turn.failure.is_none());
                }
                state => {
                    assert!(state.is_unanswered(), "a waiting turn has written nothing");
                    assert!(turn.failure.is_some() && turn.finish.is_none());
                    unanswered.insert(turn.id, Unanswered { state, attempt: turn.attempt });
                }
            }
        }
        self.left_behind_holds_together();
        let deleted = |turn: &TurnId| !distinct.contains(turn);
        unanswered
            .extend(self.whole.unanswered.iter().filter(|(turn, _)| deleted(turn)).map(|(turn, how)| (*turn, *how)));
        assert_eq!(self.whole.unanswered, unanswered);
        let read: HashSet<TurnId> = self.shown.messages.iter().map(|message| message.turn).collect();
        unanswered.retain(|turn, _| read.contains(turn));
        assert_eq!(self.shown.unanswered, unanswered);
        assert!(running <= 1, "one turn runs at a time");
        assert_eq!(self.row.running, running == 1, "the running turn is known");
    }

    /// Checks that a turn that began anew has messages at both places, the failed attempts before the later ones.
    fn left_behind_holds_together(&self) {
        for (turn, first) in &self.whole.begun_anew {
            let own = self.whole.messages.iter().filter(|message| message.turn == *turn);
            let (left, there): (Vec<_>, Vec<_>) = own.partition(|message| message.attempt < *first);
            assert!(left.iter().all(|left| there.iter().all(|later| left.seq < later.seq)));
            assert!(self.rewritten || (!left.is_empty() && !there.is_empty()), "it has messages at both places");
        }
        let read: HashSet<TurnId> = self.shown.messages.iter().map(|message| message.turn).collect();
        let shown = self.whole.begun_anew.iter().filter(|(turn, _)| read.contains(turn));
        assert_eq!(self.shown.begun_anew, shown.map(|(turn, first)| (*turn, *first)).collect());
    }

    /// Checks that a turn's record has its input, at most one partial answer, and its answer.
    fn record_holds_together(&self, turn: &TurnRecord) {
        let own = self.whole.messages.iter().filter(|message| message.turn == turn.id);
        let own = own.filter(|message| !is_left_behind(&self.whole, message));
        let own = own.filter(|message| message.said.status == MessageStatus::Complete);
        let (answer, shown): (Vec<_>, Vec<_>) =
            step_messages(turn).partition(|message| message.said.status == MessageStatus::Complete);
        let recorded: Vec<_> = turn.input.iter().chain(answer.iter().copied()).collect();
        let own: Vec<_> = own.collect();
        // A branch may begin in the middle of items that a client added at once.
        let is_cut = turn.facts.id != self.row.facts.id && recorded.starts_with(&own);
        assert!(own == recorded || is_cut, "a record has all messages of its turn, the answer last");
        match turn.state {
            TurnState::Completed => {
                // A turn that only adds a client's messages calls no model, so nothing counts its tokens.
                let only_adds = turn.finish.as_ref().is_some_and(|finish| finish.usage.is_none());
                assert!(!answer.is_empty() || only_adds || self.rewritten, "a completed turn has an answer");
                assert!(shown.is_empty(), "a completed turn has no partial answer");
            }
            TurnState::Queued | TurnState::Running => {
                assert!(shown.is_empty(), "a live turn has no partial answer yet");
            }
            _ => assert!(shown.len() <= 1, "an attempt has at most one partial answer"),
        }
        let places: Vec<_> = step_messages(turn).map(|message| message.seq).collect();
        assert!(places.is_sorted(), "its steps are in order");
        assert!(!turn.parked || turn.state == TurnState::Running, "a parked turn runs");
        assert!(turn.parked || turn.pending.is_empty(), "only a parked turn waits for people");
        assert_eq!(turn.ended_at.is_none(), turn.state.is_live());
        let made = self.ledger.rows.iter().rev().filter(|row| row.turn == Some(turn.id) && row.summary.is_some());
        // What a client has compacted itself is no step of its turn.
        let made = made.filter(|row| row.made_by == MadeBy::Herma);
        let made: Vec<_> = made.map(|row| row.id).collect();
        let compactions: Vec<_> = turn.compactions().collect();
        let own = turn.facts.id == self.row.facts.id;
        // Compactions of a failed attempt stay with that attempt, even if all its messages were removed.
        let has_left_some = self.whole.begun_anew.contains_key(&turn.id) || (self.rewritten && turn.attempt > 1);
        let is_rest = has_left_some && made.ends_with(&compactions);
        assert!(!own || is_rest || made == compactions, "a record has its compactions");
    }
}

/// The messages that a turn has written after its input.
fn step_messages(turn: &TurnRecord) -> impl Iterator<Item = &Arc<Message>> {
    turn.steps.iter().filter_map(Step::stored_message)
}

/// Whether the message belongs to an attempt that failed before its turn began anew.
fn is_left_behind(whole: &Snapshot, message: &Message) -> bool {
    whole.begun_anew.get(&message.turn).is_some_and(|first| message.attempt < *first)
}

/// Whether a branch has the failed attempt of a turn that has begun anew since, in the source of the branch only.
fn is_later_elsewhere(whole: &Snapshot, turn: &TurnRecord) -> bool {
    let failed_here = whole.unanswered.get(&turn.id);
    turn.facts.id != whole.facts.id
        && failed_here.is_some_and(|here| here.attempt < turn.attempt || !turn.state.is_unanswered())
}

fn said(entry: &Entry) -> Option<Arc<Message>> {
    match entry {
        Entry::Said(message) => Some(Arc::clone(message)),
        Entry::Summary(_) => None,
    }
}

//! What must be true of a store after whatever happened.

use std::collections::{HashMap, HashSet};

use herma_model::alias::Namespace;
use herma_model::{Message, Seq, TurnId, TurnState, Unanswered};

use super::World;
use super::fixture::name;
use crate::{ConversationRow, MessageRange, Pin, Scope, Snapshot, Store, TurnRecord};

impl<S: Store> World<S> {
    /// Looks over every conversation of both tenants, then closes both instances.
    pub async fn holds_together(&self) {
        for scope in [&self.scope, &self.stranger] {
            let rows = self.all(scope).await;
            let ids: HashSet<_> = rows.iter().map(|row| row.facts.id).collect();
            assert_eq!(ids.len(), rows.len(), "a conversation is listed once");
            for row in rows {
                self.conversation_holds_together(scope, &row).await;
            }
        }
        self.one.close().await;
        self.two.close().await;
    }

    async fn conversation_holds_together(&self, scope: &Scope, row: &ConversationRow) {
        let id = row.facts.id.to_string();
        for alias in [id.as_str(), row.facts.head.id.as_str(), row.facts.root.as_str()] {
            let led_to = self.two.conversation(scope, &name(alias), Pin::Head).await.unwrap();
            let led_to = led_to.unwrap_or_else(|| panic!("{alias} leads nowhere"));
            assert_eq!(led_to.facts, row.facts, "{alias} leads to its one head");
        }
        let view = self.view(scope, &id).await;
        view.messages_hold_together();
        view.turns_hold_together();
    }

    /// Reads until nothing changed in between: an engine may find a turn's owner gone at any moment.
    async fn view(&self, scope: &Scope, id: &str) -> View {
        loop {
            let snapshot = self.two.open(scope, &name(id), Namespace::Session).await.unwrap().unwrap();
            let row = self.two.conversation(scope, &name(id), Pin::Head).await.unwrap().unwrap();
            let paged = self.paged(scope, id).await;
            let mut turns: Vec<TurnRecord> = Vec::new();
            for message in &snapshot.messages {
                if turns.last().is_none_or(|turn| turn.id != message.turn) {
                    let turn = self.two.turn(scope, message.turn).await.unwrap();
                    turns.push(turn.expect("a turn with messages is stored"));
                }
            }
            let again = self.two.open(scope, &name(id), Namespace::Session).await.unwrap().unwrap();
            if again.version == snapshot.version {
                return View { row, snapshot, paged, turns };
            }
        }
    }

    async fn paged(&self, scope: &Scope, id: &str) -> Vec<Message> {
        let mut all: Vec<Message> = Vec::new();
        loop {
            let range = MessageRange { after: all.last().map(|message| message.seq), limit: 7 };
            let page = self.two.messages(scope, &name(id), range).await.unwrap().unwrap();
            assert!(page.messages.len() <= 7);
            all.extend(page.messages.iter().map(|message| (**message).clone()));
            if !page.has_more {
                return all;
            }
        }
    }
}

/// One conversation, read in every way at one version.
struct View {
    row: ConversationRow,
    snapshot: Snapshot,
    paged: Vec<Message>,
    /// In the order of their messages.
    turns: Vec<TurnRecord>,
}

impl View {
    fn messages_hold_together(&self) {
        let messages: Vec<Message> = self.snapshot.messages.iter().map(|message| (**message).clone()).collect();
        assert_eq!(self.snapshot.facts, self.row.facts);
        let places: Vec<Seq> = messages.iter().map(|message| message.seq).collect();
        let expected: Vec<Seq> = (1..=places.len() as i64).map(Seq).collect();
        assert_eq!(places, expected, "places are without gaps");
        assert_eq!(self.row.message_count, places.len() as u64, "messages are counted");
        let ids: HashSet<_> = messages.iter().map(|message| message.id).collect();
        assert_eq!(ids.len(), places.len(), "a message is written once");
        assert_eq!(self.paged, messages, "pages and the whole are the same");
    }

    fn turns_hold_together(&self) {
        let distinct: HashSet<TurnId> = self.turns.iter().map(|turn| turn.id).collect();
        assert_eq!(distinct.len(), self.turns.len(), "turns do not interleave");
        assert_eq!(self.row.turn_count, self.turns.len() as u64, "turns are counted");
        let mut unanswered = HashMap::new();
        let mut running = 0;
        for turn in &self.turns {
            match turn.state {
                TurnState::Running => running += 1,
                TurnState::Completed => {
                    let own = self.snapshot.messages.iter().filter(|message| message.turn == turn.id);
                    let own: Vec<_> = own.cloned().collect();
                    assert!(!turn.answer.is_empty() && own.ends_with(&turn.answer), "an answer ends its turn");
                    assert!(turn.finish.is_some() && turn.failure.is_none());
                }
                state => {
                    assert!(state.is_unanswered(), "a waiting turn has written nothing");
                    assert!(turn.failure.is_some() && turn.finish.is_none());
                    unanswered.insert(turn.id, Unanswered { state, attempt: turn.attempt });
                }
            }
        }
        assert_eq!(self.snapshot.unanswered, unanswered);
        assert!(running <= 1, "one turn runs at a time");
        assert_eq!(self.row.running, running == 1, "the running turn is known");
    }
}

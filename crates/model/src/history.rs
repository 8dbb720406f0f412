//! The identity of a history: one digest over its messages, in order.
//!
//! A client that names no conversation sends its whole history. Equal histories have equal digests, so the digest of a
//! history's beginning finds the conversation that it continues. System messages are not part of it.

use crate::message::{Digest, Role, Utterance};

/// A digest over all messages of a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct HistoryDigest(pub Digest);

impl HistoryDigest {
    /// The digest of a history without messages.
    pub const EMPTY: Self = Self(Digest([0; 16]));

    /// The digest after further messages.
    #[must_use]
    pub fn followed_by<'a>(self, messages: impl IntoIterator<Item = &'a Utterance>) -> Self {
        let mut reader = HistoryReader::after(self);
        messages.into_iter().for_each(|said| reader.read(said));
        reader.digest()
    }

    /// The digest after an answer, by what the client was shown of it.
    #[must_use]
    pub fn answered_by(self, shown: Digest) -> Self {
        self.and(shown)
    }

    fn and(self, message: Digest) -> Self {
        Self(Digest::of_fields([&self.0.0[..], &message.0]))
    }
}

/// Where a history ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistoryEnd {
    /// All of its messages.
    pub history: HistoryDigest,
    /// Its last message.
    pub last: Digest,
}

/// Digests a history message by message.
#[derive(Debug, Clone)]
pub struct HistoryReader {
    digest: HistoryDigest,
    /// Results of tools since the last other message. Clients may send them in any order, so they are sorted.
    results: Vec<Digest>,
}

impl HistoryReader {
    /// Continues a history.
    pub const fn after(digest: HistoryDigest) -> Self {
        Self { digest, results: Vec::new() }
    }

    /// Adds a message. A stored message counts as its clients were shown it: steps of a turn that clients never see do
    /// not count, and the last one stands for all of them.
    pub fn read(&mut self, said: &Utterance) {
        match said.role {
            _ if said.is_inner_step() => {}
            Role::Tool => self.results.push(said.digest),
            Role::User | Role::Assistant => {
                self.digest = self.digest().and(said.digest_shown());
                self.results.clear();
            }
        }
    }

    /// The digest of all messages so far.
    pub fn digest(&self) -> HistoryDigest {
        if self.results.is_empty() {
            return self.digest;
        }
        let mut results = self.results.clone();
        results.sort_unstable_by_key(|digest| digest.0);
        results.into_iter().fold(self.digest, HistoryDigest::and)
    }
}

/// The messages of a history by their digests, in the order in which they count.
///
/// Histories with equal trails have equal digests, and comparing two trails costs far less than digesting a history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryTrail(Vec<Digest>);

impl HistoryTrail {
    /// The trail of these messages.
    pub fn of(messages: &[Utterance]) -> Self {
        // One more for an answer.
        let mut trail = Vec::with_capacity(messages.len() + 1);
        // As with `HistoryReader`, results of tools that follow each other are sorted.
        let mut results_from = 0;
        let sort = |results: &mut [Digest]| results.sort_unstable_by_key(|digest| digest.0);
        for said in messages {
            match said.role {
                _ if said.is_inner_step() => {}
                Role::Tool => trail.push(said.digest),
                Role::User | Role::Assistant => {
                    sort(&mut trail[results_from..]);
                    trail.push(said.digest_shown());
                    results_from = trail.len();
                }
            }
        }
        sort(&mut trail[results_from..]);
        Self(trail)
    }

    /// The trail after an answer, by what the client was shown of it.
    #[must_use]
    pub fn answered_by(mut self, shown: Digest) -> Self {
        self.0.push(shown);
        self
    }

    /// Its first and its last message, and how many it has. `None` if it has none.
    pub fn ends(&self) -> Option<(Digest, Digest, usize)> {
        Some((*self.0.first()?, *self.0.last()?, self.0.len()))
    }

    /// The bytes that it takes in memory.
    pub const fn bytes(&self) -> usize {
        self.0.len() * size_of::<Digest>()
    }
}

/// The id that a front end gives a chat, in a header of its own. It leads to all conversations that came under it.
///
/// Only a digest is stored: front ends may send any text, and no client is shown it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ChatId(pub Digest);

impl ChatId {
    /// The chat that a header names. Equal ids of different front ends are different chats.
    pub fn of(header: &str, id: &[u8]) -> Self {
        Self(Digest::of_fields([header.to_ascii_lowercase().as_bytes(), id]))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::message::{MessageStatus, Payload};
    use crate::tool::{CallEnd, CallStatus, OwnCall};

    fn said(role: Role, text: &str) -> Utterance {
        Utterance {
            role,
            status: MessageStatus::Complete,
            payload: Payload::from_json("{}"),
            extra: None,
            digest: Utterance::text_digest(role, text),
            calls: Arc::from([]),
            tokens: 1,
        }
    }

    /// The digest of a history. Its trail has the same digests in the same order.
    fn digest(messages: &[Utterance]) -> HistoryDigest {
        let digest = HistoryDigest::EMPTY.followed_by(messages);
        let HistoryTrail(trail) = HistoryTrail::of(messages);
        assert_eq!(trail.into_iter().fold(HistoryDigest::EMPTY, HistoryDigest::and), digest);
        digest
    }

    #[test]
    fn the_order_of_messages_counts_and_the_order_of_results_does_not() {
        let (ask, call) = (said(Role::User, "a"), said(Role::Assistant, "b"));
        let (one, two) = (said(Role::Tool, "1"), said(Role::Tool, "2"));
        let whole = digest(&[ask.clone(), call.clone(), one.clone(), two.clone()]);
        assert_eq!(whole, digest(&[ask.clone(), call.clone(), two.clone(), one.clone()]));
        assert_ne!(whole, digest(&[call.clone(), ask.clone(), one.clone(), two.clone()]));
        assert_ne!(whole, digest(&[ask.clone(), call.clone(), one.clone()]));
        assert_eq!(whole, digest(&[ask, call]).followed_by(&[two, one]));
    }

    #[test]
    fn a_turn_counts_as_its_client_was_shown_it() {
        let own = OwnCall {
            id: "x".into(),
            server: "s".into(),
            tool: "t".into(),
            asks: false,
            waits: false,
            max_output: None,
        };
        let mut step = said(Role::Assistant, "Let me see.");
        step.calls = Arc::from([own.id.clone()]);
        let step = step.with_own_calls(&[own]);
        let result = Utterance::tool_result("x", "found", &CallEnd::at_once(CallStatus::Done));
        let shown = said(Role::Assistant, "Let me see.\n\nIt is there.");
        let last = said(Role::Assistant, "It is there.").with_shown_digest(shown.digest);
        let ask = said(Role::User, "look");
        assert_eq!(digest(&[ask.clone(), step, result, last]), digest(&[ask, shown]));
    }

    #[test]
    fn chats_of_different_front_ends_stay_apart() {
        assert_eq!(ChatId::of("Thread-Id", b"1"), ChatId::of("thread-id", b"1"));
        assert_ne!(ChatId::of("thread-id", b"1"), ChatId::of("x-conversation-id", b"1"));
    }
}

//! Finds the conversation of a request that names none.
//!
//! Such a request carries its whole history. The digest of the history finds the conversation that the request
//! continues. If the client has changed its history, conversations that share messages with it are compared. A chat of
//! a front end limits both to the conversations that came under it.

use std::sync::{Arc, OnceLock};

use herma_model::alias::Namespace;
use herma_model::{
    Alias, ConversationId, HistoryDigest, HistoryEnd, HistoryReader, HistoryTrail, Message, Role, SessionKind, TurnId,
    Utterance,
};
use herma_store::{
    ConversationRow, ExpectedHistory, Extent, FoundHistory, HistoryScope, ListFilter, Resembling, Scope, Snapshot,
    Target,
};
use herma_turn::recognise::Connection;
use herma_turn::{Recognised, Replacement, Transcript, may_be_missing, recognise};

use crate::admission::{PendingAdmission, own_alias};
use crate::compaction::transcript;
use crate::error::GatewayError;
use crate::history::{History, KnownPart};
use crate::request::{CLIENT_COMPACTION, TurnInput};

/// How many helpers of a conversation are searched for the last summary that its client has asked for.
const MOST_HELPERS: usize = 16;

/// How many texts that follow each other are read as one answer.
const MOST_TEXTS: usize = 64;

/// How many of the last answers of a request are looked for, if its history as a whole is not known.
const MOST_ANSWERS: usize = 8;

/// The history of a request. Its digests are computed when they are needed: a conversation in memory is found without.
#[derive(Default)]
pub(super) struct RequestHistory {
    /// All of its messages, if that is known without the other digests.
    whole: OnceLock<HistoryEnd>,
    digests: OnceLock<HistoryDigests>,
}

impl RequestHistory {
    /// `None` if there are no messages.
    pub(super) fn of(input: &TurnInput) -> Option<Self> {
        (!input.messages.is_empty()).then(Self::default)
    }

    /// All of its messages.
    pub(super) fn whole(&self, input: &TurnInput) -> HistoryEnd {
        *self.whole.get_or_init(|| self.digests(input).whole)
    }

    /// The history of a request that asks for an answer to its first messages.
    pub(super) fn opening(&self, input: &TurnInput) -> Option<HistoryEnd> {
        known_with_last_answer(input).is_none().then(|| self.whole(input))
    }

    fn digests(&self, input: &TurnInput) -> &HistoryDigests {
        self.digests.get_or_init(|| HistoryDigests::of(input))
    }
}

/// How many messages a request has up to its last answer, if it has one. At least the last message is new.
fn known_with_last_answer(input: &TurnInput) -> Option<usize> {
    let (_, before) = input.messages.split_last()?;
    Some(before.iter().rposition(|said| said.role == Role::Assistant)? + 1)
}

/// The digests of a request's history.
struct HistoryDigests {
    /// All of its messages.
    whole: HistoryEnd,
    /// After each of its answers, the last first: how many messages that is, and the history up to there.
    answers: Vec<(usize, HistoryEnd)>,
}

impl HistoryDigests {
    fn of(input: &TurnInput) -> Self {
        let messages = &input.messages;
        let mut reader = HistoryReader::after(HistoryDigest::EMPTY);
        let mut answers = Vec::new();
        let mut texts = SeveralTexts::default();
        for (at, said) in messages.iter().enumerate() {
            let is_answer = said.role == Role::Assistant;
            let several = if is_answer { texts.read(&reader, messages, at) } else { None };
            reader.read(said);
            // At least the last message is new.
            if is_answer && at + 1 < messages.len() {
                answers.extend(several.map(|end| (at + 1, end)));
                answers.push((at + 1, HistoryEnd { history: reader.digest(), last: said.digest }));
            }
        }
        answers.reverse();
        let last = messages.last().map_or(HistoryDigest::EMPTY.0, |said| said.digest);
        let history = input.as_sent.unwrap_or_else(|| reader.digest());
        Self { whole: HistoryEnd { history, last }, answers }
    }
}

/// Texts of the assistant that follow each other. They may be one answer: a turn in which Herma's own tools were called
/// is several texts in a response, and its client may send them back without the calls between them.
#[derive(Default)]
struct SeveralTexts {
    /// The index of the first one.
    first: usize,
    /// The history before it.
    before: Option<HistoryDigest>,
}

impl SeveralTexts {
    /// The history up to an assistant's message, if the texts before it belong to the same answer.
    fn read(&mut self, before: &HistoryReader, messages: &[Utterance], at: usize) -> Option<HistoryEnd> {
        let is_text = |said: &Utterance| said.role == Role::Assistant && said.calls.is_empty();
        if at == 0 || !is_text(&messages[at - 1]) {
            *self = Self { first: at, before: Some(before.digest()) };
            return None;
        }
        let run = &messages[self.first..=at];
        if !run.iter().all(is_text) || run.len() > MOST_TEXTS {
            return None;
        }
        let texts: Option<Vec<String>> = run.iter().map(|said| said.payload.text()).collect();
        let last = Utterance::text_digest(Role::Assistant, &texts?.join("\n\n"));
        Some(HistoryEnd { history: self.before?.answered_by(last), last })
    }
}

/// Where a request continues.
enum Located {
    /// After this turn, and which of its messages are known.
    After(TurnId, KnownPart),
    /// In this branch, which ends with this turn of its source, and which of the request's messages are known.
    InBranch(ConversationId, TurnId, KnownPart),
    /// In this conversation, whose context its client has replaced.
    In(Box<Snapshot>, KnownPart),
    /// In a branch that inherits nothing of this conversation.
    Anew(ConversationId),
    /// In a new conversation.
    Nowhere,
}

impl Located {
    /// How many messages at the beginning of the request are known.
    fn known_messages(&self) -> usize {
        match self {
            Self::After(_, KnownPart::First(known)) | Self::InBranch(_, _, KnownPart::First(known)) => *known,
            _ => 0,
        }
    }
}

impl PendingAdmission<'_> {
    /// The history of a request that names no conversation. `waiting` is the turn in which a client added exactly its
    /// messages, if the store has found one.
    pub(super) async fn history_of_unnamed(
        &self,
        scope: &Scope,
        asked: &RequestHistory,
        waiting: Option<TurnId>,
        extent: Extent,
    ) -> Result<History, GatewayError> {
        if let Some(turn) = waiting
            && let Some(history) = self.after_turn(scope, turn, KnownPart::All, extent).await?
            && history.continues()
        {
            return Ok(history);
        }
        if let Some(history) = self.in_memory(scope, asked).filter(|_| extent == Extent::View) {
            return Ok(history);
        }
        let found = match self.locate(scope, asked, extent).await? {
            Located::After(turn, known) => self.after_turn(scope, turn, known, extent).await?,
            Located::InBranch(branch, turn, known) => {
                let found = self.after_in(scope, own_alias(&branch.to_string())?, turn, extent).await?;
                found.map(|found| History { known, ..found })
            }
            Located::In(before, known) => {
                let alias = own_alias(&before.facts.id.to_string())?;
                let target = Target::Alias { alias, namespace: Namespace::Session, must_exist: true };
                Some(History { before: Some(*before), target, known, ..History::new() })
            }
            Located::Anew(source) => Some(History { target: Target::Anew { source }, ..History::new() }),
            Located::Nowhere => None,
        };
        // What was found may have been deleted meanwhile.
        Ok(found.unwrap_or_else(History::new))
    }

    /// The history of a request whose client has compacted its context, and that waited behind another turn: a branch
    /// after the turn with which the conversation ended before. `None` if that is deleted or has changed.
    pub(super) async fn compacted_after(&self, scope: &Scope, turn: TurnId) -> Result<Option<History>, GatewayError> {
        let alias = own_alias(&turn.as_run().to_string())?;
        let opened = self.gateway.store.open(scope, &alias, Namespace::Session, Extent::At(turn)).await?;
        let Some(before) = opened.filter(|before| before.whole) else { return Ok(None) };
        let recognised = recognise(&self.request.input.messages, transcript(&before), Connection::None);
        let Some(Recognised::Replaced(mut replacement)) = recognised else { return Ok(None) };
        carry_up_to_base(&mut replacement, &before);
        let known = KnownPart::Replaced(Box::new(replacement));
        Ok(Some(History { before: Some(before), target: Target::Branch { source: turn }, known, ..History::new() }))
    }

    /// The conversation in memory that ends with the last answer of the request. The admission checks that a search
    /// would find it too, so no search is needed before.
    fn in_memory(&self, scope: &Scope, asked: &RequestHistory) -> Option<History> {
        let input = &self.request.input;
        let known = known_with_last_answer(input)?;
        let within = self.within();
        let (before, last) = self.take_remembered(scope, asked, known)?;
        let turn = before.messages.last()?.turn;
        if before.unanswered.contains_key(&turn) || !scope.keys.sees(before.facts.session_key.as_ref()) {
            return None;
        }
        let alias = own_alias(&turn.as_run().to_string()).ok()?;
        Some(History {
            before: Some(before),
            is_fresh: false,
            target: Target::Alias { alias, namespace: Namespace::Session, must_exist: true },
            known: KnownPart::First(known),
            expected: Some(Box::new(ExpectedHistory { within, ends: vec![asked.whole(input), last], turn })),
        })
    }

    /// Takes the conversation that ends with the request's last answer out of the memory, and the history up to there.
    /// The request has `known` messages up to that answer.
    fn take_remembered(&self, scope: &Scope, asked: &RequestHistory, known: usize) -> Option<(Snapshot, HistoryEnd)> {
        let (input, cache) = (&self.request.input, &self.gateway.cache);
        let session_key = self.request.caller.session_key.as_ref();
        let (before, new) = input.messages.split_at(known);
        if input.as_sent.is_none()
            && let Some(found) = cache.take_trail(scope.tenant, session_key, &HistoryTrail::of(before))
            && let (Some(history), Some(answer), Some(last)) = (found.history, before.last(), new.last())
        {
            let whole = HistoryEnd { history: history.followed_by(new), last: last.digest };
            asked.whole.get_or_init(|| whole);
            return Some((found, HistoryEnd { history, last: answer.digest }));
        }
        let (_, last) = *asked.digests(input).answers.first()?;
        Some((cache.take_history(scope.tenant, session_key, last.history)?, last))
    }

    /// Which conversations the request may continue.
    fn within(&self) -> HistoryScope {
        let destination = &self.request.destination;
        HistoryScope {
            session_key: self.request.caller.session_key.clone(),
            chat: destination.chat,
            kind: destination.kind,
        }
    }

    /// Where the request continues.
    async fn locate(&self, scope: &Scope, asked: &RequestHistory, extent: Extent) -> Result<Located, GatewayError> {
        let within = self.within();
        let HistoryDigests { whole, answers } = asked.digests(&self.request.input);
        if answers.is_empty() && within.chat.is_none() {
            return Ok(Located::Nowhere);
        }
        let ends: Vec<HistoryEnd> = answers.iter().map(|(_, end)| *end).collect();
        let known = |found: FoundHistory, skipped: usize| {
            let known = KnownPart::First(answers[skipped + found.end].0);
            match found.is_inherited {
                true => Located::InBranch(found.conversation, found.turn, known),
                false => Located::After(found.turn, known),
            }
        };
        let last = ends.first().copied();
        let mut found = self.find(scope, &within, [*whole].into_iter().chain(last).collect()).await?;
        if let Some(FoundHistory { end: 0, turn, .. }) = found {
            let history = self.after_turn(scope, turn, KnownPart::All, extent).await?;
            if history.is_some_and(|history| history.continues()) {
                return Ok(Located::After(turn, KnownPart::All));
            }
            if self.request.input.messages.last().is_some_and(|said| said.role == Role::Assistant) {
                return Ok(Located::After(turn, KnownPart::All));
            }
            // It was answered, and the client wants another answer.
            found = self.find(scope, &within, last.into_iter().collect()).await?;
            found = found.map(|found| FoundHistory { end: 1, ..found });
        }
        if let Some(found) = found {
            return Ok(known(FoundHistory { end: 0, ..found }, 0));
        }
        let resembling = match self.resembling(scope, &within, &ends).await? {
            Some(located @ Located::In(..)) => return Ok(located),
            other => other,
        };
        let earlier = self.find(scope, &within, ends.iter().skip(1).copied().collect()).await?;
        let earlier = earlier.map(|found| known(found, 1));
        if let Some(located) = earlier.into_iter().chain(resembling).max_by_key(Located::known_messages) {
            return Ok(located);
        }
        if within.chat.is_none() {
            return Ok(Located::Nowhere);
        }
        let chat = self.gateway.store.find_resembling(scope, within, Resembling::Chat).await?;
        Ok(chat.first().map_or(Located::Nowhere, |source| Located::Anew(*source)))
    }

    async fn find(
        &self,
        scope: &Scope,
        within: &HistoryScope,
        ends: Vec<HistoryEnd>,
    ) -> Result<Option<FoundHistory>, GatewayError> {
        Ok(self.gateway.store.find_history(scope, within.clone(), ends).await?)
    }

    /// Compares the request with conversations that share an answer with it, or that came under the same chat. Of those
    /// that it leaves, the one that it follows furthest counts.
    async fn resembling(
        &self,
        scope: &Scope,
        within: &HistoryScope,
        ends: &[HistoryEnd],
    ) -> Result<Option<Located>, GatewayError> {
        let wanted = match within.chat {
            Some(_) => Resembling::Chat,
            None => Resembling::Answers(ends.iter().take(MOST_ANSWERS).map(|end| end.last).collect()),
        };
        let messages = &self.request.input.messages;
        let mut left: Option<Located> = None;
        for conversation in self.gateway.store.find_resembling(scope, within.clone(), wanted).await? {
            let alias = own_alias(&conversation.to_string())?;
            let opened = self.gateway.store.open(scope, &alias, Namespace::Session, Extent::Whole).await?;
            let Some(before) = opened.filter(|before| !before.ended) else { continue };
            let summary = match within.chat {
                Some(_) => self.summary_for_client(scope, &alias).await?,
                None => None,
            };
            let by = match within.chat {
                Some(_) => Connection::Chat { summary: summary.as_deref() },
                None => Connection::None,
            };
            let stored = Transcript { messages: self.without_live(scope, &before).await?, ..transcript(&before) };
            match recognise(messages, stored, by) {
                Some(Recognised::Known { messages: known, after }) => {
                    let located = Located::After(after, KnownPart::First(known));
                    if !messages[known..].iter().any(|said| said.role == Role::Assistant) {
                        return Ok(Some(located));
                    }
                    left = [located].into_iter().chain(left).max_by_key(Located::known_messages);
                }
                Some(Recognised::Replaced(mut replacement)) => {
                    carry_up_to_base(&mut replacement, &before);
                    let known = KnownPart::Replaced(Box::new(replacement));
                    return Ok(Some(Located::In(Box::new(before), known)));
                }
                None if within.chat.is_some() && repeats_failed_opening(messages, &before) => {
                    return Ok(Some(Located::In(Box::new(before), KnownPart::First(0))));
                }
                None => {}
            }
        }
        Ok(left)
    }

    /// The messages of a conversation without those of its live turn. The request's client may not know of that turn.
    async fn without_live<'s>(&self, scope: &Scope, before: &'s Snapshot) -> Result<&'s [Arc<Message>], GatewayError> {
        let Some(last) = before.messages.last() else { return Ok(&[]) };
        let is_live = !before.unanswered.contains_key(&last.turn) && self.is_live(scope, last.turn).await?;
        let others = before.messages.iter().rposition(|message| message.turn != last.turn).map_or(0, |at| at + 1);
        Ok(if is_live { &before.messages[..others] } else { &before.messages })
    }

    /// The last summary that a client has asked for, to compact the context of this conversation itself.
    async fn summary_for_client(&self, scope: &Scope, conversation: &Alias) -> Result<Option<String>, GatewayError> {
        let filter = ListFilter {
            parent: Some(conversation.clone()),
            origin_kind: Some(SessionKind::Auxiliary),
            limit: MOST_HELPERS,
            ..ListFilter::default()
        };
        let helpers = self.gateway.store.conversations(scope, filter).await?;
        let asked = |row: &&ConversationRow| row.facts.head.reason.as_deref() == Some(CLIENT_COMPACTION);
        let Some(helper) = helpers.rows.iter().find(asked) else { return Ok(None) };
        let alias = own_alias(&helper.facts.id.to_string())?;
        let opened = self.gateway.store.open(scope, &alias, Namespace::Session, Extent::View).await?;
        let answers = opened.into_iter().flat_map(|snapshot| snapshot.messages);
        let last = answers.filter(|message| message.said.role == Role::Assistant).last();
        Ok(last.and_then(|message| message.said.payload.text()))
    }
}

/// The turn with whose answer the known part of a compacted context ends. `None` if it ends with no answer.
pub(super) fn end_of_compacted(
    request: &[Utterance],
    replacement: &Replacement,
    before: Option<&Snapshot>,
) -> Option<TurnId> {
    let last = request.get(replacement.new_from.checked_sub(1)?).filter(|said| said.role == Role::Assistant)?;
    let stored = before?.messages.iter().rev().find(|message| message.said.is_repeated_by(last))?;
    Some(stored.turn)
}

/// Carries the messages that an earlier compaction has replaced, and that the client still sends after its own.
fn carry_up_to_base(replacement: &mut Replacement, before: &Snapshot) {
    let Some(base) = &before.base else { return };
    let (last, transcript) = (replacement.last.seq, transcript(before));
    let is_sent = |message: &&Arc<Message>| message.seq > last && message.seq <= base.through;
    let sent = before.messages.iter().filter(is_sent).filter(|message| !may_be_missing(message, transcript));
    replacement.carried.extend(sent.cloned());
}

/// Whether the messages are the input of a conversation's turns, none of which was answered.
fn repeats_failed_opening(messages: &[Utterance], before: &Snapshot) -> bool {
    let mut stored = before.messages.iter();
    let is_unanswered = stored.clone().all(|message| before.unanswered.contains_key(&message.turn));
    !before.messages.is_empty()
        && is_unanswered
        && messages.iter().all(|said| stored.any(|message| message.said.digest == said.digest))
}

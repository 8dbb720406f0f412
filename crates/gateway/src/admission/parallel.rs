//! Parallel calls that a client sends back one after the other.
//!
//! The model calls two tools in one message. Some clients of responses then send the first call, its result, the second
//! call, its result. That reads like two messages that follow each other. Which of both it was, the store knows: only
//! one of them is a history that was answered.

use herma_model::{CallId, HistoryDigest, HistoryEnd, HistoryReader, Role, Utterance};
use herma_store::{HistoryScope, Scope};
use herma_wire::chat::single;
use serde_json::Value;

use crate::gateway::Gateway;
use crate::request::{ConversationRef, TurnInput, TurnRequest};

/// How many calls at the end of a request are tried as one message.
const MOST_ROUNDS: usize = 32;

impl Gateway {
    /// Puts calls at the end of a request that names no conversation into one message, if they were one.
    pub(crate) async fn join_parallel_calls(&self, request: &mut TurnRequest) {
        if request.destination.conversation != ConversationRef::ByHistory {
            return;
        }
        let messages = &request.input.messages;
        let rounds = rounds(messages);
        let Some(last) = rounds.last().copied().filter(|_| rounds.len() > 1) else { return };
        let joined: Vec<(usize, Utterance)> = rounds[..rounds.len() - 1]
            .iter()
            .rev()
            .filter_map(|first| Some((*first, join(&messages[*first..])?)))
            .collect();
        let as_sent = history(&messages[..=last]);
        let ends = [as_sent].into_iter().chain(joined.iter().map(|(first, said)| {
            let mut reader = HistoryReader::after(history(&messages[..*first]).history);
            reader.read(said);
            HistoryEnd { history: reader.digest(), last: said.digest }
        }));
        let within = HistoryScope {
            session_key: request.caller.session_key.clone(),
            chat: request.destination.chat,
            kind: request.destination.kind,
        };
        let scope = Scope::of(&request.caller.principal);
        // If the store cannot be read, the admission will say so.
        let Ok(Some(found)) = self.store.find_history(&scope, within, ends.collect()).await else { return };
        let Some((first, said)) = found.end.checked_sub(1).and_then(|at| joined.into_iter().nth(at)) else { return };
        replace(&mut request.input, first, said);
    }
}

/// The history of these messages.
fn history(messages: &[Utterance]) -> HistoryEnd {
    let last = messages.last().map_or(HistoryDigest::EMPTY.0, |said| said.digest);
    HistoryEnd { history: HistoryDigest::EMPTY.followed_by(messages), last }
}

/// The indices of the messages at the end that call tools, each followed by all of its results and nothing else. Only
/// the first of them may have a text.
fn rounds(messages: &[Utterance]) -> Vec<usize> {
    let mut rounds = Vec::new();
    let mut results: Vec<&CallId> = Vec::new();
    for (at, said) in messages.iter().enumerate().rev() {
        match said.role {
            Role::Tool => results.extend(said.calls.first()),
            Role::Assistant if !results.is_empty() && is_answered(said, &results) => {
                rounds.push(at);
                results.clear();
                if said.payload.text().is_some() || rounds.len() == MOST_ROUNDS {
                    break;
                }
            }
            Role::User | Role::Assistant => break,
        }
    }
    rounds.reverse();
    rounds
}

fn is_answered(said: &Utterance, results: &[&CallId]) -> bool {
    said.calls.len() == results.len() && said.calls.iter().all(|call| results.contains(&call))
}

/// The calls of these messages in one message.
fn join(messages: &[Utterance]) -> Option<Utterance> {
    let mut calling = messages.iter().filter(|said| said.role == Role::Assistant);
    let mut joined: Value = serde_json::from_str(calling.next()?.payload.as_json()).ok()?;
    for said in calling {
        let message: Value = serde_json::from_str(said.payload.as_json()).ok()?;
        joined["tool_calls"].as_array_mut()?.extend(message["tool_calls"].as_array()?.iter().cloned());
    }
    single(&joined.to_string()).ok()
}

/// Puts one message in place of those from `first` on that call tools.
fn replace(input: &mut TurnInput, first: usize, said: Utterance) {
    input.as_sent = Some(history(&input.messages).history);
    let rest = input.messages.split_off(first);
    let places = input.indices.split_off(first);
    let place = places.first().copied();
    let results = rest.into_iter().zip(places).filter(|(said, _)| said.role == Role::Tool);
    let (results, places): (Vec<_>, Vec<_>) = results.unzip();
    input.messages.push(said);
    input.messages.extend(results);
    input.indices.extend(place);
    input.indices.extend(places);
}

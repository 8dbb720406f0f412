//! What is asked before a turn: the person's messages that fit, and what Honcho concluded about the person.

use std::collections::HashSet;
use std::sync::Arc;

use herma_model::{ConversationId, MessageId, Seq, Timestamp};
use herma_store::ErasedNotDelivered;
use herma_store::search::fold;
use reqwest::Method;
use serde::Deserialize;
use serde_json::json;

use super::client::{HonchoClient, HonchoError, Request};
use super::names::Names;
use crate::provider::{RecallRequest, Recollection, Speaker};
use crate::words;

/// How many messages and how many conclusions are asked for.
const MESSAGES: usize = 12;
const CONCLUSIONS: usize = 20;
/// How many letters of the person's message Honcho is asked with.
const LONGEST_QUERY: usize = 500;
/// How many letters of a message are quoted if it has none of the words.
const LONGEST_QUOTE: usize = 400;

/// A message at Honcho. `metadata` is what [`super::record`] has sent with it.
#[derive(Debug, Deserialize)]
struct FoundMessage {
    content: String,
    workspace_id: String,
    peer_id: String,
    session_id: String,
    #[serde(default)]
    metadata: Metadata,
    created_at: Timestamp,
}

#[derive(Debug, Default, Deserialize)]
struct Metadata {
    herma: Option<Origin>,
}

#[derive(Debug, Deserialize)]
struct Origin {
    conversation: ConversationId,
    message: MessageId,
    seq: i64,
}

/// What Honcho concluded about a peer.
#[derive(Debug, Default, Deserialize)]
struct PeerContext {
    representation: Option<String>,
    peer_card: Option<Vec<String>>,
}

/// The person's messages that fit. Those of conversations that are erased here but not there are left out.
pub(super) async fn said(
    client: &HonchoClient,
    names: &Names,
    erased: &ErasedNotDelivered,
    request: &RecallRequest,
) -> Result<Vec<Recollection>, HonchoError> {
    let query = query(&request.text);
    if erased.everything || query.is_empty() {
        return Ok(Vec::new());
    }
    let (resource, name) = match names.shared_session() {
        Some(session) => ("sessions", session),
        None => ("peers", names.peer.as_str()),
    };
    let path = ["workspaces", &names.workspace, resource, name, "search"];
    let asked = client.ask(Request::post(&path, json!({ "query": query, "limit": MESSAGES }))).await;
    let found: Vec<FoundMessage> = none_if_not_found(asked)?;
    let asked = words::asked_words(&request.text);
    let mut known = HashSet::new();
    let news = found.into_iter().filter(|found| is_news(found, names, erased, request));
    let news = news.filter(|found| known.insert(fold(found.content.trim())));
    Ok(news.map(|found| recollection(found, names, &asked)).collect())
}

/// What Honcho concluded about the person. Nothing while an erasure is not delivered, because a conclusion does not say
/// from which conversations it comes.
pub(super) async fn concluded(
    client: &HonchoClient,
    names: &Names,
    erased: &ErasedNotDelivered,
    request: &RecallRequest,
) -> Result<Vec<Recollection>, HonchoError> {
    let query = query(&request.text);
    if *erased != ErasedNotDelivered::default() || query.is_empty() {
        return Ok(Vec::new());
    }
    let path = ["workspaces", &names.workspace, "peers", &names.peer, "context"];
    let request = Request::new(Method::GET, &path)
        .with("search_query", query)
        .with("include_most_frequent", "true")
        .with("max_conclusions", CONCLUSIONS.to_string());
    let context: PeerContext = none_if_not_found(client.ask(request).await)?;
    let card = context.peer_card.unwrap_or_default();
    let representation = context.representation.unwrap_or_default();
    let lines = card.iter().map(String::as_str).chain(representation.lines());
    Ok(lines.filter_map(conclusion).take(CONCLUSIONS * 2).collect())
}

/// The person's message without punctuation: Honcho compares texts with punctuation as they are.
fn query(text: &str) -> String {
    let spaced: String =
        text.chars().take(LONGEST_QUERY).map(|letter| if letter.is_alphanumeric() { letter } else { ' ' }).collect();
    spaced.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Nothing is known of a workspace or a peer before it is told something.
fn none_if_not_found<T: Default>(asked: Result<T, HonchoError>) -> Result<T, HonchoError> {
    match asked {
        Err(error) if error.is_not_found() => Ok(T::default()),
        other => other,
    }
}

/// One line of a representation. Headings, and the indented premises of a conclusion, are left out. Lines begin with
/// the time in brackets.
fn conclusion(line: &str) -> Option<Recollection> {
    if line.starts_with('#') || line.starts_with(char::is_whitespace) {
        return None;
    }
    let line = line.trim().trim_start_matches("- ");
    let dated = line.strip_prefix('[').and_then(|rest| rest.split_once("] "));
    let dated = dated.and_then(|(moment, text)| moment_of(moment).map(|at| (at, text)));
    let (at, text) = dated.unwrap_or_else(|| (now(), line));
    (!text.trim().is_empty()).then(|| Recollection {
        speaker: None,
        text: Arc::from(text.trim()),
        at,
        conversation: None,
        memory: None,
    })
}

/// `2026-11-18 10:00:00`, or with a `T`.
fn moment_of(text: &str) -> Option<Timestamp> {
    format!("{}Z", text.trim().replacen(' ', "T", 1).trim_end_matches('Z')).parse().ok()
}

fn now() -> Timestamp {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// Whether a message is the key's, is not erased here, and says more than what the model is shown anyway.
fn is_news(found: &FoundMessage, names: &Names, erased: &ErasedNotDelivered, request: &RecallRequest) -> bool {
    let is_of_key = found.workspace_id == names.workspace
        && match names.shared_session() {
            Some(session) => found.session_id == session,
            None => found.peer_id == names.peer,
        };
    let is_shown = found.metadata.herma.as_ref().is_some_and(|origin| {
        let is_own = origin.conversation == request.shown.conversation;
        let is_hidden = request.shown.hidden_through.is_some_and(|hidden| Seq(origin.seq) <= hidden);
        (is_own && !is_hidden)
            || request.inherited.contains(&origin.message)
            || erased.conversations.contains(&origin.conversation)
    });
    // Herma has sent everything that a peer of its own says. Only Hermes' sessions have messages without an origin.
    let is_expected = found.metadata.herma.is_some() || names.shared_session().is_some();
    is_of_key && is_expected && !is_shown && fold(found.content.trim()) != fold(request.text.trim())
}

fn recollection(found: FoundMessage, names: &Names, asked: &[String]) -> Recollection {
    let is_assistant = found.peer_id == names.assistant;
    let quoted = words::excerpt(&found.content, &fold(&found.content), asked);
    Recollection {
        speaker: Some(if is_assistant { Speaker::Assistant } else { Speaker::User }),
        text: Arc::from(quoted.unwrap_or_else(|| beginning(&found.content).into())),
        at: found.created_at,
        conversation: found.metadata.herma.map(|origin| origin.conversation),
        memory: None,
    }
}

fn beginning(text: &str) -> String {
    let cut: String = text.trim().chars().take(LONGEST_QUOTE).collect();
    if cut.len() < text.trim().len() { format!("{cut}…") } else { cut }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_loses_its_punctuation() {
        assert_eq!(query("What's my dog called?  (Bello!)"), "What s my dog called Bello");
        assert_eq!(query("?!"), "");
        assert!(query(&"word ".repeat(900)).chars().count() <= LONGEST_QUERY);
    }

    #[test]
    fn conclusions_are_lines_with_their_dates() {
        let representation = "## Explicit Observations\n\n[2026-11-18 10:00:00] Ann has a dog\n\n\
                              ## Deductive Observations\n\n[2026-11-17 09:00:00] Ann likes animals\n\
                              \x20  Premises:\n\x20  - Ann has a dog\n\n- a line without a date\n";
        let found: Vec<_> = representation.lines().filter_map(conclusion).collect();
        let texts: Vec<_> = found.iter().map(|one| &*one.text).collect();
        assert_eq!(texts, ["Ann has a dog", "Ann likes animals", "a line without a date"]);
        assert_eq!(found[0].at.to_string(), "2026-11-18T10:00:00.000Z");
        assert!(found.iter().all(Recollection::is_derived));
    }
}

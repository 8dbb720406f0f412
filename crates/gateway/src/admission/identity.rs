//! How a request is recognised if it comes again.

use std::sync::Arc;

use herma_model::{ConversationId, Digest};
use herma_store::admission::Idempotency;
use herma_store::{RetryIdentity, Snapshot};
use herma_turn::repeats_history;

use crate::compaction::transcript;
use crate::request::{ConversationRef, TurnRequest};

/// The identity by which a repeated request is recognised. `before` is the conversation that the request names.
pub(crate) fn retry_identity(
    request: &TurnRequest,
    conversation: ConversationId,
    before: Option<&Snapshot>,
) -> RetryIdentity {
    let identity = &request.identity;
    let tenant = request.caller.principal.tenant.0.to_le_bytes();
    let key = request.caller.principal.key.map(|key| key.uuid().into_bytes()).unwrap_or_default();
    let session_key = request.caller.session_key.as_ref().map_or("", |key| key.as_str());
    let place = &request.destination.conversation;
    let name = match place.is_current() {
        // No alias has a line break. Equal requests under two session keys are two requests.
        true => Some(Arc::from(format!("current\n{session_key}"))),
        false => place.name(),
    };
    let alias = name.as_deref().unwrap_or("");
    let user = identity.user.as_deref().unwrap_or("");
    let route = identity.route.as_bytes();
    // Equal requests of two chats are two requests.
    let is_unnamed = *place == ConversationRef::ByHistory;
    let chat = request.destination.chat.filter(|_| is_unnamed).map(|chat| chat.0.0);
    let who = [&tenant[..], &key, session_key.as_bytes(), user.as_bytes()];
    let what = [route, alias.as_bytes(), &chat.unwrap_or_default(), &identity.body];
    let Digest(fingerprint) = Digest::of_fields(who.into_iter().chain(what));
    // A chat stands for its conversation, so equal keys of two chats are two keys.
    let named = chat.as_ref().map_or(alias.as_bytes(), |chat| &chat[..]);
    let scope_of = |name: &[u8], wanted: &str| Digest::of_fields([&tenant[..], &key, route, name, wanted.as_bytes()]).0;
    // The conversation's session key applies to a request that sends none.
    let stored = before.and_then(|before| before.facts.session_key.as_ref()).filter(|_| session_key.is_empty());
    let idempotency = identity.idempotency_key.as_ref().map(|wanted| Idempotency {
        scopes: [scope_of(named, wanted), scope_of(conversation.to_string().as_bytes(), wanted)],
        body: body_under(&identity.body, session_key),
        with_stored_key: stored.map(|key| body_under(&identity.body, key.as_str())),
    });
    let unseen = identity.sdk_attempt > 0 && shows_unseen_answer(request, before);
    // Another conversation may be the current one when the request comes again.
    let is_named = !place.is_current() && matches!(place, ConversationRef::Named { .. } | ConversationRef::After(_));
    RetryIdentity { fingerprint, sdk_attempt: identity.sdk_attempt, is_named, unseen, idempotency }
}

/// The digest that an `Idempotency-Key` is bound to. The answer under one session key is not the answer under another:
/// memory and conversation differ, and the other key may not be the caller's. Without a session key the digest is that
/// of the body.
fn body_under(body: &[u8; 16], session_key: &str) -> [u8; 16] {
    if session_key.is_empty() { *body } else { Digest::of_fields([&body[..], session_key.as_bytes()]).0 }
}

/// True if a retry's own history shows that its client has not seen the answer. A request that names no conversation
/// carries all of its history. `previous_response_id` names the last answer that its client has seen.
fn shows_unseen_answer(request: &TurnRequest, before: Option<&Snapshot>) -> bool {
    if request.input.all_new {
        return false;
    }
    match request.destination.conversation {
        ConversationRef::New | ConversationRef::ByHistory | ConversationRef::Stateless | ConversationRef::After(_) => {
            true
        }
        ConversationRef::Named { .. } => {
            before.is_some_and(|before| repeats_history(&request.input.messages, transcript(before)))
        }
    }
}

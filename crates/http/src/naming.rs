//! The names that an HTTP request gives for its conversation. The gateway decides which conversation they lead to.

use herma_gateway::{ConversationRef, Destination, Field, Names};
use herma_model::{Alias, Principal, SessionKey};
use herma_wire::responses::ResponsesRequest;

use crate::app::Shared;
use crate::dialect::Dialect;
use crate::error::ApiError;
use crate::headers::SessionHeaders;

/// The names in the headers, in their order of precedence.
pub(crate) fn of_headers(headers: &SessionHeaders) -> Names {
    let mut names = Names::default();
    let given = [(Field::Session, &headers.session), (Field::KnownSession, &headers.conversation)];
    for (field, alias) in given {
        if let Some(alias) = alias {
            names.add(field, alias.clone());
        }
    }
    names
}

/// Adds a body's `session_id`. It has the precedence of the header `X-Hermes-Session-Id`.
pub(crate) fn add_session(names: &mut Names, name: &str) -> Result<(), ApiError> {
    names.add(Field::Session, alias(name, "session_id")?);
    Ok(())
}

/// Adds the names in the body of a request for a response, under the session key of the request. Without a key
/// `current` is a name like any other.
pub(crate) fn add_body_names(
    names: &mut Names,
    asked: &ResponsesRequest,
    session_key: Option<&SessionKey>,
) -> Result<(), ApiError> {
    match (asked.conversation.as_deref(), session_key) {
        (Some(ConversationRef::CURRENT), Some(key)) => names.add_current(key.clone()),
        (Some(name), _) => names.add(Field::Conversation, alias(name, "conversation")?),
        (None, _) => {}
    }
    if let Some(previous) = &asked.previous_response_id {
        names.go_on_from(previous).map_err(Dialect::Responses.error_mapper())?;
    }
    Ok(())
}

/// The conversation that a request goes to, by its names, its session kind and its chat.
pub(crate) async fn destination(
    app: &Shared,
    principal: &Principal,
    names: Names,
    headers: &SessionHeaders,
    dialect: Dialect,
) -> Result<Destination, ApiError> {
    let found = async {
        let sessions = app.sessions(principal);
        let place = match sessions.resolve(names).await? {
            // A chat request carries the history of its client.
            ConversationRef::New if dialect == Dialect::Chat => ConversationRef::ByHistory,
            place => place,
        };
        sessions.destination(place, headers.kind, headers.chat, headers.key.as_ref()).await
    };
    found.await.map_err(dialect.error_mapper())
}

fn alias(name: &str, param: &str) -> Result<Alias, ApiError> {
    Alias::parse(name).map_err(|why| ApiError::invalid(format!("{param} {why}"), param))
}

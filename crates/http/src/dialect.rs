//! Translates the gateway's errors into HTTP: the names of their fields, and what the client can do.
//!
//! The gateway names fields of its own requests. Each match here is exhaustive, so a new field or a new error cannot
//! reach a client without a name.

use std::borrow::Cow;

use herma_gateway::{Conflict, Field, GatewayError, InvalidRequest, Missing};

use crate::error::ApiError;

/// A family of routes whose requests have the same fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// `/v1/chat/completions`.
    Chat,
    /// `/v1/responses`, and messages to a session.
    Responses,
    /// `/v1/runs`.
    Runs,
    /// The items of `/v1/conversations`.
    Items,
    /// Conversations as resources: `/api/sessions` and the rest of `/v1/conversations`.
    Resource,
}

/// Where a field is in an HTTP request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FieldLocation {
    /// In this header.
    Header(&'static str),
    /// In the body or the query, under this name.
    Name(Cow<'static, str>),
}

impl FieldLocation {
    fn as_str(&self) -> &str {
        match self {
            Self::Header(name) => name,
            Self::Name(name) => name,
        }
    }
}

impl Dialect {
    /// A function that translates the gateway's errors for clients of these routes.
    pub(crate) fn error_mapper(self) -> impl Fn(GatewayError) -> ApiError {
        move |error| ApiError::of(&error, self)
    }

    /// Where a field is in a request of these routes.
    pub(crate) fn locate(self, field: Field) -> FieldLocation {
        let name = |name: &'static str| FieldLocation::Name(Cow::Borrowed(name));
        match field {
            Field::Session if self == Self::Runs => name("session_id"),
            Field::Session => FieldLocation::Header("X-Hermes-Session-Id"),
            Field::KnownSession => FieldLocation::Header("X-Hermes-Conversation-Id"),
            Field::Conversation => name("conversation"),
            Field::PreviousResponse => name("previous_response_id"),
            Field::Model => name("model"),
            Field::Messages => name(self.messages()),
            Field::ToolCallId(at) => {
                FieldLocation::Name(format!("{}[{at}].{}", self.messages(), self.call_id()).into())
            }
            Field::Kind => name("kind"),
            Field::Parent if self == Self::Resource => name("parent"),
            Field::Parent => FieldLocation::Header("X-Hermes-Session-Kind"),
            Field::Id => name("id"),
            Field::BranchPoint => name("at"),
            Field::RewindPoint => name("to"),
            Field::RewindTurns => name("turns"),
            Field::Cursor => name("cursor"),
        }
    }

    const fn messages(self) -> &'static str {
        match self {
            Self::Chat | Self::Resource => "messages",
            Self::Responses | Self::Runs => "input",
            Self::Items => "items",
        }
    }

    const fn call_id(self) -> &'static str {
        match self {
            Self::Chat | Self::Resource => "tool_call_id",
            Self::Responses | Self::Runs | Self::Items => "call_id",
        }
    }

    /// The message for the client: the gateway's own, or one that says what it means in HTTP.
    pub(crate) fn message(self, error: &GatewayError) -> String {
        match error {
            GatewayError::Invalid(InvalidRequest::NoParent) if self == Self::Resource => "parent leads to no session",
            GatewayError::Invalid(InvalidRequest::EmptyContext) => {
                "there is nothing to compact: send 'input', or name a response or a conversation"
            }
            GatewayError::Invalid(InvalidRequest::NoSuchMessage(field)) => {
                let location = self.locate(*field);
                return format!(
                    "{} is no message of this conversation; GET /api/sessions/{{id}}/messages lists them",
                    location.as_str()
                );
            }
            GatewayError::NotFound(missing) => self.not_found(*missing),
            GatewayError::Busy { running, .. } => {
                return format!(
                    "another turn ({running}) of this conversation is running; wait for it, or send \
                     X-Hermes-Turn-Policy: interrupt"
                );
            }
            GatewayError::Conflict(Conflict::Ended) => {
                "the conversation was ended; to go on, reopen it: POST /api/sessions/ID/reopen"
            }
            GatewayError::Conflict(Conflict::VersionMismatch) => {
                "If-Match does not name the conversation's ETag: the conversation was changed, or does not exist; \
                 read it again"
            }
            GatewayError::Conflict(Conflict::IdempotencyMismatch) => {
                "this Idempotency-Key was used with a different request body; use a new key"
            }
            GatewayError::Invalid(_)
            | GatewayError::SessionKey(_)
            | GatewayError::Conflict(_)
            | GatewayError::Overloaded(_)
            | GatewayError::Draining
            | GatewayError::Store(_)
            | GatewayError::Turn(_)
            | GatewayError::CutOff(_) => return error.to_string(),
        }
        .to_owned()
    }

    const fn not_found(self, missing: Missing) -> &'static str {
        match (missing, self) {
            (Missing::Turn, Self::Responses) => "no response is known by this id: it was deleted, or never stored",
            (Missing::Turn, Self::Runs) => "no run is known by this id",
            (Missing::Conversation | Missing::Turn, _) => "no conversation is known by this id",
            (Missing::PreviousResponse, _) => {
                "no response is known by this previous_response_id: it was deleted, or not stored"
            }
            (Missing::Message, _) => {
                "no message is known by these ids; GET /api/sessions/{id}/messages lists a conversation's"
            }
            (Missing::Item, _) => "no item of this conversation is known by this id; GET …/items lists them",
            (Missing::Memory, _) => "no memory is known by this id; GET /api/memories lists them",
            (Missing::Compaction, _) => {
                "no compaction is known by these ids; GET /api/sessions/{id}/compactions lists a conversation's"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_has_the_name_that_its_route_gives_it() {
        let name = |name: &'static str| FieldLocation::Name(name.into());
        for (field, dialect, location) in [
            (Field::Messages, Dialect::Chat, name("messages")),
            (Field::Messages, Dialect::Runs, name("input")),
            (Field::ToolCallId(3), Dialect::Chat, name("messages[3].tool_call_id")),
            (Field::ToolCallId(3), Dialect::Responses, name("input[3].call_id")),
            (Field::ToolCallId(0), Dialect::Items, name("items[0].call_id")),
            (Field::Session, Dialect::Chat, FieldLocation::Header("X-Hermes-Session-Id")),
            (Field::Session, Dialect::Runs, name("session_id")),
            (Field::Parent, Dialect::Resource, name("parent")),
            (Field::Parent, Dialect::Chat, FieldLocation::Header("X-Hermes-Session-Kind")),
        ] {
            assert_eq!(dialect.locate(field), location, "{field:?} in {dialect:?}");
        }
    }

    #[test]
    fn a_missing_thing_has_the_name_that_its_route_gives_it() {
        let of = |dialect: Dialect| dialect.message(&GatewayError::NotFound(Missing::Turn));
        assert_eq!(of(Dialect::Runs), "no run is known by this id");
        assert!(of(Dialect::Responses).starts_with("no response"));
        assert!(of(Dialect::Chat).starts_with("no conversation"));
    }
}

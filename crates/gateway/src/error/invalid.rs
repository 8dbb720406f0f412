//! Requests that are wrong by themselves, and which of their fields is.

use herma_model::InvalidDeclaration;
use herma_model::limits::MAX_REFERENCES;

/// A field of a request to the gateway. Front doors say what it is called in their protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    /// A name of a conversation, which is made if it is new.
    Session,
    /// A name of a conversation that must exist.
    KnownSession,
    /// A name of a conversation in the body of the request.
    Conversation,
    /// The response to go on from.
    PreviousResponse,
    /// The model.
    Model,
    /// The messages.
    Messages,
    /// The tool call that a message answers, of the message at this place of the request.
    ToolCallId(usize),
    /// What a new conversation is.
    Kind,
    /// The session that a new conversation comes from.
    Parent,
    /// The name that was chosen for a new conversation.
    Id,
    /// The message at which a branch leaves its source.
    BranchPoint,
    /// The message at which the model's view is to end.
    RewindPoint,
    /// The number of turns that a rewind goes back.
    RewindTurns,
    /// The place at which a page begins.
    Cursor,
}

/// Why a request is wrong by itself.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRequest {
    /// It names no model, and none is set for such requests.
    #[error("no model is set for requests that name none; name one in `model`, or set `upstream.model`")]
    NoModel,
    /// The conversation has all of its messages.
    #[error("the request adds no message to the conversation; send the new message last")]
    NothingNew,
    /// There is no context to summarise.
    #[error("there is nothing to compact: send messages, or name a response or a conversation")]
    EmptyContext,
    /// A tool result answers no open call.
    #[error("{reason}")]
    ToolResult {
        /// What is wrong with it.
        reason: String,
        /// The place of its message in the request, if it is one of the request.
        message: Option<usize>,
    },
    /// It names too many items instead of sending them.
    #[error("the request names more than {MAX_REFERENCES} items, which is the limit; name their conversation")]
    TooManyReferences,
    /// Its names lead to different conversations. This is the first that does not lead where the others do.
    #[error("the names in this request admitted to different conversations; send one of them")]
    NamesDisagree(Field),
    /// What a new conversation is to come from does not exist.
    #[error("what the request comes from does not exist")]
    NoParent,
    /// A new conversation cannot be what the request says.
    #[error("{0}")]
    Undeclarable(InvalidDeclaration),
    /// The chosen id is of a form that only Herma gives.
    #[error("id is of a form that only Herma gives; choose another")]
    ReservedId,
    /// The field names something that was not said in the conversation.
    #[error("this is no message of the conversation")]
    NoSuchMessage(Field),
    /// A branch is to leave its source at a message that has no answer yet.
    #[error("no answer follows this message yet, so nothing can go on from it")]
    Unanswered,
    /// The model's view is to end at a message that it does not have.
    #[error("this message was rewound, and there was a turn since; branch at it instead")]
    AlreadyRewound,
    /// A rewind is to go back more turns than the model is shown.
    #[error("the model is shown {0} turns of this conversation, not more")]
    TooFewTurns(u32),
    /// What the cursor stood at was deleted.
    #[error("cursor leads nowhere: what it stood at was deleted; begin again")]
    CursorGone,
}

impl InvalidRequest {
    /// The field that is wrong, if it is a single one.
    pub const fn field(&self) -> Option<Field> {
        Some(match self {
            Self::NoModel => Field::Model,
            Self::NothingNew | Self::EmptyContext | Self::TooManyReferences => Field::Messages,
            Self::ToolResult { message: Some(message), .. } => Field::ToolCallId(*message),
            Self::ToolResult { message: None, .. } => return None,
            Self::NamesDisagree(field) => *field,
            Self::Undeclarable(InvalidDeclaration::Continuation) => Field::Kind,
            Self::NoParent
            | Self::Undeclarable(InvalidDeclaration::BranchOfNothing | InvalidDeclaration::ParentOfMain) => {
                Field::Parent
            }
            Self::ReservedId => Field::Id,
            Self::NoSuchMessage(field) => *field,
            Self::Unanswered => Field::BranchPoint,
            Self::AlreadyRewound => Field::RewindPoint,
            Self::TooFewTurns(_) => Field::RewindTurns,
            Self::CursorGone => Field::Cursor,
        })
    }
}

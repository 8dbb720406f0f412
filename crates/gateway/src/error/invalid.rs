//! Requests that are invalid whatever the conversation holds, and which of their fields is wrong.

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
    /// The response to continue.
    PreviousResponse,
    /// The model.
    Model,
    /// The messages.
    Messages,
    /// The tool call that a message answers. The number is the message's place in the request.
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

/// Why a request is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRequest {
    /// It names no model, and none is set for such requests.
    #[error("no model is set for requests that name none; name one in `model`, or set `upstream.model`")]
    NoModel,
    /// The conversation already has all messages of the request.
    #[error("the request adds no message to the conversation; send the new message last")]
    NothingNew,
    /// It answers a question about a call, and other turns have closed that question.
    #[error("the question about this call is closed, because other turns followed; send a message")]
    QuestionClosed,
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
    /// Its names lead to different conversations. The field is the first one that leads elsewhere.
    #[error("the names in this request lead to different conversations; send one of them")]
    NamesDisagree(Field),
    /// The parent of a new conversation does not exist.
    #[error("what the request comes from does not exist")]
    NoParent,
    /// A new conversation cannot be of the kind that the request declares.
    #[error("{0}")]
    Undeclarable(InvalidDeclaration),
    /// The chosen id has a form that only Herma may give.
    #[error("id is of a form that only Herma gives; choose another")]
    ReservedId,
    /// The field names a message that the conversation does not have.
    #[error("this is no message of the conversation")]
    NoSuchMessage(Field),
    /// A branch would begin at a message that has no answer yet.
    #[error("no answer follows this message yet, so nothing can go on from it")]
    Unanswered,
    /// A rewind names a message that is already rewound.
    #[error("this message was rewound, and there was a turn since; branch at it instead")]
    AlreadyRewound,
    /// A rewind names more turns than the model is shown.
    #[error("the model is shown {0} turns of this conversation, not more")]
    TooFewTurns(u32),
    /// The row at which the cursor stood was deleted.
    #[error("cursor leads nowhere: what it stood at was deleted; begin again")]
    CursorGone,
}

impl InvalidRequest {
    /// The field that is wrong, if it is a single one.
    pub const fn field(&self) -> Option<Field> {
        Some(match self {
            Self::NoModel => Field::Model,
            Self::NothingNew | Self::QuestionClosed | Self::EmptyContext | Self::TooManyReferences => Field::Messages,
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

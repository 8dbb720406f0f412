//! The words of Herma as types, and the rules about them as pure functions.
//!
//! This crate does no IO, knows no runtime and reads no clock. Everything else depends on it, and it
//! depends on nothing of ours. Values are parsed at the border into these types; a `String` that is an
//! id never travels inward.

pub mod alias;
pub mod compaction;
pub mod copy;
pub mod event;
pub mod generation;
pub mod ids;
pub mod kind;
pub mod limits;
pub mod message;
pub mod principal;
pub mod provenance;
pub mod rewind;
pub mod session_key;
pub mod step;
pub mod text;
pub mod time;
pub mod tokens;
pub mod turn;
pub mod usage;

pub use alias::{Alias, InvalidName};
pub use compaction::{Base, Compaction, Summary};
pub use event::{EventId, EventKind, Happening};
pub use generation::{Answer, Delta, FinishReason, ModelCall, ModelEvent, ModelFailure, Params, Retries};
pub use ids::{
    ApiKeyId, CompactionId, ConversationId, MessageId, ResponseId, RunId, SessionId, TenantId, TurnId, TurnName,
};
pub use kind::{CreatorKind, EndReason, InvalidDeclaration, ParentRelation, SessionKind};
pub use message::{CallId, Digest, Message, MessageStatus, NewMessage, Payload, Role, Seq, Utterance};
pub use principal::Principal;
pub use provenance::{ConversationFacts, Provenance, Resolution, SessionFacts};
pub use rewind::{Rewinds, RewoundRange};
pub use session_key::{KeyScope, SessionKey};
pub use step::Step;
pub use time::Timestamp;
pub use turn::{Fence, StopKind, TurnFailure, TurnState, Unanswered};
pub use usage::Usage;

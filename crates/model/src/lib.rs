//! The domain words of Herma as types, and the rules about them as pure functions.
//!
//! This crate does no IO, knows no runtime and reads no clock. All other crates depend on it, and it depends on no
//! other crate of the workspace. Front doors parse values into these types; an id is never passed inward as a `String`.

pub mod alias;
pub mod compaction;
pub mod copy;
pub mod editor;
pub mod event;
pub mod generation;
pub mod history;
pub mod ids;
pub mod key_limits;
pub mod kind;
pub mod limits;
pub mod memory;
pub mod message;
pub mod principal;
pub mod provenance;
pub mod rewind;
pub mod session_key;
pub mod step;
pub mod text;
pub mod text_run;
pub mod time;
pub mod tokens;
pub mod tool;
pub mod tool_name;
pub mod trace;
pub mod turn;
pub mod usage;

pub use alias::{Alias, InvalidName};
pub use compaction::{Base, Compaction, Summary};
pub use editor::{EditorSettings, ToolMode};
pub use event::{ConversationEvent, EventId, EventKind};
pub use generation::{Answer, Delta, FinishReason, ModelCall, ModelEvent, ModelFailure, Params, Retries};
pub use history::{ChatId, HistoryDigest, HistoryEnd, HistoryReader, HistoryTrail};
pub use ids::{
    ApiKeyId, CompactionId, ConversationId, ErasureId, MemoryId, MessageId, ResponseId, RunId, SessionId, TenantId,
    TurnId, TurnName,
};
pub use key_limits::{InvalidRate, KeyLimits, Rate};
pub use kind::{CreatorKind, EndReason, InvalidDeclaration, ParentRelation, SessionKind};
pub use memory::{Memory, MemorySource, Recall, RecallStatus};
pub use message::{CallId, Digest, FieldDigest, Message, MessageStatus, NewMessage, Payload, Role, Seq, Utterance};
pub use principal::Principal;
pub use provenance::{ConversationFacts, Provenance, Resolution, SessionFacts};
pub use rewind::{Rewinds, RewoundRange};
pub use session_key::{KeyScope, SessionKey};
pub use step::Step;
pub use text_run::TextRun;
pub use time::Timestamp;
pub use tool::{ApprovalAnswer, ApprovalChoice, CallEnd, CallStatus, ChildAnswer, Decision, EarlierCall, OwnCall};
pub use trace::{SpanId, TraceContext, TraceId};
pub use turn::{Fence, StopKind, TurnFailure, TurnState, Unanswered};
pub use usage::{Cost, Price, Usage};

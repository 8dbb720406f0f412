//! The one way in. A front door translates its protocol into requests of the gateway, and uses four types:
//! - [`Gateway`] takes turns: it gets a [`TurnRequest`] and gives a [`TurnHandle`]. It does all that needs a model.
//! - [`Sessions`] needs only the store: it resolves names, and reads and changes conversations without a turn.
//! - [`Memories`] are facts in long-term memory. [`access::Access`] says which principal an API key stands for.
//!
//! Inside:
//! - Before a turn: [`request`], [`admission`], [`history`], [`input`], [`repeated`], [`waiting`], [`mod@line`].
//! - A turn: [`run`] and [`running`] from lease to commit; [`driver`] does what the turn machine decides, for the hosts
//!   [`stored_turn`], [`stateless`] and [`own_call`]; [`tools`], [`budget`], [`parked`], [`journal`], [`memory`].
//! - Its listeners: [`log`], [`live`]; reading a turn again: [`follow`], [`replay`], [`answer`].
//! - Beside turns: [`sessions`], [`compaction`], [`titles`], [`append`], [`context`], [`pass_on`], [`cache`],
//!   [`retention`]; shown to clients: [`rows`], [`session_view`], [`error`].
//! - For operators: [`settings`], [`models`], [`counters`], [`spans`], [`readiness`], [`warning`].

pub mod access;
mod admission;
mod answer;
mod append;
mod budget;
mod cache;
mod compaction;
mod context;
mod counters;
pub mod crash;
mod driver;
mod error;
mod follow;
mod gateway;
mod history;
mod input;
mod journal;
mod line;
mod live;
mod log;
mod memory;
mod mint;
pub mod models;
mod own_call;
mod parked;
mod pass_on;
mod readiness;
mod repeated;
mod replay;
mod request;
mod retention;
pub mod rows;
mod run;
mod running;
mod session_view;
mod sessions;
mod settings;
mod spans;
mod stateless;
mod stored_turn;
mod titles;
mod tools;
mod waiting;
mod warning;
mod watch;

pub use answer::stored_answer;
pub use append::Appended;
pub use budget::BudgetSettings;
pub use compaction::{CompactionRequest, Compactions, ContextSize, Preview, UndoRequest, transcript};
pub use context::SummarisedContext;
pub use counters::Counters;
pub use error::{Conflict, Field, GatewayError, InvalidRequest, KeyProblem, Missing, UndoProblem};
pub use gateway::Gateway;
pub use log::{AnswerForm, Finished, Progress, SessionView, TurnEvent};
pub use memory::{HonchoSettings, Memories, MemoryApiKey, MemorySettings, ProviderSettings, RecallLimits};
pub use mint::now;
pub use pass_on::{NotPassedOn, PassedOn};
pub use request::{
    AskWhere, CLIENT_COMPACTION, Caller, ConversationRef, Destination, MemoryUse, OnDisconnect, Policy,
    RequestIdentity, ToolOffer, TurnHandle, TurnInput, TurnOptions, TurnRequest,
};
pub use session_view::session_object;
pub use sessions::{Names, NewFork, NewSession, Origin, Sessions};
pub use settings::{CompactionSettings, Settings, Titling};
pub use tools::{BuiltIn, CallRef, DelegateSettings, FrontDoorTools, Lent, SessionCallEnd, SessionTools, ToolSettings};

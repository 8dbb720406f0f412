//! The driver of turns. Every front door hands it a [`TurnRequest`] and gets a [`TurnHandle`]; nothing protocol-specific comes further
//! in than that.
//!
//! - [`admission`]: from a request to the lease of its conversation: read, align, ask, wait, again.
//! - [`run`]: from the lease to the end of the turn: make room, call the model, show, commit.
//! - [`compaction`]: room in the model's context, for a turn that needs it or because somebody asks.
//! - [`titles`]: what conversations are called that nobody gave a title.
//! - [`log`]: what listeners see of a turn, from its beginning, however late they come.
//! - [`live`]: the turns of this process, who waits for whom, who must stop.
//! - [`cache`]: histories in memory, trusted only as far as the store confirms their version.
//! - [`retention`]: what is forgotten by itself.
//! - [`pass_on`]: requests that go to the model server as they are.
//! - [`warning`]: what an operator is warned of when a model server fails.
//! - [`access`]: whom an API key stands for.

pub mod access;
mod admission;
mod append;
mod cache;
mod compaction;
mod context;
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
mod loose;
mod mint;
mod own_call;
mod pass_on;
mod repeated;
mod request;
mod retention;
mod run;
mod running;
mod settings;
mod stored_turn;
mod titles;
mod waiting;
pub mod warning;
mod watch;

pub use append::{Appended, NewFork, NewSession};
pub use compaction::{CompactionRequest, Compactions, Preview, UndoRequest, transcript};
pub use context::SummarisedContext;
pub use error::{GatewayError, KeyProblem, UndoProblem};
pub use follow::stored_answer;
pub use gateway::Gateway;
pub use log::{Finished, SessionView, TurnEvent};
pub use mint::now;
pub use pass_on::{NotPassedOn, PassedOn};
pub use request::{OnDisconnect, Place, Policy, RequestIdentity, TurnHandle, TurnRequest};
pub use settings::{CompactionSettings, ModelSettings, Settings, Titling};
pub use titles::TitlesAsked;

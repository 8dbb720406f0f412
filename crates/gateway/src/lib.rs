//! The one way in. A front door translates its protocol into requests of the gateway and its answers back; it has no
//! way around it to the store. For a turn it hands in a [`TurnRequest`] and gets a [`TurnHandle`]; everything that is
//! done to conversations without a turn is in [`Sessions`].
//!
//! - [`naming`]: which conversation a request names.
//! - [`sessions`]: reading and changing conversations without a turn.
//! - [`turns`]: turns that were asked for before, by their id.
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
//! - [`readiness`]: whether turns can be taken.
//! - [`error`]: why a request got no answer, naming fields of the gateway's own requests.
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
mod naming;
mod own_call;
mod pass_on;
mod readiness;
mod repeated;
mod request;
mod retention;
mod run;
mod running;
mod sessions;
mod settings;
mod stored_turn;
mod titles;
mod turns;
mod waiting;
pub mod warning;
mod watch;

pub use append::Appended;
pub use compaction::{CompactionRequest, Compactions, Preview, UndoRequest, transcript};
pub use context::SummarisedContext;
pub use error::{Conflict, Field, GatewayError, InvalidRequest, KeyProblem, Missing, UndoProblem};
pub use follow::stored_answer;
pub use gateway::Gateway;
pub use log::{Finished, SessionView, TurnEvent};
pub use mint::now;
pub use naming::Names;
pub use pass_on::{NotPassedOn, PassedOn};
pub use request::{OnDisconnect, Place, Policy, RequestIdentity, TurnHandle, TurnRequest};
pub use sessions::{NewFork, NewSession, Origin, Sessions};
pub use settings::{CompactionSettings, ModelSettings, Settings, Titling};
pub use titles::TitlesAsked;

//! The one way in. A front door translates its protocol into requests of the gateway. It uses three types:
//!
//! - [`Gateway`] takes turns. A front door hands in a [`TurnRequest`] and gets a [`TurnHandle`]. It also compacts, counts
//!   tokens and passes requests on: all that needs the model server. It rewinds too, which ends summaries that are made.
//! - [`Sessions`] needs the store alone. It resolves names, and reads and changes conversations without a turn.
//! - [`access::Access`] says whom an API key stands for.
//!
//! Inside:
//!
//! - [`sessions`]: conversations as things of their own.
//! - [`rows`], [`session_view`]: conversations as lists show them, and as the answer of a turn tells where it stands.
//! - [`request`]: what a front door asks for: who asks, where it goes, what it says, how it is answered and recognised.
//! - [`admission`]: from a request to the lease of its conversation: read, align, ask, wait, again.
//! - [`driver`]: carries out what the turn machine decides; its hosts are [`stored_turn`], [`stateless`], [`own_call`].
//! - [`run`]: a stored turn from its lease to its commit.
//! - [`compaction`]: room in the model's context, for a turn that needs it or because somebody asks.
//! - [`titles`]: what conversations are called that nobody gave a title.
//! - [`log`]: what listeners see of a turn, from its beginning, however late they come.
//! - [`live`]: the turns of this process, who waits for whom, who must stop.
//! - [`cache`]: histories in memory, trusted only as far as the store confirms their version.
//! - [`retention`]: what is forgotten by itself.
//! - [`pass_on`]: requests that go to the model server as they are.
//! - [`counters`], [`readiness`], [`warning`]: what operators are shown.
//! - [`error`]: why a request got no answer, naming fields of the gateway's own requests.

pub mod access;
mod admission;
mod append;
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
mod mint;
mod own_call;
mod pass_on;
mod readiness;
mod repeated;
mod request;
mod retention;
pub mod rows;
mod run;
mod running;
mod session_view;
mod sessions;
mod settings;
mod stateless;
mod stored_turn;
mod titles;
mod waiting;
pub mod warning;
mod watch;

pub use append::Appended;
pub use compaction::{CompactionRequest, Compactions, Preview, UndoRequest, transcript};
pub use context::SummarisedContext;
pub use counters::Counters;
pub use error::{Conflict, Field, GatewayError, InvalidRequest, KeyProblem, Missing, UndoProblem};
pub use follow::stored_answer;
pub use gateway::Gateway;
pub use log::{Finished, SessionView, TurnEvent};
pub use mint::now;
pub use pass_on::{NotPassedOn, PassedOn};
pub use request::{
    Caller, ConversationRef, Destination, OnDisconnect, Policy, RequestIdentity, TurnHandle, TurnInput, TurnOptions,
    TurnRequest,
};
pub use session_view::session_object;
pub use sessions::{Names, NewFork, NewSession, Origin, RewindRequest, Sessions};
pub use settings::{CompactionSettings, ModelSettings, Settings, Titling};
pub use titles::TitlesAsked;

//! Tools that Herma runs itself, within a turn.
//!
//! - [`settings`]: what an operator can set about them.
//! - [`offer`]: which tools a turn is offered, and how the model server is told of them.
//! - [`list`]: which tools there are, for people.
//! - [`built_in`]: the tools that need no server. [`session`]: those that a session brings.
//! - [`round`]: the calls of one message, from their storing to their results.
//! - [`decisions`]: what people decide about calls of an earlier response, as input of a turn.
//! - [`plan`]: what happens to each call: made, asked for, or settled at once.
//! - [`wording`]: results in Herma's own words.
//!
//! A call is stored before it is made, and its result before the model sees it. So after a crash it is known which
//! calls may have had effects, and none is made twice.

mod built_in;
pub(crate) mod decisions;
mod list;
mod offer;
mod plan;
mod round;
mod session;
mod settings;
mod wording;

pub use built_in::BuiltIn;
pub(crate) use offer::{TurnTools, without_idle_fields};
pub(crate) use plan::PlannedCall;
pub(crate) use session::LentTools;
pub use session::{CallRef, FrontDoorTools, Lent, SessionCallEnd, SessionTools};
pub use settings::{DelegateSettings, ToolSettings};

//! The loop of a turn as a pure machine: events in, effects out.
//!
//! ```text
//! begin ──► FitContext ──► CallModel ──► Show … ──► End
//!             ▲   ▲            │            │
//!             │   └────────────┘ the context is too long: once for each call
//!             └──────── RunTools ◄──────────┘ the answer calls tools of Herma
//! ```
//!
//! The machine decides what comes next. It does nothing by itself: a driver carries the effects out and reports what
//! happened as events. Stored turns, turns without a conversation, and Herma's own calls use the same machine.
//!
//! A new kind of step starts here: a task that asks for it, and an event that reports its outcome.

use herma_model::generation::ModelFailureKind;
use herma_model::turn::FailureCode;
use herma_model::{Answer, Delta, FinishReason, ModelEvent, ModelFailure, StopKind, TextRun, TurnFailure, TurnState};

use crate::pieces::Pieces;
use crate::rules::ToolRules;

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The driver has measured the context, and compacted it if necessary.
    ContextFit(ContextFit),
    /// The model server sent something.
    Model(ModelEvent),
    /// The model call failed.
    Failed(ModelFailure),
    /// The driver has taken care of the calls of Herma's own tools.
    ToolsRan(ToolsRan),
    /// The turn has to end now.
    Stop(Stop),
}

/// How the calls of one message ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolsRan {
    /// Each call has a result, and the model is called again.
    Settled,
    /// Each call has a result, and the turn ends: its last message calls tools of the client, or asks for an approval.
    EndsTurn,
    /// A person has to allow a call. The turn waits in the store and belongs to no process.
    Parked,
}

/// Whether the context fits after it was measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContextFit {
    /// The context fits, as it is or after a compaction.
    Fits,
    /// There is nothing that could be compacted.
    NothingToCompact,
    /// A summary is needed, and its model cannot be reached.
    Unreachable(ModelFailure),
    /// The context does not fit, and nothing can be done about it.
    Refused(TurnFailure),
}

/// Why a turn is to end before its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// Another turn goes first.
    Interrupt,
    /// The client does not want the answer any more.
    Cancel,
    /// The process is about to end.
    Shutdown,
}

impl From<StopKind> for Stop {
    fn from(kind: StopKind) -> Self {
        match kind {
            StopKind::Interrupt => Self::Interrupt,
            StopKind::Cancel => Self::Cancel,
        }
    }
}

/// What to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Do this between two model calls. Then report the event of the task.
    Do(Task),
    /// Call the model with the context as it is now, and report what comes.
    CallModel(CallPlace),
    /// Show these pieces of the text to the listeners.
    ShowText(TextRun),
    /// Show this piece to the listeners.
    Show(Delta),
    /// End the turn like this.
    End(Ending),
}

/// What a turn does between two model calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Task {
    /// Make sure that the context fits; compact it if it does not. Then report [`Event::ContextFit`].
    FitContext(Need),
    /// Take care of the calls of Herma's own tools, then report [`Event::ToolsRan`].
    RunTools(ToolRound),
}

impl Task {
    /// The event of a turn that can do nothing about the task: no message of it is stored, and it has no own tools.
    pub const fn nothing_done(&self) -> Event {
        match self {
            Self::FitContext(_) => Event::ContextFit(ContextFit::NothingToCompact),
            Self::RunTools(_) => Event::ToolsRan(ToolsRan::Settled),
        }
    }
}

/// Which of the turn's model calls it is. It decides about `tool_choice`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallPlace {
    /// The first one: `tool_choice` is what the request says.
    First,
    /// A later one: a choice that forces a call has been obeyed.
    Later,
    /// The last one that the turn may make: no tool may be called.
    Last,
}

/// Whose calls have to be taken care of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolRound {
    /// Those of this answer, which is not stored yet.
    New(Box<Answer>),
    /// Those of the last stored message, about which a person was asked.
    Stored,
}

/// Why the context has to be measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Need {
    /// The context may be longer than the threshold.
    Threshold,
    /// The model server said that the context is too long.
    TooLong(ModelFailure),
}

/// How a turn ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// With this answer.
    Answered(Box<Answer>),
    /// With the last message that is stored. It calls tools of the client, or asks for an approval.
    AfterLastStep,
    /// Not yet: the turn waits for a person's answer.
    Parked,
    /// Without an answer. What was streamed is stored.
    Unanswered {
        /// How it is recorded.
        state: TurnState,
        /// Why.
        failure: TurnFailure,
        /// Text that was streamed.
        shown: Option<String>,
    },
    /// The context is too long for the model server and cannot be made shorter. The turn is taken back, unless steps of
    /// it are stored or clients know its id.
    TooLong(ModelFailure),
    /// The request cannot be answered. The turn is taken back in the same way.
    Refused(TurnFailure),
}

impl Ending {
    /// The end of a turn that was stopped.
    pub fn stopped(stop: Stop, shown: Option<String>) -> Self {
        let (state, code, message) = match stop {
            Stop::Interrupt => (TurnState::Interrupted, FailureCode::Interrupted, "another turn interrupted this one"),
            Stop::Shutdown => (
                TurnState::Interrupted,
                FailureCode::Abandoned,
                "the gateway was stopped before the answer was complete; send the request again",
            ),
            Stop::Cancel => (TurnState::Cancelled, FailureCode::Cancelled, "the turn was cancelled"),
        };
        Self::Unanswered { state, failure: TurnFailure::new(code, message), shown }
    }
}

/// Where a turn is in its loop.
#[derive(Debug)]
enum State {
    /// The driver measures the context, and compacts it if necessary.
    FittingContext(Need),
    /// The model is called.
    Calling,
    /// The driver takes care of tool calls.
    RunningTools,
    /// Nothing happens any more.
    Ended,
}

/// One turn.
#[derive(Debug)]
pub struct Machine {
    state: State,
    pieces: Pieces,
    rules: ToolRules,
    /// Model calls that were made.
    calls: u32,
    /// Whether the model server refused this call's context as too long. The context is made shorter only once.
    was_too_long: bool,
    /// The part of the last message that was held back. It is shown before the turn ends.
    held: Option<Delta>,
}

impl Machine {
    /// A turn under these rules, and what it begins with.
    pub fn begin(rules: ToolRules) -> (Self, Effect) {
        let need = Need::Threshold;
        (Self::at(State::FittingContext(need.clone()), rules), Effect::Do(Task::FitContext(need)))
    }

    /// A turn whose last stored message has calls that a person has decided about.
    pub fn go_on(rules: ToolRules) -> (Self, Effect) {
        let mut machine = Self::at(State::RunningTools, rules);
        machine.calls = 1;
        (machine, Effect::Do(Task::RunTools(ToolRound::Stored)))
    }

    fn at(state: State, rules: ToolRules) -> Self {
        Self { state, pieces: Pieces::default(), rules, calls: 0, was_too_long: false, held: None }
    }

    /// Takes an event and says what to do. An event that does not belong to where the turn is changes nothing.
    pub fn on(&mut self, event: Event) -> Option<Effect> {
        let effect = match (&self.state, event) {
            (State::Ended, _) => return None,
            (State::FittingContext(_) | State::Calling | State::RunningTools, Event::Stop(stop)) => self.stopped(stop),
            (State::FittingContext(need), Event::ContextFit(fit)) => self.after_fitting(&need.clone(), fit),
            (State::Calling, Event::Model(event)) => self.model_sent(event)?,
            (State::Calling, Event::Failed(failure)) => self.call_failed(failure),
            (State::RunningTools, Event::ToolsRan(ran)) => self.after_tools(ran),
            (State::FittingContext(_), Event::Model(_) | Event::Failed(_) | Event::ToolsRan(_))
            | (State::Calling, Event::ContextFit(_) | Event::ToolsRan(_))
            | (State::RunningTools, Event::ContextFit(_) | Event::Model(_) | Event::Failed(_)) => return None,
        };
        match &effect {
            Effect::Do(Task::FitContext(need)) => self.state = State::FittingContext(need.clone()),
            Effect::Do(Task::RunTools(_)) => self.state = State::RunningTools,
            Effect::CallModel(_) => self.state = State::Calling,
            Effect::End(_) => self.state = State::Ended,
            Effect::ShowText(_) | Effect::Show(_) => {}
        }
        Some(effect)
    }

    /// The text of the current message that was streamed so far, for the journal.
    pub fn shown(&self) -> &str {
        if self.rules.holds_text() { "" } else { &self.pieces.content }
    }

    /// Takes the part of the last message that was held back until its end was known. The driver shows it before the
    /// turn ends.
    pub const fn take_held(&mut self) -> Option<Delta> {
        self.held.take()
    }

    /// The next effect after the context was measured.
    fn after_fitting(&mut self, need: &Need, fit: ContextFit) -> Effect {
        match (fit, need) {
            (ContextFit::Fits, _) | (ContextFit::NothingToCompact, Need::Threshold) => self.call_model(need),
            (ContextFit::NothingToCompact, Need::TooLong(failure)) => Effect::End(Ending::TooLong(failure.clone())),
            (ContextFit::Unreachable(failure), _) => {
                let (state, failure) = (TurnState::Failed, failure.into());
                Effect::End(Ending::Unanswered { state, failure, shown: None })
            }
            (ContextFit::Refused(failure), _) => Effect::End(Ending::Refused(failure)),
        }
    }

    fn call_model(&mut self, need: &Need) -> Effect {
        if matches!(need, Need::Threshold) {
            self.calls += 1;
        }
        Effect::CallModel(match self.calls {
            made if self.rules.is_last_call(made) => CallPlace::Last,
            1 => CallPlace::First,
            _ => CallPlace::Later,
        })
    }

    fn model_sent(&mut self, event: ModelEvent) -> Option<Effect> {
        Some(match event {
            ModelEvent::Text(run) => {
                self.pieces.content.push_str(run.whole());
                return (!self.rules.holds_text()).then_some(Effect::ShowText(run));
            }
            ModelEvent::Delta(delta) => {
                let shown = self.pieces.content.len();
                self.pieces.add(&delta);
                let Some(failure) = self.rules.allowed().breach(&self.pieces.tool_calls).map(forbidden) else {
                    let delta = self.rules.shown_at_once(delta);
                    return (!delta.is_empty()).then_some(Effect::Show(delta));
                };
                self.pieces.content.truncate(shown);
                self.failed(failure)
            }
            ModelEvent::Finished(finish) => {
                let answer = Box::new(self.pieces.answer(finish));
                self.held = self.rules.held_back(&answer);
                self.answered(answer)
            }
            ModelEvent::Answered(answer) => self.answered(answer),
        })
    }

    fn answered(&mut self, mut answer: Box<Answer>) -> Effect {
        if let Some(failure) = self.rules.allowed().breach_of_answer(&answer.tool_calls).map(forbidden) {
            self.pieces.content = answer.content.take().unwrap_or_default();
            return self.failed(failure);
        }
        if !self.rules.has_own_call(&answer) {
            return Effect::End(Ending::Answered(answer));
        }
        if !self.rules.is_last_call(self.calls) {
            return Effect::Do(Task::RunTools(ToolRound::New(answer)));
        }
        self.rules.drop_own_calls(&mut answer);
        if answer.content.is_none() && answer.refusal.is_none() && answer.tool_calls.is_empty() {
            let message = "the model called tools in the last call of the turn, although it was told not to";
            return self.failed(ModelFailure::new(ModelFailureKind::Nonsense, message).into());
        }
        answer.finish.reason = match answer.tool_calls.is_empty() {
            true => FinishReason::Stop,
            false => FinishReason::ToolCalls,
        };
        Effect::End(Ending::Answered(answer))
    }

    fn after_tools(&mut self, ran: ToolsRan) -> Effect {
        match ran {
            ToolsRan::Settled => {
                self.held = None;
                self.was_too_long = false;
                Effect::Do(Task::FitContext(Need::Threshold))
            }
            ToolsRan::EndsTurn => Effect::End(Ending::AfterLastStep),
            ToolsRan::Parked => Effect::End(Ending::Parked),
        }
    }

    fn call_failed(&mut self, failure: ModelFailure) -> Effect {
        if failure.kind != ModelFailureKind::ContextTooLong || !self.pieces.are_empty() {
            return self.failed(failure.into());
        }
        match std::mem::replace(&mut self.was_too_long, true) {
            true => Effect::End(Ending::TooLong(failure)),
            false => Effect::Do(Task::FitContext(Need::TooLong(failure))),
        }
    }

    fn failed(&mut self, failure: TurnFailure) -> Effect {
        self.held = None;
        Effect::End(Ending::Unanswered { state: TurnState::Failed, failure, shown: self.take_shown() })
    }

    fn stopped(&mut self, stop: Stop) -> Effect {
        self.held = None;
        Effect::End(Ending::stopped(stop, self.take_shown()))
    }

    fn take_shown(&mut self) -> Option<String> {
        let shown = std::mem::take(&mut self.pieces.content);
        Some(shown).filter(|text| !text.is_empty() && !self.rules.holds_text())
    }
}

/// The failure of a turn whose model called a tool that the client did not allow.
fn forbidden(name: &str) -> TurnFailure {
    let message = format!("the model called '{name}', which is not among the allowed tools of tool_choice");
    ModelFailure::new(ModelFailureKind::Nonsense, message).into()
}

#[cfg(test)]
mod tests;

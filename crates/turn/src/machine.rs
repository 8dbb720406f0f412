//! The loop of a turn as a pure machine: events in, effects out.
//!
//! ```text
//! begin ──► MakeRoom ──► CallModel ──► Show … ──► End
//!              ▲              │
//!              └──────────────┘ the context is too long: once
//! ```
//!
//! The machine decides what comes next. It does nothing by itself: a driver carries the effects out and reports what
//! happened as events. Stored turns, turns without a conversation, and Herma's own calls use the same machine.
//!
//! A new kind of step starts here: an effect that asks for it, and an event that reports its outcome. For example, an
//! answer that calls tools of the gateway would lead to an effect that appends the answer and runs the calls. Their
//! results would be an event, and the next effect would be `FitContext` again.

use herma_model::generation::{Finish, ModelFailureKind};
use herma_model::turn::FailureCode;
use herma_model::{Answer, Delta, ModelEvent, ModelFailure, StopKind, TurnFailure, TurnState};

use crate::allowed::AllowedTools;
use crate::pieces::Pieces;

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The driver has looked for room.
    ContextFit(ContextFit),
    /// The model server sent something.
    Model(ModelEvent),
    /// The model call failed.
    Failed(ModelFailure),
    /// The turn has to end now.
    Stop(Stop),
}

/// What was found for a turn that asked for room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContextFit {
    /// The context fits, as it is or after a compaction.
    Fits,
    /// There is nothing that could be left out.
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
    /// Make sure that the context fits; compact it if it does not. Then report [`Event::ContextFit`].
    FitContext(Need),
    /// Call the model with the context as it is now, and report what comes.
    CallModel,
    /// Show this piece to the listeners.
    Show(Delta),
    /// End the turn like this.
    End(Ending),
}

/// Why a turn needs room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Need {
    /// Its context may be longer than the threshold.
    Threshold,
    /// The model server said that its context is too long.
    TooLong(ModelFailure),
}

/// How a turn ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// With this answer.
    Answered(Box<Answer>),
    /// Without one; what had been shown is kept.
    Unanswered {
        /// How it is recorded.
        state: TurnState,
        /// Why.
        failure: TurnFailure,
        /// Text that had been shown.
        shown: Option<String>,
    },
    /// The model server takes no context of this length, and it cannot be made shorter: nothing of the request is kept.
    TooLong(ModelFailure),
    /// The request cannot be answered as it is: nothing of it is kept.
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
    /// The driver looks for room.
    FittingContext(Need),
    /// The model is called.
    Calling,
    /// Nothing happens any more.
    Ended,
}

/// One turn.
#[derive(Debug)]
pub struct Machine {
    state: State,
    pieces: Pieces,
    allowed: AllowedTools,
    /// Whether room was made because the model server wanted a shorter context.
    was_too_long: bool,
}

impl Machine {
    /// A turn whose answer may call these tools and no others, and what it begins with.
    pub fn begin(allowed: AllowedTools) -> (Self, Effect) {
        let need = Need::Threshold;
        let state = State::FittingContext(need.clone());
        (Self { state, pieces: Pieces::default(), allowed, was_too_long: false }, Effect::FitContext(need))
    }

    /// Takes an event and says what to do. An event that does not belong to where the turn is changes nothing.
    pub fn on(&mut self, event: Event) -> Option<Effect> {
        let effect = match (&self.state, event) {
            (State::Ended, _) => return None,
            (State::FittingContext(_) | State::Calling, Event::Stop(stop)) => self.stopped(stop),
            (State::FittingContext(need), Event::ContextFit(room)) => after_looking(need, room),
            (State::Calling, Event::Model(event)) => self.model_sent(event)?,
            (State::Calling, Event::Failed(failure)) => self.call_failed(failure),
            (State::FittingContext(_), Event::Model(_) | Event::Failed(_)) | (State::Calling, Event::ContextFit(_)) => {
                return None;
            }
        };
        match &effect {
            Effect::FitContext(need) => self.state = State::FittingContext(need.clone()),
            Effect::CallModel => self.state = State::Calling,
            Effect::End(_) => self.state = State::Ended,
            Effect::Show(_) => {}
        }
        Some(effect)
    }

    /// Text shown so far, for the journal.
    pub fn shown(&self) -> &str {
        &self.pieces.content
    }

    fn model_sent(&mut self, event: ModelEvent) -> Option<Effect> {
        Some(match event {
            ModelEvent::Delta(delta) => {
                let shown = self.pieces.content.len();
                self.pieces.add(&delta);
                let Some(failure) = self.allowed.breach(&self.pieces.tool_calls).map(forbidden) else {
                    return (!delta.is_empty()).then_some(Effect::Show(delta));
                };
                self.pieces.content.truncate(shown);
                self.failed(failure)
            }
            ModelEvent::Finished(finish) => self.finished(finish),
            ModelEvent::Answered(answer) => match self.allowed.breach_of_answer(&answer.tool_calls).map(forbidden) {
                Some(failure) => self.failed(failure),
                None => Effect::End(Ending::Answered(answer)),
            },
        })
    }

    fn finished(&mut self, finish: Finish) -> Effect {
        match self.allowed.breach_of_answer(&self.pieces.tool_calls).map(forbidden) {
            Some(failure) => self.failed(failure),
            None => Effect::End(Ending::Answered(Box::new(self.pieces.answer(finish)))),
        }
    }

    fn call_failed(&mut self, failure: ModelFailure) -> Effect {
        if failure.kind != ModelFailureKind::ContextTooLong || !self.pieces.are_empty() {
            return self.failed(failure.into());
        }
        match std::mem::replace(&mut self.was_too_long, true) {
            true => Effect::End(Ending::TooLong(failure)),
            false => Effect::FitContext(Need::TooLong(failure)),
        }
    }

    fn failed(&mut self, failure: TurnFailure) -> Effect {
        Effect::End(Ending::Unanswered { state: TurnState::Failed, failure, shown: self.take_shown() })
    }

    fn stopped(&mut self, stop: Stop) -> Effect {
        Effect::End(Ending::stopped(stop, self.take_shown()))
    }

    fn take_shown(&mut self) -> Option<String> {
        Some(std::mem::take(&mut self.pieces.content)).filter(|text| !text.is_empty())
    }
}

/// How a turn goes on that has asked for room.
fn after_looking(need: &Need, room: ContextFit) -> Effect {
    match (room, need) {
        (ContextFit::Fits, _) | (ContextFit::NothingToCompact, Need::Threshold) => Effect::CallModel,
        (ContextFit::NothingToCompact, Need::TooLong(failure)) => Effect::End(Ending::TooLong(failure.clone())),
        (ContextFit::Unreachable(failure), _) => {
            let (state, failure) = (TurnState::Failed, failure.into());
            Effect::End(Ending::Unanswered { state, failure, shown: None })
        }
        (ContextFit::Refused(failure), _) => Effect::End(Ending::Refused(failure)),
    }
}

/// A call of a tool that the client did not allow is no answer.
fn forbidden(name: &str) -> TurnFailure {
    let message = format!("the model called '{name}', which is not among the allowed tools of tool_choice");
    ModelFailure::new(ModelFailureKind::Nonsense, message).into()
}

#[cfg(test)]
mod tests {
    use herma_model::FinishReason;
    use herma_model::generation::ToolCallDelta;

    use super::*;

    fn text(content: &str) -> Event {
        Event::Model(ModelEvent::Delta(Delta { content: Some(content.to_owned()), ..Delta::default() }))
    }

    /// A machine that has called the model.
    fn calling() -> Machine {
        allowing(AllowedTools::default())
    }

    fn allowing(allowed: AllowedTools) -> Machine {
        let (mut machine, first) = Machine::begin(allowed);
        assert_eq!(first, Effect::FitContext(Need::Threshold));
        assert_eq!(machine.on(Event::ContextFit(ContextFit::Fits)), Some(Effect::CallModel));
        machine
    }

    fn too_long() -> ModelFailure {
        ModelFailure::new(ModelFailureKind::ContextTooLong, "too long")
    }

    fn finish() -> Finish {
        Finish { reason: FinishReason::Stop, usage: None, model: None, extra: Default::default() }
    }

    #[test]
    fn pieces_become_one_answer() {
        let mut machine = calling();
        assert!(matches!(machine.on(text("a ")), Some(Effect::Show(_))));
        machine.on(text("b"));
        let Some(Effect::End(Ending::Answered(answer))) = machine.on(Event::Model(ModelEvent::Finished(finish())))
        else {
            panic!("no answer");
        };
        assert_eq!(answer.content.as_deref(), Some("a b"));
    }

    #[test]
    fn what_was_shown_is_kept_and_half_calls_are_dropped() {
        let mut machine = calling();
        machine.on(text("so far"));
        machine.on(Event::Model(ModelEvent::Delta(Delta {
            tool_calls: vec![ToolCallDelta { index: 0, id: Some("x".into()), ..ToolCallDelta::default() }],
            ..Delta::default()
        })));
        let cut = ModelFailure::new(ModelFailureKind::CutOff, "cut");
        let Some(Effect::End(Ending::Unanswered { state, shown, .. })) = machine.on(Event::Failed(cut)) else {
            panic!("no end");
        };
        assert_eq!((state, shown.as_deref()), (TurnState::Failed, Some("so far")));
    }

    #[test]
    fn a_context_that_is_too_long_is_made_shorter_once() {
        let mut machine = calling();
        let shorter = Effect::FitContext(Need::TooLong(too_long()));
        assert_eq!(machine.on(Event::Failed(too_long())), Some(shorter));
        assert_eq!(machine.on(Event::ContextFit(ContextFit::Fits)), Some(Effect::CallModel));
        assert_eq!(machine.on(Event::Failed(too_long())), Some(Effect::End(Ending::TooLong(too_long()))));
    }

    #[test]
    fn a_context_that_is_too_long_ends_the_turn_if_nothing_can_be_left_out_or_something_was_shown() {
        let mut machine = calling();
        machine.on(Event::Failed(too_long()));
        assert_eq!(
            machine.on(Event::ContextFit(ContextFit::NothingToCompact)),
            Some(Effect::End(Ending::TooLong(too_long())))
        );
        let mut machine = calling();
        machine.on(text("x"));
        assert!(matches!(machine.on(Event::Failed(too_long())), Some(Effect::End(Ending::Unanswered { .. }))));
    }

    #[test]
    fn a_turn_without_room_ends_before_the_model_is_called() {
        let look = |room| Machine::begin(AllowedTools::default()).0.on(Event::ContextFit(room));
        assert_eq!(look(ContextFit::NothingToCompact), Some(Effect::CallModel), "there is nothing to leave out yet");
        let refused = TurnFailure::new(FailureCode::ContextLengthExceeded, "too much");
        assert_eq!(look(ContextFit::Refused(refused.clone())), Some(Effect::End(Ending::Refused(refused))));
        let away = ModelFailure::new(ModelFailureKind::Unreachable, "away");
        let Some(Effect::End(Ending::Unanswered { state, .. })) = look(ContextFit::Unreachable(away)) else {
            panic!("no end");
        };
        assert_eq!(state, TurnState::Failed);
    }

    #[test]
    fn a_turn_is_stopped_while_it_makes_room() {
        let (mut machine, _) = Machine::begin(AllowedTools::default());
        let Some(Effect::End(Ending::Unanswered { state, .. })) = machine.on(Event::Stop(Stop::Interrupt)) else {
            panic!("no end");
        };
        assert_eq!(state, TurnState::Interrupted);
        assert_eq!(machine.on(Event::ContextFit(ContextFit::Fits)), None, "it has ended");
    }

    #[test]
    fn what_does_not_belong_to_where_the_turn_is_changes_nothing() {
        let (mut machine, _) = Machine::begin(AllowedTools::default());
        assert_eq!(machine.on(text("early")), None);
        assert_eq!(machine.on(Event::ContextFit(ContextFit::Fits)), Some(Effect::CallModel));
        assert_eq!(machine.on(Event::ContextFit(ContextFit::NothingToCompact)), None);
        assert_eq!(machine.shown(), "");
    }

    #[test]
    fn a_call_of_a_tool_that_is_not_allowed_fails_the_turn_and_is_never_shown() {
        let choice =
            r#"{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"function":{"name":"look"}}]}}"#;
        let allowed = AllowedTools::of(&herma_model::Params(vec![("tool_choice".into(), choice.into())]));
        let call = |name: &str| {
            let piece = ToolCallDelta { name: Some(name.to_owned()), ..ToolCallDelta::default() };
            let delta = Delta { content: Some(" unseen".into()), tool_calls: vec![piece], ..Delta::default() };
            Event::Model(ModelEvent::Delta(delta))
        };
        let mut machine = allowing(allowed.clone());
        machine.on(text("seen"));
        let Some(Effect::End(Ending::Unanswered { state, shown, failure })) = machine.on(call("touch")) else {
            panic!("no end");
        };
        assert_eq!((state, shown.as_deref()), (TurnState::Failed, Some("seen")));
        assert_eq!(failure.code, FailureCode::UpstreamError);
        let mut machine = allowing(allowed);
        assert!(matches!(machine.on(call("lo")), Some(Effect::Show(_))));
        let end = machine.on(Event::Model(ModelEvent::Finished(finish())));
        assert!(matches!(end, Some(Effect::End(Ending::Unanswered { .. }))), "its name never became whole: {end:?}");
    }

    #[test]
    fn nothing_happens_after_the_end() {
        let mut machine = calling();
        machine.on(Event::Stop(Stop::Cancel));
        assert_eq!(machine.on(text("late")), None);
        assert_eq!(machine.on(Event::Stop(Stop::Interrupt)), None);
    }
}

//! What becomes of a model's answer: events in, effects out, nothing else.

use herma_model::generation::{Finish, ModelFailureKind, ToolCall};
use herma_model::turn::FailureCode;
use herma_model::{Answer, Delta, ModelEvent, ModelFailure, StopKind, TurnFailure, TurnState};
use serde_json::{Map, Value};

use crate::allowed::AllowedTools;

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The model server sent something.
    Model(ModelEvent),
    /// The model call failed.
    Failed(ModelFailure),
    /// Somebody wants the turn to end now.
    Stop(Stop),
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

/// What to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Show this piece to whoever listens.
    Show(Delta),
    /// End the turn like this.
    End(Ending),
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
    /// The model server takes no context of this length. A shorter one may do; else nothing of the request is kept.
    TooLong(ModelFailure),
    /// The request cannot be answered as it is: nothing of it is kept.
    Refused(TurnFailure),
}

/// A turn whose model call is under way. After an `End` nothing happens any more.
#[derive(Debug, Default)]
pub struct Machine {
    content: String,
    refusal: String,
    tool_calls: Vec<ToolCall>,
    extra: Map<String, Value>,
    choice_extra: Map<String, Value>,
    allowed: AllowedTools,
    ended: bool,
}

impl Machine {
    /// The machine of a call whose answer may call these tools and no others.
    pub fn allowing(allowed: AllowedTools) -> Self {
        Self { allowed, ..Self::default() }
    }

    /// Takes an event and says what to do.
    pub fn on(&mut self, event: Event) -> Option<Effect> {
        if self.ended {
            return None;
        }
        let effect = match event {
            Event::Model(ModelEvent::Delta(delta)) => {
                let shown = self.content.len();
                self.add(&delta);
                let Some(failure) = self.allowed.breach(&self.tool_calls).map(forbidden) else {
                    return (!delta.is_empty()).then_some(Effect::Show(delta));
                };
                self.content.truncate(shown);
                self.unanswered(TurnState::Failed, failure)
            }
            Event::Model(ModelEvent::Finished(finish)) => self.answered(finish),
            Event::Model(ModelEvent::Answered(answer)) => {
                match self.allowed.breach_of_answer(&answer.tool_calls).map(forbidden) {
                    Some(failure) => self.unanswered(TurnState::Failed, failure),
                    None => Ending::Answered(answer),
                }
            }
            Event::Failed(failure) if failure.kind == ModelFailureKind::ContextTooLong && !self.has_shown() => {
                Ending::TooLong(failure)
            }
            Event::Failed(failure) => self.unanswered(TurnState::Failed, failure.into()),
            Event::Stop(Stop::Interrupt) => self.unanswered(
                TurnState::Interrupted,
                TurnFailure::new(FailureCode::Interrupted, "another turn interrupted this one"),
            ),
            Event::Stop(Stop::Shutdown) => self.unanswered(
                TurnState::Interrupted,
                TurnFailure::new(
                    FailureCode::Abandoned,
                    "the gateway was stopped before the answer was complete; send the request again",
                ),
            ),
            Event::Stop(Stop::Cancel) => self
                .unanswered(TurnState::Cancelled, TurnFailure::new(FailureCode::Cancelled, "the turn was cancelled")),
        };
        self.ended = true;
        Some(Effect::End(effect))
    }

    /// Text shown so far, for the journal.
    pub fn shown(&self) -> &str {
        &self.content
    }

    fn has_shown(&self) -> bool {
        !(self.content.is_empty() && self.refusal.is_empty() && self.tool_calls.is_empty())
    }

    fn unanswered(&mut self, state: TurnState, failure: TurnFailure) -> Ending {
        let shown = std::mem::take(&mut self.content);
        Ending::Unanswered { state, failure, shown: Some(shown).filter(|text| !text.is_empty()) }
    }

    fn add(&mut self, delta: &Delta) {
        self.content.push_str(delta.content.as_deref().unwrap_or(""));
        self.refusal.push_str(delta.refusal.as_deref().unwrap_or(""));
        for piece in &delta.tool_calls {
            let at = piece.index as usize;
            if at > self.tool_calls.len() {
                continue;
            }
            if at == self.tool_calls.len() {
                self.tool_calls.push(ToolCall::default());
            }
            let call = &mut self.tool_calls[at];
            if let Some(id) = &piece.id {
                call.id.clone_from(id);
            }
            call.name.push_str(piece.name.as_deref().unwrap_or(""));
            call.arguments.push_str(piece.arguments.as_deref().unwrap_or(""));
            merge(&mut call.extra, &piece.extra);
        }
        merge(&mut self.extra, &delta.extra);
        merge(&mut self.choice_extra, &delta.choice_extra);
    }

    fn answered(&mut self, finish: Finish) -> Ending {
        match self.allowed.breach_of_answer(&self.tool_calls).map(forbidden) {
            Some(failure) => self.unanswered(TurnState::Failed, failure),
            None => Ending::Answered(Box::new(self.answer(finish))),
        }
    }

    fn answer(&mut self, finish: Finish) -> Answer {
        Answer {
            content: Some(std::mem::take(&mut self.content)).filter(|text| !text.is_empty()),
            refusal: Some(std::mem::take(&mut self.refusal)).filter(|text| !text.is_empty()),
            tool_calls: std::mem::take(&mut self.tool_calls),
            extra: std::mem::take(&mut self.extra),
            choice_extra: std::mem::take(&mut self.choice_extra),
            finish,
        }
    }
}

/// A call of a tool that the client did not allow is no answer.
fn forbidden(name: &str) -> TurnFailure {
    let message = format!("the model called '{name}', which is not among the allowed tools of tool_choice");
    ModelFailure::new(ModelFailureKind::Nonsense, message).into()
}

/// Adds the fields of a piece to those of the whole: texts and lists go on, objects merge, anything else is replaced.
fn merge(whole: &mut Map<String, Value>, piece: &Map<String, Value>) {
    for (name, value) in piece {
        match (whole.get_mut(name), value) {
            (Some(Value::String(text)), Value::String(more)) => text.push_str(more),
            (Some(Value::Array(list)), Value::Array(more)) => list.extend(more.iter().cloned()),
            (Some(Value::Object(inner)), Value::Object(more)) => merge(inner, more),
            _ => {
                whole.insert(name.clone(), value.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use herma_model::FinishReason;
    use herma_model::generation::ToolCallDelta;

    use super::*;

    fn text(content: &str) -> Event {
        Event::Model(ModelEvent::Delta(Delta { content: Some(content.to_owned()), ..Delta::default() }))
    }

    fn finish() -> Finish {
        Finish { reason: FinishReason::Stop, usage: None, model: None, extra: Map::new() }
    }

    #[test]
    fn pieces_become_one_answer() {
        let mut machine = Machine::default();
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
        let mut machine = Machine::default();
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
    fn a_context_that_is_too_long_is_refused_unless_something_was_shown() {
        let failure = ModelFailure::new(ModelFailureKind::ContextTooLong, "too long");
        let mut machine = Machine::default();
        assert!(matches!(machine.on(Event::Failed(failure.clone())), Some(Effect::End(Ending::TooLong(_)))));
        let mut machine = Machine::default();
        machine.on(text("x"));
        assert!(matches!(machine.on(Event::Failed(failure)), Some(Effect::End(Ending::Unanswered { .. }))));
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
        let mut machine = Machine::allowing(allowed.clone());
        machine.on(text("seen"));
        let Some(Effect::End(Ending::Unanswered { state, shown, failure })) = machine.on(call("touch")) else {
            panic!("no end");
        };
        assert_eq!((state, shown.as_deref()), (TurnState::Failed, Some("seen")));
        assert_eq!(failure.code, FailureCode::UpstreamError);
        let mut machine = Machine::allowing(allowed);
        assert!(matches!(machine.on(call("lo")), Some(Effect::Show(_))));
        let end = machine.on(Event::Model(ModelEvent::Finished(finish())));
        assert!(matches!(end, Some(Effect::End(Ending::Unanswered { .. }))), "its name never became whole: {end:?}");
    }

    #[test]
    fn nothing_happens_after_the_end() {
        let mut machine = Machine::default();
        machine.on(Event::Stop(Stop::Cancel));
        assert_eq!(machine.on(text("late")), None);
        assert_eq!(machine.on(Event::Stop(Stop::Interrupt)), None);
    }
}

//! The machine, event by event.

use herma_model::generation::{Finish, ToolCall, ToolCallDelta};

use super::*;
use crate::allowed::AllowedTools;
use crate::rules::OwnTools;

fn text(content: &str) -> Event {
    Event::Model(ModelEvent::Delta(Delta { content: Some(content.to_owned()), ..Delta::default() }))
}

/// A machine that has called the model.
fn calling() -> Machine {
    allowing(AllowedTools::default())
}

fn allowing(allowed: AllowedTools) -> Machine {
    let (mut machine, first) = Machine::begin(ToolRules::of_client(allowed));
    assert_eq!(first, Effect::Do(Task::FitContext(Need::Threshold)));
    assert_eq!(machine.on(Event::ContextFit(ContextFit::Fits)), Some(Effect::CallModel(CallPlace::First)));
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
    let Some(Effect::End(Ending::Answered(answer))) = machine.on(Event::Model(ModelEvent::Finished(finish()))) else {
        panic!("no answer");
    };
    assert_eq!(answer.content.as_deref(), Some("a b"));
}

#[test]
fn streamed_text_is_kept_and_incomplete_calls_are_dropped() {
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
    let shorter = Effect::Do(Task::FitContext(Need::TooLong(too_long())));
    assert_eq!(machine.on(Event::Failed(too_long())), Some(shorter));
    assert_eq!(machine.on(Event::ContextFit(ContextFit::Fits)), Some(Effect::CallModel(CallPlace::First)));
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
fn a_turn_whose_context_does_not_fit_ends_before_the_model_is_called() {
    let after = |fit| Machine::begin(ToolRules::default()).0.on(Event::ContextFit(fit));
    assert_eq!(
        after(ContextFit::NothingToCompact),
        Some(Effect::CallModel(CallPlace::First)),
        "the threshold alone does not end a turn"
    );
    let refused = TurnFailure::new(FailureCode::ContextLengthExceeded, "too much");
    assert_eq!(after(ContextFit::Refused(refused.clone())), Some(Effect::End(Ending::Refused(refused))));
    let away = ModelFailure::new(ModelFailureKind::Unreachable, "away");
    let Some(Effect::End(Ending::Unanswered { state, .. })) = after(ContextFit::Unreachable(away)) else {
        panic!("no end");
    };
    assert_eq!(state, TurnState::Failed);
}

#[test]
fn a_turn_is_stopped_while_its_context_is_measured() {
    let (mut machine, _) = Machine::begin(ToolRules::default());
    let Some(Effect::End(Ending::Unanswered { state, .. })) = machine.on(Event::Stop(Stop::Interrupt)) else {
        panic!("no end");
    };
    assert_eq!(state, TurnState::Interrupted);
    assert_eq!(machine.on(Event::ContextFit(ContextFit::Fits)), None, "it has ended");
}

#[test]
fn an_event_that_does_not_belong_to_the_state_changes_nothing() {
    let (mut machine, _) = Machine::begin(ToolRules::default());
    assert_eq!(machine.on(text("early")), None);
    assert_eq!(machine.on(Event::ContextFit(ContextFit::Fits)), Some(Effect::CallModel(CallPlace::First)));
    assert_eq!(machine.on(Event::ContextFit(ContextFit::NothingToCompact)), None);
    assert_eq!(machine.shown(), "");
}

#[test]
fn a_call_of_a_tool_that_is_not_allowed_fails_the_turn_and_is_never_shown() {
    let choice = r#"{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"function":{"name":"look"}}]}}"#;
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

/// A turn in which Herma offers tools beside the client's `ask_user`.
fn with_tools(max_calls: u32) -> Machine {
    let own = OwnTools { client: vec!["ask_user".to_owned()], max_calls, holds_text: false };
    let (mut machine, _) = Machine::begin(ToolRules::of_client(AllowedTools::default()).offering(own));
    machine.on(Event::ContextFit(ContextFit::Fits));
    machine
}

fn calling_tools(names: &[&str]) -> Box<Answer> {
    let call = |name: &&str| ToolCall { id: format!("call_{name}"), name: (*name).to_owned(), ..ToolCall::default() };
    Box::new(Answer {
        content: None,
        refusal: None,
        tool_calls: names.iter().map(call).collect(),
        extra: Default::default(),
        choice_extra: Default::default(),
        finish: Finish { reason: FinishReason::ToolCalls, ..finish() },
    })
}

fn answers(machine: &mut Machine, answer: Box<Answer>) -> Option<Effect> {
    machine.on(Event::Model(ModelEvent::Answered(answer)))
}

#[test]
fn calls_of_hermas_tools_are_run_and_the_model_is_called_again() {
    let mut machine = with_tools(3);
    let answer = calling_tools(&["files__read"]);
    assert_eq!(answers(&mut machine, answer.clone()), Some(Effect::Do(Task::RunTools(ToolRound::New(answer)))));
    assert_eq!(
        machine.on(Event::ToolsRan(ToolsRan::Settled)),
        Some(Effect::Do(Task::FitContext(Need::Threshold))),
        "the context has grown"
    );
    assert_eq!(machine.on(Event::ContextFit(ContextFit::Fits)), Some(Effect::CallModel(CallPlace::Later)));
}

#[test]
fn a_call_of_the_clients_tool_ends_the_turn() {
    let mut machine = with_tools(3);
    let answer = calling_tools(&["ask_user"]);
    assert_eq!(answers(&mut machine, answer.clone()), Some(Effect::End(Ending::Answered(answer))));
    let mut machine = with_tools(3);
    answers(&mut machine, calling_tools(&["ask_user", "files__read"]));
    assert_eq!(machine.on(Event::ToolsRan(ToolsRan::EndsTurn)), Some(Effect::End(Ending::AfterLastStep)));
}

#[test]
fn without_tools_of_herma_every_call_is_the_clients() {
    let mut machine = calling();
    let answer = calling_tools(&["unheard_of"]);
    assert_eq!(answers(&mut machine, answer.clone()), Some(Effect::End(Ending::Answered(answer))));
}

#[test]
fn tool_calls_in_the_last_model_call_are_dropped() {
    let mut machine = with_tools(2);
    answers(&mut machine, calling_tools(&["files__read"]));
    machine.on(Event::ToolsRan(ToolsRan::Settled));
    assert_eq!(machine.on(Event::ContextFit(ContextFit::Fits)), Some(Effect::CallModel(CallPlace::Last)));
    let mut stubborn = calling_tools(&["files__read"]);
    stubborn.content = Some("one more look".to_owned());
    let Some(Effect::End(Ending::Answered(answer))) = answers(&mut machine, stubborn) else { panic!("no answer") };
    assert_eq!((answer.content.as_deref(), answer.tool_calls.len()), (Some("one more look"), 0));
    assert_eq!(answer.finish.reason, FinishReason::Stop);

    let mut machine = with_tools(1);
    let end = answers(&mut machine, calling_tools(&["files__read"]));
    assert!(matches!(end, Some(Effect::End(Ending::Unanswered { .. }))), "{end:?}");
}

#[test]
fn a_turn_that_is_parked_ends_here_and_goes_on_elsewhere() {
    let mut machine = with_tools(3);
    answers(&mut machine, calling_tools(&["files__write"]));
    assert_eq!(machine.on(Event::ToolsRan(ToolsRan::Parked)), Some(Effect::End(Ending::Parked)));
    let (mut machine, first) = Machine::go_on(ToolRules::default());
    assert_eq!(first, Effect::Do(Task::RunTools(ToolRound::Stored)));
    assert_eq!(machine.on(Event::ToolsRan(ToolsRan::Settled)), Some(Effect::Do(Task::FitContext(Need::Threshold))));
    assert_eq!(machine.on(Event::ContextFit(ContextFit::Fits)), Some(Effect::CallModel(CallPlace::Later)));
}

#[test]
fn a_turn_is_stopped_while_tools_run() {
    let mut machine = with_tools(3);
    answers(&mut machine, calling_tools(&["files__read"]));
    let Some(Effect::End(Ending::Unanswered { state, .. })) = machine.on(Event::Stop(Stop::Cancel)) else {
        panic!("no end");
    };
    assert_eq!(state, TurnState::Cancelled);
}

#[test]
fn calls_are_never_shown_before_it_is_known_whose_they_are() {
    let mut machine = with_tools(3);
    let piece = |index, name: &str| ToolCallDelta {
        index,
        id: Some(format!("call_{name}")),
        name: Some(name.to_owned()),
        ..ToolCallDelta::default()
    };
    let delta = Delta {
        content: Some("Let me look.".into()),
        tool_calls: vec![piece(0, "files__read"), piece(1, "ask_user")],
        ..Delta::default()
    };
    let Some(Effect::Show(shown)) = machine.on(Event::Model(ModelEvent::Delta(delta))) else { panic!("no text") };
    assert_eq!((shown.content.as_deref(), shown.tool_calls.len()), (Some("Let me look."), 0));
    machine.on(Event::Model(ModelEvent::Finished(finish())));
    machine.on(Event::ToolsRan(ToolsRan::EndsTurn));
    let held = machine.take_held().unwrap();
    let calls: Vec<_> = held.tool_calls.iter().map(|call| (call.index, call.name.as_deref().unwrap())).collect();
    assert_eq!(calls, [(0, "ask_user")]);
}

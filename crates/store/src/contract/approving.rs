//! Answers to the questions of parked turns, and what they grant.

use std::time::Duration;

use herma_model::{
    ApprovalAnswer, ApprovalChoice, CallEnd, CallId, CallStatus, Decision, EarlierCall, MessageId, NewMessage, OwnCall,
    SessionKey, Step, Timestamp, TurnState, Utterance, tool,
};

use super::World;
use super::describing::keyed;
use super::fixture::{finish, running};
use super::notices::{expect_no_notice, expect_notice};
use super::parking::{calling, own_call};
use crate::{Admission, AnswerOutcome, Notice, Question, Running, Scope, Store, TurnOutcome, TurnRecord};

/// A moment before every question.
const NEVER: Timestamp = Timestamp(0);

/// The steps of a turn as text.
fn steps(record: &TurnRecord) -> Vec<String> {
    let step = |step: &Step| match step {
        Step::Compacted(_) => "compacted".to_owned(),
        Step::Said(_) => "said".to_owned(),
        Step::Answered(call, answer) => format!("{} {} {}", call.id, answer.choice.as_str(), answer.order),
        Step::ToolResult(message) => format!("result {}", &*message.said.calls[0]),
    };
    record.steps.iter().map(step).collect()
}

fn call(id: &str) -> Question {
    Question::Call(CallId::from(id))
}

fn result(id: &str, status: CallStatus, answer: Option<ApprovalAnswer>) -> Utterance {
    Utterance::tool_result(id, "ok", &CallEnd { answer, ..CallEnd::at_once(status) })
}

pub async fn questions_are_answered_one_by_one_by_name_or_all_at_once<S: Store>(world: &World<S>) {
    let turn = world.parked(&world.one, "trip", &["a", "b", "c", "d", "e"]).await.turn;
    let answers = [
        (Question::Oldest, ApprovalChoice::Once, AnswerOutcome::Answered(own_call("a"))),
        (call("c"), ApprovalChoice::Deny, AnswerOutcome::Answered(own_call("c"))),
        (call("c"), ApprovalChoice::Once, AnswerOutcome::NothingAsked),
        (call("x"), ApprovalChoice::Once, AnswerOutcome::NothingAsked),
        (Question::Oldest, ApprovalChoice::Once, AnswerOutcome::Answered(own_call("b"))),
        (Question::All, ApprovalChoice::Deny, AnswerOutcome::Complete(own_call("e"))),
        (Question::All, ApprovalChoice::Once, AnswerOutcome::NothingAsked),
        (Question::Oldest, ApprovalChoice::Once, AnswerOutcome::NothingAsked),
    ];
    for (question, choice, outcome) in answers {
        let store = if outcome == AnswerOutcome::NothingAsked { &world.one } else { &world.two };
        assert_eq!(world.reply(store, turn, question.clone(), choice).await, outcome, "{question:?}");
    }
    let resumed = world.one.resume(turn, world.now()).await.unwrap().unwrap();
    let given = |approval: &crate::PendingApproval| approval.answer.map(|answer| (answer.choice, answer.order));
    use ApprovalChoice::{Deny, Once};
    assert_eq!(
        resumed.approvals.iter().map(given).collect::<Vec<_>>(),
        [Some((Once, 0)), Some((Once, 2)), Some((Deny, 1)), Some((Deny, 3)), Some((Deny, 4))]
    );
    let late = world.reply(&world.one, turn, Question::Oldest, ApprovalChoice::Once).await;
    assert_eq!(late, AnswerOutcome::NotFound, "it waits for nothing");
    world.complete(&world.one, &resumed.running, 1, "written").await;
}

pub async fn the_last_answer_completes_a_turn_whichever_it_is<S: Store>(world: &World<S>) {
    let turn = world.parked(&world.one, "trip", &["a", "b"]).await.turn;
    let first = world.reply(&world.one, turn, call("b"), ApprovalChoice::Once).await;
    assert_eq!(first, AnswerOutcome::Answered(own_call("b")));
    assert_eq!(world.one.parked_turns(NEVER, world.now()).await.unwrap(), []);
    let last = world.reply(&world.two, turn, call("a"), ApprovalChoice::Once).await;
    assert_eq!(last, AnswerOutcome::Complete(own_call("a")));
    assert_eq!(world.one.parked_turns(NEVER, world.now()).await.unwrap(), [turn]);
    assert!(world.one.resume(turn, world.now()).await.unwrap().is_some());
    assert_eq!(world.one.parked_turns(NEVER, world.now()).await.unwrap(), []);
}

pub async fn no_caller_answers_a_turn_that_it_cannot_see<S: Store>(world: &World<S>) {
    let key = SessionKey::parse("blue:1").ok();
    let first = Admission { session_key: key, ..world.ask("trip", "write it down") };
    let turn = running(world.admit(&world.one, first).await);
    world.append_said(&world.one, &turn, 0, vec![calling(&[own_call("a")])]).await;
    let answer = async |scope: &Scope| {
        let choice = ApprovalChoice::Always;
        world.two.answer(scope, turn.turn, Question::Oldest, choice, world.now()).await.unwrap()
    };
    assert_eq!(answer(&world.scope).await, AnswerOutcome::NotFound, "it is not parked");
    world.park(&world.one, &turn, &[own_call("a")]).await.unwrap();
    for scope in [&world.stranger, &keyed("red:1", &world.scope)] {
        assert_eq!(answer(scope).await, AnswerOutcome::NotFound);
    }
    assert_eq!(world.turn(turn.turn).await.unwrap().pending[0].answer, None);
    assert_eq!(world.one.grants(None).await.unwrap(), []);
    assert_eq!(answer(&keyed("blue:1", &world.scope)).await, AnswerOutcome::Complete(own_call("a")));
}

pub async fn questions_that_nobody_answers_are_denied<S: Store>(world: &World<S>) {
    let first = world.parked(&world.one, "trip", &["a", "b", "c"]).await.turn;
    world.reply(&world.one, first, call("b"), ApprovalChoice::Once).await;
    let asked_at = world.turn(first).await.unwrap().pending[0].asked_at;
    assert_eq!(world.two.parked_turns(asked_at, world.now()).await.unwrap(), [], "it was not asked before that");
    world.advance_clock(Duration::from_secs(600));
    let second = world.parked(&world.one, "train", &["a"]).await.turn;
    let theirs = Admission { scope: world.stranger.clone(), ..world.ask("trip", "write it down") };
    let theirs = running(world.admit(&world.one, theirs).await);
    world.park(&world.one, &theirs, &[]).await.unwrap();
    let before = Timestamp(asked_at.0 + 1);
    assert_eq!(world.two.parked_turns(before, world.now()).await.unwrap(), [first, theirs.turn], "of every tenant");
    let answers = world.turn(first).await.unwrap().pending.into_iter().map(|asked| asked.answer.unwrap());
    let answers: Vec<_> = answers.map(|answer| (answer.choice.as_str(), answer.order, answer.expired)).collect();
    assert_eq!(answers, [("deny", 1, true), ("once", 0, false), ("deny", 2, true)]);
    assert_eq!(world.turn(second).await.unwrap().pending[0].answer, None);
    let resumed = world.two.resume(first, world.now()).await.unwrap().unwrap();
    world.complete(&world.two, &resumed.running, 1, "not written").await;
}

pub async fn answers_are_steps_before_the_results_of_their_message<S: Store>(world: &World<S>) {
    let turn = world.parked(&world.one, "trip", &["a", "b"]).await.turn;
    let seen = async || steps(&world.turn(turn).await.unwrap());
    assert_eq!(seen().await, ["said"]);
    world.reply(&world.one, turn, call("b"), ApprovalChoice::Deny).await;
    assert_eq!(seen().await, ["said", "b deny 0"]);
    world.reply(&world.one, turn, call("a"), ApprovalChoice::Once).await;
    let both = ["said", "b deny 0", "a once 1"];
    assert_eq!(seen().await, both);
    let resumed = world.one.resume(turn, world.now()).await.unwrap().unwrap();
    assert_eq!((steps(&resumed.record), seen().await), (both.map(str::to_owned).to_vec(), seen().await));
    let turn = resumed.running;
    let given = |id: &str| resumed.approvals.iter().find(|asked| &*asked.call.id == id).unwrap().answer;
    world.append_said(&world.one, &turn, 1, vec![result("b", CallStatus::Denied, given("b"))]).await;
    assert_eq!(seen().await, ["said", "b deny 0", "a once 1", "result b"]);
    world.append_said(&world.one, &turn, 2, vec![result("a", CallStatus::Done, given("a"))]).await;
    let settled = ["said", "b deny 0", "a once 1", "result b", "result a"];
    assert_eq!(seen().await, settled);
    // Some models give every first call of a message the same id.
    world.append_said(&world.one, &turn, 3, vec![calling(&[own_call("a")])]).await;
    assert_eq!(seen().await[5..], ["said"]);
    world.append_said(&world.one, &turn, 4, vec![result("a", CallStatus::Done, None)]).await;
    world.complete(&world.one, &turn, 5, "written").await;
    assert_eq!(seen().await, [&settled[..], &["said", "result a", "said"]].concat());
}

pub async fn the_answers_of_a_resumed_turn_outlive_its_process<S: Store>(world: &World<S>) {
    let turn = world.parked(&world.one, "trip", &["a", "b"]).await.turn;
    world.reply(&world.one, turn, call("b"), ApprovalChoice::Deny).await;
    world.reply(&world.one, turn, call("a"), ApprovalChoice::Once).await;
    assert!(world.one.resume(turn, world.now()).await.unwrap().is_some());
    world.one.close().await;
    world.talk(&world.two, "trip", "next", "fine").await;
    let record = world.turn(turn).await.unwrap();
    assert_eq!(record.state, TurnState::Interrupted);
    assert_eq!(steps(&record), ["said", "b deny 0", "a once 1", "result a", "result b"]);
    let ends = record.steps.iter().filter_map(|step| match step {
        Step::ToolResult(message) => message.said.call_end().map(|end| end.status),
        _ => None,
    });
    assert_eq!(ends.collect::<Vec<_>>(), [CallStatus::Uncertain, CallStatus::Denied]);
}

/// How the calls of a turn ended, in the order of their results.
fn ends(record: &TurnRecord) -> Vec<(CallStatus, String)> {
    let end = |step: &Step| match step {
        Step::ToolResult(message) => {
            Some((message.said.call_end()?.status, message.said.payload.text().unwrap_or_default()))
        }
        Step::Compacted(_) | Step::Said(_) | Step::Answered(..) => None,
    };
    record.steps.iter().filter_map(end).collect()
}

pub async fn calls_that_were_asked_about_when_their_turn_was_stopped_were_not_made<S: Store>(world: &World<S>) {
    let turn = world.start(&world.one, "trip", "write it down").await;
    let waits = OwnCall { asks: false, ..own_call("d") };
    let calls = [own_call("a"), own_call("b"), own_call("c"), waits];
    world.append_said(&world.one, &turn, 0, vec![calling(&calls)]).await;
    world.park(&world.one, &turn, &calls[..3]).await.unwrap();
    world.reply(&world.one, turn.turn, call("b"), ApprovalChoice::Deny).await;
    world.reply(&world.one, turn.turn, call("c"), ApprovalChoice::Once).await;
    world.two.stop(&world.scope, turn.turn, Duration::from_secs(2), world.now()).await.unwrap();
    let record = world.turn(turn.turn).await.unwrap();
    assert_eq!(record.state, TurnState::Cancelled);
    let results = ["said", "b deny 0", "c once 1", "result a", "result b", "result c", "result d"];
    assert_eq!(steps(&record), results);
    use CallStatus::{Denied, NotMade};
    let expected = [
        (Denied, tool::NOT_ALLOWED_YET.to_owned()),
        (Denied, tool::DENIED.to_owned()),
        (NotMade, tool::NOT_ALLOWED_YET.to_owned()),
        (NotMade, tool::NOT_ALLOWED_YET.to_owned()),
    ];
    assert_eq!(ends(&record), expected);
    world.talk(&world.one, "trip", "next", "fine").await;
}

/// Begins a turn whose only input is what a person decided about the last turn's call.
async fn decided<S: Store>(world: &World<S>, to: &str, choice: ApprovalChoice) -> Running {
    let asking = world.start(&world.one, to, "write it down").await;
    world.append_said(&world.one, &asking, 0, vec![calling(&[own_call("a")])]).await;
    let outcome = TurnOutcome::Completed { messages: Vec::new(), finish: finish() };
    world.one.commit(world.commit(&asking, outcome)).await.unwrap();
    let earlier = EarlierCall { server: "files".into(), tool: "write".into(), arguments: "{}".into() };
    let message = MessageId::answered(asking.turn, 1, 0);
    let answer = Some(ApprovalAnswer::given(choice, 0));
    let decision = Decision { id: "a".into(), message, place: 0, call: earlier, answer };
    let mut ask = world.ask(to, "");
    ask.messages = vec![NewMessage { id: MessageId::brought(ask.turn, 1, 0), said: Utterance::from(&decision) }];
    running(world.admit(&world.one, ask).await)
}

pub async fn a_call_that_was_decided_about_has_a_result_when_its_turn_is_cut_off<S: Store>(world: &World<S>) {
    use ApprovalChoice::{Deny, Once};
    let uncertain = (CallStatus::Uncertain, tool::UNCERTAIN.to_owned());
    let denied = (CallStatus::Denied, tool::DENIED.to_owned());
    let turns = [("trip", decided(world, "trip", Once).await), ("train", decided(world, "train", Deny).await)];
    world.one.close().await;
    for ((to, turn), end) in turns.into_iter().zip([uncertain, denied]) {
        let again = Admission { retry_of: Some(turn.turn), messages: Vec::new(), ..world.ask(to, "") };
        let again = running(world.admit(&world.two, again).await);
        assert_eq!((again.turn, again.attempt), (turn.turn, 2));
        world.complete(&world.two, &again, 0, "done").await;
        let record = world.turn(turn.turn).await.unwrap();
        assert_eq!((steps(&record), ends(&record)), (vec!["result a".to_owned(), "said".to_owned()], vec![end]));
        assert_eq!(record.input.len(), 1);
        assert!(record.input[0].said.decision().is_some());
    }
}

pub async fn a_grant_for_the_session_is_for_its_conversation<S: Store>(world: &World<S>) {
    let turn = world.parked(&world.one, "trip", &["a"]).await;
    let other = world.talk(&world.one, "train", "hello", "hi").await;
    world.reply(&world.two, turn.turn, Question::Oldest, ApprovalChoice::Session).await;
    let (tenant, here, there) = (world.scope.tenant, turn.facts.id, other.facts.id);
    let granted = async |conversation, server: &str, tool: &str| {
        world.one.is_granted(tenant, conversation, server, tool).await.unwrap()
    };
    assert!(granted(here, "files", "write").await);
    assert!(!granted(here, "files", "delete").await && !granted(here, "mail", "write").await);
    assert!(!granted(there, "files", "write").await);
    assert!(!world.one.is_granted(world.stranger.tenant, here, "files", "write").await.unwrap());
    let grants = world.one.grants(Some(tenant)).await.unwrap();
    assert_eq!((grants.len(), grants[0].conversation, &*grants[0].tenant_name), (1, Some(here), "tenant"));
    assert_eq!(world.one.grants(Some(world.stranger.tenant)).await.unwrap(), []);
    let resumed = world.one.resume(turn.turn, world.now()).await.unwrap().unwrap();
    world.complete(&world.one, &resumed.running, 1, "written").await;
    assert!(granted(here, "files", "write").await, "the grant outlives the turn");
    world.delete("trip").await;
    assert_eq!(world.one.grants(None).await.unwrap(), []);
}

pub async fn a_grant_for_ever_is_for_its_tenant_until_it_is_revoked<S: Store>(world: &World<S>) {
    let turn = world.start(&world.one, "trip", "write it down").await;
    let calls = ["write", "delete"].map(|tool| OwnCall { tool: tool.into(), ..own_call(tool) });
    world.append_said(&world.one, &turn, 0, vec![calling(&calls)]).await;
    world.park(&world.one, &turn, &calls).await.unwrap();
    world.reply(&world.one, turn.turn, Question::All, ApprovalChoice::Always).await;
    let other = world.talk(&world.one, "train", "hello", "hi").await;
    let again = world.parked(&world.one, "train", &["a"]).await.turn;
    world.reply(&world.one, again, Question::All, ApprovalChoice::Always).await;
    let third = world.parked(&world.one, "bus", &["a"]).await.turn;
    world.reply(&world.one, third, Question::All, ApprovalChoice::Session).await;
    let (tenant, there) = (world.scope.tenant, other.facts.id);
    let granted = async |tool: &str| world.two.is_granted(tenant, there, "files", tool).await.unwrap();
    assert!(granted("write").await && granted("delete").await);
    assert!(!world.two.is_granted(world.stranger.tenant, there, "files", "write").await.unwrap());
    let listed = world.two.grants(None).await.unwrap();
    let listed: Vec<_> = listed.iter().map(|grant| (&*grant.tool, grant.conversation.is_some())).collect();
    assert_eq!(listed, [("write", false), ("delete", false), ("write", true)], "the same grant is one");
    assert_eq!(world.two.revoke_grants(world.stranger.tenant, "files", "*").await.unwrap(), 0);
    assert_eq!(world.two.revoke_grants(tenant, "mail", "*").await.unwrap(), 0);
    assert_eq!(world.two.revoke_grants(tenant, "files", "write").await.unwrap(), 2);
    assert!(!granted("write").await && granted("delete").await);
    assert_eq!(world.two.revoke_grants(tenant, "files", "*").await.unwrap(), 1);
    assert!(!granted("delete").await);
}

pub async fn once_and_deny_grant_nothing<S: Store>(world: &World<S>) {
    let turn = world.parked(&world.one, "trip", &["a", "b"]).await.turn;
    world.reply(&world.one, turn, Question::Oldest, ApprovalChoice::Once).await;
    world.reply(&world.one, turn, Question::Oldest, ApprovalChoice::Deny).await;
    assert_eq!(world.one.grants(None).await.unwrap(), []);
}

pub async fn each_change_of_a_parked_turn_gives_a_notice<S: Store>(world: &World<S>) {
    let turn = world.start(&world.one, "trip", "write it down").await;
    let calls = [own_call("a"), own_call("b")];
    world.append_said(&world.one, &turn, 0, vec![calling(&calls)]).await;
    let mut changed = world.two.subscribe(Notice::TurnChanged(turn.turn));
    expect_notice(&mut changed).await;
    expect_no_notice(&mut changed).await;
    world.park(&world.one, &turn, &calls).await.unwrap();
    expect_notice(&mut changed).await;
    for call in &calls {
        world.reply(&world.one, turn.turn, Question::Call(call.id.clone()), ApprovalChoice::Once).await;
        expect_notice(&mut changed).await;
    }
    assert!(world.one.resume(turn.turn, world.now()).await.unwrap().is_some());
    expect_notice(&mut changed).await;
}

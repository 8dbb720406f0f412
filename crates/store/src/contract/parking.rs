//! Turns that wait for people and belong to no process.

use std::sync::Arc;
use std::time::Duration;

use herma_model::message::Utterance;
use herma_model::provenance::CompactionMode::InPlace;
use herma_model::turn::FailureCode;
use herma_model::{ApprovalChoice, CallId, MessageId, NewMessage, OwnCall, Role, StopKind, TurnId, TurnState, tool};

use super::World;
use super::fixture::{answer_of, finish, joined, message, name, noted, queued, refused, running, texts};
use crate::{
    Admission, AnswerOutcome, Append, AskedCall, Authority, Commit, CompactOutcome, DeleteOutcome, EndOutcome, Intent,
    NewCompaction, Park, Question, Refusal, Resumed, RewindOutcome, RewindPoint, RewriteOutcome, Running, StopOutcome,
    Store, StoreError, TurnOutcome, TurnPolicy, UndoOutcome,
};

const GRACE: Duration = Duration::from_secs(2);

/// A call of the tool `files/write` that a person has to allow.
pub fn own_call(id: &str) -> OwnCall {
    OwnCall { id: id.into(), server: "files".into(), tool: "write".into(), asks: true, waits: true, max_output: None }
}

/// A message that makes these calls.
pub fn calling(calls: &[OwnCall]) -> Utterance {
    let said = Utterance {
        calls: calls.iter().map(|call| call.id.clone()).collect(),
        ..message(Role::Assistant, "let me write").said
    };
    said.with_own_calls(calls)
}

/// What is asked about a call.
pub fn asked(call: &OwnCall) -> AskedCall {
    AskedCall {
        call: call.clone(),
        name: Arc::from(format!("{}__{}", call.server, call.tool)),
        arguments: Arc::from(format!("{{\"to\":\"{}\"}}", call.id)),
    }
}

impl<S: Store> World<S> {
    /// Appends messages of a running turn, the first of which is its `nth`.
    pub async fn append_said(&self, store: &S, turn: &Running, nth: usize, said: Vec<Utterance>) {
        let messages = (nth..).zip(said);
        let messages =
            messages.map(|(nth, said)| NewMessage { id: MessageId::answered(turn.turn, turn.attempt, nth), said });
        let (lease, session) = (turn.lease, turn.facts.head.id.clone());
        let messages = messages.collect();
        store
            .append(Append {
                lease,
                session,
                messages,
                usage: None,
                cost: None,
                record: None,
                recall: None,
                now: self.now(),
            })
            .await
            .unwrap();
    }

    /// Parks a turn that has appended its calls.
    pub async fn park(&self, store: &S, turn: &Running, calls: &[OwnCall]) -> Result<(), StoreError> {
        let asks = calls.iter().map(asked).collect();
        store.park(Park { lease: turn.lease, request: "to go on".to_owned(), asks, now: self.now() }).await
    }

    /// Starts a turn that calls tools, and parks it.
    pub async fn parked(&self, store: &S, to: &str, calls: &[&str]) -> Running {
        let turn = self.start(store, to, "write it down").await;
        let calls: Vec<OwnCall> = calls.iter().map(|id| own_call(id)).collect();
        self.append_said(store, &turn, 0, vec![calling(&calls)]).await;
        self.park(store, &turn, &calls).await.unwrap();
        turn
    }

    /// Answers a question of the tenant's turn.
    pub async fn reply(&self, store: &S, turn: TurnId, question: Question, choice: ApprovalChoice) -> AnswerOutcome {
        store.answer(&self.scope, turn, question, choice, self.now()).await.unwrap()
    }

    /// Allows all calls of a parked turn and resumes it.
    pub async fn allowed(&self, store: &S, turn: TurnId) -> Resumed {
        let outcome = self.reply(store, turn, Question::All, ApprovalChoice::Once).await;
        assert!(matches!(outcome, AnswerOutcome::Complete(_)), "{outcome:?}");
        store.resume(turn, self.now()).await.unwrap().expect("a turn that can be resumed")
    }

    /// Ends a resumed turn whose last message was its `nth`.
    pub async fn complete(&self, store: &S, turn: &Running, nth: usize, text: &str) {
        let id = MessageId::answered(turn.turn, turn.attempt, nth);
        let messages = vec![NewMessage { id, ..message(Role::Assistant, text) }];
        let outcome = TurnOutcome::Completed { messages, finish: finish() };
        store.commit(Commit { ..self.commit(turn, outcome) }).await.unwrap();
    }
}

pub async fn a_parked_turn_goes_on_in_another_process<S: Store>(world: &World<S>) {
    world.talk(&world.one, "trip", "hello", "hi").await;
    let turn = world.parked(&world.one, "trip", &["a"]).await;
    let record = world.turn(turn.turn).await.unwrap();
    assert_eq!((record.state, record.parked, record.stopping), (TurnState::Running, true, false));
    assert_eq!(record.pending.iter().map(|asked| &*asked.call.id).collect::<Vec<_>>(), ["a"]);
    assert_eq!((&*record.pending[0].name, &*record.pending[0].arguments), ("files__write", r#"{"to":"a"}"#));
    assert!(world.two.resume(turn.turn, world.now()).await.unwrap().is_none(), "a question is open");
    let resumed = world.allowed(&world.two, turn.turn).await;
    let Resumed { running, snapshot, record, request, approvals } = resumed;
    assert!(running.lease.fence > turn.lease.fence, "the new lease has a higher fence");
    assert_eq!((running.turn, running.attempt, running.resolution), (turn.turn, turn.attempt, turn.resolution));
    assert_eq!((&running.messages, running.started_at), (&turn.messages, turn.started_at));
    assert_eq!((running.version, running.facts.id), (snapshot.version, turn.facts.id));
    assert_eq!(texts(&snapshot), ["hello", "hi", "write it down", "let me write"]);
    assert_eq!((record.parked, record.pending.len(), request.as_str()), (false, 0, "to go on"));
    assert_eq!(approvals[0].answer.unwrap().choice, ApprovalChoice::Once);
    world.complete(&world.two, &running, 1, "written").await;
    let record = world.turn(turn.turn).await.unwrap();
    assert_eq!((record.state, answer_of(&record).len()), (TurnState::Completed, 2));
    assert_eq!(world.row("trip").await.unwrap().revision, running.revision);
    world.talk(&world.one, "trip", "next", "fine").await;
}

pub async fn a_parked_turn_outlives_its_process<S: Store>(world: &World<S>) {
    let turn = world.parked(&world.one, "trip", &["a"]).await;
    world.one.close().await;
    // An instance removes dead owners when it takes its first lease.
    world.advance_clock(Duration::from_secs(3600));
    let lost = world.start(&world.two, "elsewhere", "hello").await;
    queued(world.admit(&world.two, world.ask("trip", "second")).await);
    world.two.abandon(lost.lease);
    world.settle(&world.two).await;
    assert_eq!(world.turn(lost.turn).await.unwrap().state, TurnState::Interrupted, "dead turns were looked for");
    let record = world.turn(turn.turn).await.unwrap();
    assert_eq!((record.state, record.parked), (TurnState::Running, true));
    let resumed = world.allowed(&world.two, turn.turn).await;
    world.complete(&world.two, &resumed.running, 1, "written").await;
}

pub async fn nothing_is_written_under_the_lease_of_a_parked_turn<S: Store>(world: &World<S>) {
    let turn = world.parked(&world.one, "trip", &["a"]).await;
    let confirmed = async |turn: &Running| world.one.confirm(turn.lease).await;
    for resumes in [false, true] {
        if resumes {
            let resumed = world.allowed(&world.one, turn.turn).await;
            assert!(confirmed(&resumed.running).await.is_ok());
        }
        assert_eq!(world.append(&world.one, &turn, 1, "late").await.unwrap_err(), StoreError::Fenced);
        assert_eq!(world.try_answer(&world.one, &turn, "late").await.unwrap_err(), StoreError::Fenced);
        assert_eq!(world.park(&world.one, &turn, &[own_call("a")]).await.unwrap_err(), StoreError::Fenced);
        assert_eq!(world.one.retract(turn.lease).await.unwrap_err(), StoreError::Fenced);
        assert_eq!(confirmed(&turn).await.unwrap_err(), StoreError::Fenced);
        assert_eq!(world.one.journal(turn.lease, noted("late")).wait().await.unwrap_err(), StoreError::Fenced);
        world.one.abandon(turn.lease);
        world.settle(&world.one).await;
        assert_eq!(world.turn(turn.turn).await.unwrap().state, TurnState::Running);
        assert_eq!(texts(&world.read("trip").await.unwrap()), ["write it down", "let me write"]);
        assert!(world.one.stop_requests().await.unwrap().is_empty());
    }
}

pub async fn one_of_many_callers_resumes_a_turn<S: Store>(world: &World<S>) {
    let turn = world.parked(&world.one, "trip", &["a", "b"]).await.turn;
    world.reply(&world.one, turn, Question::All, ApprovalChoice::Once).await;
    let mut callers = tokio::task::JoinSet::new();
    for number in 0..16 {
        let world = world.clone();
        callers.spawn(async move {
            let store = if number % 2 == 0 { &world.one } else { &world.two };
            store.resume(turn, world.now()).await.unwrap().map(|resumed| (number, resumed.running))
        });
    }
    let mut won: Vec<(i32, Running)> = callers.join_all().await.into_iter().flatten().collect();
    assert_eq!(won.len(), 1);
    let (number, running) = won.remove(0);
    let store = if number % 2 == 0 { &world.one } else { &world.two };
    world.complete(store, &running, 1, "written").await;
    assert!(world.one.resume(turn, world.now()).await.unwrap().is_none(), "it has ended");
}

pub async fn other_turns_wait_for_a_parked_turn_or_are_refused<S: Store>(world: &World<S>) {
    let turn = world.parked(&world.one, "trip", &["a"]).await;
    let reject = Admission { policy: TurnPolicy::Reject, ..world.ask("trip", "now") };
    assert_eq!(refused(world.admit(&world.two, reject).await), Refusal::Busy(turn.turn));
    let waiting = world.queue(&world.two, world.ask("trip", "second")).await;
    queued(world.admit(&world.two, waiting.clone()).await);
    let resumed = world.allowed(&world.one, turn.turn).await;
    queued(world.admit(&world.two, waiting.clone()).await);
    world.complete(&world.one, &resumed.running, 1, "written").await;
    let second = running(world.admit(&world.two, waiting).await);
    world.answer(&world.two, &second, "two").await;
}

pub async fn a_parked_turn_is_interrupted_at_once<S: Store>(world: &World<S>) {
    let turn = world.parked(&world.one, "trip", &["a", "b"]).await;
    world.reply(&world.one, turn.turn, Question::Oldest, ApprovalChoice::Once).await;
    let waiting = world.queue(&world.one, world.ask("trip", "patient")).await;
    let urgent = Admission { policy: TurnPolicy::Interrupt, ..world.ask("trip", "urgent") };
    let urgent = running(world.admit(&world.two, urgent).await);
    let record = world.turn(turn.turn).await.unwrap();
    assert_eq!((record.state, record.parked, record.pending.len()), (TurnState::Interrupted, false, 0));
    assert_eq!((record.failure.unwrap().code, record.cut_off), (FailureCode::Interrupted, false));
    assert_eq!(record.steps.len(), 4, "the message, an answer, and that neither call was made");
    assert!(world.one.resume(turn.turn, world.now()).await.unwrap().is_none());
    queued(world.admit(&world.one, waiting.clone()).await);
    world.answer(&world.two, &urgent, "done").await;
    running(world.admit(&world.one, waiting).await);
    let told = tool::NOT_ALLOWED_YET;
    let said = ["write it down", "let me write", told, told, "urgent"];
    assert_eq!(texts(&world.read("trip").await.unwrap())[..5], said);
}

pub async fn a_parked_turn_is_cancelled_at_once<S: Store>(world: &World<S>) {
    let turn = world.parked(&world.one, "trip", &["a"]).await;
    let outcome = world.two.stop(&world.stranger, turn.turn, GRACE, world.now()).await.unwrap();
    assert_eq!(outcome, StopOutcome::NotFound);
    let outcome = world.two.stop(&world.scope, turn.turn, GRACE, world.now()).await.unwrap();
    assert_eq!(outcome, StopOutcome::Ended);
    let record = world.turn(turn.turn).await.unwrap();
    assert_eq!((record.state, record.called_off, record.steps.len()), (TurnState::Cancelled, true, 2));
    let late = world.reply(&world.one, turn.turn, Question::Oldest, ApprovalChoice::Once).await;
    assert_eq!(late, AnswerOutcome::NotFound);
    assert!(world.one.resume(turn.turn, world.now()).await.unwrap().is_none());
    world.talk(&world.one, "trip", "next", "fine").await;
}

pub async fn a_turn_that_was_asked_to_stop_is_not_parked<S: Store>(world: &World<S>) {
    let turn = world.start(&world.one, "trip", "write it down").await;
    assert_eq!(world.two.stop(&world.scope, turn.turn, GRACE, world.now()).await.unwrap(), StopOutcome::Asked);
    let refused = world.park(&world.one, &turn, &[own_call("a")]).await.unwrap_err();
    assert_eq!(refused, StoreError::StopRequested(StopKind::Cancel));
    assert!(!world.turn(turn.turn).await.unwrap().parked);
    world.leave(&world.one, &turn, TurnState::Cancelled, None).await;
}

pub async fn a_conversation_with_a_parked_turn_is_busy<S: Store>(world: &World<S>) {
    world.talk(&world.one, "trip", "hello", "hi").await;
    let turn = world.parked(&world.one, "trip", &["a"]).await.turn;
    world.one.close().await;
    let store = &world.two;
    let ended = store.end(&world.scope, &name("trip"), herma_model::EndReason::Ended, world.now()).await.unwrap();
    assert!(matches!(ended, EndOutcome::Busy(busy) if busy == turn), "{ended:?}");
    let rewound = store.rewind(world.go_back("trip", RewindPoint::Turns(1))).await.unwrap();
    assert!(matches!(rewound, RewindOutcome::Busy(busy) if busy == turn), "{rewound:?}");
    let plan = world.plan("trip", InPlace, 1, "so far").await;
    let authority = Authority::Idle { scope: world.scope.clone(), alias: name("trip") };
    let compacted = store.compact(NewCompaction { authority, ..plan }).await.unwrap();
    assert!(matches!(compacted, CompactOutcome::Busy(busy) if busy == turn), "{compacted:?}");
    let first = world.read("trip").await.unwrap().messages[0].clone();
    let rewritten = world.rewrite(store, "trip", &first, None).await;
    assert!(matches!(rewritten, RewriteOutcome::Busy(busy) if busy == turn), "{rewritten:?}");
    let undone = world.undo(store, "trip", super::summaries::new_id()).await;
    assert!(matches!(undone, UndoOutcome::Busy(busy) if busy == turn), "{undone:?}");
    assert!(world.turn(turn).await.unwrap().parked);
}

pub async fn a_parked_turn_is_deleted_with_its_conversation<S: Store>(world: &World<S>) {
    let first = world.talk(&world.one, "trip", "hello", "hi").await;
    let branch = world.branch(&world.one, first.turn, "instead", "fine").await;
    let turn = world.parked(&world.one, "trip", &["a", "b"]).await.turn;
    world.reply(&world.one, turn, Question::Oldest, ApprovalChoice::Session).await;
    let waiting = world.queue(&world.two, world.ask("trip", "second")).await;
    assert!(matches!(world.delete("trip").await, DeleteOutcome::Busy(busy) if busy == waiting.turn));
    assert!(world.turn(turn).await.unwrap().parked, "a refused deletion ends nothing");
    world.withdraw(&world.two, &world.scope, waiting.turn).await;
    let grants = async || world.one.grants(None).await.unwrap().len();
    assert_eq!(grants().await, 1);
    assert_eq!(world.delete("trip").await, DeleteOutcome::Deleted(first.facts.id));
    assert_eq!(grants().await, 0);
    assert!(world.turn(turn).await.is_none());
    assert_eq!(world.reply(&world.one, turn, Question::All, ApprovalChoice::Once).await, AnswerOutcome::NotFound);
    assert!(world.one.resume(turn, world.now()).await.unwrap().is_none());
    assert_eq!(world.read(&branch.facts.id.to_string()).await.unwrap().messages.len(), 4, "branches stay");
    // The same holds for what is deleted with its parent.
    let child = world.parked(&world.one, &branch.facts.id.to_string(), &["a"]).await.turn;
    world.delete_all(&world.scope, &branch.facts.id.to_string()).await;
    assert!(world.turn(child).await.is_none());
}

pub async fn a_retry_joins_a_parked_turn<S: Store>(world: &World<S>) {
    let ask = world.ask("trip", "write it down");
    let turn = running(world.admit(&world.one, ask.clone()).await);
    world.append_said(&world.one, &turn, 0, vec![calling(&[own_call("a")])]).await;
    world.park(&world.one, &turn, &[own_call("a")]).await.unwrap();
    world.one.close().await;
    let mut retry = Admission { turn: world.ask_anew("").turn, ..ask };
    retry.retry.sdk_attempt = 1;
    assert_eq!(joined(world.admit(&world.two, retry.clone()).await), turn.turn);
    retry.retry.sdk_attempt = 2;
    assert_eq!(joined(world.admit(&world.two, Admission { intent: Intent::Repeat, ..retry }).await), turn.turn);
}

pub async fn a_parked_turn_is_copied_as_one_that_was_cut_off<S: Store>(world: &World<S>) {
    let turn = world.parked(&world.one, "trip", &["a"]).await.turn;
    let copy = world.copy("trip").await;
    world.delete_existing("trip").await;
    assert_eq!(world.restore(copy).await, crate::RestoreOutcome::Made);
    let record = world.turn(turn).await.unwrap();
    assert_eq!((record.state, record.parked, record.pending.len()), (TurnState::Interrupted, false, 0));
    assert_eq!(world.reply(&world.one, turn, Question::All, ApprovalChoice::Once).await, AnswerOutcome::NotFound);
}

pub async fn a_resumed_turn_can_be_taken_back<S: Store>(world: &World<S>) {
    let turn = world.parked(&world.one, "trip", &["a"]).await.turn;
    let resumed = world.allowed(&world.two, turn).await;
    world.two.retract(resumed.running.lease).await.unwrap();
    assert!(world.turn(turn).await.is_none());
    assert!(world.read("trip").await.is_none());
}

pub async fn a_resumed_turn_can_be_parked_again<S: Store>(world: &World<S>) {
    let turn = world.parked(&world.one, "trip", &["a", "b"]).await.turn;
    let resumed = world.allowed(&world.two, turn).await.running;
    let call = OwnCall { tool: "delete".into(), ..own_call("c") };
    world.append_said(&world.two, &resumed, 1, vec![calling(std::slice::from_ref(&call))]).await;
    world.park(&world.two, &resumed, &[call]).await.unwrap();
    let pending = world.turn(turn).await.unwrap().pending;
    assert_eq!(pending.iter().map(|asked| asked.call.id.clone()).collect::<Vec<_>>(), [CallId::from("c")]);
    let again = world.allowed(&world.one, turn).await;
    assert_eq!((again.approvals.len(), again.approvals[0].answer.unwrap().order), (1, 0));
    assert!(again.running.lease.fence > resumed.lease.fence);
    world.complete(&world.one, &again.running, 2, "written").await;
}

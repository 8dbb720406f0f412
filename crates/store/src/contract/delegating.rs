//! Conversations that a call in another one made, and what a crash leaves of the call.

use herma_model::provenance::CompactionMode::Split;
use herma_model::{
    CallStatus, CreatorKind, MessageId, NewMessage, OwnCall, ParentRelation, Role, SessionKind, Step, TurnState,
    Utterance, tool,
};

use super::World;
use super::describing::made;
use super::fixture::{message, name, noted, running};
use crate::{
    Admission, Append, Children, DeleteOutcome, Pin, RestoreIntent, RestoreOutcome, Running, Store, TurnRecord,
};

/// Most characters of a result, as the calls say.
const MAX_OUTPUT: usize = 400;

/// The message in which a turn calls `delegate_task`.
fn delegating(turn: &Running, nth: usize, calls: &[&str]) -> NewMessage {
    let own = |id: &&str| OwnCall {
        id: (*id).into(),
        server: tool::BUILT_IN.into(),
        tool: tool::DELEGATE_TASK.into(),
        asks: false,
        waits: false,
        max_output: Some(MAX_OUTPUT),
    };
    let said = message(Role::Assistant, "I will ask").said;
    let said = Utterance { calls: calls.iter().map(|id| (*id).into()).collect(), ..said };
    let said = said.with_own_calls(&calls.iter().map(own).collect::<Vec<_>>());
    NewMessage { id: MessageId::answered(turn.turn, turn.attempt, nth), said }
}

impl<S: Store> World<S> {
    /// Starts a turn that calls `delegate_task` once for each of these ids.
    async fn delegate(&self, store: &S, to: &str, calls: &[&str]) -> Running {
        let turn = self.start(store, to, "look it up").await;
        self.append_calls(store, &turn, 0, calls).await;
        turn
    }

    async fn append_calls(&self, store: &S, turn: &Running, nth: usize, calls: &[&str]) {
        let (lease, session, now) = (turn.lease, turn.facts.head.id.clone(), self.now());
        let messages = vec![delegating(turn, nth, calls)];
        store
            .append(Append { lease, session, messages, usage: None, cost: None, record: None, recall: None, now })
            .await
            .unwrap();
    }

    /// A turn in a new conversation that a call made.
    fn ask_child(&self, parent: &str, call: &str, goal: &str) -> Admission {
        let mut ask = self.ask_anew(goal);
        ask.creation.kind = SessionKind::Auxiliary;
        ask.creation.creator = CreatorKind::DelegateTask;
        ask.creation.parent = Some(name(parent));
        ask.creation.parent_tool_call = Some(call.into());
        ask
    }

    async fn start_child(&self, store: &S, parent: &str, call: &str, goal: &str) -> Running {
        running(self.admit(store, self.ask_child(parent, call, goal)).await)
    }

    /// What the children of a call have answered: their states and texts, in order.
    async fn answers(&self, parent: &Running, call: &str) -> Vec<(TurnState, Option<String>)> {
        let children = self.two.children_of_call(self.scope.tenant, parent.facts.id, call).await.unwrap();
        children.into_iter().map(|child| (child.status, child.answer)).collect()
    }
}

/// The results of a turn's calls: the call, its text, and how it ended.
fn results(record: &TurnRecord) -> Vec<(String, String, CallStatus)> {
    let result = |step: &Step| {
        let Step::ToolResult(message) = step else { return None };
        let said = &message.said;
        Some((said.calls[0].to_string(), said.payload.text().unwrap_or_default(), said.call_end()?.status))
    };
    record.steps.iter().filter_map(result).collect()
}

pub async fn a_child_says_which_call_made_it<S: Store>(world: &World<S>) {
    let parent = world.delegate(&world.one, "trip", &["call_1"]).await;
    let before = world.read("trip").await.unwrap();
    let child = world.start_child(&world.two, "trip", "call_1", "the tides").await;
    let after = world.read("trip").await.unwrap();
    assert_eq!((after.version, after.facts), (before.version, before.facts), "the parent's row is not written");
    world.answer(&world.two, &child, "high at six").await;
    let id = child.facts.id.to_string();
    world.compact(&world.one, &id, Split, "so far").await;
    let row = world.row(&id).await.unwrap();
    assert_eq!(row.parent_tool_call_id.as_deref(), Some("call_1"), "a continuation inherits it");
    let first =
        world.two.conversation(&world.scope, &name(row.facts.root.as_str()), Pin::Exact).await.unwrap().unwrap();
    assert_eq!((first.session.kind, first.session.creator), (SessionKind::Auxiliary, CreatorKind::DelegateTask));
    assert_eq!(first.session.parent, Some((parent.facts.head.id.clone(), ParentRelation::Delegate)));
    let listed = world.all(&world.scope).await;
    let calls: Vec<_> = listed.iter().filter_map(|row| row.parent_tool_call_id.as_deref()).collect();
    assert_eq!(calls, ["call_1"], "and no other conversation has one");
    world.answer_after(&world.one, &parent, 1, "it is high at six").await;
}

pub async fn a_child_that_comes_back_still_says_which_call_made_it<S: Store>(world: &World<S>) {
    let parent = world.delegate(&world.one, "trip", &["call_1"]).await;
    let child = world.start_child(&world.one, "trip", "call_1", "the tides").await;
    world.answer(&world.one, &child, "high at six").await;
    world.answer_after(&world.one, &parent, 1, "it is high at six").await;
    let id = child.facts.id.to_string();
    world.copy_delete_restore(&id).await;
    assert_eq!(world.row(&id).await.unwrap().parent_tool_call_id.as_deref(), Some("call_1"));
    let answered = [(TurnState::Completed, Some("high at six".to_owned()))];
    assert_eq!(world.answers(&parent, "call_1").await, answered);
    // The parent goes and comes back: it is linked to its child again.
    world.copy_delete_restore("trip").await;
    assert_eq!(world.answers(&parent, "call_1").await, answered);
}

pub async fn children_of_a_call_are_told_from_others<S: Store>(world: &World<S>) {
    let parent = world.delegate(&world.one, "trip", &["call_1", "call_2"]).await;
    assert_eq!(world.answers(&parent, "call_1").await, []);
    for (call, goal, answer) in [("call_1", "a", "one"), ("call_2", "b", "two"), ("call_1", "c", "three")] {
        let child = world.start_child(&world.one, "trip", call, goal).await;
        world.answer(&world.one, &child, answer).await;
    }
    world.child(Some("helper"), SessionKind::Auxiliary, "trip").await;
    let completed = |text: &str| (TurnState::Completed, Some(text.to_owned()));
    assert_eq!(world.answers(&parent, "call_1").await, [completed("one"), completed("three")]);
    assert_eq!(world.answers(&parent, "call_2").await, [completed("two")]);
    assert_eq!(world.answers(&parent, "call_3").await, []);
    let foreign = world.two.children_of_call(world.stranger.tenant, parent.facts.id, "call_1").await.unwrap();
    assert_eq!(foreign, [], "another tenant has no such conversation");
    world.answer_after(&world.one, &parent, 1, "done").await;
}

pub async fn a_call_whose_id_is_used_again_has_its_own_children<S: Store>(world: &World<S>) {
    let first = world.delegate(&world.one, "trip", &["call_1"]).await;
    let child = world.start_child(&world.one, "trip", "call_1", "a").await;
    world.answer(&world.one, &child, "old").await;
    world.answer_after(&world.one, &first, 1, "done").await;
    let second = world.delegate(&world.one, "trip", &["call_1"]).await;
    assert_eq!(world.answers(&second, "call_1").await, []);
    let child = world.start_child(&world.one, "trip", "call_1", "b").await;
    world.answer(&world.one, &child, "new").await;
    assert_eq!(world.answers(&second, "call_1").await, [(TurnState::Completed, Some("new".to_owned()))]);
    world.answer_after(&world.one, &second, 1, "done").await;
}

pub async fn after_a_crash_the_model_is_told_what_children_had_answered<S: Store>(world: &World<S>) {
    let turn = world.delegate(&world.one, "trip", &["call_1", "call_2", "call_3"]).await;
    let [answered, failed, live, alone] = [
        world.start_child(&world.one, "trip", "call_1", "a").await,
        world.start_child(&world.one, "trip", "call_1", "b").await,
        world.start_child(&world.one, "trip", "call_1", "c").await,
        world.start_child(&world.one, "trip", "call_2", "d").await,
    ];
    world.answer(&world.one, &answered, "one").await;
    world.leave(&world.one, &failed, TurnState::Failed, Some("tw")).await;
    world.one.journal(live.lease, noted("thr")).wait().await.unwrap();
    world.leave(&world.one, &alone, TurnState::Cancelled, None).await;
    world.one.close().await;
    world.talk(&world.two, "trip", "next", "fine").await;
    let record = world.turn(turn.turn).await.unwrap();
    assert_eq!(record.state, TurnState::Interrupted);
    let child = |turn: &Running, status: &str, answer: &str| {
        format!(r#"{{"conversation_id":"{}","status":"{status}","answer":{answer}}}"#, turn.facts.id)
    };
    let three = [
        child(&answered, "completed", r#""one""#),
        child(&failed, "failed", "null"),
        child(&live, "interrupted", "null"),
    ];
    let results = results(&record);
    assert_eq!(
        results,
        [
            ("call_1".to_owned(), format!("[{}]", three.join(",")), CallStatus::Uncertain),
            ("call_2".to_owned(), format!("[{}]", child(&alone, "cancelled", "null")), CallStatus::Uncertain),
            ("call_3".to_owned(), tool::UNCERTAIN.to_owned(), CallStatus::Uncertain),
        ]
    );
}

pub async fn after_a_crash_what_children_had_answered_is_cut_like_any_result<S: Store>(world: &World<S>) {
    let turn = world.delegate(&world.one, "trip", &["call_1"]).await;
    let child = world.start_child(&world.one, "trip", "call_1", "a").await;
    world.answer(&world.one, &child, &"long ".repeat(MAX_OUTPUT)).await;
    world.one.close().await;
    world.talk(&world.two, "trip", "next", "fine").await;
    let results = results(&world.turn(turn.turn).await.unwrap());
    let (shown, said) = results[0].1.split_once('\n').unwrap();
    assert_eq!(shown.chars().count(), MAX_OUTPUT);
    assert!(said.starts_with("[The result was cut here: 400 of 2"), "{said}");
}

pub async fn the_last_answer_of_a_child_counts<S: Store>(world: &World<S>) {
    let turn = world.delegate(&world.one, "trip", &["call_1"]).await;
    let child = world.start_child(&world.one, "trip", "call_1", "a").await;
    world.append(&world.one, &child, 0, "let me look").await.unwrap();
    world.answer_after(&world.one, &child, 1, "one").await;
    let id = child.facts.id.to_string();
    world.compact(&world.one, &id, Split, "so far").await;
    assert_eq!(world.answers(&turn, "call_1").await, [(TurnState::Completed, Some("one".to_owned()))]);
    let more = world.start(&world.one, &id, "more").await;
    world.leave(&world.one, &more, TurnState::Failed, Some("tw")).await;
    assert_eq!(world.answers(&turn, "call_1").await, [(TurnState::Failed, Some("one".to_owned()))]);
    // A child without a turn has not begun.
    let mut new = world.declared(None, SessionKind::Auxiliary, Some("trip"));
    new.creation.parent_tool_call = Some("call_1".into());
    let idle = made(world.one.create(new).await.unwrap()).facts.id.to_string();
    assert_eq!(world.answers(&turn, "call_1").await[1], (TurnState::Interrupted, None));
    for gone in [&id, &idle] {
        let deleted = world.one.delete(&world.scope, &name(gone), Children::Keep, world.now()).await.unwrap();
        assert!(matches!(deleted, DeleteOutcome::Deleted(_)));
    }
    assert_eq!(world.answers(&turn, "call_1").await, [], "a deleted child is not told of");
    world.answer_after(&world.one, &turn, 1, "done").await;
}

pub async fn a_deleted_child_that_a_branch_inherits_has_no_call<S: Store>(world: &World<S>) {
    let turn = world.delegate(&world.one, "trip", &["call_1"]).await;
    let child = world.start_child(&world.one, "trip", "call_1", "a").await;
    world.answer(&world.one, &child, "one").await;
    let id = child.facts.id.to_string();
    world.branch_named(&id, "twig").await;
    assert_eq!(world.row("twig").await.unwrap().parent_tool_call_id, None, "a branch was made by no call");
    let copy = world.copy(&id).await;
    world.delete(&id).await;
    assert_eq!(world.answers(&turn, "call_1").await, []);
    assert_eq!(world.restore_as(&world.scope, copy, RestoreIntent::Restore).await, RestoreOutcome::Made);
    assert_eq!(world.answers(&turn, "call_1").await, [(TurnState::Completed, Some("one".to_owned()))]);
    world.answer_after(&world.one, &turn, 1, "done").await;
}

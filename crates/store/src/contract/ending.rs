//! Titles, archived conversations, and conversations that are ended and reopened.

use std::sync::Arc;

use herma_model::provenance::CompactionMode::{InPlace, Split};
use herma_model::{EndReason, SessionKey, TurnState};

use super::World;
use super::describing::{keyed, made};
use super::fixture::{name, refused, running};
use crate::{
    Admission, Change, CompactOutcome, ConversationRow, EndOutcome, NewConversation, Pin, Refusal, Store, TurnPolicy,
};

impl<S: Store> World<S> {
    /// Changes the description.
    pub async fn describe(&self, to: &str, change: Change) -> ConversationRow {
        self.one.update(&self.scope, &name(to), change, self.now()).await.unwrap().unwrap()
    }

    /// Ends a conversation.
    pub async fn end(&self, to: &str) -> EndOutcome {
        self.one.end(&self.scope, &name(to), EndReason::Ended, self.now()).await.unwrap()
    }

    /// Reopens a conversation.
    pub async fn reopen(&self, to: &str) -> EndOutcome {
        self.two.reopen(&self.scope, &name(to), self.now()).await.unwrap()
    }
}

/// Returns the conversation; panics on any other outcome.
pub fn done(outcome: EndOutcome) -> ConversationRow {
    match outcome {
        EndOutcome::Done(row) => *row,
        other => panic!("expected it done, got {other:?}"),
    }
}

fn titled(title: Option<&str>) -> Change {
    Change { title: Some(title.map(str::to_owned)), ..Change::default() }
}

pub async fn a_title_changes_and_goes<S: Store>(world: &World<S>) {
    let new = NewConversation { title: Some("Sea".to_owned()), ..world.new_conversation(Some("trip")) };
    let row = made(world.one.create(new).await.unwrap());
    assert_eq!(row.title.as_deref(), Some("Sea"));
    world.talk(&world.one, "trip", "first", "one").await;
    let before = world.read("trip").await.unwrap();
    let metadata = Change { metadata: Some(Arc::from("{}")), ..Change::default() };
    assert_eq!(world.describe("trip", metadata).await.title.as_deref(), Some("Sea"), "the title stays");
    for title in [Some("Lake"), Some("Lake"), None, Some("")] {
        let changed = world.describe("trip", titled(title)).await;
        assert_eq!((changed.title.as_deref(), changed.metadata.as_deref()), (title, Some("{}")));
        assert_eq!(world.row("trip").await.unwrap().title.as_deref(), title);
    }
    world.make(&world.one, Some("train")).await;
    for to in ["trip", "train"] {
        world.describe(to, titled(Some("The same"))).await;
    }
    let head = world.compact(&world.one, "trip", Split, "so far").await.facts.head.id.clone();
    assert_eq!(world.row(head.as_str()).await.unwrap().title.as_deref(), Some("The same"), "a continuation has it");
    let after = world.read("trip").await.unwrap();
    assert_eq!(after.version.0, before.version.0 + 1, "only the compaction changed the version");
}

pub async fn an_archived_conversation_still_takes_turns<S: Store>(world: &World<S>) {
    world.talk(&world.one, "trip", "first", "one").await;
    let away = |archived| Change { archived: Some(archived), ..Change::default() };
    assert!(!world.row("trip").await.unwrap().archived);
    for archived in [true, true, false, true] {
        assert_eq!(world.describe("trip", away(archived)).await.archived, archived);
    }
    assert!(world.describe("trip", titled(Some("Sea"))).await.archived, "it stays archived");
    world.talk(&world.two, "trip", "second", "two").await;
    assert!(world.row("trip").await.unwrap().archived);
    world.describe("trip", away(false)).await;
}

pub async fn an_ended_conversation_takes_no_turns_until_it_is_opened<S: Store>(world: &World<S>) {
    let first = world.talk(&world.one, "trip", "first", "one").await;
    let before = world.read("trip").await.unwrap();
    let row = done(world.end("trip").await);
    let (at, reason) = row.ended.unwrap();
    assert_eq!((at, reason), (row.updated_at, EndReason::Ended));
    for to in ["trip", &first.facts.id.to_string(), &first.turn.to_string()] {
        for policy in [TurnPolicy::Queue, TurnPolicy::Branch] {
            let ask = Admission { policy, ..world.ask(to, "more") };
            assert_eq!(refused(world.admit(&world.two, ask).await), Refusal::Ended);
        }
        let exact = world.two.conversation(&world.scope, &name(to), Pin::Exact).await.unwrap().unwrap();
        assert_eq!(exact.ended, row.ended);
    }
    let ended = world.read("trip").await.unwrap();
    assert!(ended.ended && ended.version > before.version);
    assert_eq!(ended.messages, before.messages, "an ended conversation can be read");
    let plan = world.plan("trip", InPlace, 1, "so far").await;
    assert!(matches!(world.one.compact(plan).await.unwrap(), CompactOutcome::Ended));
    let again = done(world.end("trip").await);
    assert_eq!(format!("{again:?}"), format!("{row:?}"), "it ended once");
    let branch = world.make_branch("trip", crate::BranchPoint::End).await;
    assert_eq!(branch.ended, None, "a branch of it is not ended");
    let open = done(world.reopen("trip").await);
    assert_eq!(open.ended, None);
    assert_eq!(format!("{:?}", done(world.reopen("trip").await)), format!("{open:?}"));
    let turn = world.talk(&world.one, "trip", "second", "two").await;
    assert_eq!(turn.facts.id, first.facts.id);
}

pub async fn a_split_conversation_ends_at_its_head<S: Store>(world: &World<S>) {
    world.talk(&world.one, "trip", "first", "one").await;
    let head = world.compact(&world.one, "trip", Split, "so far").await.facts.head.id.clone();
    done(world.end("trip").await);
    let reason = async |to: &str| {
        let row = world.two.conversation(&world.scope, &name(to), Pin::Exact).await.unwrap().unwrap();
        row.ended.map(|(_, reason)| reason)
    };
    assert_eq!(reason("trip").await, Some(EndReason::Compression));
    assert_eq!(reason(head.as_str()).await, Some(EndReason::Ended));
    done(world.reopen("trip").await);
    assert_eq!((reason("trip").await, reason(head.as_str()).await), (Some(EndReason::Compression), None));
}

pub async fn a_busy_conversation_is_not_ended<S: Store>(world: &World<S>) {
    let first = world.start(&world.one, "trip", "first").await;
    let waiting = world.queue(&world.two, world.ask("trip", "second")).await;
    assert!(matches!(world.end("trip").await, EndOutcome::Busy(turn) if turn == first.turn));
    world.answer(&world.one, &first, "one").await;
    assert!(matches!(world.end("trip").await, EndOutcome::Busy(turn) if turn == waiting.turn));
    let second = running(world.admit(&world.two, waiting).await);
    world.leave(&world.two, &second, TurnState::Failed, None).await;
    assert_eq!(world.row("trip").await.unwrap().ended, None);
    done(world.end("trip").await);
}

pub async fn what_is_not_there_is_not_ended<S: Store>(world: &World<S>) {
    let new = NewConversation { session_key: SessionKey::parse("mine").ok(), ..world.new_conversation(Some("trip")) };
    made(world.one.create(new).await.unwrap());
    assert!(matches!(world.end("nowhere").await, EndOutcome::NotFound));
    for scope in [&world.stranger, &keyed("other", &world.scope)] {
        let outcome = world.one.end(scope, &name("trip"), EndReason::Ended, world.now()).await.unwrap();
        assert!(matches!(outcome, EndOutcome::NotFound));
    }
    done(world.end("trip").await);
    for scope in [&world.stranger, &keyed("other", &world.scope)] {
        let outcome = world.one.reopen(scope, &name("trip"), world.now()).await.unwrap();
        assert!(matches!(outcome, EndOutcome::NotFound));
    }
    assert!(world.row("trip").await.unwrap().ended.is_some());
}

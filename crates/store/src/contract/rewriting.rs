//! Deleting messages, or parts of them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use herma_model::provenance::CompactionMode::{InPlace, Split};
use herma_model::{KeyScope, Message, MessageId, Role, Seq, SessionKey};

use super::World;
use super::fixture::{answer_of, message, name, running, texts};
use super::pinning::with_calls;
use super::summaries::{compacted, shown, undone};
use crate::{
    Admission, AdmitOutcome, CompactOutcome, DeleteOutcome, Extent, NewCompaction, Pin, PinOutcome, Rewrite,
    RewriteOutcome, Scope, Store,
};

impl<S: Store> World<S> {
    /// Replaces a message, or deletes it.
    pub async fn rewrite(&self, store: &S, to: &str, seen: &Arc<Message>, left: Option<&str>) -> RewriteOutcome {
        self.rewritten.store(true, Ordering::Relaxed);
        let said = left.map(|left| message(seen.said.role, left).said);
        let (scope, alias, seen) = (self.scope.clone(), name(to), Arc::clone(seen));
        store.rewrite(Rewrite { scope, alias, seen, said, now: self.now() }).await.unwrap()
    }

    /// The nth message of a conversation.
    pub async fn nth(&self, to: &str, nth: usize) -> Arc<Message> {
        Arc::clone(&self.read_as(to, Extent::Whole).await.unwrap().messages[nth])
    }

    /// Deletes the nth message.
    pub async fn remove(&self, to: &str, nth: usize) -> Arc<Message> {
        let message = self.nth(to, nth).await;
        assert_eq!(self.rewrite(&self.one, to, &message, None).await, RewriteOutcome::Done);
        message
    }
}

pub async fn a_removed_message_is_in_no_view<S: Store>(world: &World<S>) {
    for text in ["1", "2", "3"] {
        world.talk(&world.one, "trip", text, &format!("{text}!")).await;
    }
    let (before, row) = (world.read("trip").await.unwrap(), world.row("trip").await.unwrap());
    let mut late = world.ask("trip", "late");
    late.seen = world.seen(&world.two, &late).await;
    let gone = world.remove("trip", 2).await;
    let after = world.read("trip").await.unwrap();
    assert_eq!(texts(&after), ["1", "1!", "2!", "3", "3!"]);
    assert!(after.version > before.version && after.counted.is_none());
    assert!(matches!(world.two.admit(late).await.unwrap(), AdmitOutcome::Stale), "it was read before the rewrite");
    assert_eq!(world.said("trip", Pin::Head).await, ["1", "1!", "2!", "3", "3!"]);
    let changed = world.row("trip").await.unwrap();
    assert_eq!((changed.message_count, changed.turn_count, changed.usage), (5, row.turn_count, row.usage));
    assert!(changed.updated_at > row.updated_at);
    assert!(world.two.message(&world.scope, &name("trip"), gone.id).await.unwrap().is_none());
    assert_eq!(world.rewrite(&world.one, "trip", &gone, None).await, RewriteOutcome::NotFound);
    while !world.read("trip").await.unwrap().messages.is_empty() {
        world.remove("trip", 0).await;
    }
    assert_eq!(world.row("trip").await.unwrap().message_count, 0);
    world.talk(&world.two, "trip", "again", "yes").await;
    assert_eq!(texts(&world.read("trip").await.unwrap()), ["again", "yes"]);
}

pub async fn a_message_says_what_is_left_of_it<S: Store>(world: &World<S>) {
    let turn = world.start(&world.one, "trip", "look").await;
    let mut answer = with_calls(Role::Assistant, "calling", &["a", "b"]);
    answer.id = MessageId::answered(turn.turn, 1, 0);
    answer.said.extra = Some(Arc::from("{\"reasoning\":\"hm\"}"));
    let outcome = crate::TurnOutcome::Completed { messages: vec![answer], finish: super::fixture::finish() };
    world.one.commit(world.commit(&turn, outcome)).await.unwrap();
    let seen = world.nth("trip", 1).await;
    let said = with_calls(Role::Assistant, "calling", &["b"]).said;
    let rewrite = Rewrite {
        scope: world.scope.clone(),
        alias: name("trip"),
        seen: Arc::clone(&seen),
        said: Some(said.clone()),
        now: world.now(),
    };
    assert_eq!(world.one.rewrite(rewrite).await.unwrap(), RewriteOutcome::Done);
    let left = world.nth("trip", 1).await;
    assert_eq!(*left, Message { said, ..(*seen).clone() }, "it is the same message in the same place");
    assert_eq!(answer_of(&world.turn(turn.turn).await.unwrap()), [Arc::clone(&left)]);
    assert_eq!(world.two.message(&world.scope, &name("trip"), seen.id).await.unwrap(), Some(left));
    assert_eq!(world.row("trip").await.unwrap().message_count, 2);
}

pub async fn a_message_that_changed_is_stale<S: Store>(world: &World<S>) {
    world.talk(&world.one, "trip", "first", "one").await;
    let seen = world.nth("trip", 1).await;
    let mut extra = (*seen).clone();
    extra.said.extra = Some(Arc::from("{}"));
    assert_eq!(world.rewrite(&world.one, "trip", &Arc::new(extra), None).await, RewriteOutcome::Stale);
    assert_eq!(world.rewrite(&world.one, "trip", &seen, Some("on")).await, RewriteOutcome::Done);
    for left in [Some("o"), None] {
        assert_eq!(world.rewrite(&world.two, "trip", &seen, left).await, RewriteOutcome::Stale);
    }
    assert_eq!(texts(&world.read("trip").await.unwrap()), ["first", "on"]);
}

pub async fn of_two_rewrites_at_once_one_is_stale<S: Store>(world: &World<S>) {
    world.talk(&world.one, "trip", "first", "abc").await;
    let seen = world.nth("trip", 1).await;
    let (one, two) = tokio::join!(
        world.rewrite(&world.one, "trip", &seen, Some("ab")),
        world.rewrite(&world.two, "trip", &seen, Some("bc")),
    );
    let stale = [one, two].into_iter().filter(|outcome| *outcome == RewriteOutcome::Stale).count();
    assert_eq!(stale, 1, "{one:?} {two:?}");
}

pub async fn a_busy_conversation_is_not_rewritten<S: Store>(world: &World<S>) {
    world.talk(&world.one, "trip", "first", "one").await;
    let turn = world.start(&world.two, "trip", "second").await;
    let seen = world.nth("trip", 0).await;
    for left in [Some("fir"), None] {
        assert_eq!(world.rewrite(&world.one, "trip", &seen, left).await, RewriteOutcome::Busy(turn.turn));
    }
    let waiting = world.queue(&world.one, world.ask("trip", "third")).await;
    world.answer(&world.two, &turn, "two").await;
    assert_eq!(world.rewrite(&world.one, "trip", &seen, None).await, RewriteOutcome::Done);
    let third = running(world.admit(&world.one, waiting).await);
    world.answer(&world.one, &third, "three").await;
    assert_eq!(texts(&world.read("trip").await.unwrap()), ["one", "second", "two", "third", "three"]);
}

pub async fn a_turn_of_a_gone_owner_blocks_no_rewrite<S: Store>(world: &World<S>) {
    let turn = world.start(&world.one, "trip", "first").await;
    world.one.journal(turn.lease, super::fixture::noted("it was"));
    let seen = world.nth("trip", 0).await;
    world.one.close().await;
    assert_eq!(world.rewrite(&world.two, "trip", &seen, None).await, RewriteOutcome::Done);
    assert_eq!(texts(&world.read("trip").await.unwrap()), ["it was"]);
    let shown = world.nth("trip", 0).await;
    assert_eq!(world.rewrite(&world.two, "trip", &shown, None).await, RewriteOutcome::Done);
    assert!(world.read("trip").await.unwrap().unanswered.is_empty());
}

pub async fn what_is_not_there_is_not_rewritten<S: Store>(world: &World<S>) {
    let key = Admission { session_key: SessionKey::parse("mine").ok(), ..world.ask("trip", "first") };
    let turn = running(world.admit(&world.one, key).await);
    world.answer(&world.one, &turn, "one").await;
    let other = world.talk(&world.one, "train", "second", "two").await;
    let done = world.compact(&world.one, "trip", Split, "so far").await;
    let first = world.nth("trip", 0).await;
    let mut summary = (*first).clone();
    summary.id = done.summary().unwrap().id;
    for seen in [&other.messages[0], &Arc::new(summary)] {
        assert_eq!(world.rewrite(&world.one, "trip", seen, None).await, RewriteOutcome::NotFound);
    }
    assert_eq!(world.rewrite(&world.one, "nowhere", &first, None).await, RewriteOutcome::NotFound);
    let none = Scope { keys: KeyScope::parse(Some("other")), ..world.scope.clone() };
    for scope in [&world.stranger, &none] {
        let (seen, now) = (Arc::clone(&first), world.now());
        let rewrite = Rewrite { scope: scope.clone(), alias: name("trip"), seen, said: None, now };
        assert_eq!(world.one.rewrite(rewrite).await.unwrap(), RewriteOutcome::NotFound);
    }
    assert_eq!(world.said("trip", Pin::Head).await, ["first", "one", "[so far]"]);
}

pub async fn what_a_branch_inherits_is_not_rewritten<S: Store>(world: &World<S>) {
    let first = world.talk(&world.one, "trip", "first", "one").await;
    world.talk(&world.one, "trip", "second", "two").await;
    let branch = world.branch(&world.one, first.turn, "instead", "fine").await;
    let to = branch.facts.id.to_string();
    let further = world.branch(&world.one, branch.turn, "or", "so").await;
    let further = further.facts.id.to_string();
    for (to, nth) in [("trip", 0), ("trip", 1), (&to, 0), (&to, 1), (&to, 2), (&to, 3), (&further, 1), (&further, 3)] {
        let seen = world.nth(to, nth).await;
        for left in [Some("less"), None] {
            assert_eq!(world.rewrite(&world.one, to, &seen, left).await, RewriteOutcome::Shared, "{to} {nth}");
        }
    }
    world.remove("trip", 2).await;
    world.remove(&further, 4).await;
    assert_eq!(texts(&world.read(&to).await.unwrap()), ["first", "one", "instead", "fine"]);
    assert!(matches!(world.delete(&to).await, DeleteOutcome::Deleted(_)));
    let seen = world.nth("trip", 0).await;
    assert_eq!(
        world.rewrite(&world.one, "trip", &seen, None).await,
        RewriteOutcome::Shared,
        "also if the conversation between them is deleted"
    );
    assert!(matches!(world.delete(&further).await, DeleteOutcome::Deleted(_)));
    world.remove("trip", 0).await;
    assert_eq!(texts(&world.read("trip").await.unwrap()), ["one", "two"]);
}

pub async fn what_is_removed_is_not_carried_or_pinned<S: Store>(world: &World<S>) {
    let first = world.talk(&world.one, "trip", "first", "one").await;
    let second = world.talk(&world.one, "trip", "second", "two").await;
    for turn in [&first, &second] {
        let pinned = world.one.pin(&world.scope, &name("trip"), turn.messages[0].id, true).await.unwrap();
        assert_eq!(pinned, PinOutcome::Done);
    }
    let plan = world.plan("trip", Split, 1, "so far").await;
    compacted(world.one.compact(NewCompaction { carried: vec![Seq(1), Seq(3)], ..plan }).await.unwrap());
    world.remove("trip", 0).await;
    let view = world.read("trip").await.unwrap();
    assert_eq!(shown(&view), ["[so far]", "(second)", "two"]);
    let pinned = world.two.pinned(world.scope.tenant, view.facts.id).await.unwrap();
    assert_eq!(pinned.iter().map(|said| said.seq).collect::<Vec<_>>(), [Seq(3)]);
    assert_eq!(world.ledger("trip").await.rows[0].carried, [Seq(3)]);
    let seen = world.nth("trip", 1).await;
    assert_eq!(world.rewrite(&world.one, "trip", &seen, Some("sec")).await, RewriteOutcome::Done);
    assert_eq!(shown(&world.read("trip").await.unwrap()), ["[so far]", "(sec)", "two"], "it is still pinned");
}

pub async fn a_plan_that_covers_what_was_taken_out_is_stale<S: Store>(world: &World<S>) {
    for text in ["1", "2", "3"] {
        world.talk(&world.one, "trip", text, &format!("{text}!")).await;
    }
    let seen = world.nth("trip", 1).await;
    let (rewritten, removed) =
        (world.plan("trip", Split, 1, "1 1! 2").await, world.plan("trip", Split, 3, "1 1!").await);
    assert_eq!(world.rewrite(&world.one, "trip", &seen, Some("!")).await, RewriteOutcome::Done);
    assert!(
        matches!(world.one.compact(rewritten).await.unwrap(), CompactOutcome::Stale),
        "its summary was made before the rewrite"
    );
    world.remove("trip", 0).await;
    assert!(matches!(world.one.compact(removed).await.unwrap(), CompactOutcome::Stale));
    let at = world.read_as("trip", Extent::Whole).await.unwrap().messages[2].turn;
    let branch = world.branch(&world.one, at, "instead", "fine").await.facts.id.to_string();
    assert_eq!(world.read(&branch).await.unwrap().rewrites, 0, "the branch itself has no rewrites");
    for to in ["trip", &branch] {
        world.compact(&world.one, to, InPlace, "so far").await;
    }
}

pub async fn compactions_go_on_over_gaps<S: Store>(world: &World<S>) {
    for text in ["1", "2", "3"] {
        world.talk(&world.one, "trip", text, &format!("{text}!")).await;
    }
    let void = world.plan("trip", Split, 1, "void").await;
    world.remove("trip", 4).await;
    assert!(matches!(world.one.compact(void).await.unwrap(), CompactOutcome::Stale), "its last message is gone");
    let done = world.compact(&world.one, "trip", Split, "so far").await;
    assert_eq!(shown(&world.read("trip").await.unwrap()), ["[so far]", "3!"]);
    world.remove("trip", 3).await;
    world.remove("trip", 0).await;
    world.talk(&world.one, "trip", "4", "4!").await;
    let last = world.compact(&world.one, "trip", InPlace, "more").await;
    assert_eq!(shown(&world.read("trip").await.unwrap()), ["[more]", "4!"]);
    for id in [last.record.id, done.record.id] {
        undone(world.undo(&world.one, "trip", id).await);
    }
    assert_eq!(shown(&world.read("trip").await.unwrap()), ["1!", "2", "3!", "4", "4!"]);
}

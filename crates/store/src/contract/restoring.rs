//! Conversations that were copied out and restored: the same ids, the same views, the same copy.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use herma_model::alias::Namespace;
use herma_model::compaction::CompactionOutcome;
use herma_model::copy::{Copied, CopiedConversation, CopiedName, CopiedParent, CopiedSource, CopyBuilder};
use herma_model::provenance::CompactionMode::{InPlace, Split};
use herma_model::{Alias, CreatorKind, EndReason, ParentRelation, Resolution, Seq, SessionKey, SessionKind, TurnState};

use super::World;
use super::fixture::{name, running, texts};
use super::lineage::{self, Tree};
use super::summaries::{compacted, shown, undone};
use crate::{
    Admission, BranchOutcome, BranchPoint, Change, Children, DeleteOutcome, NewBranch, NewCompaction, Pin, PinOutcome,
    Restoration, RestoreIntent, RestoreOutcome, Scope, Store, Target,
};

/// What a conversation inherits, and the conversation itself.
pub type Copy = (Vec<Copied<CopiedSource>>, Copied<CopiedConversation>);

impl<S: Store> World<S> {
    /// Copies a whole conversation.
    pub async fn copy(&self, to: &str) -> Copy {
        let mut copying = self.one.copy_out(&self.scope, &name(to)).await.unwrap().unwrap();
        let mut builder = CopyBuilder::default();
        while let Some(piece) = copying.pieces.recv().await {
            builder.add(piece.unwrap()).unwrap();
        }
        builder.finish().unwrap()
    }

    /// Restores a copy, or only checks it.
    pub async fn restore_as(
        &self,
        scope: &Scope,
        (inherited, conversation): Copy,
        intent: RestoreIntent,
    ) -> RestoreOutcome {
        let restoration = Restoration { tenant: scope.tenant, inherited, conversation, intent, now: self.now() };
        self.two.restore(restoration).await.unwrap()
    }

    /// Allows gaps in this world if the other world, where the copies come from, may have gaps.
    pub fn has_gaps_of(&self, other: &Self) {
        self.rewritten.store(other.rewritten.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    pub(super) async fn restore(&self, copy: Copy) -> RestoreOutcome {
        self.restore_as(&self.scope, copy, RestoreIntent::Restore).await
    }

    pub(super) async fn delete_existing(&self, to: &str) {
        let deleted = self.one.delete(&self.scope, &name(to), Children::Keep, self.now()).await.unwrap();
        assert!(matches!(deleted, DeleteOutcome::Deleted(_)), "{deleted:?}");
    }

    /// What the model is shown of a conversation, its full view, and its ledger.
    pub async fn views(&self, to: &str) -> (Vec<String>, Vec<String>, Vec<herma_model::Compaction>) {
        (shown(&self.read(to).await.unwrap()), self.said(to, Pin::Head).await, self.ledger(to).await.rows)
    }

    /// Copies, deletes and restores a conversation, and checks that nothing has changed.
    pub async fn copy_delete_restore(&self, to: &str) -> Copy {
        let (copy, views) = (self.copy(to).await, self.views(to).await);
        let row = self.row(to).await.unwrap();
        self.delete_existing(to).await;
        assert!(self.row(to).await.is_none());
        assert_eq!(self.restore(copy.clone()).await, RestoreOutcome::Made);
        assert_eq!(self.views(to).await, views);
        let again = self.row(to).await.unwrap();
        assert_eq!((&again.facts, &again.session), (&row.facts, &row.session));
        assert_eq!((again.message_count, again.turn_count), (row.message_count, row.turn_count));
        assert_eq!(self.copy(to).await, copy);
        copy
    }

    /// Makes a branch at the end of a conversation.
    pub async fn branch_named(&self, of: &str, alias: &str) {
        let branch = NewBranch {
            scope: self.scope.clone(),
            source: name(of),
            at: BranchPoint::End,
            alias: Some(name(alias)),
            creation: self.ask_anew("").creation,
            title: None,
            metadata: None,
            cwd: None,
            now: self.now(),
        };
        let made = self.one.branch(branch).await.unwrap();
        assert!(matches!(made, BranchOutcome::Made(_)), "{made:?}");
    }
}

pub async fn what_comes_back_is_what_it_was<S: Store>(world: &World<S>) {
    world.talk(&world.one, "trip", "first", "one").await;
    let lost = world.start(&world.one, "trip", "second").await;
    world.leave(&world.one, &lost, TurnState::Failed, Some("tw")).await;
    world.talk(&world.one, "trip", "third", "three").await;
    let change = Change { title: Some(Some("Oslo".to_owned())), archived: Some(true), ..Change::default() };
    world.one.update(&world.scope, &name("trip"), change, world.now()).await.unwrap().unwrap();
    world.one.end(&world.scope, &name("trip"), EndReason::Ended, world.now()).await.unwrap();
    let before = world.row("trip").await.unwrap();
    world.copy_delete_restore("trip").await;
    let after = world.row("trip").await.unwrap();
    assert_eq!((after.title, after.archived, after.ended), (before.title, true, before.ended));
    assert_eq!((after.created_at, after.updated_at, after.usage), (before.created_at, before.updated_at, before.usage));
    assert_eq!((after.session.creator, after.session.kind), (CreatorKind::Api, SessionKind::Main));
    let turn = world.turn(lost.lease.id).await.unwrap();
    assert_eq!((turn.state, turn.input.len(), turn.said().count()), (TurnState::Failed, 1, 1));
}

pub async fn what_was_left_out_without_a_summary_comes_back_as_that<S: Store>(world: &World<S>) {
    world.talk(&world.one, "trip", "first", "one").await;
    let why = Some("no summary".to_owned());
    let plan = NewCompaction { trimmed: why, ..world.plan("trip", Split, 1, "left out").await };
    let done = compacted(world.one.compact(plan).await.unwrap());
    let copy = world.copy_delete_restore("trip").await;
    assert_eq!(copy.1.compactions[0].outcome, CompactionOutcome::Trimmed);
    assert_eq!(world.ledger("trip").await.rows, [done.record]);
}

pub async fn what_was_compacted_comes_back_with_its_ledger<S: Store>(world: &World<S>) {
    world.talk(&world.one, "trip", "first", "one").await;
    let pinned = world.read("trip").await.unwrap().messages[0].id;
    let pin = world.one.pin(&world.scope, &name("trip"), pinned, true).await.unwrap();
    assert_eq!(pin, PinOutcome::Done);
    let a = world.compact(&world.one, "trip", Split, "a").await;
    world.talk(&world.one, "trip", "second", "two").await;
    let b = world.compact(&world.one, "trip", InPlace, "b").await;
    let turn = world.start(&world.one, "trip", "third").await;
    world.one.record_failed(world.failed(&turn));
    world.answer(&world.one, &turn, "three").await;
    let c = world.compact(&world.one, "trip", Split, "c").await;
    undone(world.undo(&world.one, "trip", c.record.id).await);
    world.copy_delete_restore("trip").await;
    let kept = world.one.pinned(world.scope.tenant, a.facts.id).await.unwrap();
    assert_eq!(kept.iter().map(|message| message.id).collect::<Vec<_>>(), [pinned]);
    // It continues where it was: old ids lead to it, and compacted messages can be read.
    let next = world.talk(&world.two, "trip", "fourth", "four").await;
    assert_eq!((next.resolution, &next.facts.head), (Resolution::Moved, &c.facts.head));
    undone(world.undo(&world.one, a.facts.head.id.as_str(), b.record.id).await);
    let view = shown(&world.read("trip").await.unwrap());
    assert_eq!(view.first().map(String::as_str), Some("[a]"), "{view:?}");
    assert_eq!(view.last().map(String::as_str), Some("four"));
}

pub async fn a_branch_comes_back_to_its_source<S: Store>(world: &World<S>) {
    let first = world.talk(&world.one, "trip", "first", "one").await;
    world.talk(&world.one, "trip", "second", "two").await;
    let branch = world.branch(&world.one, first.lease.id, "other", "else").await;
    let id = branch.facts.head.id.clone();
    let branch_copy = world.copy_delete_restore(id.as_str()).await;
    assert_eq!(texts(&world.read(id.as_str()).await.unwrap()), ["first", "one", "other", "else"]);
    // The source can be deleted and restored too. Meanwhile the branch keeps its inherited part.
    world.copy_delete_restore("trip").await;
    assert_eq!(texts(&world.read(id.as_str()).await.unwrap()), ["first", "one", "other", "else"]);
    assert_eq!(world.copy(id.as_str()).await, branch_copy, "its parent is linked again");
    world.talk(&world.one, "trip", "third", "three").await;
    world.talk(&world.one, id.as_str(), "again", "and again").await;
    assert_eq!(world.said("trip", Pin::Head).await, ["first", "one", "second", "two", "third", "three"]);
}

pub async fn a_branch_comes_back_without_its_source<S: Store>(world: &World<S>) {
    world.talk(&world.one, "trip", "first", "one").await;
    world.compact(&world.one, "trip", Split, "so far").await;
    world.talk(&world.one, "trip", "second", "two").await;
    world.branch_named("trip", "twig").await;
    world.talk(&world.one, "twig", "third", "three").await;
    world.compact(&world.one, "twig", InPlace, "on the twig").await;
    world.talk(&world.one, "twig", "fourth", "four").await;
    world.branch_named("twig", "leaf").await;
    world.talk(&world.one, "leaf", "fifth", "five").await;
    let (copy, views) = (world.copy("leaf").await, world.views("leaf").await);
    let trip = world.copy("trip").await;
    assert_eq!(copy.0.len(), 2, "what it inherits comes with it");
    for gone in ["leaf", "twig", "trip"] {
        world.delete_existing(gone).await;
    }
    assert!(world.all(&world.scope).await.is_empty());
    assert_eq!(world.restore(copy.clone()).await, RestoreOutcome::Made);
    assert_eq!(world.views("leaf").await, views);
    let rows = world.all(&world.scope).await;
    assert_eq!(rows.iter().map(|row| row.session.id.as_str()).collect::<Vec<_>>(), ["leaf"], "alone");
    assert!(world.row("trip").await.is_none() && world.row("twig").await.is_none());
    let again = world.copy("leaf").await;
    assert_eq!((&again.0, &again.1.messages, &again.1.what), (&copy.0, &copy.1.messages, &copy.1.what));
    // The source itself can still be restored.
    assert_eq!(world.restore(trip.clone()).await, RestoreOutcome::Made);
    assert_eq!(world.copy("trip").await, trip);
    assert_eq!(
        world.copy("leaf").await.1.sessions[0].parent,
        again.1.sessions[0].parent,
        "its own parent is still missing"
    );
    world.talk(&world.one, "trip", "on", "and on").await;
    assert_eq!(world.views("leaf").await, views);
    world.delete_existing("trip").await;
    world.delete_existing("leaf").await;
}

pub async fn a_family_is_whole_again_in_whatever_order_it_comes<S: Store>(world: &World<S>) {
    let Tree { root, early, branch, helper, twig } = lineage::tree(world).await;
    let members = [&root[0], &branch[0], &helper, &twig, "job", &early];
    let family = async || {
        let (nodes, edges) = world.whole_graph(&world.scope, &root[0], 3).await;
        let ids: BTreeSet<String> = nodes.iter().map(|node| node.row.session.id.to_string()).collect();
        let edges: BTreeSet<String> = edges.iter().map(|edge| format!("{edge:?}")).collect();
        (ids, edges)
    };
    let whole = family().await;
    assert!(whole.1.iter().all(|edge| edge.contains("has_node: true")));
    for member in members {
        let copies = [world.copy(member).await, world.copy(&helper).await];
        world.copy_delete_restore(member).await;
        assert_eq!(family().await, whole, "{member} went and came back");
        assert_eq!([world.copy(member).await, world.copy(&helper).await], copies);
    }
    let mut copies = Vec::new();
    for member in members {
        copies.push(world.copy(member).await);
    }
    for _ in &members {
        for member in members.iter().rev() {
            world.delete_existing(member).await;
        }
        for copy in &copies {
            assert_eq!(world.restore(copy.clone()).await, RestoreOutcome::Made);
        }
        assert_eq!(family().await, whole, "{}", copies[0].1.what.id);
        copies.rotate_left(1);
    }
}

pub async fn another_of_the_same_name_is_not_the_parent<S: Store>(world: &World<S>) {
    world.talk(&world.one, "trip", "first", "one").await;
    world.child(Some("helper"), SessionKind::Auxiliary, "trip").await;
    let copy = world.copy("trip").await;
    world.delete_existing("trip").await;
    world.talk(&world.one, "trip", "another", "one").await;
    world.copy_delete_restore("trip").await;
    let has_parent = async || world.whole_graph(&world.scope, "helper", 3).await.1[0].has_node;
    assert!(!has_parent().await);
    world.delete_existing("trip").await;
    assert_eq!(world.restore(copy).await, RestoreOutcome::Made);
    assert!(has_parent().await);
}

pub async fn what_comes_twice_is_there_once<S: Store>(world: &World<S>) {
    world.talk(&world.one, "trip", "first", "one").await;
    let copy = world.copy("trip").await;
    assert_eq!(world.restore(copy.clone()).await, RestoreOutcome::AlreadyHere);
    world.talk(&world.one, "trip", "second", "two").await;
    assert_eq!(world.restore(copy).await, RestoreOutcome::Differs);
    assert_eq!(texts(&world.read("trip").await.unwrap()), ["first", "one", "second", "two"]);
}

pub async fn a_rehearsal_changes_nothing<S: Store>(world: &World<S>) {
    world.talk(&world.one, "trip", "first", "one").await;
    let copy = world.copy("trip").await;
    world.delete_existing("trip").await;
    let outcome = world.restore_as(&world.scope, copy.clone(), RestoreIntent::Rehearse).await;
    assert_eq!(outcome, RestoreOutcome::Made);
    assert!(world.row("trip").await.is_none());
    assert_eq!(world.restore(copy).await, RestoreOutcome::Made);
}

pub async fn names_that_are_taken_are_not_taken_over<S: Store>(world: &World<S>) {
    let mut chat = world.ask("front", "hello");
    chat.target = Target::Alias { alias: name("chat"), namespace: Namespace::ChatId, must_exist: false };
    let chat = running(world.admit(&world.one, chat).await);
    world.answer(&world.one, &chat, "hi").await;
    let handle = chat.facts.id.to_string();
    let mut copy = world.copy(&handle).await;
    let chat_id = CopiedName { namespace: Namespace::ChatId, name: name("chat") };
    assert_eq!(copy.1.what.names, std::slice::from_ref(&chat_id));
    world.delete_existing(&handle).await;
    copy.1.what.names.push(CopiedName { namespace: Namespace::Session, name: name("slug") });
    world.talk(&world.one, "slug", "mine", "yours").await;
    assert_eq!(world.restore(copy.clone()).await, RestoreOutcome::Taken("slug".to_owned()));
    assert!(world.row(&handle).await.is_none(), "nothing was written");
    world.delete_existing("slug").await;
    assert_eq!(world.restore(copy).await, RestoreOutcome::Made);
    for led in ["slug", &handle] {
        assert_eq!(world.row(led).await.unwrap().facts.id, chat.facts.id);
    }
}

pub async fn what_does_not_fit_together_is_refused<S: Store>(world: &World<S>) {
    let first = world.talk(&world.one, "trip", "first", "one").await;
    world.talk(&world.one, "trip", "second", "two").await;
    let branch = world.branch(&world.one, first.lease.id, "other", "else").await;
    let id = branch.facts.head.id.clone();
    let copy = world.copy(id.as_str()).await;
    let trip = first.facts.id;
    world.delete_existing(id.as_str()).await;
    let mut other = copy.clone();
    other.0[0].messages[0].said.digest.0[0] ^= 1;
    assert_eq!(world.restore(other).await, RestoreOutcome::OtherSource(trip));
    world.delete_existing("trip").await;
    let alone = (Vec::new(), copy.1.clone());
    assert_eq!(world.restore(alone).await, RestoreOutcome::NoSource(trip));
    let mut torn = copy.clone();
    torn.1.turns.clear();
    assert!(matches!(world.restore(torn).await, RestoreOutcome::Broken(_)));
    let mut empty = copy.clone();
    empty.1.sessions.clear();
    assert!(matches!(world.restore(empty).await, RestoreOutcome::Broken(_)));
    assert!(world.all(&world.scope).await.is_empty());
    assert_eq!(world.restore(copy).await, RestoreOutcome::Made);
}

/// Checks that a copy with changed pieces is refused, and that nothing of it stays.
async fn refused<S: Store>(world: &World<S>, copy: &Copy, change: impl FnOnce(&mut Copy)) {
    let mut changed = copy.clone();
    change(&mut changed);
    let before = world.all(&world.scope).await.len();
    let outcome = world.restore(changed).await;
    assert!(matches!(outcome, RestoreOutcome::Broken(_)), "{outcome:?}");
    assert_eq!(world.all(&world.scope).await.len(), before);
}

pub async fn a_copy_stands_on_no_compaction_of_others<S: Store>(world: &World<S>) {
    world.talk(&world.one, "secret", "first", "one").await;
    world.compact(&world.one, "secret", InPlace, "what only they know").await;
    let foreign = world.ledger("secret").await.rows[0].id;
    world.talk(&world.one, "trip", "first", "one").await;
    let copy = world.copy("trip").await;
    world.delete_existing("trip").await;
    refused(world, &copy, |copy| copy.1.sessions[0].base_compaction = Some(foreign)).await;
    assert_eq!(world.restore(copy).await, RestoreOutcome::Made);
}

pub async fn a_copy_inherits_from_no_key_but_its_own<S: Store>(world: &World<S>) {
    let key = SessionKey::parse("blue:1").ok();
    let ask = Admission { session_key: key.clone(), ..world.ask("trip", "first") };
    let turn = running(world.admit(&world.one, ask).await);
    world.answer(&world.one, &turn, "one").await;
    world.branch_named("trip", "twig").await;
    let copy = world.copy("twig").await;
    assert_eq!(copy.1.what.session_key, key);
    world.delete_existing("twig").await;
    refused(world, &copy, |copy| copy.1.what.session_key = None).await;
    assert_eq!(world.restore(copy).await, RestoreOutcome::Made);
}

pub async fn a_copy_is_not_its_own_ancestor<S: Store>(world: &World<S>) {
    world.talk(&world.one, "trip", "first", "one").await;
    world.child(Some("helper"), SessionKind::Auxiliary, "trip").await;
    let helper = world.row("helper").await.unwrap();
    let copy = world.copy("trip").await;
    world.delete_existing("trip").await;
    let (conversation_id, session_id) = (Some(helper.facts.id), helper.session.id);
    refused(world, &copy, |copy| {
        let relation = ParentRelation::Delegate;
        copy.1.sessions[0].parent = Some(CopiedParent { conversation_id, session_id, relation });
    })
    .await;
    assert_eq!(world.restore(copy).await, RestoreOutcome::Made);
}

pub async fn only_a_first_session_comes_from_elsewhere<S: Store>(world: &World<S>) {
    world.talk(&world.one, "trip", "first", "one").await;
    world.compact(&world.one, "trip", Split, "so far").await;
    world.talk(&world.one, "other", "first", "one").await;
    world.child(Some("helper"), SessionKind::Auxiliary, "trip").await;
    world.talk(&world.one, "helper", "look", "found").await;
    world.branch_named("helper", "twig").await;
    let (copy, other, helper) = (world.copy("trip").await, world.copy("other").await, world.copy("helper").await);
    let of = |conversation: &Copied<CopiedConversation>| CopiedParent {
        conversation_id: Some(conversation.what.id),
        session_id: conversation.sessions[0].id.clone(),
        relation: ParentRelation::Delegate,
    };
    world.delete_existing("trip").await;
    world.delete_existing("helper").await;
    refused(world, &helper, |helper| helper.1.sessions[0].parent = Some(of(&helper.1))).await;
    refused(world, &copy, |copy| copy.1.sessions[1].parent = Some(of(&helper.1))).await;
    let mut adopted = helper.clone();
    adopted.1.sessions[0].parent = Some(of(&other.1));
    let outcome = world.restore(adopted).await;
    assert_eq!(outcome, RestoreOutcome::OtherSource(helper.1.what.id), "the inherited part names its source");
    assert_eq!(world.restore(copy).await, RestoreOutcome::Made);
    assert_eq!(world.restore(helper).await, RestoreOutcome::Made);
    assert_eq!(world.whole_graph(&world.scope, "trip", 2).await.0.len(), 4);
}

pub async fn what_a_session_cannot_be_is_refused<S: Store>(world: &World<S>) {
    world.talk(&world.one, "trip", "first", "one").await;
    world.compact(&world.one, "trip", Split, "so far").await;
    world.child(Some("helper"), SessionKind::Auxiliary, "trip").await;
    let (copy, helper) = (world.copy("trip").await, world.copy("helper").await);
    world.delete_existing("trip").await;
    world.delete_existing("helper").await;
    refused(world, &helper, |helper| helper.1.sessions[0].kind = SessionKind::Main).await;
    refused(world, &helper, |helper| helper.1.what.origin_kind = SessionKind::Main).await;
    refused(world, &helper, |helper| {
        helper.1.sessions[0].parent.as_mut().unwrap().relation = ParentRelation::Branch;
    })
    .await;
    refused(world, &copy, |copy| {
        (copy.1.what.origin_kind, copy.1.sessions[0].kind) = (SessionKind::Branch, SessionKind::Branch);
    })
    .await;
    refused(world, &copy, |copy| copy.1.sessions[1].kind = SessionKind::Main).await;
    refused(world, &copy, |copy| copy.1.sessions[1].parent = None).await;
    for title in ["two\nlines".to_owned(), "turned \u{202e}round".to_owned(), "long ".repeat(60)] {
        refused(world, &copy, |copy| copy.1.what.title = Some(title)).await;
    }
    assert_eq!(world.restore(helper).await, RestoreOutcome::Made);
    assert_eq!(world.restore(copy).await, RestoreOutcome::Made);
}

pub async fn numbers_that_cannot_be_true_are_refused<S: Store>(world: &World<S>) {
    world.talk(&world.one, "trip", "first", "one").await;
    world.branch_named("trip", "twig").await;
    let (copy, twig) = (world.copy("trip").await, world.copy("twig").await);
    world.delete_existing("twig").await;
    refused(world, &twig, |copy| copy.0[0].what.through = Seq(i64::MAX)).await;
    world.delete_existing("trip").await;
    refused(world, &copy, |copy| copy.1.what.next_place = Seq(i64::MAX)).await;
    refused(world, &copy, |copy| copy.1.what.next_place = Seq(1)).await;
    refused(world, &copy, |copy| copy.1.what.next_place = Seq(i64::MIN)).await;
    refused(world, &copy, |copy| copy.1.what.message_count = u64::MAX).await;
    refused(world, &copy, |copy| copy.1.what.usage.input = u64::MAX).await;
    refused(world, &copy, |copy| copy.1.turns[0].last_place = Some(Seq(i64::MAX))).await;
    refused(world, &copy, |copy| copy.1.messages[1].place = copy.1.messages[0].place).await;
    assert_eq!(world.restore(copy).await, RestoreOutcome::Made);
    world.talk(&world.one, "trip", "second", "two").await;
}

pub async fn a_copy_belongs_to_its_tenant<S: Store>(world: &World<S>) {
    world.talk(&world.one, "trip", "first", "one").await;
    let alias: Alias = name("trip");
    assert!(world.one.copy_out(&world.stranger, &alias).await.unwrap().is_none());
    assert!(world.one.copy_out(&world.scope, &name("nobody")).await.unwrap().is_none());
    let copy = world.copy("trip").await;
    let handle = copy.1.what.id.to_string();
    let outcome = world.restore_as(&world.stranger, copy.clone(), RestoreIntent::Restore).await;
    assert_eq!(outcome, RestoreOutcome::Taken(handle));
    world.delete_existing("trip").await;
    let outcome = world.restore_as(&world.stranger, copy, RestoreIntent::Restore).await;
    assert_eq!(outcome, RestoreOutcome::Made);
    assert!(world.row("trip").await.is_none());
}

pub async fn a_turn_that_runs_comes_back_as_one_that_was_cut_off<S: Store>(world: &World<S>) {
    world.talk(&world.one, "trip", "first", "one").await;
    let running = world.start(&world.one, "trip", "second").await;
    let copy = world.copy("trip").await;
    world.leave(&world.one, &running, TurnState::Failed, None).await;
    world.delete_existing("trip").await;
    assert_eq!(world.restore(copy.clone()).await, RestoreOutcome::Made);
    assert_eq!(world.turn(running.lease.id).await.unwrap().state, TurnState::Interrupted);
    assert_eq!(world.copy("trip").await, copy);
    world.talk(&world.one, "trip", "third", "three").await;
}

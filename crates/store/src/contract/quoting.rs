//! What must not come back: blocks of recalled text that were made before something that they quote was deleted or
//! changed, and facts from turns without memory.

use std::sync::Arc;

use herma_model::provenance::CompactionMode::InPlace;
use herma_model::{ConversationId, MemoryId, MemorySource, Recall, RecallStatus, Role, Seq};
use uuid::Uuid;

use super::World;
use super::fixture::{finish, message, name, running};
use super::memories::{add, all, key, talk_as};
use super::summaries::compacted;
use crate::{Append, Children, Commit, NewCompaction, NewMemory, RewriteOutcome, Running, Store, TurnOutcome};

/// A turn under a key, which has recalled a block.
async fn begun<S: Store>(world: &World<S>, to: &str) -> Running {
    let mut admission = world.ask(to, "what now?");
    admission.session_key = Some(key("ann"));
    running(world.admit(&world.one, admission).await)
}

/// A block as it is made when a turn begins.
fn quoting(turn: &Running, conversations: &[ConversationId], memories: &[MemoryId]) -> Recall {
    Recall {
        block: Some(Arc::from("[quoted]")),
        conversations: conversations.to_vec(),
        memories: memories.to_vec(),
        as_of: turn.memory.unwrap().changes,
        ..Recall::without_block(RecallStatus::Recalled, true)
    }
}

/// Ends a turn with its block, and returns whether the block was stored.
async fn is_stored<S: Store>(world: &World<S>, turn: &Running, recall: Recall) -> bool {
    let messages = vec![message(Role::Assistant, "this")];
    let commit = world.commit(turn, TurnOutcome::Completed { messages, finish: finish() });
    world.one.commit(Commit { recall: Some(Arc::new(recall)), ..commit }).await.unwrap();
    let stored = world.turn(turn.turn).await.unwrap().recall.unwrap();
    assert_eq!(stored.status, RecallStatus::Recalled, "the status says what the model was shown");
    stored.block.is_some()
}

pub async fn a_block_is_not_stored_if_what_it_quotes_went_while_its_turn_ran<S: Store>(world: &World<S>) {
    talk_as(world, "ann", "source", "my dog is called Bello", "a fine name").await;
    let source = world.read("source").await.unwrap().facts.id;
    let (changed, kept) = (add(world, "ann", "Ann has a dog").await, add(world, "ann", "Ann likes tea").await);
    let turns = [begun(world, "one").await, begun(world, "two").await, begun(world, "three").await];
    let others = begun(world, "four").await;
    world.two.delete(&world.scope, &name("source"), Children::Keep, world.now()).await.unwrap();
    world.two.change_memory(&world.scope, changed.id, Arc::from("Ann has two dogs"), world.now()).await.unwrap();
    add(world, "ann", "Ann likes rain").await;
    let [one, two, three] = turns;
    assert!(!is_stored(world, &one, quoting(&one, &[source], &[kept.id])).await);
    assert!(!is_stored(world, &two, quoting(&two, &[], &[kept.id, changed.id])).await);
    assert!(is_stored(world, &three, quoting(&three, &[], &[kept.id])).await, "other changes do not count");
    let later = begun(world, "later").await;
    assert!(is_stored(world, &later, quoting(&later, &[], &[changed.id])).await, "this one quotes the new text");
    world.two.forget_memories(&world.scope, &key("ann")).await.unwrap();
    assert!(!is_stored(world, &others, quoting(&others, &[], &[kept.id])).await);
}

pub async fn a_step_stores_no_block_that_quotes_what_is_gone<S: Store>(world: &World<S>) {
    let fact = add(world, "ann", "Ann has a dog").await;
    let turn = begun(world, "one").await;
    world.two.forget_memory(&world.scope, fact.id).await.unwrap();
    let recall = Some(Arc::new(quoting(&turn, &[], &[fact.id])));
    let (lease, session, now) = (turn.lease, turn.facts.head.id.clone(), world.now());
    let messages = vec![message(Role::Assistant, "a step")];
    let step = Append { lease, session, messages, usage: None, cost: None, record: None, recall, now };
    world.one.append(step).await.unwrap();
    assert_eq!(world.turn(turn.turn).await.unwrap().recall.unwrap().block, None);
}

pub async fn a_block_may_be_shown_again_while_what_it_quotes_is_there<S: Store>(world: &World<S>) {
    talk_as(world, "ann", "source", "my dog is called Bello", "a fine name").await;
    talk_as(world, "bob", "foreign", "my dog is called Rex", "a fine name").await;
    let [source, foreign] = ["source", "foreign"].map(|to| async { world.read(to).await.unwrap().facts.id });
    let (source, foreign) = (source.await, foreign.await);
    let fact = add(world, "ann", "Ann has a dog").await;
    let turn = begun(world, "one").await;
    let quotes = quoting(&turn, &[source], &[fact.id]);
    let holds = async |recall: &Recall| world.two.still_quotable(turn.lease, recall).await.unwrap();
    assert!(holds(&quotes).await);
    assert!(!holds(&quoting(&turn, &[foreign], &[])).await, "another key's words are never shown");
    add(world, "ann", "Ann likes tea").await;
    assert!(holds(&quotes).await);
    world.one.change_memory(&world.scope, fact.id, Arc::from("Ann has two dogs"), world.now()).await.unwrap();
    assert!(!holds(&quotes).await && holds(&quoting(&turn, &[source], &[])).await);
    world.one.delete(&world.scope, &name("source"), Children::Keep, world.now()).await.unwrap();
    assert!(!holds(&quoting(&turn, &[source], &[])).await);
}

pub async fn a_block_that_quotes_a_message_goes_when_the_message_is_rewritten<S: Store>(world: &World<S>) {
    for to in ["changed", "removed", "untouched"] {
        talk_as(world, "ann", to, "my dog is called Bello", "a fine name").await;
    }
    let source = async |to: &str| world.read(to).await.unwrap().facts.id;
    let (changed, removed, untouched) = (source("changed").await, source("removed").await, source("untouched").await);
    let stored = begun(world, "stored").await;
    assert!(is_stored(world, &stored, quoting(&stored, &[changed], &[])).await);
    let turns = [begun(world, "one").await, begun(world, "two").await, begun(world, "three").await];
    let message = world.nth("changed", 0).await;
    assert_eq!(world.rewrite(&world.two, "changed", &message, Some("my dog has a name")).await, RewriteOutcome::Done);
    world.remove("removed", 0).await;
    assert_eq!(world.turn(stored.turn).await.unwrap().recall.unwrap().block, None);
    let [one, two, three] = turns;
    for (turn, gone) in [(&one, changed), (&two, removed)] {
        assert!(!world.two.still_quotable(turn.lease, &quoting(turn, &[gone], &[])).await.unwrap());
        assert!(!is_stored(world, turn, quoting(turn, &[untouched, gone], &[])).await);
    }
    assert!(is_stored(world, &three, quoting(&three, &[untouched], &[])).await);
    let later = begun(world, "later").await;
    assert!(is_stored(world, &later, quoting(&later, &[changed, removed], &[])).await, "it quotes what is there now");
}

/// Ends a turn that says whether it is recorded.
async fn said<S: Store>(world: &World<S>, turn: &Running, recorded: bool) {
    let messages = vec![message(Role::Assistant, "I see")];
    let commit = world.commit(turn, TurnOutcome::Completed { messages, finish: finish() });
    let recall = Arc::new(Recall::without_block(RecallStatus::Nothing, recorded));
    world.one.commit(Commit { recall: Some(recall), ..commit }).await.unwrap();
}

/// Compacts a conversation all of whose messages are covered, with a summary that lists a fact. Returns how many facts
/// there are then.
async fn facts_after_compaction<S: Store>(world: &World<S>, to: &str) -> usize {
    let plan = world.plan(to, InPlace, 0, "so far").await;
    let fact = NewMemory {
        id: MemoryId::from_uuid(Uuid::now_v7()),
        tenant: world.scope.tenant,
        session_key: key("ann"),
        text: Arc::from(format!("a fact of {to} {}", plan.through.0)),
        source: MemorySource::Summary,
        conversation: None,
        now: world.now(),
    };
    let before = all(world, &world.scope, None).await.len();
    let id = world.read(to).await.unwrap().facts.id;
    let is_recorded = world.two.all_recorded(world.scope.tenant, id, plan.through).await.unwrap();
    compacted(world.one.compact(NewCompaction { facts: vec![fact], ..plan }).await.unwrap());
    let added = all(world, &world.scope, None).await.len() - before;
    assert_eq!(is_recorded, added == 1, "{to}");
    added
}

pub async fn a_compaction_of_turns_that_are_not_recorded_adds_no_facts<S: Store>(world: &World<S>) {
    for (to, recorded) in [("open", [true, true]), ("secret", [true, false])] {
        for recorded in recorded {
            said(world, &begun(world, to).await, recorded).await;
        }
        assert_eq!(facts_after_compaction(world, to).await, usize::from(to == "open"), "{to}");
        said(world, &begun(world, to).await, true).await;
        assert_eq!(
            facts_after_compaction(world, to).await,
            usize::from(to == "open"),
            "a later one covers it too: {to}"
        );
    }
    // A branch inherits what was said without memory, also after its source was deleted.
    let secret = begun(world, "source").await;
    said(world, &secret, false).await;
    let mut branch = world.ask_branch(secret.turn, "and then?");
    branch.session_key = Some(key("ann"));
    let branch = running(world.admit(&world.one, branch).await);
    said(world, &branch, true).await;
    world.one.delete(&world.scope, &name("source"), Children::Keep, world.now()).await.unwrap();
    assert_eq!(facts_after_compaction(world, &branch.facts.id.to_string()).await, 0);
    let place = Seq(0);
    assert!(world.two.all_recorded(world.scope.tenant, branch.facts.id, place).await.unwrap());
}

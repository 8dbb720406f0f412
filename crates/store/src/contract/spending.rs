//! What conversations have used and cost, each with everything below it.

use herma_model::provenance::CompactionMode::Split;
use herma_model::{Cost, MessageId, NewMessage, Price, Role, SessionKey, SessionKind, TurnFailure, TurnState, Usage};

use super::World;
use super::describing::{keyed, made};
use super::fixture::{finish, message, name};
use crate::{
    Append, Children, Commit, ConversationRow, DeleteOutcome, LineageSide, Pin, RestoreIntent, RestoreOutcome, Running,
    Scope, Spent, Store, TurnOutcome,
};

/// What an answer of the fixture uses.
fn one_turn() -> Usage {
    Usage { cache_write: 0, ..finish().usage.unwrap_or_default() }
}

/// What several answers of the fixture use, and Herma's own calls beside them.
fn turns(count: u64, side: u64) -> Usage {
    let one = one_turn();
    Usage {
        input: one.input * count + side,
        output: one.output * count + side,
        cached: one.cached * count,
        reasoning: one.reasoning * count,
        cache_write: 0,
    }
}

fn side(tokens: u64) -> Usage {
    Usage { input: tokens, output: tokens, ..Usage::default() }
}

fn cost(micros: i64) -> Option<Cost> {
    Some(Cost::from_micros(micros))
}

/// A row without the sums that change with what is below it.
pub fn without_tree(row: ConversationRow) -> ConversationRow {
    ConversationRow { usage_tree: Usage::default(), cost: None, ..row }
}

impl<S: Store> World<S> {
    /// Ends a turn with its `nth` message.
    pub async fn answer_after(&self, store: &S, turn: &Running, nth: usize, text: &str) {
        let id = MessageId::answered(turn.turn, turn.attempt, nth);
        let messages = vec![NewMessage { id, ..message(Role::Assistant, text) }];
        let outcome = TurnOutcome::Completed { messages, finish: finish() };
        store.commit(self.commit(turn, outcome)).await.unwrap();
    }

    /// Runs a whole turn that cost something.
    async fn talk_at(&self, to: &str, cost: Option<Cost>) -> Running {
        let turn = self.start(&self.one, to, "question").await;
        let id = MessageId::answered(turn.turn, turn.attempt, 0);
        let messages = vec![NewMessage { id, ..message(Role::Assistant, "answer") }];
        let outcome = TurnOutcome::Completed { messages, finish: finish() };
        self.one.commit(Commit { cost, ..self.commit(&turn, outcome) }).await.unwrap();
        turn
    }

    /// Herma's own call for a conversation.
    async fn aside(&self, row: &ConversationRow, tokens: u64, cost: Option<Cost>) {
        self.one.add_side_usage(self.scope.tenant, row.facts.id, side(tokens), cost);
        self.settle(&self.one).await;
    }

    async fn spent_by(&self, scope: &Scope, to: &ConversationRow) -> (u64, u64) {
        let Spent { conversation, tree } = self.two.spent(scope.tenant, to.facts.id).await.unwrap();
        (conversation, tree)
    }

    /// A row by its name; it must exist.
    async fn there(&self, to: &str) -> ConversationRow {
        self.row(to).await.unwrap()
    }
}

pub async fn a_conversation_alone_is_its_own_tree<S: Store>(world: &World<S>) {
    world.talk(&world.one, "trip", "hello", "hi").await;
    let row = world.there("trip").await;
    assert_eq!((row.usage, row.usage_tree, row.cost), (turns(1, 0), turns(1, 0), None));
    assert_eq!(world.spent_by(&world.scope, &row).await, (13, 13));
    world.compact(&world.one, "trip", Split, "so far").await;
    world.talk(&world.two, "trip", "more", "yes").await;
    let row = world.there("trip").await;
    assert_eq!((row.usage, row.usage_tree), (turns(2, 0), turns(2, 0)), "a continuation is counted once");
    let sessions = world.two.conversation(&world.scope, &name("trip"), crate::Pin::Exact).await.unwrap().unwrap();
    assert_eq!((sessions.usage, sessions.usage_tree), (turns(2, 0), turns(2, 0)));
}

pub async fn what_herma_asks_for_itself_counts_in_the_tree_alone<S: Store>(world: &World<S>) {
    world.talk(&world.one, "trip", "hello", "hi").await;
    let before = world.there("trip").await;
    world.aside(&before, 5, None).await;
    world.aside(&before, 2, cost(9)).await;
    let row = world.there("trip").await;
    assert_eq!((row.usage, row.usage_tree, row.cost), (turns(1, 0), turns(1, 7), cost(9)));
    assert_eq!((row.revision, row.updated_at), (before.revision, before.updated_at));
    assert_eq!(world.spent_by(&world.scope, &row).await, (27, 27));
    world.one.add_side_usage(world.stranger.tenant, row.facts.id, side(100), cost(100));
    world.settle(&world.one).await;
    assert_eq!(world.there("trip").await.usage_tree, turns(1, 7), "another tenant cannot add to it");
    world.delete("trip").await;
    world.aside(&row, 1, cost(1)).await;
    assert_eq!(world.spent_by(&world.scope, &row).await, (0, 0), "what is deleted has used nothing");
}

pub async fn costs_of_steps_and_ends_add_up<S: Store>(world: &World<S>) {
    world.talk_at("trip", None).await;
    assert_eq!(world.there("trip").await.cost, None, "there is no price");
    let price = Price { input: 1.0, output: 2.0 };
    let turn = world.start(&world.one, "trip", "question").await;
    let (lease, session, now) = (turn.lease, turn.facts.head.id.clone(), world.now());
    let id = MessageId::answered(turn.turn, 1, 0);
    let messages = vec![NewMessage { id, ..message(Role::Assistant, "let me look") }];
    let usage = Usage { input: 100, output: 20, ..Usage::default() };
    let paid = Some(Cost::of(usage, price));
    let step = Append { lease, session, messages, usage: Some(usage), cost: paid, record: None, recall: None, now };
    world.one.append(step).await.unwrap();
    assert_eq!(world.there("trip").await.cost, cost(140), "it counts as soon as it is written");
    let failure = TurnFailure::new(herma_model::turn::FailureCode::UpstreamError, "it broke");
    let outcome = TurnOutcome::Unanswered { state: TurnState::Failed, failure, messages: Vec::new() };
    world.one.commit(Commit { cost: cost(10), ..world.commit(&turn, outcome) }).await.unwrap();
    assert_eq!(world.there("trip").await.cost, cost(150), "a failed call may have cost something");
    world.talk_at("trip", None).await;
    assert_eq!(world.there("trip").await.cost, cost(150));
}

/// `root` has two sessions, a branch, a helper and a background child. The branch has a branch, and the helper a
/// helper. Each has one turn of its own, and `root` two.
async fn family<S: Store>(world: &World<S>) {
    world.talk_at("root", cost(1)).await;
    world.compact(&world.one, "root", Split, "so far").await;
    world.talk_at("root", cost(2)).await;
    world.branch_named("root", "branch").await;
    world.talk_at("branch", cost(4)).await;
    world.branch_named("branch", "twig").await;
    world.child(Some("helper"), SessionKind::Auxiliary, "root").await;
    world.child(Some("job"), SessionKind::Background, "root").await;
    world.child(Some("inner"), SessionKind::Auxiliary, "helper").await;
    for (to, micros) in [("twig", 8), ("helper", 16), ("job", 32), ("inner", 64)] {
        world.talk_at(to, cost(micros)).await;
    }
    world.aside(&world.there("inner").await, 1, cost(128)).await;
}

pub async fn a_tree_has_everything_below_it<S: Store>(world: &World<S>) {
    family(world).await;
    world.talk_at("alone", None).await;
    let expected = [
        ("root", turns(2, 0), turns(7, 1), cost(255)),
        ("branch", turns(1, 0), turns(2, 0), cost(12)),
        ("twig", turns(1, 0), turns(1, 0), cost(8)),
        ("helper", turns(1, 0), turns(2, 1), cost(208)),
        ("job", turns(1, 0), turns(1, 0), cost(32)),
        ("inner", turns(1, 0), turns(1, 1), cost(192)),
        ("alone", turns(1, 0), turns(1, 0), None),
    ];
    let listed = world.all(&world.scope).await;
    assert_eq!(listed.len(), expected.len());
    let (nodes, _) = world.whole_graph(&world.scope, "root", 2).await;
    for (to, own, tree, cost) in expected {
        let row = world.there(to).await;
        assert_eq!((row.usage, row.usage_tree, row.cost), (own, tree, cost), "{to}");
        let same = listed.iter().find(|listed| listed.facts.id == row.facts.id).unwrap();
        assert_eq!((same.usage, same.usage_tree, same.cost), (own, tree, cost), "{to} in a list");
        for node in nodes.iter().filter(|node| node.row.facts.id == row.facts.id) {
            assert_eq!((node.row.usage, node.row.usage_tree, node.row.cost), (own, tree, cost), "{to} in a graph");
        }
        let all = if to == "alone" { 13 } else { 7 * 13 + 2 };
        let alone = if to == "inner" { own.total() + 2 } else { own.total() };
        assert_eq!(world.spent_by(&world.scope, &row).await, (alone, all), "{to}");
    }
    assert_eq!(nodes.iter().filter(|node| node.side == LineageSide::Own).count(), 2);
}

pub async fn a_tree_has_only_what_its_reader_may_see<S: Store>(world: &World<S>) {
    world.talk_at("root", cost(1)).await;
    for (to, parent, key) in [("mine", "root", "mine"), ("yours", "root", "yours"), ("below", "yours", "mine")] {
        let mut new = world.declared(Some(to), SessionKind::Auxiliary, Some(parent));
        new.session_key = SessionKey::parse(key).ok();
        made(world.one.create(new).await.unwrap());
        world.talk_at(to, cost(2)).await;
    }
    let only = keyed("mine", &world.scope);
    let seen = world.two.conversation(&only, &name("root"), Pin::Head).await.unwrap().unwrap();
    assert_eq!((seen.usage, seen.usage_tree, seen.cost), (turns(1, 0), turns(2, 0), cost(3)));
    let listed = world.all(&only).await.into_iter().find(|row| row.facts.id == seen.facts.id).unwrap();
    assert_eq!((listed.usage_tree, listed.cost), (turns(2, 0), cost(3)));
    let (nodes, _) = world.whole_graph(&only, "root", 2).await;
    let root = nodes.iter().find(|node| node.row.facts.id == seen.facts.id).unwrap();
    assert_eq!((root.row.usage_tree, root.row.cost), (turns(2, 0), cost(3)));
    assert_eq!(world.there("root").await.usage_tree, turns(4, 0), "a reader of all keys");
    assert_eq!(world.spent_by(&only, &seen).await, (13, 4 * 13), "a budget counts all of it");
}

pub async fn what_is_deleted_no_longer_counts<S: Store>(world: &World<S>) {
    family(world).await;
    world.delete("job").await;
    let root = world.there("root").await;
    assert_eq!((root.usage_tree, root.cost), (turns(6, 1), cost(223)));
    // What was below a deleted child is no longer below its ancestors.
    world.delete("helper").await;
    let root = world.there("root").await;
    assert_eq!((root.usage_tree, root.cost), (turns(4, 0), cost(15)));
    let inner = world.there("inner").await;
    assert_eq!((inner.usage_tree, world.spent_by(&world.scope, &inner).await), (turns(1, 1), (15, 15)));
    // A branch keeps what its source has said, not what the source has used.
    world.delete("branch").await;
    assert_eq!(world.there("root").await.usage_tree, turns(2, 0));
    assert_eq!(world.there("twig").await.usage_tree, turns(1, 0));
    let gone = world.one.delete(&world.scope, &name("root"), Children::Delete, world.now()).await.unwrap();
    assert!(matches!(gone, DeleteOutcome::Deleted(_)));
    let twig = world.there("twig").await;
    assert_eq!((twig.usage_tree, twig.cost), (turns(1, 0), cost(8)));
}

pub async fn what_comes_back_has_used_what_it_had<S: Store>(world: &World<S>) {
    family(world).await;
    for to in ["inner", "helper", "twig", "root"] {
        let before = world.there(to).await;
        let copy = world.copy_delete_restore(to).await;
        let after = world.there(to).await;
        assert_eq!((after.usage, after.usage_tree, after.cost), (before.usage, before.usage_tree, before.cost), "{to}");
        // Herma's own calls change nothing that was said, so it is still the same conversation.
        world.aside(&after, 3, cost(1)).await;
        let again = world.restore_as(&world.scope, copy.clone(), RestoreIntent::Restore).await;
        assert_eq!(again, RestoreOutcome::AlreadyHere, "{to}");
        let (inherited, mut conversation) = copy;
        conversation.what.cost = cost(i64::MAX);
        world.delete_existing(to).await;
        let refused = world.restore_as(&world.scope, (inherited.clone(), conversation.clone()), RestoreIntent::Restore);
        assert!(matches!(refused.await, RestoreOutcome::Broken(_)), "{to}");
        conversation.what.cost = None;
        let made = world.restore_as(&world.scope, (inherited, conversation), RestoreIntent::Restore).await;
        assert_eq!(made, RestoreOutcome::Made, "{to}");
    }
    assert_eq!(world.there("root").await.cost, cost(36), "those that came back without a cost have none");
}

pub async fn tenants_have_trees_of_their_own<S: Store>(world: &World<S>) {
    family(world).await;
    let mut theirs = world.clone();
    theirs.scope = world.stranger.clone();
    theirs.talk_at("root", cost(1000)).await;
    theirs.child(Some("helper"), SessionKind::Auxiliary, "root").await;
    let root = theirs.there("root").await;
    assert_eq!((root.usage_tree, root.cost), (turns(1, 0), cost(1000)));
    assert_eq!(world.there("root").await.usage_tree, turns(7, 1));
    assert_eq!(world.spent_by(&world.scope, &root).await, (0, 0), "another tenant has no such conversation");
}

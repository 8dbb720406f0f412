//! Long-term memory: facts, who can see them, and what is remembered about some words.

use std::sync::Arc;
use std::time::{Duration, Instant};

use herma_model::{KeyScope, Memory, MemoryId, MemorySource, Recall, RecallStatus, Role, SessionKey, SessionKind};
use uuid::Uuid;

use super::World;
use super::fixture::{finish, message, name, running};
use crate::{
    Children, Commit, MemoryFilter, MemoryQuery, NewMemory, Remembered, Running, Scope, Shown, Store, TurnOutcome,
};

/// How soon what is indexed is remembered by every process.
const SOON: Duration = Duration::from_millis(1500);

pub(super) fn key(text: &str) -> SessionKey {
    SessionKey::parse(text).unwrap()
}

fn fact<S: Store>(world: &World<S>, about: &str, text: &str) -> NewMemory {
    NewMemory {
        id: MemoryId::from_uuid(Uuid::now_v7()),
        tenant: world.scope.tenant,
        session_key: key(about),
        text: Arc::from(text),
        source: MemorySource::Api,
        conversation: None,
        now: world.now(),
    }
}

pub(super) async fn add<S: Store>(world: &World<S>, about: &str, text: &str) -> Memory {
    world.one.add_memory(fact(world, about, text)).await.unwrap()
}

fn texts(memories: &[Memory]) -> Vec<&str> {
    memories.iter().map(|memory| &*memory.text).collect()
}

/// All facts that a scope can see, newest first, two on a page.
pub(super) async fn all<S: Store>(world: &World<S>, scope: &Scope, session_key: Option<&str>) -> Vec<Memory> {
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let filter = MemoryFilter { scope: scope.clone(), session_key: session_key.map(key), after, limit: 2 };
        let page = world.two.memories(filter).await.unwrap();
        assert!(page.memories.len() <= 2);
        found.extend(page.memories);
        after = page.next;
        if after.is_none() {
            return found;
        }
    }
}

pub(super) fn limited<S: Store>(world: &World<S>, patterns: &str) -> Scope {
    Scope { keys: KeyScope::parse(Some(patterns)), ..world.scope.clone() }
}

pub async fn facts_are_listed_newest_first<S: Store>(world: &World<S>) {
    for text in ["one", "two", "three"] {
        add(world, "ann", text).await;
    }
    let other = add(world, "bob", "four").await;
    assert_eq!(texts(&all(world, &world.scope, Some("ann")).await), ["three", "two", "one"]);
    assert_eq!(texts(&all(world, &world.scope, None).await), ["four", "three", "two", "one"]);
    assert_eq!(world.two.memory(&world.scope, other.id).await.unwrap(), Some(other));
}

pub async fn a_fact_that_is_known_is_not_added_again<S: Store>(world: &World<S>) {
    let first = add(world, "ann", "Ann likes tea").await;
    assert_eq!(add(world, "ann", "Ann likes tea").await, first);
    assert_ne!(add(world, "bob", "Ann likes tea").await.id, first.id);
    assert_ne!(add(world, "ann", "Ann likes green tea").await.id, first.id);
    assert_eq!(all(world, &world.scope, None).await.len(), 3);
}

pub async fn a_fact_is_changed_and_forgotten<S: Store>(world: &World<S>) {
    let one = add(world, "ann", "Ann lives in Oslo").await;
    let two = add(world, "ann", "Ann likes tea").await;
    let changed = world.two.change_memory(&world.scope, one.id, Arc::from("Ann lives in Rome"), world.now()).await;
    let changed = changed.unwrap().unwrap();
    assert_eq!((&*changed.text, changed.created_at), ("Ann lives in Rome", one.created_at));
    assert!(changed.updated_at > one.updated_at);
    assert!(found(world, "ann", &["oslo"], "elsewhere").await.facts.iter().all(|fact| !fact.text.contains("Oslo")));
    assert!(world.two.forget_memory(&world.scope, two.id).await.unwrap());
    assert!(!world.two.forget_memory(&world.scope, two.id).await.unwrap(), "it is forgotten once");
    assert_eq!(texts(&all(world, &world.scope, None).await), ["Ann lives in Rome"]);
    add(world, "bob", "Bob has a dog").await;
    assert_eq!(world.one.forget_memories(&world.scope, &key("ann")).await.unwrap(), 1);
    assert_eq!(texts(&all(world, &world.scope, None).await), ["Bob has a dog"]);
}

pub async fn a_fact_does_not_exist_for_those_who_may_not_see_it<S: Store>(world: &World<S>) {
    let fact = add(world, "ann", "secret").await;
    for scope in [&world.stranger, &limited(world, "bob*")] {
        assert!(all(world, scope, None).await.is_empty());
        assert!(all(world, scope, Some("ann")).await.is_empty());
        assert_eq!(world.one.memory(scope, fact.id).await.unwrap(), None);
        let changed = world.one.change_memory(scope, fact.id, Arc::from("known"), world.now()).await.unwrap();
        assert_eq!(changed, None);
        assert!(!world.one.forget_memory(scope, fact.id).await.unwrap());
        assert_eq!(world.one.forget_memories(scope, &key("ann")).await.unwrap(), 0);
    }
    assert_eq!(texts(&all(world, &limited(world, "a*"), None).await), ["secret"]);
}

pub async fn a_fact_goes_with_the_conversation_it_comes_from<S: Store>(world: &World<S>) {
    let turn = world.talk(&world.one, "trip", "hello", "hi").await;
    let from = |text: &str| NewMemory { conversation: Some(turn.facts.id), ..fact(world, "ann", text) };
    let stored = world.one.add_memory(from("said in trip")).await.unwrap();
    assert_eq!(stored.conversation, Some(turn.facts.id));
    add(world, "ann", "said by hand").await;
    world.one.delete(&world.scope, &name("trip"), Children::Keep, world.now()).await.unwrap();
    assert_eq!(texts(&all(world, &world.scope, None).await), ["said by hand"]);
}

/// What is remembered about some words, after everything is indexed.
pub(super) async fn found<S: Store>(world: &World<S>, about: &str, words: &[&str], asking: &str) -> Remembered {
    world.one.index_all().await.unwrap();
    let asking = match world.read(asking).await {
        Some(snapshot) => snapshot.facts.id,
        None => herma_model::ConversationId::from_uuid(Uuid::now_v7()),
    };
    let query = MemoryQuery {
        tenant: world.scope.tenant,
        session_key: key(about),
        words: words.iter().map(|word| (*word).to_owned()).collect(),
        passages: 4,
        facts: 4,
        shown: Shown { conversation: asking, hidden_through: None },
        as_of: None,
    };
    world.two.remember(query).await.unwrap()
}

/// A turn under a session key.
pub(super) async fn talk_as<S: Store>(world: &World<S>, about: &str, to: &str, question: &str, answer: &str) {
    let mut admission = world.ask(to, question);
    admission.session_key = Some(key(about));
    let turn = running(world.admit(&world.one, admission).await);
    world.answer(&world.one, &turn, answer).await;
}

fn said(remembered: &Remembered) -> Vec<&str> {
    let mut said: Vec<&str> = remembered.passages.iter().map(|passage| &*passage.text).collect();
    said.sort_unstable();
    said
}

pub async fn what_was_said_is_remembered_under_its_key_alone<S: Store>(world: &World<S>) {
    talk_as(world, "ann", "first", "my dog is called Bello", "a fine name").await;
    talk_as(world, "bob", "other", "my dog is called Rex", "a fine name too").await;
    world.talk(&world.one, "keyless", "my dog is called Tom", "yes").await;
    assert_eq!(said(&found(world, "ann", &["dog", "called"], "new").await), ["my dog is called Bello"]);
    assert_eq!(said(&found(world, "bob", &["dogs"], "new").await), ["my dog is called Rex"]);
    assert!(found(world, "eve", &["dog"], "new").await.passages.is_empty());
    let stranger = MemoryQuery {
        tenant: world.stranger.tenant,
        session_key: key("ann"),
        words: vec!["dog".to_owned()],
        passages: 4,
        facts: 4,
        shown: Shown { conversation: herma_model::ConversationId::from_uuid(Uuid::now_v7()), hidden_through: None },
        as_of: None,
    };
    assert!(world.two.remember(stranger).await.unwrap().passages.is_empty());
}

pub async fn a_conversation_does_not_remember_what_it_shows<S: Store>(world: &World<S>) {
    talk_as(world, "ann", "first", "my dog is called Bello", "a fine name").await;
    talk_as(world, "ann", "second", "my cat is called Minka", "nice").await;
    assert_eq!(said(&found(world, "ann", &["called"], "second").await), ["my dog is called Bello"]);
    assert_eq!(said(&found(world, "ann", &["called"], "first").await), ["my cat is called Minka"]);
}

pub async fn a_key_that_comes_later_brings_what_was_said_before<S: Store>(world: &World<S>) {
    world.talk(&world.one, "first", "my dog is called Bello", "a fine name").await;
    assert!(found(world, "ann", &["dog"], "new").await.passages.is_empty());
    talk_as(world, "ann", "first", "and I am Ann", "hello").await;
    assert_eq!(said(&found(world, "ann", &["dog"], "new").await), ["my dog is called Bello"]);
}

pub async fn what_is_deleted_is_not_remembered<S: Store>(world: &World<S>) {
    talk_as(world, "ann", "first", "my dog is called Bello", "a fine name").await;
    assert_eq!(found(world, "ann", &["dog"], "new").await.passages.len(), 1);
    world.one.delete(&world.scope, &name("first"), Children::Keep, world.now()).await.unwrap();
    assert!(found(world, "ann", &["dog"], "new").await.passages.is_empty());
}

pub async fn facts_that_match_come_first_and_then_the_newest<S: Store>(world: &World<S>) {
    add(world, "ann", "Ann is allergic to nuts").await;
    for text in ["tea", "milk", "bread", "butter", "cheese"] {
        add(world, "ann", &format!("Ann buys {text}")).await;
    }
    let remembered = found(world, "ann", &["nuts"], "new").await;
    assert_eq!(
        texts(&remembered.facts),
        ["Ann is allergic to nuts", "Ann buys cheese", "Ann buys butter", "Ann buys bread"]
    );
}

/// Ends a turn under a key with what memory did for it.
async fn recalled<S: Store>(world: &World<S>, to: &str, recall: Recall) -> Running {
    recalled_in(world, to, SessionKind::Main, recall).await
}

async fn recalled_in<S: Store>(world: &World<S>, to: &str, kind: SessionKind, recall: Recall) -> Running {
    let mut admission = world.ask(to, "what now?");
    admission.session_key = Some(key("ann"));
    admission.creation.kind = kind;
    let turn = running(world.admit(&world.one, admission).await);
    let messages = vec![message(Role::Assistant, "this")];
    let commit = world.commit(&turn, TurnOutcome::Completed { messages, finish: finish() });
    world.one.commit(Commit { recall: Some(Arc::new(recall)), ..commit }).await.unwrap();
    turn
}

fn block(text: &str) -> Recall {
    Recall { block: Some(Arc::from(text)), ..Recall::without_block(RecallStatus::Recalled, true) }
}

pub async fn what_was_recalled_is_stored_with_its_turn<S: Store>(world: &World<S>) {
    let turn = recalled(world, "trip", block("[a]")).await;
    let read = || async { world.read("trip").await.unwrap().recall.map(|recall| (*recall).clone()) };
    assert_eq!(read().await, Some(block("[a]")));
    recalled(world, "trip", Recall::without_block(RecallStatus::Late, true)).await;
    assert_eq!(read().await, Some(Recall::without_block(RecallStatus::Late, true)), "that of the last turn");
    let record = world.turn(turn.turn).await.unwrap();
    assert_eq!(record.recall.map(|recall| (*recall).clone()), Some(block("[a]")));
    world.talk(&world.one, "keyless", "hello", "hi").await;
    assert!(world.read("keyless").await.unwrap().recall.is_none());
}

pub async fn a_block_goes_with_what_it_quotes<S: Store>(world: &World<S>) {
    talk_as(world, "ann", "source", "my dog is called Bello", "a fine name").await;
    let source = world.read("source").await.unwrap().facts.id;
    let fact = add(world, "ann", "Ann has a dog").await;
    let quotes_both = Recall { conversations: vec![source], memories: vec![fact.id], ..block("[both]") };
    recalled(world, "one", quotes_both.clone()).await;
    recalled(world, "two", Recall { conversations: vec![source], ..block("[said]") }).await;
    recalled(world, "three", block("[neither]")).await;
    assert_eq!(world.read("one").await.unwrap().recall.as_deref(), Some(&quotes_both));
    let blocks = async || {
        let mut blocks = Vec::new();
        for to in ["one", "two", "three"] {
            blocks.push(world.read(to).await.unwrap().recall.unwrap().block.is_some());
        }
        blocks
    };
    world.one.forget_memory(&world.scope, fact.id).await.unwrap();
    assert_eq!(blocks().await, [false, true, true]);
    world.one.delete(&world.scope, &name("source"), Children::Keep, world.now()).await.unwrap();
    assert_eq!(blocks().await, [false, false, true]);
    world.one.delete(&world.scope, &name("three"), Children::Keep, world.now()).await.unwrap();
}

pub async fn a_restored_turn_is_remembered_only_if_it_was_recorded<S: Store>(world: &World<S>) {
    for (to, kind, recorded) in [
        ("secret", SessionKind::Main, false),
        ("open", SessionKind::Main, true),
        ("helper", SessionKind::Auxiliary, false),
        ("job", SessionKind::Background, true),
    ] {
        recalled_in(world, to, kind, Recall::without_block(RecallStatus::Nothing, recorded)).await;
        let copy = world.copy(to).await;
        world.delete_existing(to).await;
        world.restore(copy.clone()).await;
        assert_eq!(world.copy(to).await, copy);
        let asked = found(world, "ann", &["what"], "new").await;
        let restored = world.read(to).await.unwrap().facts.id;
        let is_found = asked.passages.iter().any(|passage| passage.conversation == restored);
        assert_eq!(is_found, recorded, "{to}");
        world.delete_existing(to).await;
    }
}

pub async fn what_is_known_of_an_earlier_version_is_not_taken<S: Store>(world: &World<S>) {
    let fact = add(world, "ann", "Ann has a dog").await;
    talk_as(world, "ann", "trip", "my dog is called Bello", "a fine name").await;
    world.one.index_all().await.unwrap();
    // Asks as a turn does that begins now.
    let asked = async || {
        let mut admission = world.ask_anew("what is my dog called");
        admission.session_key = Some(key("ann"));
        let turn = running(world.admit(&world.two, admission).await);
        world.two.retract(turn.lease).await.unwrap();
        let query = MemoryQuery {
            tenant: world.scope.tenant,
            session_key: key("ann"),
            words: vec!["dog".to_owned()],
            passages: 4,
            facts: 4,
            shown: Shown { conversation: turn.facts.id, hidden_through: None },
            as_of: turn.memory,
        };
        assert!(query.as_of.is_some());
        let remembered = world.two.remember(query).await.unwrap();
        let facts: Vec<String> = remembered.facts.iter().map(|fact| fact.text.to_string()).collect();
        (facts, remembered.passages.len())
    };
    for _ in 0..3 {
        assert_eq!(asked().await, (vec!["Ann has a dog".to_owned()], 1));
    }
    world.one.change_memory(&world.scope, fact.id, Arc::from("Ann has two dogs"), world.now()).await.unwrap();
    assert_eq!(asked().await, (vec!["Ann has two dogs".to_owned()], 1));
    add(world, "ann", "Ann likes tea").await;
    assert_eq!(asked().await, (vec!["Ann has two dogs".to_owned(), "Ann likes tea".to_owned()], 1));
    world.one.forget_memory(&world.scope, fact.id).await.unwrap();
    assert_eq!(asked().await, (vec!["Ann likes tea".to_owned()], 1));
    world.one.delete(&world.scope, &name("trip"), Children::Keep, world.now()).await.unwrap();
    assert_eq!(asked().await, (vec!["Ann likes tea".to_owned()], 0));
    world.one.forget_memories(&world.scope, &key("ann")).await.unwrap();
    assert_eq!(asked().await, (Vec::new(), 0));
    add(world, "ann", "Ann has a cat").await;
    assert_eq!(asked().await, (vec!["Ann has a cat".to_owned()], 0));
    let everything = crate::Erasure::SessionKey(key("ann"));
    world.one.erase(&world.scope, everything, crate::AskedBy(None), world.now()).await.unwrap();
    assert_eq!(asked().await, (Vec::new(), 0));
}

/// What is remembered by one of the processes about a word, as a turn asks that begins now.
async fn asked_now<S: Store>(world: &World<S>, store: &S, word: &str) -> Vec<String> {
    let mut admission = world.ask_anew("what is my dog called");
    admission.session_key = Some(key("ann"));
    let turn = running(world.admit(store, admission).await);
    store.retract(turn.lease).await.unwrap();
    let query = MemoryQuery {
        tenant: world.scope.tenant,
        session_key: key("ann"),
        words: vec![word.to_owned()],
        passages: 4,
        facts: 4,
        shown: Shown { conversation: turn.facts.id, hidden_through: None },
        as_of: turn.memory,
    };
    let remembered = store.remember(query).await.unwrap();
    said(&remembered).into_iter().map(str::to_owned).collect()
}

pub async fn what_is_said_after_a_recall_is_remembered_by_every_process<S: Store>(world: &World<S>) {
    world.talk(&world.one, "keyless", "an old dog is called Rex", "yes").await;
    talk_as(world, "ann", "first", "my dog is called Bello", "a fine name").await;
    let expect = async |expected: &[&str]| {
        world.one.index_all().await.unwrap();
        for store in [&world.one, &world.two] {
            let began = Instant::now();
            let mut found = asked_now(world, store, "dog").await;
            while found != expected && began.elapsed() < SOON {
                found = asked_now(world, store, "dog").await;
            }
            assert_eq!(found, expected);
            assert_eq!(asked_now(world, store, "dog").await, expected, "and it stays so");
        }
    };
    expect(&["my dog is called Bello"]).await;
    talk_as(world, "ann", "second", "her dog is called Tom", "nice").await;
    expect(&["her dog is called Tom", "my dog is called Bello"]).await;
    // It was indexed before, and is indexed again under its key.
    talk_as(world, "ann", "keyless", "I am Ann", "hello").await;
    expect(&["an old dog is called Rex", "her dog is called Tom", "my dog is called Bello"]).await;
    world.one.delete(&world.scope, &name("second"), Children::Keep, world.now()).await.unwrap();
    expect(&["an old dog is called Rex", "my dog is called Bello"]).await;
    talk_as(world, "ann", "third", "a dog for the deleted one", "yes").await;
    expect(&["a dog for the deleted one", "an old dog is called Rex", "my dog is called Bello"]).await;
}

pub async fn what_is_said_in_a_running_turn_is_not_remembered<S: Store>(world: &World<S>) {
    let mut admission = world.ask("secret", "my dog is called Bello");
    admission.session_key = Some(key("ann"));
    let turn = running(world.admit(&world.one, admission).await);
    world.settle(&world.one).await;
    assert!(found(world, "ann", &["dog"], "new").await.passages.is_empty());
    let outcome = TurnOutcome::Completed { messages: vec![message(Role::Assistant, "yes")], finish: finish() };
    let recall = Recall::without_block(RecallStatus::Off, false);
    world.one.commit(Commit { recall: Some(Arc::new(recall)), ..world.commit(&turn, outcome) }).await.unwrap();
    assert!(found(world, "ann", &["dog"], "new").await.passages.is_empty());
}

pub async fn what_is_not_recorded_is_not_remembered<S: Store>(world: &World<S>) {
    recalled(world, "secret", Recall::without_block(RecallStatus::Off, false)).await;
    recalled(world, "open", Recall::without_block(RecallStatus::Nothing, true)).await;
    let found = found(world, "ann", &["what"], "new").await;
    let open = world.read("open").await.unwrap().facts.id;
    assert_eq!(found.passages.iter().map(|passage| passage.conversation).collect::<Vec<_>>(), [open]);
    // The index has no key of the first one. It is still told exactly what to remove.
    for to in ["secret", "open"] {
        world.one.delete(&world.scope, &name(to), Children::Keep, world.now()).await.unwrap();
    }
    world.one.index_all().await.unwrap();
}

pub async fn a_helpers_turn_that_was_indexed_while_it_ran_is_remembered_if_it_is_recorded<S: Store>(world: &World<S>) {
    for (to, recorded) in [("recorded", true), ("other", false)] {
        let mut admission = world.ask(to, "a heron and a stork");
        admission.session_key = Some(key("ann"));
        admission.creation.kind = SessionKind::Auxiliary;
        let turn = running(world.admit(&world.one, admission).await);
        world.one.index_all().await.unwrap();
        let outcome = TurnOutcome::Completed { messages: vec![message(Role::Assistant, "yes")], finish: finish() };
        let recall = Recall::without_block(RecallStatus::Nothing, recorded);
        world.one.commit(Commit { recall: Some(Arc::new(recall)), ..world.commit(&turn, outcome) }).await.unwrap();
    }
    // So many messages have the word that it is looked for under the key.
    for nth in 0..50 {
        talk_as(world, "bob", "many", &format!("heron {nth}"), "a heron").await;
    }
    let recorded = world.read("recorded").await.unwrap().facts.id;
    let found = found(world, "ann", &["heron"], "new").await;
    assert_eq!(found.passages.iter().map(|passage| passage.conversation).collect::<Vec<_>>(), [recorded]);
}

pub async fn what_a_compacted_conversation_still_shows_does_not_hide_other_conversations<S: Store>(world: &World<S>) {
    talk_as(world, "ann", "earlier", "a heron is called Bello", "a fine name").await;
    for few in [true, false] {
        for nth in 0..if few { 30 } else { 60 } {
            talk_as(world, "ann", "long", &format!("heron {nth}"), if few { "I see" } else { "a heron, I see" }).await;
        }
        world.one.index_all().await.unwrap();
        let asking = world.read("long").await.unwrap();
        let hidden_through =
            if few { asking.messages[1].seq } else { asking.messages[asking.messages.len() - 101].seq };
        let query = MemoryQuery {
            tenant: world.scope.tenant,
            session_key: key("ann"),
            words: vec!["heron".to_owned()],
            passages: 4,
            facts: 0,
            shown: Shown { conversation: asking.facts.id, hidden_through: Some(hidden_through) },
            as_of: None,
        };
        let remembered = world.two.remember(query).await.unwrap();
        let found = said(&remembered);
        assert!(found.contains(&"a heron is called Bello"), "{found:?}");
        assert!(!few || found.contains(&"heron 0"), "what the compaction took out of view: {found:?}");
    }
}

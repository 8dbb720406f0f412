//! Making and describing conversations without a turn.

use std::sync::Arc;

use herma_model::{ConversationId, CreatorKind, KeyScope, Resolution, SessionKey, SessionKind};
use uuid::Uuid;

use super::World;
use super::fixture::{name, refused, running, texts};
use crate::{
    Admission, AdmitOutcome, Change, ConversationRow, CreateOutcome, Extent, NewConversation, Refusal, Scope, Store,
};

impl<S: Store> World<S> {
    /// A new conversation, with this name if there is one.
    pub fn new_conversation(&self, alias: Option<&str>) -> NewConversation {
        NewConversation {
            scope: self.scope.clone(),
            alias: alias.map(name),
            creation: self.ask_anew("").creation,
            session_key: None,
            title: None,
            metadata: None,
            cwd: None,
            now: self.now(),
        }
    }

    /// Makes a conversation.
    pub async fn make(&self, store: &S, alias: Option<&str>) -> ConversationRow {
        made(store.create(self.new_conversation(alias)).await.unwrap())
    }

    /// Changes the metadata.
    async fn set_metadata(&self, to: &str, metadata: Option<&str>) -> Option<ConversationRow> {
        let change = Change { metadata: metadata.map(Arc::from), ..Change::default() };
        self.one.update(&self.scope, &name(to), change, self.now()).await.unwrap()
    }
}

/// Returns the conversation; panics on any other outcome.
pub fn made(outcome: CreateOutcome) -> ConversationRow {
    match outcome {
        CreateOutcome::Made(row) => *row,
        other => panic!("expected a conversation, got {other:?}"),
    }
}

/// A scope that may use only these session keys.
pub fn keyed(keys: &str, scope: &Scope) -> Scope {
    Scope { keys: KeyScope::parse(Some(keys)), ..scope.clone() }
}

pub async fn a_conversation_is_made_without_a_turn<S: Store>(world: &World<S>) {
    let mut new = world.new_conversation(Some("trip"));
    new.metadata = Some(Arc::from("{\"to\":\"sea\"}"));
    new.creation.reason = Some(Arc::from("for fun"));
    let row = made(world.one.create(new.clone()).await.unwrap());
    let facts = &row.facts;
    assert_eq!((facts.id, facts.root.as_str(), &facts.previous), (new.creation.conversation, "trip", &None));
    assert_eq!((facts.head.kind, facts.head.creator), (SessionKind::Main, CreatorKind::Api));
    assert_eq!((facts.origin_kind, &facts.head.reason), (SessionKind::Main, &new.creation.reason));
    assert_eq!((row.message_count, row.turn_count, row.running), (0, 0, false));
    assert_eq!((row.metadata.as_deref(), row.created_at, row.updated_at), (new.metadata.as_deref(), new.now, new.now));
    for to in ["trip", &facts.id.to_string()] {
        assert_eq!(format!("{:?}", world.row(to).await.unwrap()), format!("{row:?}"));
    }
    let unnamed = world.make(&world.two, None).await;
    assert_eq!(world.row(unnamed.facts.head.id.as_str()).await.unwrap().facts, unnamed.facts);
    assert_eq!(world.all(&world.scope).await.len(), 2);
}

pub async fn a_made_conversation_takes_turns<S: Store>(world: &World<S>) {
    let row = world.make(&world.one, Some("trip")).await;
    let empty = world.read("trip").await.unwrap();
    assert!(empty.messages.is_empty() && empty.whole && empty.base.is_none());
    let stale = Admission { now: world.now(), ..world.ask("trip", "first") };
    let outcome = world.two.admit(stale).await.unwrap();
    assert!(matches!(outcome, AdmitOutcome::Stale), "the name is no longer unused: {outcome:?}");
    let turn = world.talk(&world.two, "trip", "first", "one").await;
    assert_eq!((turn.resolution, turn.facts.id), (Resolution::Head, row.facts.id));
    assert_eq!(texts(&world.read("trip").await.unwrap()), ["first", "one"]);
}

pub async fn a_made_conversation_stays_when_its_first_turn_is_taken_back<S: Store>(world: &World<S>) {
    let row = world.make(&world.one, Some("trip")).await;
    let turn = world.start(&world.one, "trip", "too long").await;
    let waiting = world.queue(&world.two, world.ask("trip", "given up")).await;
    world.one.retract(turn.lease).await.unwrap();
    world.withdraw(&world.two, &world.scope, waiting.turn).await;
    let after = world.row("trip").await.unwrap();
    assert_eq!((&after.facts, after.message_count, after.turn_count), (&row.facts, 0, 0));
}

pub async fn a_name_that_leads_anywhere_is_not_made_again<S: Store>(world: &World<S>) {
    let turn = world.talk(&world.one, "trip", "first", "one").await;
    let split = herma_model::provenance::CompactionMode::Split;
    let head = world.compact(&world.one, "trip", split, "so far").await.facts.head.id.clone();
    world.make(&world.one, Some("train")).await;
    let key = Admission { session_key: SessionKey::parse("mine").ok(), ..world.ask("mine", "first") };
    let kept = running(world.admit(&world.one, key).await);
    world.answer(&world.one, &kept, "one").await;
    let before = world.all(&world.scope).await.len();
    for taken in ["trip", head.as_str(), &turn.facts.id.to_string(), &turn.turn.to_string(), "train", "mine"] {
        let new = world.new_conversation(Some(taken));
        let new = NewConversation { scope: keyed("other", &world.scope), ..new };
        let outcome = world.two.create(new).await.unwrap();
        assert!(matches!(outcome, CreateOutcome::Exists), "{taken}: {outcome:?}");
    }
    assert_eq!(world.all(&world.scope).await.len(), before);
    let other = NewConversation { scope: world.stranger.clone(), ..world.new_conversation(Some("trip")) };
    assert_ne!(made(world.two.create(other).await.unwrap()).facts.id, turn.facts.id);
}

pub async fn a_name_of_our_own_form_is_not_made<S: Store>(world: &World<S>) {
    let unknown = ConversationId::from_uuid(Uuid::now_v7()).to_string();
    for reserved in ["conv_mine", &unknown, &unknown.replace("conv_", "sess_"), &unknown.replace("conv_", "resp_")] {
        let outcome = world.one.create(world.new_conversation(Some(reserved))).await.unwrap();
        assert!(matches!(outcome, CreateOutcome::Reserved), "{reserved}: {outcome:?}");
    }
    assert!(world.all(&world.scope).await.is_empty());
    world.make(&world.one, Some("run_daily")).await;
}

pub async fn a_name_of_our_own_form_does_not_tell_whether_another_caller_has_it<S: Store>(world: &World<S>) {
    let key = |text| SessionKey::parse(text).ok();
    let hidden = NewConversation { session_key: key("mine"), ..world.new_conversation(Some("trip")) };
    world.one.create(hidden).await.unwrap();
    let row = world.row("trip").await.unwrap();
    let blind = Scope { keys: KeyScope::parse(Some("other")), ..world.scope.clone() };
    for (scope, is_seen) in [(&world.scope, true), (&blind, false)] {
        let asked = NewConversation { scope: scope.clone(), ..world.new_conversation(Some(&row.facts.id.to_string())) };
        let outcome = world.one.create(asked).await.unwrap();
        match is_seen {
            true => assert!(matches!(outcome, CreateOutcome::Exists), "{outcome:?}"),
            false => assert!(matches!(outcome, CreateOutcome::Reserved), "{outcome:?}"),
        }
    }
}

pub async fn a_conversation_without_a_session_key_is_given_one_and_keeps_it<S: Store>(world: &World<S>) {
    let key = |text| SessionKey::parse(text).ok();
    world.talk(&world.one, "trip", "hello", "hi").await;
    let version = world.read("trip").await.unwrap().version;
    for asked in ["mine", "another"] {
        let change = Change { session_key: key(asked), ..Change::default() };
        let row = world.describe("trip", change).await;
        assert_eq!(row.facts.session_key, key("mine"));
    }
    let now = world.read("trip").await.unwrap();
    assert_eq!((now.facts.session_key.clone(), now.version > version), (key("mine"), true));
}

pub async fn of_simultaneous_makers_one_makes_it<S: Store>(world: &World<S>) {
    let mut makers = tokio::task::JoinSet::new();
    for number in 0..16 {
        let world = world.clone();
        makers.spawn(async move {
            let store = if number % 2 == 0 { &world.one } else { &world.two };
            matches!(store.create(world.new_conversation(Some("trip"))).await.unwrap(), CreateOutcome::Made(_))
        });
    }
    let made = makers.join_all().await.into_iter().filter(|made| *made).count();
    assert_eq!((made, world.all(&world.scope).await.len()), (1, 1));
}

pub async fn a_made_conversation_has_its_session_key<S: Store>(world: &World<S>) {
    let key = |text| SessionKey::parse(text).ok();
    let new = NewConversation { session_key: key("mine"), ..world.new_conversation(Some("trip")) };
    assert_eq!(made(world.one.create(new).await.unwrap()).facts.session_key, key("mine"));
    let ask = Admission { session_key: key("other"), ..world.ask("trip", "first") };
    assert_eq!(refused(world.admit(&world.one, ask).await), Refusal::SessionKeyConflict);
    let none = keyed("other", &world.scope);
    let space = herma_model::alias::Namespace::Session;
    assert!(world.two.open(&none, &name("trip"), space, Extent::View).await.unwrap().is_none());
    let turn = world.start(&world.one, "trip", "first").await;
    assert_eq!(turn.facts.session_key, key("mine"));
    world.one.retract(turn.lease).await.unwrap();
    assert_eq!(world.row("trip").await.unwrap().facts.session_key, key("mine"), "the key was there before the turn");
}

pub async fn metadata_changes_and_the_history_stays<S: Store>(world: &World<S>) {
    world.talk(&world.one, "trip", "first", "one").await;
    world.talk(&world.one, "train", "first", "one").await;
    let (before, row) = (world.read("trip").await.unwrap(), world.row("trip").await.unwrap());
    for (asked, metadata) in [(Some("{\"a\":\"1\"}"), "{\"a\":\"1\"}"), (None, "{\"a\":\"1\"}"), (Some("{}"), "{}")] {
        let changed = world.set_metadata("trip", asked).await.unwrap();
        assert_eq!(changed.metadata.as_deref(), Some(metadata));
        assert!(changed.updated_at > row.updated_at);
        assert_eq!((changed.created_at, changed.message_count), (row.created_at, row.message_count));
        assert_eq!(format!("{:?}", world.row("trip").await.unwrap()), format!("{changed:?}"));
    }
    let after = world.read("trip").await.unwrap();
    assert_eq!((after.version, &after.messages), (before.version, &before.messages));
    assert_eq!(world.all(&world.scope).await[0].facts.id, row.facts.id, "it is the last changed one");
    assert_eq!(world.row("train").await.unwrap().metadata, None);
    let turn = world.start(&world.two, "trip", "second").await;
    world.set_metadata(&turn.turn.to_string(), Some("{\"b\":\"2\"}")).await.unwrap();
    world.answer(&world.two, &turn, "two").await;
    assert_eq!(world.row("trip").await.unwrap().metadata.as_deref(), Some("{\"b\":\"2\"}"));
}

pub async fn what_is_not_there_is_not_changed<S: Store>(world: &World<S>) {
    let new = NewConversation { session_key: SessionKey::parse("mine").ok(), ..world.new_conversation(Some("trip")) };
    made(world.one.create(new).await.unwrap());
    assert!(world.set_metadata("nowhere", Some("{}")).await.is_none());
    for scope in [&world.stranger, &keyed("other", &world.scope)] {
        let change = Change { metadata: Some(Arc::from("{}")), ..Change::default() };
        assert!(world.one.update(scope, &name("trip"), change, world.now()).await.unwrap().is_none());
    }
    assert_eq!(world.row("trip").await.unwrap().metadata, None);
}

//! What a client declares about a new session: its kind and its parent.

use std::sync::Arc;

use herma_model::provenance::CompactionMode::Split;
use herma_model::{CreatorKind, InvalidDeclaration, ParentRelation, SessionKey, SessionKind, TurnState};

use super::World;
use super::describing::{keyed, made};
use super::fixture::{name, refused, running};
use super::summaries::shown;
use crate::{Admission, CreateOutcome, NewConversation, Pin, Refusal, Store};

impl<S: Store> World<S> {
    /// A new conversation of this kind, with this parent if there is one.
    pub fn declared(&self, alias: Option<&str>, kind: SessionKind, parent: Option<&str>) -> NewConversation {
        let mut new = self.new_conversation(alias);
        new.creation.kind = kind;
        new.creation.parent = parent.map(name);
        new
    }

    /// Makes a conversation with this parent; returns its id.
    pub async fn child(&self, alias: Option<&str>, kind: SessionKind, parent: &str) -> String {
        let new = self.declared(alias, kind, Some(parent));
        made(self.one.create(new).await.unwrap()).facts.id.to_string()
    }
}

pub async fn a_helper_says_what_it_is_and_whose<S: Store>(world: &World<S>) {
    let turn = world.talk(&world.one, "trip", "first", "one").await;
    let split = world.compact(&world.one, "trip", Split, "so far").await;
    let head = split.facts.head.id.clone();
    let names = ["trip".to_owned(), head.to_string(), turn.facts.id.to_string(), turn.turn.to_string()];
    for (kind, relation) in
        [(SessionKind::Auxiliary, ParentRelation::Delegate), (SessionKind::Background, ParentRelation::Background)]
    {
        for named in &names {
            let mut new = world.declared(None, kind, Some(named));
            new.creation.creator = CreatorKind::DelegateTask;
            new.creation.reason = Some(Arc::from("look it up"));
            let row = made(world.two.create(new.clone()).await.unwrap());
            let parent = if named == "trip" { turn.facts.head.id.clone() } else { head.clone() };
            let root = row.facts.head.clone();
            assert_eq!(root.parent, Some((parent, relation)), "{named}");
            assert_eq!((root.kind, row.facts.origin_kind, root.creator), (kind, kind, CreatorKind::DelegateTask));
            assert_eq!((root.reason, root.depth), (new.creation.reason, 0));
            assert_eq!((row.message_count, row.facts.session_key.clone()), (0, None), "it inherits nothing");
        }
        let alone = made(world.one.create(world.declared(None, kind, None)).await.unwrap());
        assert_eq!((alone.facts.head.kind, &alone.facts.head.parent), (kind, &None));
    }
    let before = world.read("trip").await.unwrap();
    assert_eq!((before.version, before.facts), (split.version, split.facts), "the parent is not changed");
}

pub async fn a_turn_makes_a_helper<S: Store>(world: &World<S>) {
    let parent = world.talk(&world.one, "trip", "first", "one").await;
    let mut ask = world.ask("helper", "look");
    (ask.creation.kind, ask.creation.parent) = (SessionKind::Auxiliary, Some(name("trip")));
    let turn = running(world.admit(&world.two, ask).await);
    assert_eq!(turn.facts.head.parent, Some((parent.facts.head.id.clone(), ParentRelation::Delegate)));
    world.answer(&world.two, &turn, "found").await;
    assert_eq!(world.row("helper").await.unwrap().facts, turn.facts);
    // A turn cannot change the kind that was given when the conversation was made.
    let mut ask = world.ask("helper", "look again");
    (ask.creation.kind, ask.creation.parent) = (SessionKind::Continuation, Some(name("nowhere")));
    let later = running(world.admit(&world.one, ask).await);
    assert_eq!(later.facts, turn.facts);
}

pub async fn what_comes_from_a_keyed_conversation_is_for_the_same_people<S: Store>(world: &World<S>) {
    let key = |key: &str| SessionKey::parse(key).ok();
    let ask = Admission { session_key: key("blue:1"), ..world.ask("trip", "first") };
    let turn = running(world.admit(&world.one, ask).await);
    world.answer(&world.one, &turn, "one").await;
    let stranger = keyed("red:1", &world.scope);
    world.child(Some("declared"), SessionKind::Auxiliary, "trip").await;
    let mut ask = world.ask_anew("look");
    (ask.creation.kind, ask.creation.parent) = (SessionKind::Background, Some(name("trip")));
    let asked = running(world.admit(&world.one, ask).await);
    assert_eq!(asked.facts.session_key, key("blue:1"));
    for helper in ["declared", &asked.facts.id.to_string()] {
        assert_eq!(world.row(helper).await.unwrap().facts.session_key, key("blue:1"), "{helper}");
        let seen = world.two.conversation(&stranger, &name(helper), Pin::Head).await.unwrap();
        assert!(seen.is_none(), "{helper}");
    }
    let other = NewConversation {
        session_key: key("red:1"),
        ..world.declared(Some("other"), SessionKind::Auxiliary, Some("trip"))
    };
    assert_eq!(
        made(world.one.create(other).await.unwrap()).facts.session_key,
        key("red:1"),
        "it has the key that it declares"
    );
}

pub async fn a_continuation_stays_what_its_conversation_is<S: Store>(world: &World<S>) {
    world.talk(&world.one, "trip", "first", "one").await;
    for kind in [SessionKind::Main, SessionKind::Auxiliary, SessionKind::Background, SessionKind::Branch] {
        let parent = (kind != SessionKind::Main).then_some("trip");
        let row = made(world.one.create(world.declared(None, kind, parent)).await.unwrap());
        let to = row.facts.id.to_string();
        world.talk(&world.one, &to, "second", "two").await;
        let mut before = row.facts.head.clone();
        for depth in 1..4 {
            let facts = world.compact(&world.two, &to, Split, "so far").await.facts;
            let session = (facts.head.kind, facts.head.creator, facts.head.depth);
            assert_eq!(session, (SessionKind::Continuation, CreatorKind::Compression, depth));
            assert_eq!(facts.head.parent, Some((before.id.clone(), ParentRelation::Continuation)));
            assert_eq!((facts.origin_kind, &facts.root), (kind, &row.facts.root));
            let root = world.two.conversation(&world.scope, &name(row.facts.root.as_str()), Pin::Exact).await;
            assert_eq!(root.unwrap().unwrap().session, row.facts.head, "the kind of the root stays");
            before = facts.head.clone();
        }
    }
}

pub async fn a_declared_branch_begins_at_the_end_of_its_source<S: Store>(world: &World<S>) {
    let key = SessionKey::parse("mine").ok();
    let first = Admission { session_key: key.clone(), ..world.ask("trip", "first") };
    let first = running(world.admit(&world.one, first).await);
    world.answer(&world.one, &first, "one").await;
    let mut new = world.declared(Some("other way"), SessionKind::Branch, Some("trip"));
    new.title = Some("The other way".to_owned());
    let row = made(world.two.create(new.clone()).await.unwrap());
    assert_eq!((row.facts.head.id.as_str(), row.message_count), ("other way", 2));
    assert_eq!((row.title, row.facts.session_key.clone()), (new.title.clone(), key));
    assert_eq!((row.facts.head.creator, row.facts.origin_kind), (CreatorKind::Branch, SessionKind::Branch));
    world.talk(&world.one, "other way", "second", "two").await;
    assert_eq!(shown(&world.read("other way").await.unwrap()), ["first", "one", "second", "two"]);
    let taken = world.two.create(new).await.unwrap();
    assert!(matches!(taken, CreateOutcome::Exists), "{taken:?}");
    let other = NewConversation {
        session_key: SessionKey::parse("other").ok(),
        ..world.declared(None, SessionKind::Branch, Some("trip"))
    };
    assert!(matches!(world.two.create(other).await.unwrap(), CreateOutcome::SessionKeyConflict));
}

pub async fn what_cannot_be_declared_is_refused_and_leaves_nothing<S: Store>(world: &World<S>) {
    let turn = world.talk(&world.one, "trip", "first", "one").await;
    for (kind, parent, why) in [
        (SessionKind::Continuation, Some("trip"), InvalidDeclaration::Continuation),
        (SessionKind::Continuation, None, InvalidDeclaration::Continuation),
        (SessionKind::Branch, None, InvalidDeclaration::BranchOfNothing),
        (SessionKind::Main, Some("trip"), InvalidDeclaration::ParentOfMain),
    ] {
        let outcome = world.one.create(world.declared(Some("new"), kind, parent)).await.unwrap();
        assert!(matches!(outcome, CreateOutcome::Undeclarable(said) if said == why), "{outcome:?}");
        let mut ask = world.ask("new", "hello");
        (ask.creation.kind, ask.creation.parent) = (kind, parent.map(name));
        assert_eq!(refused(world.admit(&world.two, ask).await), Refusal::Undeclarable(why));
    }
    let mut ask = world.ask("new", "hello");
    (ask.creation.kind, ask.creation.parent) = (SessionKind::Branch, Some(name("trip")));
    assert!(
        matches!(refused(world.admit(&world.two, ask).await), Refusal::Undeclarable(_)),
        "only a target makes a branch"
    );
    let rows = world.all(&world.scope).await;
    assert_eq!(rows.iter().map(|row| row.facts.id).collect::<Vec<_>>(), [turn.facts.id]);
    world.leads_nowhere("new").await;
}

pub async fn a_parent_must_exist_for_the_caller<S: Store>(world: &World<S>) {
    let key = Admission { session_key: SessionKey::parse("mine").ok(), ..world.ask("trip", "first") };
    let turn = running(world.admit(&world.one, key).await);
    world.answer(&world.one, &turn, "one").await;
    let theirs = Admission { scope: world.stranger.clone(), ..world.ask("theirs", "first") };
    let theirs = running(world.admit(&world.one, theirs).await);
    world.leave(&world.one, &theirs, TurnState::Failed, None).await;
    let narrow = keyed("other", &world.scope);
    for (scope, parent) in [
        (&world.scope, "nowhere"),
        (&world.scope, "theirs"),
        (&world.scope, &*theirs.facts.id.to_string()),
        (&world.stranger, "trip"),
        (&narrow, "trip"),
        (&narrow, &turn.turn.to_string()),
    ] {
        for kind in [SessionKind::Auxiliary, SessionKind::Background, SessionKind::Branch] {
            let new = NewConversation { scope: scope.clone(), ..world.declared(Some("new"), kind, Some(parent)) };
            let outcome = world.one.create(new).await.unwrap();
            assert!(matches!(outcome, CreateOutcome::NoParent), "{parent}: {outcome:?}");
        }
        let mut ask = Admission { scope: scope.clone(), ..world.ask("new", "hello") };
        (ask.creation.kind, ask.creation.parent) = (SessionKind::Auxiliary, Some(name(parent)));
        assert_eq!(refused(world.admit(&world.two, ask).await), Refusal::NoParent);
    }
    world.leads_nowhere("new").await;
}

pub async fn a_parent_that_comes_to_nothing_stays_readable<S: Store>(world: &World<S>) {
    let mut turn = world.start(&world.one, "trip", "too long").await;
    world.compact_during(&world.one, &mut turn, Split, "so far").await;
    let waiting = world.queue(&world.two, world.ask("trip", "waits")).await;
    let child = world.child(None, SessionKind::Auxiliary, turn.facts.head.id.as_str()).await;
    let before = format!("{:?}", world.row(&child).await.unwrap());
    world.one.retract(turn.lease).await.unwrap();
    assert_eq!(format!("{:?}", world.row(&child).await.unwrap()), before);
    world.leads_nowhere(turn.facts.head.id.as_str()).await;
    world.withdraw(&world.two, &world.scope, waiting.turn).await;
    world.leads_nowhere("trip").await;
    assert_eq!(format!("{:?}", world.row(&child).await.unwrap()), before);
}

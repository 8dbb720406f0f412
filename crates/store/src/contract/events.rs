//! Events of conversations. Each change writes one event, once.

use std::collections::HashMap;

use herma_model::provenance::CompactionMode::{InPlace, Split};
use herma_model::{ConversationId, CreatorKind, EventKind, SessionId, SessionKey, TurnState};
use serde_json::Value;

use super::World;
use super::describing::made;
use super::ending::done;
use super::fixture::{name, refused, running};
use super::importing::{conversation, session, turn};
use super::summaries::undone;
use crate::{
    Admission, BranchPoint, Change, Children, ConversationRow, DeleteOutcome, Event, EventsFrom, NewConversation,
    Scope, Store, TurnPolicy,
};

/// The page size. It is small, so that reading takes several pages.
const PAGE: usize = 3;

/// The JSON object of an event.
pub fn data(event: &Event) -> Value {
    serde_json::from_str(&event.data).unwrap()
}

/// An event as one line: its kind, its session, and its other fields.
pub fn line(event: &Event) -> String {
    let data = data(event);
    let mut line = format!("{} {}", event.kind.as_str().trim_start_matches("session."), text(&data, "session_id"));
    for more in ["previous_session_id", "parent_session_id", "action", "mode", "title", "archived", "end_reason"] {
        if let Some(value) = data.get(more) {
            line.push_str(&format!(" {more}={}", value.as_str().map_or_else(|| value.to_string(), str::to_owned)));
        }
    }
    line
}

fn text<'a>(data: &'a Value, field: &str) -> &'a str {
    data[field].as_str().unwrap()
}

impl<S: Store> World<S> {
    /// All events for a caller, from a place on.
    pub async fn events_from(&self, store: &S, scope: &Scope, mut from: EventsFrom) -> Vec<Event> {
        let mut events: Vec<Event> = Vec::new();
        loop {
            let page = store.events(scope, from, PAGE).await.unwrap();
            assert_eq!(page.gap, None, "there is no gap");
            assert!(page.events.len() <= PAGE);
            events.extend(page.events);
            from = EventsFrom::After(page.through);
            if !page.has_more {
                let numbers: Vec<u64> = events.iter().map(|event| event.id.number).collect();
                assert!(numbers.is_sorted_by(|one, next| one < next), "events are in order: {numbers:?}");
                return events;
            }
        }
    }

    /// All events for the tenant, as lines.
    pub async fn event_lines(&self) -> Vec<String> {
        self.events_from(&self.two, &self.scope, EventsFrom::Oldest).await.iter().map(line).collect()
    }

    /// Checks that a follower of all events knows the same as the list.
    pub(super) async fn events_hold_together(&self, scope: &Scope, rows: &[ConversationRow]) {
        let mut known = HashMap::new();
        for event in self.events_from(&self.two, scope, EventsFrom::Oldest).await {
            follow(&mut known, &event);
        }
        for row in rows {
            let was_there = row.created_at < self.began && row.session.creator != CreatorKind::Import;
            let followed = known.remove(&row.facts.id.to_string());
            let followed = if was_there { followed.unwrap_or_else(|| Followed::of(row)) } else { followed.unwrap() };
            assert_eq!(followed, Followed::of(row), "the events and the list agree");
        }
        assert_eq!(known, HashMap::new(), "a missing conversation has a deleted event");
    }
}

/// What a follower of the events knows about a conversation.
#[derive(Debug, PartialEq, Eq)]
struct Followed {
    head: String,
    title: Option<String>,
    archived: bool,
    ended: bool,
}

impl Followed {
    fn of(row: &ConversationRow) -> Self {
        let head = row.facts.head.id.to_string();
        Self { head, title: row.title.clone(), archived: row.archived, ended: row.ended.is_some() }
    }
}

fn follow(known: &mut HashMap<String, Followed>, event: &Event) {
    let data = data(event);
    let id = text(&data, "conversation_id").to_owned();
    let head = text(&data, "session_id").to_owned();
    let title = data.get("title").map(|title| title.as_str().unwrap().to_owned());
    if event.kind == EventKind::Created {
        let created = Followed { head, title, archived: false, ended: false };
        assert_eq!(known.insert(id, created), None, "a conversation is created once");
        return;
    }
    if event.kind == EventKind::Deleted {
        // The earlier events of a deleted conversation are removed.
        assert_eq!(known.remove(&id), None);
        return;
    }
    // A conversation that is older than the events is known from its next event on.
    let of_before = || Followed { head: head.clone(), title: None, archived: false, ended: false };
    let followed = known.entry(id).or_insert_with(of_before);
    match event.kind {
        EventKind::HeadMoved => followed.head.clone_from(&head),
        EventKind::Renamed => followed.title = title,
        EventKind::Archived => followed.archived = data["archived"].as_bool().unwrap(),
        EventKind::Ended => followed.ended = true,
        EventKind::Reopened => followed.ended = false,
        EventKind::Created | EventKind::Branched | EventKind::Compacted | EventKind::Deleted => {}
    }
}

pub async fn every_way_of_making_a_conversation_writes_one_created_event<S: Store>(world: &World<S>) {
    let titled = NewConversation { title: Some("Sea".to_owned()), ..world.new_conversation(Some("made")) };
    let row = made(world.one.create(titled).await.unwrap());
    world.talk(&world.one, "asked", "first", "one").await;
    let anew = running(world.admit(&world.two, world.ask_anew("first")).await);
    world.answer(&world.two, &anew, "one").await;
    let anew_id = anew.facts.head.id.as_str();
    assert_eq!(world.event_lines().await, ["created made title=Sea", "created asked", &format!("created {anew_id}")]);
    let events = world.events_from(&world.one, &world.scope, EventsFrom::Oldest).await;
    let expected = serde_json::json!({
        "session_id": "made", "conversation_id": row.facts.id.to_string(), "root_session_id": "made", "kind": "main",
        "origin_kind": "main", "creator_kind": "api", "compression_depth": 0, "compaction_count": 0, "is_user_facing": true,
        "title": "Sea",
    });
    assert_eq!((data(&events[0]), events[0].at), (expected, row.created_at));
}

pub async fn a_turn_writes_no_event<S: Store>(world: &World<S>) {
    world.talk(&world.one, "trip", "first", "one").await;
    world.talk(&world.two, "trip", "second", "two").await;
    let failed = world.start(&world.one, "trip", "third").await;
    world.leave(&world.one, &failed, TurnState::Failed, Some("th")).await;
    world.describe("trip", Change { metadata: Some("{}".into()), ..Change::default() }).await;
    assert_eq!(world.event_lines().await, ["created trip"]);
}

pub async fn compactions_and_moved_heads_are_events<S: Store>(world: &World<S>) {
    world.talk(&world.one, "trip", "first", "one").await;
    world.talk(&world.one, "trip", "second", "two").await;
    let split = world.compact(&world.one, "trip", Split, "so far").await;
    let head = split.facts.head.id.as_str();
    world.talk(&world.one, "trip", "third", "three").await;
    let in_place = world.compact(&world.two, "trip", InPlace, "so far").await;
    let undo = undone(world.undo(&world.one, "trip", in_place.record.id).await);
    let at = format!("{head} previous_session_id=trip parent_session_id=trip");
    assert_eq!(
        world.event_lines().await,
        [
            "created trip",
            &format!("compacted {at} action=compact mode=split"),
            &format!("head_moved {at}"),
            &format!("compacted {at} action=compact mode=in_place"),
            &format!("compacted {at} action=undo mode=in_place"),
        ]
    );
    let events = world.events_from(&world.one, &world.scope, EventsFrom::Oldest).await;
    let ids = [1, 3, 4].map(|at: usize| data(&events[at])["compaction_id"].as_str().unwrap().to_owned());
    assert_eq!(ids, [split.record.id, in_place.record.id, undo.record.id].map(|id| id.to_string()));
}

pub async fn titles_and_archiving_are_events_when_they_change<S: Store>(world: &World<S>) {
    world.make(&world.one, Some("trip")).await;
    let titled = |title: Option<&str>| Change { title: Some(title.map(str::to_owned)), ..Change::default() };
    for title in [Some("Sea"), Some("Sea"), None, None] {
        world.describe("trip", titled(title)).await;
    }
    let away = |archived| Change { archived: Some(archived), ..Change::default() };
    for archived in [false, true, true, false] {
        world.describe("trip", away(archived)).await;
    }
    world.describe("trip", Change { archived: Some(true), ..titled(Some("Lake")) }).await;
    assert_eq!(
        world.event_lines().await,
        [
            "created trip",
            "renamed trip title=Sea",
            "renamed trip",
            "archived trip archived=true",
            "archived trip archived=false",
            "renamed trip title=Lake",
            "archived trip archived=true",
        ]
    );
}

pub async fn an_end_and_a_reopening_are_one_event_each<S: Store>(world: &World<S>) {
    world.make(&world.one, Some("trip")).await;
    for _ in 0..2 {
        done(world.end("trip").await);
    }
    for _ in 0..2 {
        done(world.reopen("trip").await);
    }
    assert_eq!(world.event_lines().await, ["created trip", "ended trip end_reason=ended", "reopened trip"]);
}

pub async fn a_branched_event_comes_after_the_created_event<S: Store>(world: &World<S>) {
    let first = world.talk(&world.one, "trip", "first", "one").await;
    let by_turn = world.branch(&world.one, first.turn, "else", "other").await;
    let at_the_end = world.make_branch("trip", BranchPoint::End).await;
    let running_turn = world.start(&world.one, "trip", "second").await;
    let busy = Admission { policy: TurnPolicy::Branch, ..world.ask("trip", "third") };
    let busy = running(world.admit(&world.two, busy).await);
    world.answer(&world.two, &busy, "three").await;
    world.answer(&world.one, &running_turn, "two").await;
    let branches = [&by_turn.facts.head.id, &at_the_end.facts.head.id, &busy.facts.head.id];
    let written = branches.map(|id| ["created", "branched"].map(|what| format!("{what} {id} parent_session_id=trip")));
    let mut expected = vec!["created trip".to_owned()];
    expected.extend(written.into_iter().flatten());
    assert_eq!(world.event_lines().await, expected);
}

pub async fn an_import_writes_events<S: Store>(world: &World<S>) {
    let mut brought = conversation(vec![session("old", turn(1, "hello", "hi"))]);
    brought.archived = true;
    for _ in 0..2 {
        world.import_one(brought.clone()).await;
    }
    brought.sessions.push(session("new", turn(3, "and?", "so")));
    world.import_one(brought).await;
    assert_eq!(
        world.event_lines().await,
        [
            "created old title=A trip",
            "archived old archived=true",
            "head_moved new previous_session_id=old parent_session_id=old",
        ]
    );
}

pub async fn a_deleted_conversation_leaves_only_its_deleted_event<S: Store>(world: &World<S>) {
    world.talk(&world.one, "trip", "first", "one").await;
    let branch = world.make_branch("trip", BranchPoint::End).await.facts.head.id.clone();
    world.describe("trip", Change { title: Some(Some("Secret".to_owned())), ..Change::default() }).await;
    world.talk(&world.one, "other", "first", "one").await;
    let id = world.row("trip").await.unwrap().facts.id;
    let deleted = world.one.delete(&world.scope, &name("trip"), Children::Delete, world.now()).await.unwrap();
    assert_eq!(deleted, DeleteOutcome::Deleted(id));
    assert_eq!(world.event_lines().await, ["created other", &format!("deleted {branch}"), "deleted trip"]);
    let events = world.events_from(&world.one, &world.scope, EventsFrom::Oldest).await;
    let last = data(events.last().unwrap());
    assert_eq!(last, serde_json::json!({"session_id": "trip", "conversation_id": id.to_string()}));
    world.talk(&world.one, "trip", "again", "one").await;
    assert_eq!(world.event_lines().await.last().unwrap(), "created trip", "the name belongs to a new conversation");
}

pub async fn a_retracted_conversation_has_a_deleted_event<S: Store>(world: &World<S>) {
    let mut first = world.start(&world.one, "trip", "first").await;
    let waiting = world.queue(&world.two, world.ask("trip", "second")).await;
    let split = world.compact_during(&world.one, &mut first, Split, "so far").await;
    world.one.retract(first.lease).await.unwrap();
    assert_eq!(world.event_lines().await, ["created trip", "head_moved trip"], "a waiting turn still makes it");
    let again = running(world.admit(&world.two, waiting).await);
    assert_ne!(split.facts.head.id, again.facts.head.id);
    world.two.retract(again.lease).await.unwrap();
    assert_eq!(world.event_lines().await, ["deleted trip"]);
}

pub async fn a_refused_operation_writes_no_event<S: Store>(world: &World<S>) {
    let key = |key: &str| SessionKey::parse(key).ok();
    let new = NewConversation { session_key: key("mine"), ..world.new_conversation(Some("trip")) };
    made(world.one.create(new.clone()).await.unwrap());
    world.one.create(NewConversation { now: world.now(), ..new }).await.unwrap();
    refused(world.admit(&world.one, Admission { session_key: key("other"), ..world.ask("trip", "first") }).await);
    refused(world.admit(&world.one, world.ask(&ConversationId::PREFIX.repeat(2), "first")).await);
    assert!(matches!(world.end("nowhere").await, crate::EndOutcome::NotFound));
    assert_eq!(world.event_lines().await, ["created trip"]);
}

pub async fn simultaneous_first_uses_are_one_creation<S: Store>(world: &World<S>) {
    let mut tasks = tokio::task::JoinSet::new();
    for at in 0..8 {
        let world = world.clone();
        tasks.spawn(async move {
            let store = if at % 2 == 0 { &world.one } else { &world.two };
            world.admit(store, world.ask("trip", "first")).await
        });
    }
    let outcomes = tasks.join_all().await;
    let started = outcomes.into_iter().find(|outcome| matches!(outcome, crate::AdmitOutcome::Running(_)));
    assert_eq!(running(started.unwrap()).facts.head.id, SessionId::from_name("trip"));
    assert_eq!(world.event_lines().await, ["created trip"]);
}

//! Imported conversations: an import adds each once. They continue here, and later imports update them until they are
//! changed here.

use std::sync::Arc;

use herma_model::alias::Namespace;
use herma_model::compaction::Sizes;
use herma_model::provenance::CompactionMode;
use herma_model::{
    ConversationId, CreatorKind, FinishReason, ParentRelation, Resolution, Role, SessionId, SessionKind, Timestamp,
    TurnState, Usage,
};
use uuid::Uuid;

use super::World;
use super::fixture::{message, name, running, texts};
use super::summaries::{entry_text, shown, undone};
use crate::{
    Arrival, Change, DeleteOutcome, Extent, Fate, Import, ImportedCompaction, ImportedConversation, ImportedEntry,
    ImportedMessage, ImportedSession, Leaving, ListFilter, Pin, Scope, Store,
};

/// A session with its entries.
pub(super) fn session(id: &str, entries: Vec<ImportedEntry>) -> ImportedSession {
    let (origin, id) = (Arc::from(id), SessionId::from_name(id));
    ImportedSession { origin, id, created_at: Timestamp(1_000), ended_at: Timestamp(9_000), entries }
}

/// One turn: a question with the number `first` and its answer with `first + 1`.
pub(super) fn turn(first: i64, question: &str, answer: &str) -> Vec<ImportedEntry> {
    let [asked, answered] = [(Role::User, question), (Role::Assistant, answer)].map(|(role, text)| message(role, text));
    [(first, asked), (first + 1, answered)]
        .map(|(origin, new)| {
            ImportedEntry::Said(ImportedMessage {
                origin,
                turn: first,
                said: new.said,
                finish: FinishReason::Stop,
                created_at: Timestamp(1_000 + origin),
            })
        })
        .into()
}

/// A summary of all messages up to a number.
fn compaction(origin: i64, mode: CompactionMode, text: &str, through: i64, carried: &[i64]) -> ImportedEntry {
    ImportedEntry::Compacted(ImportedCompaction {
        origin,
        mode,
        through: Some(through),
        carried: carried.to_vec(),
        summary: message(Role::User, text).said,
        sizes: Sizes { before: 100, after: 10 },
        created_at: Timestamp(1_000 + origin),
    })
}

pub(super) fn conversation(sessions: Vec<ImportedSession>) -> ImportedConversation {
    ImportedConversation {
        id: ConversationId::from_uuid(Uuid::now_v7()),
        kind: SessionKind::Main,
        parent: None,
        source: Arc::from("telegram"),
        session_key: None,
        title: Some("A trip".to_owned()),
        cwd: None,
        metadata: Some(Arc::from("{\"hermes_model\":\"m\"}")),
        archived: false,
        model: Some("m".to_owned()),
        usage: Usage { input: 10, output: 3, cached: 2, reasoning: 1, ..Usage::default() },
        updated_at: Timestamp(5_000),
        sessions,
        names: Vec::new(),
    }
}

/// A conversation of one turn in a session `trip`.
fn trip() -> ImportedConversation {
    conversation(vec![session("trip", turn(1, "hello", "hi"))])
}

impl<S: Store> World<S> {
    async fn arrivals(&self, scope: &Scope, file: &str, conversations: Vec<ImportedConversation>) -> Vec<Arrival> {
        let import = Import { tenant: scope.tenant, file: Arc::from(file), conversations, now: self.now() };
        self.one.import(import).await.unwrap().arrivals
    }

    /// Imports one conversation from the usual file.
    pub(super) async fn import_one(&self, conversation: ImportedConversation) -> Fate {
        let arrivals = self.arrivals(&self.scope, "state.db", vec![conversation]).await;
        arrivals.into_iter().next().unwrap().fate
    }
}

pub async fn what_is_brought_is_read_as_it_was_said_and_goes_on<S: Store>(world: &World<S>) {
    assert_eq!(world.import_one(trip()).await, Fate::Made);
    let row = world.row("trip").await.unwrap();
    let session = &row.session;
    assert_eq!((session.kind, session.creator, session.depth), (SessionKind::Main, CreatorKind::Import, 0));
    assert_eq!((row.title.as_deref(), &*row.source), (Some("A trip"), "telegram"));
    assert_eq!((row.message_count, row.turn_count, row.usage.input), (2, 1, 10));
    let answered = ListFilter { answered: Some(true), limit: 10, ..ListFilter::default() };
    assert_eq!(world.pages(&world.scope, answered).await.len(), 1, "an answer from elsewhere is an answer");
    assert_eq!((row.created_at, row.updated_at, row.ended), (Timestamp(1_000), Timestamp(5_000), None));
    let before = world.read("trip").await.unwrap();
    assert_eq!(texts(&before), ["hello", "hi"]);
    let record = world.turn(before.messages[0].turn).await.unwrap();
    assert_eq!((record.state, record.finish.unwrap().model.as_deref()), (TurnState::Completed, Some("m")));
    let next = world.talk(&world.two, "trip", "more", "yes").await;
    assert_eq!(next.resolution, Resolution::Head);
    assert_eq!(texts(&world.read("trip").await.unwrap()), ["hello", "hi", "more", "yes"]);
}

pub async fn a_chain_of_sessions_is_one_conversation_at_its_last<S: Store>(world: &World<S>) {
    let mut second = vec![compaction(5, CompactionMode::Split, "they met", 2, &[1])];
    second.extend(turn(6, "still there?", "yes"));
    let first: Vec<_> = [turn(1, "hello", "hi"), turn(3, "how are you?", "well")].concat();
    let sessions = vec![session("first", first), session("second", second), session("third", turn(8, "third?", "yes"))];
    assert_eq!(world.import_one(conversation(sessions)).await, Fate::Made);
    let row = world.row("first").await.unwrap();
    assert_eq!((row.facts.head.id.as_str(), row.facts.head.depth), ("third", 2));
    assert_eq!((row.facts.head.kind, row.facts.origin_kind), (SessionKind::Continuation, SessionKind::Main));
    assert_eq!((row.facts.compaction_count, row.facts.compaction_mode), (1, Some(CompactionMode::Split)));
    let expected = ["[they met]", "(hello)", "how are you?", "well", "still there?", "yes", "third?", "yes"];
    assert_eq!(shown(&world.read("second").await.unwrap()), expected);
    let middle = world.two.open(&world.scope, &name("second"), Namespace::Session, Extent::Session).await.unwrap();
    assert_eq!(shown(&middle.unwrap()), expected[..6]);
    let ended = world.two.conversation(&world.scope, &name("first"), Pin::Exact).await.unwrap().unwrap().ended;
    assert_eq!(ended.map(|(at, _)| at), Some(Timestamp(9_000)));
    let ledger = world.ledger("first").await;
    undone(world.undo(&world.two, "first", ledger.rows[0].id).await);
    assert_eq!(shown(&world.read("first").await.unwrap())[..3], ["hello", "hi", "how are you?"]);
}

pub async fn what_is_brought_again_is_there_once<S: Store>(world: &World<S>) {
    assert_eq!(world.import_one(trip()).await, Fate::Made);
    let before = world.read("trip").await.unwrap();
    assert_eq!(world.import_one(trip()).await, Fate::Unchanged);
    let after = world.read("trip").await.unwrap();
    assert_eq!((before.version, &before.facts, &before.messages), (after.version, &after.facts, &after.messages));
    assert_eq!(world.all(&world.scope).await.len(), 1);
}

pub async fn what_was_said_elsewhere_since_is_added<S: Store>(world: &World<S>) {
    let mut open = turn(1, "hello", "hi");
    open.truncate(1);
    assert_eq!(world.import_one(conversation(vec![session("trip", open)])).await, Fate::Made);
    let asked = world.read("trip").await.unwrap();
    assert_eq!(asked.unanswered.len(), 1);
    assert_eq!(world.import_one(trip()).await, Fate::Extended(1));
    let answered = world.read("trip").await.unwrap();
    assert_eq!((answered.unanswered.len(), answered.messages[0].id), (0, asked.messages[0].id));
    let more = [
        turn(1, "hello", "hi"),
        vec![compaction(3, CompactionMode::InPlace, "they met", 2, &[])],
        turn(4, "more", "yes"),
    ];
    let sessions = vec![session("trip", more.concat()), session("next", turn(6, "next", "yes"))];
    assert_eq!(world.import_one(conversation(sessions)).await, Fate::Extended(4));
    let snapshot = world.read("trip").await.unwrap();
    assert_eq!(shown(&snapshot), ["[they met]", "more", "yes", "next", "yes"]);
    assert_eq!(snapshot.facts.head.id.as_str(), "next");
    let entries = world.entries(&world.scope, "trip", Pin::Head).await;
    let expected = ["hello", "hi", "[they met]", "more", "yes", "next", "yes"];
    assert_eq!(entries.iter().map(entry_text).collect::<Vec<_>>(), expected);
}

pub async fn a_title_that_was_taken_away_here_is_not_brought_again<S: Store>(world: &World<S>) {
    let mut open = turn(1, "hello", "hi");
    open.truncate(1);
    world.import_one(conversation(vec![session("trip", open)])).await;
    let change = Change { title: Some(None), ..Change::default() };
    assert_eq!(world.describe("trip", change).await.title, None);
    assert_eq!(world.import_one(trip()).await, Fate::Extended(1));
    assert_eq!(world.row("trip").await.unwrap().title, None);
}

pub async fn what_was_taken_back_elsewhere_is_taken_back<S: Store>(world: &World<S>) {
    let all = [turn(1, "hello", "hi"), turn(3, "wrong", "no")].concat();
    world.import_one(conversation(vec![session("trip", all)])).await;
    let id = world.row("trip").await.unwrap().facts.id;
    let all = [turn(1, "hello", "hi"), turn(5, "right", "yes")].concat();
    assert_eq!(world.import_one(conversation(vec![session("trip", all)])).await, Fate::Replaced);
    let snapshot = world.read(&id.to_string()).await.unwrap();
    assert_eq!(texts(&snapshot), ["hello", "hi", "right", "yes"]);
}

pub async fn what_has_gone_on_here_is_left_alone<S: Store>(world: &World<S>) {
    world.import_one(trip()).await;
    world.talk(&world.one, "trip", "here", "yes").await;
    let all = [turn(1, "hello", "hi"), turn(3, "there", "no")].concat();
    let grown = || conversation(vec![session("trip", all.clone())]);
    assert_eq!(world.import_one(grown()).await, Fate::Left(Leaving::Touched));
    assert_eq!(texts(&world.read("trip").await.unwrap()), ["hello", "hi", "here", "yes"]);
    assert_eq!(world.import_one(trip()).await, Fate::Unchanged);
}

pub async fn a_branch_here_keeps_what_was_taken_back_elsewhere<S: Store>(world: &World<S>) {
    world.import_one(trip()).await;
    let source = world.read("trip").await.unwrap().messages[1].turn;
    let branch = world.branch(&world.one, source, "aside", "yes").await;
    let other = conversation(vec![session("trip", turn(3, "anew", "yes"))]);
    assert_eq!(world.import_one(other).await, Fate::Left(Leaving::Inherited));
    let all = [turn(1, "hello", "hi"), turn(3, "more", "yes")].concat();
    assert_eq!(world.import_one(conversation(vec![session("trip", all)])).await, Fate::Extended(2));
    let branched = world.read(branch.facts.head.id.as_str()).await.unwrap();
    assert_eq!(texts(&branched), ["hello", "hi", "aside", "yes"]);
}

pub async fn an_id_that_leads_elsewhere_is_not_taken_over<S: Store>(world: &World<S>) {
    world.talk(&world.one, "second", "mine", "yes").await;
    let sessions = vec![session("first", turn(1, "hello", "hi")), session("second", turn(3, "more", "yes"))];
    let fate = world.import_one(conversation(sessions)).await;
    assert_eq!(fate, Fate::Left(Leaving::Taken(SessionId::from_name("second"))));
    assert!(world.row("first").await.is_none());
    world.import_one(trip()).await;
    let other = world.arrivals(&world.scope, "other.db", vec![trip()]).await;
    assert_eq!(other[0].fate, Fate::Left(Leaving::Taken(SessionId::from_name("trip"))));
}

pub async fn sessions_that_are_gone_elsewhere_stay_here<S: Store>(world: &World<S>) {
    let second = || session("second", turn(3, "more", "yes"));
    world.import_one(conversation(vec![session("first", turn(1, "hello", "hi")), second()])).await;
    assert_eq!(world.import_one(conversation(vec![second()])).await, Fate::Left(Leaving::Rearranged));
    assert_eq!(texts(&world.read("first").await.unwrap()), ["hello", "hi", "more", "yes"]);
}

pub async fn what_is_deleted_here_can_be_brought_again<S: Store>(world: &World<S>) {
    world.import_one(trip()).await;
    let source = world.read("trip").await.unwrap().messages[1].turn;
    world.branch(&world.one, source, "aside", "yes").await;
    let deleted = world.one.delete(&world.scope, &name("trip"), crate::Children::Keep, world.now()).await.unwrap();
    assert!(matches!(deleted, DeleteOutcome::Deleted(_)));
    assert_eq!(world.import_one(trip()).await, Fate::Made);
    assert_eq!(texts(&world.read("trip").await.unwrap()), ["hello", "hi"]);
}

pub async fn parents_and_kinds_are_as_they_were<S: Store>(world: &World<S>) {
    world.import_one(trip()).await;
    let parent = |relation| Some((SessionId::from_name("trip"), relation));
    let own = |id: &str, first| vec![session(id, turn(first, "hello", "hi"))];
    let branch = ImportedConversation {
        kind: SessionKind::Branch,
        parent: parent(ParentRelation::Branch),
        ..conversation(own("branch", 3))
    };
    let helper = ImportedConversation {
        kind: SessionKind::Auxiliary,
        parent: parent(ParentRelation::Delegate),
        ..conversation(own("helper", 5))
    };
    let arrivals = world.arrivals(&world.scope, "state.db", vec![branch, helper]).await;
    assert!(arrivals.iter().all(|arrival| arrival.fate == Fate::Made));
    for (id, kind, relation) in [
        ("branch", SessionKind::Branch, ParentRelation::Branch),
        ("helper", SessionKind::Auxiliary, ParentRelation::Delegate),
    ] {
        let facts = world.row(id).await.unwrap().session;
        assert_eq!((facts.kind, facts.parent), (kind, parent(relation)), "{id}");
        assert_eq!(texts(&world.read(id).await.unwrap()), ["hello", "hi"]);
    }
}

pub async fn what_is_brought_has_its_place_in_the_graph<S: Store>(world: &World<S>) {
    let trip =
        || conversation(vec![session("trip", turn(1, "hello", "hi")), session("trip-2", turn(3, "more", "yes"))]);
    let child = |id: &str, first, parent: &str| ImportedConversation {
        kind: SessionKind::Auxiliary,
        parent: Some((SessionId::from_name(parent), ParentRelation::Delegate)),
        ..conversation(vec![session(id, turn(first, "look", "found"))])
    };
    let round = || vec![child("one", 7, "other"), child("other", 9, "one")];
    let graph = async |of: &str| -> Vec<String> {
        let (nodes, _) = world.whole_graph(&world.scope, of, 10).await;
        nodes.iter().map(|node| node.row.session.id.to_string()).collect()
    };
    world.import_one(child("early", 5, "trip-2")).await;
    assert_eq!(graph("early").await, ["early"], "its parent is only a name");
    world.import_one(trip()).await;
    world.import_one(child("helper", 11, "trip")).await;
    assert_eq!(graph("trip").await, ["trip", "trip-2", "helper"]);
    assert_eq!(world.import_one(child("early", 5, "trip-2")).await, Fate::Unchanged);
    assert_eq!(
        graph("trip").await,
        ["trip", "trip-2", "early", "helper"],
        "the edge exists as soon as both are imported"
    );
    for _ in 0..2 {
        world.arrivals(&world.scope, "state.db", round()).await;
    }
    assert_eq!(graph("one").await, ["one", "other"], "no session is its own ancestor");
}

pub async fn what_came_from_it_here_stays_with_what_is_brought_anew<S: Store>(world: &World<S>) {
    world.import_one(trip()).await;
    world.child(Some("helper"), SessionKind::Auxiliary, "trip").await;
    let other = conversation(vec![session("trip", turn(3, "anew", "yes"))]);
    assert_eq!(world.import_one(other).await, Fate::Replaced);
    assert_eq!(world.whole_graph(&world.scope, "trip", 10).await.0.len(), 2);
}

pub async fn a_stranger_is_not_the_parent_of_what_was_brought<S: Store>(world: &World<S>) {
    let kid = || ImportedConversation {
        kind: SessionKind::Auxiliary,
        parent: Some((SessionId::from_name("trip"), ParentRelation::Delegate)),
        ..conversation(vec![session("kid", turn(3, "look", "found"))])
    };
    let has_parent = async || world.whole_graph(&world.scope, "kid", 10).await.1[0].has_node;
    world.import_one(trip()).await;
    world.import_one(kid()).await;
    assert!(has_parent().await);
    world.delete("trip").await;
    world.talk(&world.one, "trip", "another", "one").await;
    assert_eq!(world.import_one(kid()).await, Fate::Unchanged);
    assert!(!has_parent().await, "another conversation has the parent's name");
    world.delete("trip").await;
    world.import_one(trip()).await;
    world.import_one(kid()).await;
    assert!(has_parent().await, "it comes from the same file");
}

pub async fn names_lead_to_what_is_brought_unless_they_are_taken<S: Store>(world: &World<S>) {
    world.talk(&world.one, "mine", "hello", "hi").await;
    let named = || ImportedConversation { names: vec![name("slug"), name("mine")], ..trip() };
    let arrivals = world.arrivals(&world.scope, "state.db", vec![named()]).await;
    assert_eq!(arrivals[0].names_taken, [name("mine")]);
    assert_eq!(world.row("slug").await.unwrap().facts.root.as_str(), "trip");
    assert_eq!(world.row("mine").await.unwrap().facts.root.as_str(), "mine");
    let again = world.arrivals(&world.scope, "state.db", vec![named()]).await;
    assert_eq!((&again[0].fate, again[0].names_taken.len()), (&Fate::Unchanged, 1));
}

pub async fn ids_that_look_like_our_own_lead_to_what_is_brought<S: Store>(world: &World<S>) {
    let id = "run_0123456789abcdef0123456789abcdef";
    world.import_one(conversation(vec![session(id, turn(1, "hello", "hi"))])).await;
    let next = running(world.admit(&world.two, world.ask(id, "more")).await);
    assert_eq!(next.facts.head.id.as_str(), id);
    world.answer(&world.two, &next, "yes").await;
}

pub async fn an_import_is_another_tenants_own<S: Store>(world: &World<S>) {
    world.import_one(trip()).await;
    let theirs = world.arrivals(&world.stranger, "state.db", vec![trip()]).await;
    assert_eq!(theirs[0].fate, Fate::Made);
    let (own, other) = (world.all(&world.scope).await, world.all(&world.stranger).await);
    assert_eq!((own.len(), other.len()), (1, 1));
    assert_ne!(own[0].facts.id, other[0].facts.id);
}

//! Every filter and every order of a list, and sessions as rows of their own.

use herma_model::provenance::CompactionMode::Split;
use herma_model::{EndReason, SessionKey, SessionKind, Timestamp, TurnState};

use super::World;
use super::describing::{keyed, made};
use super::fixture::name;
use crate::BranchPoint::End;
use crate::{Archived, Change, ConversationRow, ListFilter, ListOrder, ListView, NewConversation, Scope, Store};

fn all() -> ListFilter {
    ListFilter { limit: 100, ..ListFilter::default() }
}

impl<S: Store> World<S> {
    /// All rows of a list, read in small pages.
    pub async fn pages(&self, scope: &Scope, filter: ListFilter) -> Vec<ConversationRow> {
        let mut filter = ListFilter { limit: 2, ..filter };
        let mut rows = Vec::new();
        loop {
            let page = self.two.conversations(scope, filter.clone()).await.unwrap();
            assert!(page.rows.len() <= filter.limit);
            rows.extend(page.rows);
            let Some(next) = page.next else { return rows };
            filter.after = Some(filter.read_cursor(&filter.write_cursor(next)).unwrap());
        }
    }

    /// The session ids of a list, in its order.
    async fn listed(&self, filter: ListFilter) -> Vec<String> {
        self.pages(&self.scope, filter).await.iter().map(|row| row.session.id.to_string()).collect()
    }
}

/// Makes two conversations of each of four kinds, the oldest first. Those with an even number have a second session.
async fn every_kind<S: Store>(world: &World<S>) -> Vec<Vec<String>> {
    let mut sessions = Vec::new();
    for (number, kind) in
        ["m0 main", "m1 main", "a2 aux", "a3 aux", "b4 back", "b5 back", "f6 fork", "f7 fork"].into_iter().enumerate()
    {
        let (kind, parent) = match &kind[3..] {
            "main" => (SessionKind::Main, None),
            "aux" => (SessionKind::Auxiliary, Some("0")),
            "back" => (SessionKind::Background, None),
            _ => (SessionKind::Branch, Some("1")),
        };
        let to = number.to_string();
        made(world.one.create(world.declared(Some(&to), kind, parent)).await.unwrap());
        world.talk(&world.one, &to, "hello", "hi").await;
        let mut chain = vec![to.clone()];
        if number % 2 == 0 {
            chain.push(world.compact(&world.one, &to, Split, "so far").await.facts.head.id.to_string());
        }
        sessions.push(chain);
    }
    sessions
}

fn heads(sessions: &[Vec<String>], which: &[usize]) -> Vec<String> {
    which.iter().map(|number| sessions[*number].last().unwrap().clone()).collect()
}

pub async fn kinds_are_told_apart<S: Store>(world: &World<S>) {
    let sessions = every_kind(world).await;
    let kind = |kind| ListFilter { kind: Some(kind), ..all() };
    let origin = |kind| ListFilter { origin_kind: Some(kind), ..all() };
    let facing = |user_facing| ListFilter { user_facing: Some(user_facing), ..all() };
    let both = ListFilter { kind: Some(SessionKind::Continuation), ..facing(false) };
    for (filter, which) in [
        (all(), [7, 6, 5, 4, 3, 2, 1, 0].as_slice()),
        (kind(SessionKind::Main), &[1]),
        (kind(SessionKind::Auxiliary), &[3]),
        (kind(SessionKind::Background), &[5]),
        (kind(SessionKind::Branch), &[7]),
        (kind(SessionKind::Continuation), &[6, 4, 2, 0]),
        (origin(SessionKind::Main), &[1, 0]),
        (origin(SessionKind::Auxiliary), &[3, 2]),
        (origin(SessionKind::Background), &[5, 4]),
        (origin(SessionKind::Branch), &[7, 6]),
        (origin(SessionKind::Continuation), &[]),
        (facing(true), &[7, 6, 1, 0]),
        (facing(false), &[5, 4, 3, 2]),
        (both, &[4, 2]),
        (ListFilter { kind: Some(SessionKind::Main), ..facing(false) }, &[]),
    ] {
        assert_eq!(world.listed(filter.clone()).await, heads(&sessions, which), "{filter:?}");
    }
}

pub async fn every_order_has_every_row_once<S: Store>(world: &World<S>) {
    let sessions = every_kind(world).await;
    for to in ["3", "0"] {
        world.talk(&world.two, to, "more", "yes").await;
    }
    for (order, which) in [
        (ListOrder::UpdatedDescending, [0, 3, 7, 6, 5, 4, 2, 1]),
        (ListOrder::UpdatedAscending, [1, 2, 4, 5, 6, 7, 3, 0]),
        (ListOrder::CreatedDescending, [7, 6, 5, 4, 3, 2, 1, 0]),
        (ListOrder::CreatedAscending, [0, 1, 2, 3, 4, 5, 6, 7]),
    ] {
        assert_eq!(world.listed(ListFilter { order, ..all() }).await, heads(&sessions, &which), "{order:?}");
        let raw = world.listed(ListFilter { order, view: ListView::Sessions, ..all() }).await;
        let expected = which.iter().flat_map(|number| {
            let mut chain = sessions[*number].clone();
            if !order.is_ascending() {
                chain.reverse();
            }
            chain
        });
        assert_eq!(raw, expected.collect::<Vec<_>>(), "{order:?}");
    }
}

pub async fn rows_can_be_skipped<S: Store>(world: &World<S>) {
    let sessions = every_kind(world).await;
    for view in [ListView::Conversations, ListView::Sessions] {
        let whole = world.listed(ListFilter { view, ..all() }).await;
        for skip in 0..=whole.len() + 1 {
            let page = ListFilter { view, skip: Some(skip), limit: 3, ..all() };
            let page = world.one.conversations(&world.scope, page).await.unwrap();
            let ids: Vec<_> = page.rows.iter().map(|row| row.session.id.to_string()).collect();
            assert_eq!(ids, whole.iter().skip(skip).take(3).cloned().collect::<Vec<_>>(), "{view:?} {skip}");
            assert_eq!(page.next.is_some(), whole.len() > skip + 3, "{view:?} {skip}");
        }
    }
    let kind = ListFilter { kind: Some(SessionKind::Continuation), skip: Some(2), ..all() };
    let page = world.one.conversations(&world.scope, kind).await.unwrap();
    let ids: Vec<_> = page.rows.iter().map(|row| row.session.id.to_string()).collect();
    assert_eq!(ids, heads(&sessions, &[2, 0]), "rows that the filter excludes are not counted");
}

pub async fn sessions_are_rows_of_their_own<S: Store>(world: &World<S>) {
    let sessions = every_kind(world).await;
    let raw = ListFilter { view: ListView::Sessions, ..all() };
    let rows = world.pages(&world.scope, raw.clone()).await;
    assert_eq!(rows.len(), 12);
    for row in &rows {
        let exact = world.two.conversation(&world.scope, &name(row.session.id.as_str()), crate::Pin::Exact).await;
        let exact = exact.unwrap().unwrap();
        assert_eq!((&exact.session, &exact.facts, exact.ended), (&row.session, &row.facts, row.ended));
        let is_head = row.session.id == row.facts.head.id;
        assert_eq!(row.ended.map(|(_, reason)| reason), (!is_head).then_some(EndReason::Compression));
        assert_eq!(row.ended.map_or(exact.updated_at, |(at, _)| at), row.updated_at);
        assert_eq!(row.created_at > exact.created_at, row.session.depth > 0, "it began later");
    }
    let kind = |kind| ListFilter { kind: Some(kind), ..raw.clone() };
    assert_eq!(world.listed(kind(SessionKind::Auxiliary)).await, ["3", "2"]);
    assert_eq!(world.listed(kind(SessionKind::Continuation)).await, heads(&sessions, &[6, 4, 2, 0]));
    let root = ListFilter { root: Some(name(&sessions[2][1])), ..raw.clone() };
    assert_eq!(world.listed(root).await, [sessions[2][1].as_str(), "2"]);
    let of = |parent: &str| ListFilter { parent: Some(name(parent)), ..raw.clone() };
    assert_eq!(world.listed(of("0")).await, ["3", "2", &sessions[0][1]], "its continuation is a child too");
    assert!(world.listed(of(&sessions[0][1])).await.is_empty());
    let conversation = world.row("0").await.unwrap().facts.id.to_string();
    assert_eq!(world.listed(of(&conversation)).await, ["3", "2", &sessions[0][1]]);
}

pub async fn a_long_chain_is_read_a_page_at_a_time<S: Store>(world: &World<S>) {
    world.talk(&world.one, "trip", "hello", "hi").await;
    let mut chain = vec!["trip".to_owned()];
    for _ in 0..7 {
        chain.push(world.compact(&world.one, "trip", Split, "so far").await.facts.head.id.to_string());
    }
    world.make(&world.one, Some("later")).await;
    let raw = ListFilter { view: ListView::Sessions, order: ListOrder::CreatedAscending, ..all() };
    let expected = [chain, vec!["later".to_owned()]].concat();
    assert_eq!(world.listed(raw.clone()).await, expected);
    let back = ListFilter { order: ListOrder::CreatedDescending, ..raw };
    assert_eq!(world.listed(back).await, expected.into_iter().rev().collect::<Vec<_>>());
}

pub async fn children_and_roots_are_found_by_any_name<S: Store>(world: &World<S>) {
    let sessions = every_kind(world).await;
    let row = world.row("0").await.unwrap();
    let grandchild = world.make_branch("3", End).await;
    for named in ["0", &sessions[0][1], &row.facts.id.to_string()] {
        let of = ListFilter { parent: Some(name(named)), ..all() };
        assert_eq!(world.listed(of.clone()).await, heads(&sessions, &[3, 2]), "{named}");
        let by_age = ListFilter { order: ListOrder::CreatedAscending, ..of.clone() };
        assert_eq!(world.listed(by_age).await, heads(&sessions, &[2, 3]));
        let gone_on = ListFilter { kind: Some(SessionKind::Continuation), ..of };
        assert_eq!(world.listed(gone_on).await, heads(&sessions, &[2]));
        let root = ListFilter { root: Some(name(named)), ..all() };
        assert_eq!(world.listed(root).await, heads(&sessions, &[0]));
    }
    let of = ListFilter { parent: Some(name("3")), ..all() };
    assert_eq!(world.listed(of).await, [grandchild.facts.head.id.to_string()]);
    for nothing in [
        ListFilter { parent: Some(name("nowhere")), ..all() },
        ListFilter { root: Some(name("nowhere")), ..all() },
        ListFilter { parent: Some(name("5")), ..all() },
        ListFilter { root: Some(name("0")), kind: Some(SessionKind::Main), ..all() },
    ] {
        assert!(world.listed(nothing).await.is_empty());
    }
    let theirs = ListFilter { parent: Some(name("0")), ..all() };
    assert!(world.pages(&world.stranger, theirs).await.is_empty());
    world.delete("0").await;
    assert!(world.listed(ListFilter { parent: Some(name(&sessions[0][1])), ..all() }).await.is_empty());
    assert_eq!(world.listed(all()).await.len(), 8);
}

pub async fn titles_sources_and_times_filter_a_list<S: Store>(world: &World<S>) {
    let titles = [Some("Reise ans MEER"), Some("Über den Fluß"), None, Some("100% reise_")];
    for (number, title) in titles.iter().enumerate() {
        let mut new = world.new_conversation(Some(&number.to_string()));
        new.title = title.map(str::to_owned);
        new.creation.source = if number < 2 { "cli" } else { "api" }.into();
        made(world.one.create(new).await.unwrap());
    }
    let title = |text: &str| ListFilter { title: Some(text.to_owned()), ..all() };
    for (text, expected) in [
        ("reise", ["3", "0"].as_slice()),
        ("meer", &["0"]),
        ("ÜBER", &["1"]),
        ("%", &["3"]),
        ("_", &["3"]),
        ("see", &[]),
        ("", &["3", "1", "0"]),
    ] {
        assert_eq!(world.listed(title(text)).await, expected, "{text}");
    }
    let source = |text: &str| ListFilter { source: Some(text.to_owned()), ..all() };
    assert_eq!(world.listed(source("cli")).await, ["1", "0"]);
    assert_eq!(world.listed(ListFilter { title: Some("reise".to_owned()), ..source("cli") }).await, ["0"]);
    assert!(world.listed(source("CLI")).await.is_empty());
    let mut moments = Vec::new();
    for number in 0..4 {
        moments.push(world.row(&number.to_string()).await.unwrap().updated_at);
    }
    for order in [ListOrder::UpdatedAscending, ListOrder::CreatedAscending] {
        let between = |since: usize, until: Option<usize>| ListFilter {
            since: Some(moments[since]),
            until: until.map(|until| moments[until]),
            order,
            ..all()
        };
        assert_eq!(world.listed(between(1, Some(3))).await, ["1", "2"]);
        assert_eq!(world.listed(between(2, None)).await, ["2", "3"]);
        let later = Timestamp(moments[3].0 + 1);
        assert!(world.listed(ListFilter { since: Some(later), order, ..all() }).await.is_empty());
    }
}

pub async fn archived_conversations_are_listed_when_asked_for<S: Store>(world: &World<S>) {
    for number in 0..4 {
        world.talk(&world.one, &number.to_string(), "hello", "hi").await;
    }
    for number in [2, 0] {
        world.describe(&number.to_string(), Change { archived: Some(true), ..Change::default() }).await;
    }
    for (archived, expected) in [
        (Archived::Hidden, ["3", "1"].as_slice()),
        (Archived::Only, &["0", "2"]),
        (Archived::Any, &["0", "2", "3", "1"]),
    ] {
        assert_eq!(world.listed(ListFilter { archived, ..all() }).await, expected);
        let by_age = ListFilter { archived, order: ListOrder::CreatedAscending, ..all() };
        let mut expected = expected.to_vec();
        expected.sort_unstable();
        assert_eq!(world.listed(by_age).await, expected);
        let root = ListFilter { archived, root: Some(name("2")), ..all() };
        assert_eq!(world.listed(root).await.len(), usize::from(archived != Archived::Hidden));
    }
}

pub async fn a_keys_conversations_are_listed<S: Store>(world: &World<S>) {
    let key = |text: &str| SessionKey::parse(text).ok();
    for (number, text) in ["mine", "yours", "mine", "mine:too"].into_iter().enumerate() {
        let to = number.to_string();
        made(
            world
                .one
                .create(NewConversation { session_key: key(text), ..world.new_conversation(Some(&to)) })
                .await
                .unwrap(),
        );
    }
    world.make(&world.one, Some("4")).await;
    let branch = world.make_branch("0", End).await.facts.head.id.to_string();
    let of = |text: &str| ListFilter { session_key: key(text), ..all() };
    assert_eq!(world.listed(of("mine")).await, [branch.as_str(), "2", "0"]);
    assert_eq!(
        world.listed(ListFilter { order: ListOrder::CreatedAscending, ..of("mine") }).await,
        ["0", "2", &branch]
    );
    assert_eq!(world.listed(ListFilter { origin_kind: Some(SessionKind::Main), ..of("mine") }).await, ["2", "0"]);
    assert!(world.listed(of("nobody")).await.is_empty());
    let narrow = keyed("mine*", &world.scope);
    let seen = world.pages(&narrow, all()).await;
    let seen: Vec<_> = seen.iter().map(|row| row.session.id.as_str()).collect();
    assert_eq!(seen, [branch.as_str(), "4", "3", "2", "0"]);
    assert!(world.pages(&narrow, of("yours")).await.is_empty());
    assert!(world.pages(&world.stranger, of("mine")).await.is_empty());
}

pub async fn rows_that_are_added_are_neither_skipped_nor_repeated<S: Store>(world: &World<S>) {
    let sessions = every_kind(world).await;
    for (order, view) in
        [(ListOrder::UpdatedDescending, ListView::Conversations), (ListOrder::CreatedDescending, ListView::Sessions)]
    {
        let expected = world.listed(ListFilter { order, view, ..all() }).await;
        let mut filter = ListFilter { order, view, limit: 3, ..ListFilter::default() };
        let mut seen = Vec::new();
        loop {
            let page = world.one.conversations(&world.scope, filter.clone()).await.unwrap();
            seen.extend(page.rows.iter().map(|row| row.session.id.to_string()));
            world.child(None, SessionKind::Auxiliary, &sessions[1][0]).await;
            world.make(&world.one, None).await;
            let Some(next) = page.next else { break };
            filter.after = Some(next);
        }
        assert_eq!(seen, expected);
    }
}

pub async fn a_list_tells_answered_conversations_from_unanswered_ones<S: Store>(world: &World<S>) {
    made(world.one.create(world.declared(Some("empty"), SessionKind::Main, None)).await.unwrap());
    let failed = world.start(&world.one, "failed", "hello").await;
    world.leave(&world.one, &failed, TurnState::Failed, Some("half an ans")).await;
    world.talk(&world.one, "answered", "hello", "hi").await;
    world.talk(&world.one, "moved", "hello", "hi").await;
    let moved = world.compact(&world.one, "moved", Split, "so far").await.facts.head.id.to_string();
    let later = world.start(&world.one, "moved", "and now?").await;
    world.leave(&world.one, &later, TurnState::Failed, None).await;
    world.talk(&world.one, "brought", "hello", "hi").await;
    world.copy_delete_restore("brought").await;
    made(world.one.create(world.declared(Some("branch"), SessionKind::Branch, Some("answered"))).await.unwrap());
    let listed = async |answered| {
        let mut ids = world.listed(ListFilter { answered, ..all() }).await;
        ids.sort();
        ids
    };
    let mut with_answers = vec!["answered".to_owned(), "branch".to_owned(), "brought".to_owned(), moved];
    with_answers.sort();
    assert_eq!(listed(Some(true)).await, with_answers);
    assert_eq!(listed(Some(false)).await, ["empty", "failed"]);
    assert_eq!(listed(None).await.len(), 6);
    world.talk(&world.one, "failed", "again", "hi").await;
    assert_eq!(listed(Some(false)).await, ["empty"]);
}

//! Lists and pages.

use herma_model::provenance::CompactionMode::Split;
use herma_model::{Role, Seq, SessionKind, Timestamp, TurnState};

use super::World;
use super::fixture::{finish, message, name, running};
use super::summaries::entry_text;
use crate::{Commit, ListFilter, MessageRange, Order, Pin, Store, TurnOutcome};

async fn ids<S: Store>(world: &World<S>) -> Vec<String> {
    world.all(&world.scope).await.iter().map(|row| row.facts.head.id.to_string()).collect()
}

pub async fn conversations_are_listed_most_recently_changed_first<S: Store>(world: &World<S>) {
    for name in ["a", "b", "c"] {
        world.talk(&world.one, name, "hello", "hi").await;
    }
    assert_eq!(ids(world).await, ["c", "b", "a"]);
    world.talk(&world.two, "a", "more", "yes").await;
    assert_eq!(ids(world).await, ["a", "c", "b"]);
}

pub async fn pages_neither_skip_nor_repeat_while_rows_are_added<S: Store>(world: &World<S>) {
    let now = world.now();
    for number in 0..12 {
        // Several conversations change in the same millisecond.
        let turn = world.start(&world.one, &format!("c{number}"), "hello").await;
        let said = TurnOutcome::Completed { messages: vec![message(Role::Assistant, "hi")], finish: finish() };
        let commit = Commit { now: Timestamp(now.0 + number / 4), ..world.commit(&turn, said) };
        world.one.commit(commit).await.unwrap();
    }
    let expected = ids(world).await;
    let mut after = None;
    let mut seen = Vec::new();
    loop {
        let filter = ListFilter { after, limit: 5, ..ListFilter::default() };
        let page = world.two.conversations(&world.scope, filter).await.unwrap();
        assert!(page.rows.len() <= 5);
        seen.extend(page.rows.iter().map(|row| row.facts.head.id.to_string()));
        world.talk(&world.one, &format!("new{}", seen.len()), "hello", "hi").await;
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(seen, expected);
}

pub async fn a_filter_leaves_out_what_it_says<S: Store>(world: &World<S>) {
    world.talk(&world.one, "main", "hello", "hi").await;
    let mut ask = world.ask("background", "hello");
    ask.creation.kind = SessionKind::Background;
    ask.creation.source = "elsewhere".into();
    let turn = running(world.admit(&world.one, ask).await);
    world.answer(&world.one, &turn, "hi").await;
    let kind = Some(SessionKind::Background);
    let all = ListFilter { limit: 10, ..ListFilter::default() };
    for filter in [
        ListFilter { kind, ..all.clone() },
        ListFilter { origin_kind: kind, ..all.clone() },
        ListFilter { source: Some("elsewhere".to_owned()), ..all.clone() },
    ] {
        let page = world.two.conversations(&world.scope, filter).await.unwrap();
        assert_eq!(page.rows.len(), 1);
        assert_eq!(page.rows[0].facts.head.id.as_str(), "background");
        assert!(page.next.is_none());
    }
    let none = ListFilter { kind, source: Some("contract".to_owned()), ..all };
    assert!(world.two.conversations(&world.scope, none).await.unwrap().rows.is_empty());
}

pub async fn a_conversation_is_found_by_a_part_of_any_of_its_ids<S: Store>(world: &World<S>) {
    world.talk(&world.one, "other", "hello", "hi").await;
    world.talk(&world.one, "trip-by-train", "hello", "hi").await;
    world.compact(&world.one, "trip-by-train", Split, "hello").await;
    let listed = world.all(&world.scope).await;
    let trip = listed.iter().find(|row| row.facts.head.id.as_str() != "other").map(|row| row.facts.clone()).unwrap();
    let id = trip.id.to_string();
    let (head, whole) = (trip.head.id.as_str(), id.as_str());
    for part in ["trip-by", "by-train", head, whole, &id[..id.len() - 4], &id[id.len() - 8..]] {
        let filter = ListFilter { id_part: Some(part.to_owned()), limit: 10, ..ListFilter::default() };
        let page = world.two.conversations(&world.scope, filter).await.unwrap();
        let found: Vec<_> = page.rows.iter().map(|row| row.facts.id).collect();
        assert_eq!((found, page.next), (vec![trip.id], None), "{part}");
    }
    for part in ["by-", "Trip", "nowhere", "%", "_"] {
        let filter = ListFilter { id_part: Some(part.to_owned()), limit: 10, ..ListFilter::default() };
        assert!(world.two.conversations(&world.scope, filter).await.unwrap().rows.is_empty(), "{part}");
    }
}

pub async fn messages_are_read_a_page_at_a_time<S: Store>(world: &World<S>) {
    for _ in 0..3 {
        world.talk(&world.one, "trip", "hello", "hi").await;
    }
    let read = async |after: Option<i64>, limit| {
        let range = MessageRange { order: Order::OldestFirst { after: after.map(Seq) }, limit, pin: Pin::Head };
        let page = world.two.messages(&world.scope, &name("trip"), range).await.unwrap().unwrap();
        (page.entries.iter().map(|entry| entry.seq().0).collect::<Vec<_>>(), page.has_more)
    };
    assert_eq!(read(None, 4).await, (vec![1, 2, 3, 4], true));
    assert_eq!(read(Some(4), 4).await, (vec![5, 6], false));
    assert_eq!(read(Some(2), 4).await, (vec![3, 4, 5, 6], false));
    assert_eq!(read(Some(6), 4).await, (Vec::new(), false));
    let range = MessageRange { order: Order::OldestFirst { after: None }, limit: 4, pin: Pin::Head };
    assert!(world.two.messages(&world.scope, &name("nowhere"), range).await.unwrap().is_none());
}

pub async fn messages_are_read_from_the_end_back<S: Store>(world: &World<S>) {
    let first = world.talk(&world.one, "trip", "1", "2").await;
    world.one.pin(&world.scope, &name("trip"), first.messages[0].id, true).await.unwrap();
    world.compact(&world.one, "trip", Split, "3").await;
    let second = world.talk(&world.one, "trip", "4", "5").await;
    let failed = world.start(&world.one, "trip", "6").await;
    world.leave(&world.one, &failed, TurnState::Failed, Some("7")).await;
    let branch = world.branch(&world.one, second.turn, "6'", "7'").await;
    let branch = branch.facts.id.to_string();
    let pages = [
        ("trip", None, 3, ["7", "6", "5"].as_slice(), true),
        ("trip", Some(5), 3, &["4", "[3]", "2"], true),
        ("trip", Some(2), 3, &["1"], false),
        ("trip", Some(1), 3, &[], false),
        ("trip", None, 7, &["7", "6", "5", "4", "[3]", "2", "1"], false),
        ("trip", None, 0, &[], true),
        (&branch, None, 3, &["7'", "6'", "5"], true),
        (&branch, Some(6), 1, &["5"], true),
        (&branch, Some(100), 7, &["7'", "6'", "5", "4", "[3]", "2", "1"], false),
        (&branch, Some(3), 7, &["2", "1"], false),
    ];
    for (to, before, limit, texts, has_more) in pages {
        let range = MessageRange { order: Order::NewestFirst { before: before.map(Seq) }, limit, pin: Pin::Head };
        let page = world.two.messages(&world.scope, &name(to), range).await.unwrap().unwrap();
        let said: Vec<String> = page.entries.iter().map(entry_text).collect();
        assert_eq!(
            (said, page.has_more),
            (texts.iter().map(ToString::to_string).collect(), has_more),
            "{to} {before:?}"
        );
        assert_eq!(page.pinned.contains(&Seq(1)), texts.contains(&"1"), "a page has only its own pins");
    }
    let range = MessageRange { order: Order::NewestFirst { before: None }, limit: 10, pin: Pin::Exact };
    let page = world.two.messages(&world.scope, &name("trip"), range).await.unwrap().unwrap();
    assert_eq!(page.entries.iter().map(entry_text).collect::<Vec<_>>(), ["2", "1"]);
    let nowhere = world.two.messages(&world.stranger, &name("trip"), range).await.unwrap();
    assert!(nowhere.is_none());
}

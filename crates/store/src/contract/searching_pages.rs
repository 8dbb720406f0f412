//! Search: filters, pages, and the index after deletions.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use herma_model::{Role, SessionKey, SessionKind, TurnState};

use super::World;
use super::fixture::{message, name, running};
use super::searching::{search, snippet};
use crate::search::{Grouping, Search, SearchFilter};
use crate::{Rewrite, RewriteOutcome, Store};

pub async fn a_conversation_is_found_once_unless_asked<S: Store>(world: &World<S>) {
    for number in 0..4 {
        world.talk(&world.one, "a", &format!("apple {number}"), "pear").await;
        world.talk(&world.one, "b", &format!("pineapple {number}"), "apple").await;
    }
    for indexed in [false, true] {
        if indexed {
            world.one.index_all().await.unwrap();
        }
        for limit in [1, 2, 50] {
            let once = Search { grouping: Grouping::Conversation, limit, ..search("apple") };
            assert_eq!(world.found(&world.scope, once).await.len(), 2, "by {limit}, indexed: {indexed}");
            let all = Search { limit, ..search("apple") };
            assert_eq!(world.found(&world.scope, all).await.len(), 12, "by {limit}, indexed: {indexed}");
        }
    }
}

pub async fn pages_neither_skip_nor_repeat_while_more_is_said<S: Store>(world: &World<S>) {
    for number in 0..9 {
        world.talk(&world.one, &format!("c{number}"), &format!("apple number {number}"), "pineapples").await;
    }
    let expected = world.found(&world.scope, search("apple")).await;
    assert_eq!(expected.len(), 18);
    let mut search = Search { limit: 4, now: world.now(), ..search("apple") };
    let mut found = Vec::new();
    loop {
        let page = world.two.search(&world.scope, search.clone()).await.unwrap();
        found.extend(page.hits.iter().map(snippet));
        world.talk(&world.one, "c0", "another apple", "of course").await;
        if found.len() == 8 {
            world.one.index_all().await.unwrap();
        }
        search.after = page.next;
        if search.after.is_none() {
            break;
        }
    }
    found.sort();
    let mut expected = expected;
    expected.sort();
    assert_eq!(found, expected);
}

pub async fn a_number_in_a_common_word_is_found_on_every_page_once<S: Store>(world: &World<S>) {
    let said = |conversation: &str, text: String| {
        let conversation = conversation.to_owned();
        async move { world.talk(&world.one, &conversation, &text, "noted").await }
    };
    for number in 0..3 {
        said("sought", format!("topic77 and topic777, place {number}")).await;
        said("no topic", format!("epic77 has the same end, place {number}")).await;
    }
    for number in 0..320 {
        said("others", format!("topic{number:04}")).await;
    }
    world.one.index_all().await.unwrap();
    let whole = world.found(&world.scope, search("topic77")).await;
    assert_eq!(whole.len(), 3, "{whole:?}");
    let mut paged = Search { limit: 1, now: world.now(), ..search("opic77") };
    let mut found = Vec::new();
    loop {
        let page = world.two.search(&world.scope, paged.clone()).await.unwrap();
        found.extend(page.hits.iter().map(snippet));
        // What is said between the pages makes other terms common.
        said("later", "c77 pic ic7 ".repeat(2)).await;
        world.one.index_all().await.unwrap();
        paged.after = page.next;
        if paged.after.is_none() {
            break;
        }
    }
    assert_eq!(found.len(), 3, "{found:?}");
    found.sort();
    found.dedup();
    assert_eq!(found.len(), 3, "{found:?}");
}

pub async fn more_recent_is_better_if_it_says_as_much<S: Store>(world: &World<S>) {
    world.talk(&world.one, "old", "apple pie", "x").await;
    world.talk(&world.one, "new", "apple pie", "x").await;
    world.talk(&world.one, "long", &format!("apple {}", "and many other things ".repeat(200)), "x").await;
    let page = world.two.search(&world.scope, Search { now: world.now(), ..search("apple") }).await.unwrap();
    let sessions: Vec<_> = page.hits.iter().map(|hit| hit.session.to_string()).collect();
    assert_eq!(sessions, ["new", "old", "long"]);
}

pub async fn a_filter_narrows_a_search<S: Store>(world: &World<S>) {
    world.talk(&world.one, "main", "apple", "an apple").await;
    let before = world.now();
    let mut ask = world.ask("background", "apple");
    ask.creation.kind = SessionKind::Background;
    ask.creation.source = "elsewhere".into();
    ask.session_key = Some(SessionKey::parse("agent:one").unwrap());
    let turn = running(world.admit(&world.one, ask).await);
    world.leave(&world.one, &turn, TurnState::Failed, None).await;
    let kind = Some(SessionKind::Background);
    let all = SearchFilter::default();
    for (filter, count) in [
        (all.clone(), 3),
        (SearchFilter { kind, ..all.clone() }, 1),
        (SearchFilter { origin_kind: kind, ..all.clone() }, 1),
        (SearchFilter { user_facing: Some(true), ..all.clone() }, 2),
        (SearchFilter { user_facing: Some(false), ..all.clone() }, 1),
        (SearchFilter { source: Some("elsewhere".to_owned()), ..all.clone() }, 1),
        (SearchFilter { session_key: SessionKey::parse("agent:one").ok(), ..all.clone() }, 1),
        (SearchFilter { role: Some(Role::Assistant), ..all.clone() }, 1),
        (SearchFilter { since: Some(before), ..all.clone() }, 1),
        (SearchFilter { until: Some(before), ..all.clone() }, 2),
        (SearchFilter { kind, role: Some(Role::Assistant), ..all.clone() }, 0),
    ] {
        for indexed in [false, true] {
            if indexed {
                world.one.index_all().await.unwrap();
            }
            let narrowed = Search { filter: filter.clone(), ..search("apple") };
            assert_eq!(world.found(&world.scope, narrowed).await.len(), count, "{filter:?}");
        }
    }
}

pub async fn what_is_deleted_is_never_found_again<S: Store>(world: &World<S>) {
    for indexed in [false, true] {
        world.talk(&world.one, "trip", "the harbour", "in the harbour").await;
        world.talk(&world.one, "other", "a harbour", "yes").await;
        if indexed {
            world.one.index_all().await.unwrap();
        }
        world.one.delete(&world.scope, &name("trip"), crate::Children::Keep, world.now()).await.unwrap();
        world.finds(&[("harbour", &["a [harbour]"])]).await;
        world.one.delete(&world.scope, &name("other"), crate::Children::Keep, world.now()).await.unwrap();
        world.finds(&[("harbour", &[])]).await;
    }
}

pub async fn what_a_branch_inherits_is_found_there_when_its_source_is_deleted<S: Store>(world: &World<S>) {
    let first = world.talk(&world.one, "trip", "the harbour", "fog").await;
    world.talk(&world.one, "trip", "a later harbour", "rain").await;
    let near = world.branch(&world.one, first.turn, "no harbour here", "sun").await;
    let far = world.branch(&world.one, near.turn, "the beach", "wind").await;
    let (near, far) = (near.facts.id, far.facts.id);
    let found_in = async |grouping| {
        let mut search = Search { grouping, limit: 1, ..search("harbour") };
        let mut found = Vec::new();
        loop {
            search.now = world.now();
            let page = world.two.search(&world.scope, search.clone()).await.unwrap();
            found.extend(page.hits.iter().map(|hit| (hit.conversation, snippet(hit), hit.kind)));
            let Some(next) = page.next else { break };
            search.after = Some(next);
        }
        found.sort_by(|one, other| one.1.cmp(&other.1));
        found
    };
    let branch = SessionKind::Branch;
    let (own, inherited) = ("no [harbour] here".to_owned(), "the [harbour]".to_owned());
    for indexed in [false, true] {
        if indexed {
            world.one.index_all().await.unwrap();
        } else {
            world.delete("trip").await;
        }
        let both = [(near, own.clone(), branch), (near, inherited.clone(), branch)];
        assert_eq!(found_in(Grouping::None).await, both, "messages without an inheriting branch are gone");
        assert_eq!(found_in(Grouping::Conversation).await.len(), 1, "each conversation once");
        assert!(world.found(&world.stranger, search("harbour")).await.is_empty());
    }
    world.delete(&near.to_string()).await;
    let both = [(far, own, branch), (far, inherited, branch)];
    assert_eq!(found_in(Grouping::None).await, both, "the branch of the branch has them now");
    world.delete(&far.to_string()).await;
    assert_eq!(found_in(Grouping::None).await, []);
}

pub async fn what_is_taken_back_is_not_found_and_what_follows_is<S: Store>(world: &World<S>) {
    world.talk(&world.one, "trip", "hello", "hi").await;
    let turn = world.start(&world.one, "trip", "a harbour").await;
    world.finds(&[("harbour", &["a [harbour]"])]).await;
    world.one.retract(turn.lease).await.unwrap();
    world.finds(&[("harbour", &[])]).await;
    // Later rows may reuse the keys of deleted rows.
    world.talk(&world.one, "trip", "a lighthouse", "by the sea").await;
    world.finds(&[("harbour", &[]), ("lighthouse", &["a [lighthouse]"]), ("sea", &["by the [sea]"])]).await;
}

pub async fn what_is_left_of_a_message_is_found<S: Store>(world: &World<S>) {
    for indexed in [false, true] {
        let to = format!("trip {indexed}");
        let turn = world.talk(&world.one, &to, "harbour and lighthouse", "fog").await;
        if indexed {
            world.one.index_all().await.unwrap();
        }
        let rewrite = async |said| {
            let id = turn.messages[0].id;
            let seen = world.one.message(&world.scope, &name(&to), id).await.unwrap().unwrap();
            let (scope, alias, now) = (world.scope.clone(), name(&to), world.now());
            world.rewritten.store(true, Ordering::Relaxed);
            let outcome = world.one.rewrite(Rewrite { scope, alias, seen: Arc::clone(&seen), said, now }).await;
            assert_eq!(outcome.unwrap(), RewriteOutcome::Done);
        };
        rewrite(Some(message(Role::User, "only a lighthouse").said)).await;
        world.finds(&[("harbour", &[]), ("lighthouse", &["only a [lighthouse]"])]).await;
        rewrite(None).await;
        world.finds(&[("harbour", &[]), ("lighthouse", &[])]).await;
    }
}

pub async fn instances_index_together<S: Store>(world: &World<S>) {
    for number in 0..40 {
        world.talk(&world.one, &format!("c{}", number % 3), &format!("apple {number}"), "pear").await;
    }
    let (one, two) = tokio::join!(world.one.index_all(), world.two.index_all());
    assert_eq!((one, two), (Ok(()), Ok(())));
    assert_eq!(world.found(&world.scope, search("apple")).await.len(), 40);
    world.talk(&world.two, "c0", "apple 40", "pear").await;
    assert_eq!(world.found(&world.scope, search("apple")).await.len(), 41);
}

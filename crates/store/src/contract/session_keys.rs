//! Session keys: which callers may see a conversation.

use herma_model::alias::Namespace;
use herma_model::{KeyScope, SessionKey};

use super::World;
use super::fixture::{name, refused, running};
use crate::{Admission, Extent, ListFilter, MessageRange, Order, Pin, Refusal, Scope, Store};

fn key(text: &str) -> SessionKey {
    SessionKey::parse(text).unwrap()
}

/// A scope of the same tenant with only these key patterns.
fn only<S: Store>(world: &World<S>, patterns: &str) -> Scope {
    Scope { keys: KeyScope::parse(Some(patterns)), ..world.scope.clone() }
}

async fn keyed<S: Store>(world: &World<S>, to: &str, with: Option<&str>) -> crate::Running {
    let ask = Admission { session_key: with.map(key), ..world.ask(to, "hello") };
    let turn = running(world.admit(&world.one, ask).await);
    world.answer(&world.one, &turn, "hi").await;
    turn
}

pub async fn a_session_key_is_kept_from_its_first_use<S: Store>(world: &World<S>) {
    assert_eq!(keyed(world, "trip", None).await.facts.session_key, None);
    assert_eq!(keyed(world, "trip", Some("user-42")).await.facts.session_key, Some(key("user-42")));
    assert_eq!(keyed(world, "trip", None).await.facts.session_key, Some(key("user-42")));
    assert_eq!(keyed(world, "trip", Some("user-42")).await.facts.session_key, Some(key("user-42")));
    assert_eq!(world.row("trip").await.unwrap().facts.session_key, Some(key("user-42")));
}

pub async fn another_session_key_is_a_conflict_and_leaves_nothing<S: Store>(world: &World<S>) {
    keyed(world, "trip", Some("user-42")).await;
    let version = world.read("trip").await.unwrap().version;
    let ask = Admission { session_key: Some(key("user-43")), ..world.ask("trip", "more") };
    assert_eq!(refused(world.admit(&world.two, ask.clone()).await), Refusal::SessionKeyConflict);
    assert!(world.turn(ask.turn).await.is_none());
    let snapshot = world.read("trip").await.unwrap();
    assert_eq!((snapshot.version, snapshot.facts.session_key.clone()), (version, Some(key("user-42"))));
}

pub async fn a_conversation_whose_key_may_not_be_used_does_not_exist<S: Store>(world: &World<S>) {
    let turn = keyed(world, "trip", Some("team/a")).await;
    let blind = only(world, "team/b, other*");
    let handle = turn.facts.id.to_string();
    for alias in ["trip", &handle].map(name) {
        assert!(world.two.open(&blind, &alias, Namespace::Session, Extent::View).await.unwrap().is_none());
        assert!(world.two.conversation(&blind, &alias, Pin::Head).await.unwrap().is_none());
        assert!(world.two.conversation(&blind, &alias, Pin::Exact).await.unwrap().is_none());
        let range = MessageRange { order: Order::OldestFirst { after: None }, limit: 10, pin: Pin::Head };
        assert!(world.two.messages(&blind, &alias, range).await.unwrap().is_none());
    }
    assert!(world.two.turn(&blind, turn.turn).await.unwrap().is_none());
    assert!(world.all(&blind).await.is_empty());
    for with in [None, Some(key("team/a")), Some(key("team/b"))] {
        let ask = Admission { scope: blind.clone(), session_key: with, ..world.ask("trip", "more") };
        assert_eq!(refused(world.admit(&world.two, ask).await), Refusal::NotFound);
    }
    assert_eq!(world.row("trip").await.unwrap().turn_count, 1);
    let seeing = only(world, "team/*");
    assert!(world.two.turn(&seeing, turn.turn).await.unwrap().is_some());
    let ask = Admission { scope: seeing, ..world.ask("trip", "more") };
    running(world.admit(&world.two, ask).await);
}

pub async fn a_list_has_only_what_the_keys_allow<S: Store>(world: &World<S>) {
    let keys = [None, Some("a:1"), Some("a:2"), Some("b:1"), Some("A:1"), Some("[x]?"), Some("x")];
    for (number, with) in keys.into_iter().enumerate() {
        keyed(world, &format!("c{number}"), with).await;
    }
    for patterns in ["a:*", "*:1", "a:1,b:1", "[x]?", "[x]*", "?", "*", "a:1*", "*x*", "nothing"] {
        let scope = only(world, patterns);
        let seen = world.all(&scope).await;
        let allowed = keys.into_iter().filter(|with| scope.keys.sees(with.map(key).as_ref())).count();
        assert_eq!(seen.len(), allowed, "{patterns}");
        assert!(seen.iter().all(|row| scope.keys.sees(row.facts.session_key.as_ref())), "{patterns}");
    }
    let filter = ListFilter { session_key: Some(key("a:2")), limit: 10, ..ListFilter::default() };
    let page = world.two.conversations(&world.scope, filter).await.unwrap();
    assert_eq!(page.rows.len(), 1);
    assert_eq!(page.rows[0].facts.session_key, Some(key("a:2")));
}

//! Reading the feed of events: from where, for which callers, and how far back.

use std::time::Duration;

use herma_model::{EventId, SessionKey};

use super::World;
use super::describing::{keyed, made};
use super::events::line;
use super::fixture::{name, running};
use crate::{Admission, Change, Children, Event, EventPage, EventsFrom, KEPT_EVENTS, NewConversation, Scope, Store};

/// How long a follower waits to be woken.
const WAKE_TIMEOUT: Duration = Duration::from_secs(20);

fn lines(events: &[Event]) -> Vec<String> {
    events.iter().map(line).collect()
}

impl<S: Store> World<S> {
    async fn page(&self, scope: &Scope, from: EventsFrom) -> EventPage {
        self.two.events(scope, from, usize::MAX).await.unwrap()
    }

    async fn page_after(&self, id: EventId) -> EventPage {
        self.page(&self.scope, EventsFrom::After(id)).await
    }
}

pub async fn a_reader_goes_on_where_it_was<S: Store>(world: &World<S>) {
    world.make(&world.one, Some("first")).await;
    let now = world.page(&world.scope, EventsFrom::Now).await;
    assert_eq!((&now.events, now.gap, now.has_more), (&vec![], None, false));
    for name in ["second", "third", "fourth"] {
        world.make(&world.one, Some(name)).await;
    }
    let page = world.one.events(&world.scope, EventsFrom::After(now.through), 2).await.unwrap();
    assert_eq!((lines(&page.events), page.has_more), (vec!["created second".into(), "created third".into()], true));
    assert_eq!(page.through, page.events[1].id);
    for after in [page.through, page.events[1].id] {
        let rest = world.page_after(after).await;
        assert_eq!((lines(&rest.events), rest.has_more), (vec!["created fourth".to_owned()], false));
    }
    let end = world.page_after(world.page_after(page.through).await.through).await;
    assert_eq!((end.events, end.gap), (Vec::new(), None));
}

pub async fn a_feed_is_hidden_from_other_tenants<S: Store>(world: &World<S>) {
    world.make(&world.one, Some("mine")).await;
    let theirs = NewConversation { scope: world.stranger.clone(), ..world.new_conversation(Some("theirs")) };
    made(world.one.create(theirs).await.unwrap());
    world.make(&world.one, Some("mine too")).await;
    let events = async |scope| lines(&world.page(scope, EventsFrom::Oldest).await.events);
    assert_eq!(events(&world.scope).await, ["created mine", "created mine too"]);
    assert_eq!(events(&world.stranger).await, ["created theirs"]);
    let places = async |scope| world.page(scope, EventsFrom::Now).await.through.number;
    assert_eq!(
        (places(&world.scope).await, places(&world.stranger).await),
        (2, 1),
        "the count of other events is hidden too"
    );
}

pub async fn a_caller_gets_no_events_of_keys_it_may_not_use<S: Store>(world: &World<S>) {
    let key = |key: &str| SessionKey::parse(key).ok();
    world.make(&world.one, Some("open")).await;
    for to in ["red", "blue"] {
        let new = NewConversation { session_key: key(to), ..world.new_conversation(Some(to)) };
        made(world.one.create(new).await.unwrap());
    }
    let events = async |keys: &str| world.events_from(&world.two, &keyed(keys, &world.scope), EventsFrom::Oldest).await;
    assert_eq!(lines(&events("red").await), ["created open", "created red"]);
    assert_eq!(lines(&events("r*,b*").await), ["created open", "created red", "created blue"]);
    for to in ["blue", "red", "open"] {
        world.one.delete(&world.scope, &name(to), Children::Keep, world.now()).await.unwrap();
    }
    assert_eq!(lines(&events("red").await), ["deleted red", "deleted open"]);
    let restricted = keyed("green", &world.scope);
    let place = world.page(&restricted, EventsFrom::Oldest).await.through;
    assert_eq!(place, world.page(&world.scope, EventsFrom::Now).await.through, "the place is after the hidden events");
}

pub async fn a_key_that_comes_later_hides_earlier_events<S: Store>(world: &World<S>) {
    world.talk(&world.one, "trip", "first", "one").await;
    let stranger = keyed("other", &world.scope);
    let events = async || lines(&world.page(&stranger, EventsFrom::Oldest).await.events);
    assert_eq!(events().await, ["created trip"]);
    let keyed = Admission { session_key: SessionKey::parse("mine").ok(), ..world.ask("trip", "second") };
    let turn = running(world.admit(&world.one, keyed).await);
    assert_eq!(events().await, Vec::<String>::new());
    world.one.retract(turn.lease).await.unwrap();
    assert_eq!(events().await, ["created trip"], "the key went with the turn that brought it");
}

pub async fn a_retraction_is_an_event_only_for_callers_that_may_use_its_key<S: Store>(world: &World<S>) {
    let ask = Admission { session_key: SessionKey::parse("mine").ok(), ..world.ask("trip", "first") };
    let turn = running(world.admit(&world.one, ask).await);
    world.one.retract(turn.lease).await.unwrap();
    let events = async |keys| lines(&world.page(&keyed(keys, &world.scope), EventsFrom::Oldest).await.events);
    assert_eq!((events("mine").await, events("other").await), (vec!["deleted trip".to_owned()], Vec::new()));
}

pub async fn events_that_are_no_longer_kept_are_a_gap<S: Store>(world: &World<S>) {
    world.make(&world.one, Some("trip")).await;
    let first = world.page(&world.scope, EventsFrom::Now).await.through;
    let rename = async |from: u64, to: u64| {
        let mut tasks = tokio::task::JoinSet::new();
        for title in from..to {
            let world = world.clone();
            let change = Change { title: Some(Some(title.to_string())), ..Change::default() };
            tasks.spawn(async move { world.describe("trip", change).await });
        }
        tasks.join_all().await;
    };
    rename(0, KEPT_EVENTS).await;
    let page = world.page_after(first).await;
    assert_eq!((page.gap, page.events.len() as u64), (None, KEPT_EVENTS), "the oldest kept event is the next one");
    rename(KEPT_EVENTS, KEPT_EVENTS + 1).await;
    let page = world.page_after(first).await;
    assert_eq!((page.events.len() as u64, page.events[0].id.number), (KEPT_EVENTS, first.number + 2));
    let gap = page.gap.unwrap();
    assert_eq!(gap, EventId { number: first.number + 1, ..first });
    assert_eq!(world.page_after(gap).await, EventPage { gap: None, ..page.clone() }, "the gap is reported once");
    assert_eq!(world.page(&world.scope, EventsFrom::Oldest).await, EventPage { gap: None, ..page });
}

pub async fn an_unknown_place_is_a_gap<S: Store>(world: &World<S>) {
    world.make(&world.one, Some("trip")).await;
    let all = world.page(&world.scope, EventsFrom::Oldest).await;
    let EventId { feed, number } = all.through;
    for foreign in
        [EventId { feed: feed + 1, number }, EventId { feed, number: number + 1 }, EventId { feed, number: u64::MAX }]
    {
        let page = world.page_after(foreign).await;
        assert_eq!(page, EventPage { gap: Some(EventId { feed, number: 0 }), ..all.clone() }, "{foreign}");
    }
}

pub async fn followers_are_woken_by_any_instance<S: Store>(world: &World<S>) {
    let mut follower = world.one.watch_events();
    let mut from = world.page(&world.scope, EventsFrom::Now).await.through;
    for (at, store) in [&world.two, &world.one, &world.two].into_iter().enumerate() {
        let name = format!("s{at}");
        world.make(store, Some(&name)).await;
        let mut events = Vec::new();
        while events.is_empty() {
            tokio::time::timeout(WAKE_TIMEOUT, follower.changed()).await.expect("to be woken").unwrap();
            let page = world.one.events(&world.scope, EventsFrom::After(from), 10).await.unwrap();
            (from, events) = (page.through, page.events);
        }
        assert_eq!(lines(&events), [format!("created {name}")]);
    }
}

//! Notices: they come after the change that they are about, whichever instance makes it, and after no other.

use std::sync::Arc;
use std::time::Duration;

use herma_model::{StopKind, TurnId, TurnState};

use super::World;
use super::fixture::{noted, queued, running};
use crate::{
    Admission, Notice, Running, StopOutcome, Store, StoreError, StreamedOutput, StreamedPart, StreamedThrough,
    Subscription, TurnPolicy,
};

/// How long a notice may take. Includes the time in which an engine finds out that another instance is gone.
const NOTICED: Duration = Duration::from_secs(8);
/// How long a notice is waited for that must not come.
const NOT_NOTICED: Duration = Duration::from_millis(400);

async fn comes(notice: &mut Subscription) {
    tokio::time::timeout(NOTICED, notice.notified()).await.expect("a notice").unwrap();
}

async fn stays_away(notice: &mut Subscription) {
    assert!(tokio::time::timeout(NOT_NOTICED, notice.notified()).await.is_err(), "nothing has happened");
}

/// A turn in line, subscribed as a gateway does it.
struct Waiter<'a, S> {
    store: &'a Arc<S>,
    ask: Admission,
    free: Subscription,
    ended: Subscription,
}

impl<'a, S: Store> Waiter<'a, S> {
    async fn new(world: &World<S>, store: &'a Arc<S>, behind: &Running, text: &str) -> Self {
        let ask = world.queue(store, world.ask("trip", text)).await;
        let ended = store.subscribe(Notice::WaitEnded(ask.turn));
        let free = store.subscribe(Notice::ConversationFree(behind.facts.id));
        Self { store, ask, free, ended }
    }

    async fn begin(&self, world: &World<S>) -> Running {
        running(world.admit(self.store, self.ask.clone()).await)
    }
}

pub async fn a_conversation_that_becomes_free_is_told_to_the_instance_of_its_first_waiter<S: Store>(world: &World<S>) {
    let turn = world.start(&world.one, "trip", "first").await;
    let mut second = Waiter::new(world, &world.two, &turn, "second").await;
    let mut third = Waiter::new(world, &world.one, &turn, "third").await;
    let mut fourth = Waiter::new(world, &world.one, &turn, "fourth").await;
    stays_away(&mut second.free).await;
    world.answer(&world.one, &turn, "one").await;
    comes(&mut second.free).await;
    stays_away(&mut third.free).await;
    let turn = second.begin(world).await;
    world.answer(&world.two, &turn, "two").await;
    comes(&mut third.free).await;
    // From here on in one instance.
    let turn = third.begin(world).await;
    drop(third);
    world.answer(&world.one, &turn, "three").await;
    comes(&mut fourth.free).await;
    stays_away(&mut fourth.ended).await;
    let turn = fourth.begin(world).await;
    comes(&mut fourth.ended).await;
    world.answer(&world.one, &turn, "four").await;
}

pub async fn a_conversation_that_is_busy_again_is_not_told<S: Store>(world: &World<S>) {
    let turn = world.start(&world.one, "trip", "first").await;
    let second = Waiter::new(world, &world.one, &turn, "second").await;
    let mut third = Waiter::new(world, &world.one, &turn, "third").await;
    stays_away(&mut third.free).await;
    world.answer(&world.one, &turn, "one").await;
    let turn = second.begin(world).await;
    // A look between the two has told them; what is asked now is told nothing more.
    let _ = tokio::time::timeout(NOT_NOTICED, third.free.notified()).await;
    queued(world.admit(&world.one, third.ask.clone()).await);
    world.one.journal(turn.lease, noted("more")).wait().await.unwrap();
    world.talk(&world.two, "elsewhere", "hello", "hi").await;
    stays_away(&mut third.free).await;
    world.answer(&world.one, &turn, "two").await;
    comes(&mut third.free).await;
}

pub async fn a_conversation_that_becomes_free_by_the_death_of_an_instance_is_told<S: Store>(world: &World<S>) {
    let turn = world.start(&world.one, "trip", "first").await;
    let mut second = Waiter::new(world, &world.two, &turn, "second").await;
    stays_away(&mut second.free).await;
    world.one.close().await;
    comes(&mut second.free).await;
    let turn = second.begin(world).await;
    world.answer(&world.two, &turn, "two").await;
}

pub async fn a_waiter_that_gives_up_makes_the_next_one_be_told<S: Store>(world: &World<S>) {
    let turn = world.start(&world.one, "trip", "first").await;
    let second = Waiter::new(world, &world.one, &turn, "second").await;
    let mut third = Waiter::new(world, &world.two, &turn, "third").await;
    world.answer(&world.one, &turn, "one").await;
    stays_away(&mut third.free).await;
    world.withdraw(&world.one, &world.scope, second.ask.turn).await;
    comes(&mut third.free).await;
    let turn = third.begin(world).await;
    world.answer(&world.two, &turn, "three").await;
}

pub async fn a_change_before_the_first_look_is_not_lost<S: Store>(world: &World<S>) {
    for (number, store) in [&world.one, &world.two].into_iter().cycle().take(10).enumerate() {
        let to = format!("trip-{number}");
        let turn = world.start(&world.one, &to, "first").await;
        let second = world.queue(store, world.ask(&to, "second")).await;
        let _ended = store.subscribe(Notice::WaitEnded(second.turn));
        let mut free = store.subscribe(Notice::ConversationFree(turn.facts.id));
        let mut changed = store.subscribe(Notice::TurnChanged(turn.turn));
        let record = store.turn(&world.scope, turn.turn).await.unwrap().unwrap();
        assert_eq!(record.state, TurnState::Running);
        queued(world.admit(store, second.clone()).await);
        // At once in half of the cases, after some looks in the others.
        tokio::time::sleep(Duration::from_millis(30 * number as u64)).await;
        world.answer(&world.one, &turn, "one").await;
        comes(&mut free).await;
        let mut state = TurnState::Running;
        while state == TurnState::Running {
            comes(&mut changed).await;
            state = store.turn(&world.scope, turn.turn).await.unwrap().unwrap().state;
        }
        let turn = running(world.admit(store, second).await);
        world.answer(store, &turn, "two").await;
    }
}

pub async fn a_waiting_turn_that_is_cancelled_elsewhere_is_told<S: Store>(world: &World<S>) {
    let turn = world.start(&world.one, "trip", "first").await;
    let mut second = Waiter::new(world, &world.one, &turn, "second").await;
    let mut third = Waiter::new(world, &world.one, &turn, "third").await;
    stays_away(&mut third.ended).await;
    let stopped = world.two.stop(&world.scope, third.ask.turn, Duration::ZERO, world.now()).await.unwrap();
    assert_eq!(stopped, StopOutcome::Ended);
    comes(&mut third.ended).await;
    stays_away(&mut second.ended).await;
    world.answer(&world.one, &turn, "one").await;
    let turn = second.begin(world).await;
    world.answer(&world.one, &turn, "two").await;
}

pub async fn a_request_to_stop_is_told_and_other_changes_are_not<S: Store>(world: &World<S>) {
    let mut asked = world.one.subscribe(Notice::StopRequested);
    let first = world.start(&world.one, "trip", "first").await;
    world.talk(&world.two, "elsewhere", "hello", "hi").await;
    world.talk(&world.one, "elsewhere", "more", "hi").await;
    world.queue(&world.two, world.ask("trip", "waits")).await;
    stays_away(&mut asked).await;
    let ask = Admission { policy: TurnPolicy::Interrupt, ..world.ask("trip", "second") };
    world.queue(&world.two, ask).await;
    comes(&mut asked).await;
    assert_eq!(world.one.stop_requests().await.unwrap(), [(first.turn, StopKind::Interrupt)]);
    let other = world.start(&world.one, "other", "first").await;
    stays_away(&mut asked).await;
    world.one.stop(&world.scope, other.turn, NOTICED, world.now()).await.unwrap();
    comes(&mut asked).await;
    assert!(world.one.stop_requests().await.unwrap().contains(&(other.turn, StopKind::Cancel)));
}

pub async fn a_turn_that_another_instance_has_ended_is_told<S: Store>(world: &World<S>) {
    let mut asked = world.one.subscribe(Notice::StopRequested);
    let turn = world.start(&world.one, "trip", "first").await;
    stays_away(&mut asked).await;
    let stop = async || world.two.stop(&world.scope, turn.turn, Duration::ZERO, world.now()).await.unwrap();
    assert_eq!(stop().await, StopOutcome::Asked);
    world.pass(Duration::from_secs(1));
    // Before the request to stop was seen, as a rule.
    assert_eq!(stop().await, StopOutcome::Ended);
    comes(&mut asked).await;
    assert_eq!(world.one.stop_requests().await.unwrap(), [(turn.turn, StopKind::Cancel)]);
}

pub async fn a_running_turn_is_told_of_whenever_it_shows_more_and_when_it_ends<S: Store>(world: &World<S>) {
    let turn = world.start(&world.one, "trip", "first").await;
    for store in [&world.one, &world.two] {
        let mut changed = store.subscribe(Notice::TurnChanged(turn.turn));
        comes(&mut changed).await;
        world.talk(&world.one, "elsewhere", "hello", "hi").await;
        stays_away(&mut changed).await;
        world.one.journal(turn.lease, noted("more")).wait().await.unwrap();
        comes(&mut changed).await;
    }
    let mut changed = world.two.subscribe(Notice::TurnChanged(turn.turn));
    comes(&mut changed).await;
    world.answer(&world.one, &turn, "one").await;
    comes(&mut changed).await;
}

pub async fn what_a_turn_has_shown_is_read_part_by_part<S: Store>(world: &World<S>) {
    let turn = world.start(&world.one, "trip", "first").await;
    let journal = async |text| world.one.journal(turn.lease, noted(text)).wait().await.unwrap();
    let since = async |place| world.two.streamed_since(&world.scope, turn.turn, place).await.unwrap();
    journal("it ").await;
    let record = world.turn(turn.turn).await.unwrap();
    assert_eq!(record.shown, noted("it "));
    let nothing = since(record.streamed_through).await.unwrap();
    assert_eq!(nothing, StreamedPart { shown: StreamedOutput::default(), through: record.streamed_through });
    journal("was ").await;
    journal("so").await;
    let more = since(record.streamed_through).await.unwrap();
    assert_eq!(more.shown, StreamedOutput { text: "was so".to_owned(), record: "[was ][so]".to_owned() });
    assert_eq!(more.through, world.turn(turn.turn).await.unwrap().streamed_through);
    assert_eq!(since(more.through).await.unwrap().shown, StreamedOutput::default());
    let other_attempt = StreamedThrough { attempt: turn.attempt + 1, ..more.through };
    assert_eq!(since(other_attempt).await, None);
    world.answer(&world.one, &turn, "it was so").await;
    assert_eq!(since(more.through).await, None, "it does not run any more");
    let nobody = TurnId::from_uuid(uuid::Uuid::from_u128(7));
    assert_eq!(world.two.streamed_since(&world.scope, nobody, more.through).await.unwrap(), None);
}

pub async fn what_was_shown_is_no_strangers<S: Store>(world: &World<S>) {
    let turn = world.start(&world.one, "trip", "first").await;
    world.one.journal(turn.lease, noted("it was")).wait().await.unwrap();
    let beginning = StreamedThrough { attempt: turn.attempt, appended: 0, parts: 0 };
    assert!(world.two.streamed_since(&world.scope, turn.turn, beginning).await.unwrap().is_some());
    assert_eq!(world.two.streamed_since(&world.stranger, turn.turn, beginning).await.unwrap(), None);
}

pub async fn a_closed_store_ends_its_subscriptions<S: Store>(world: &World<S>) {
    let turn = world.start(&world.two, "trip", "first").await;
    let mut all = [Notice::StopRequested, Notice::ConversationFree(turn.facts.id), Notice::WaitEnded(turn.turn)]
        .map(|notice| world.one.subscribe(notice));
    world.one.close().await;
    for notice in &mut all {
        let closed = async {
            loop {
                if let Err(error) = notice.notified().await {
                    break error;
                }
            }
        };
        assert_eq!(tokio::time::timeout(NOTICED, closed).await.expect("an end"), StoreError::Closed);
    }
}

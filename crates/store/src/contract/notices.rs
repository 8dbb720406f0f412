//! Notices: each comes after its change, whichever instance makes it, and after no other change.

use std::sync::Arc;
use std::time::Duration;

use herma_model::{StopKind, TurnId, TurnState};

use super::World;
use super::fixture::{noted, queued, running};
use crate::{
    Admission, Notice, Running, StopOutcome, Store, StoreError, StreamedOutput, StreamedPart, StreamedThrough,
    Subscription, TurnPolicy,
};

/// How long a notice may take. Includes the time that an engine needs to notice that another instance is gone.
const NOTICE_TIMEOUT: Duration = Duration::from_secs(8);
/// How long to wait for a notice that must not come.
const NO_NOTICE_WAIT: Duration = Duration::from_millis(400);

pub(super) async fn expect_notice(notice: &mut Subscription) {
    tokio::time::timeout(NOTICE_TIMEOUT, notice.notified()).await.expect("a notice").unwrap();
}

pub(super) async fn expect_no_notice(notice: &mut Subscription) {
    assert!(tokio::time::timeout(NO_NOTICE_WAIT, notice.notified()).await.is_err(), "no notice may come");
}

/// A waiting turn with the subscriptions that a gateway makes.
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

pub async fn a_free_conversation_gives_a_notice_to_the_instance_of_its_first_waiter<S: Store>(world: &World<S>) {
    let turn = world.start(&world.one, "trip", "first").await;
    let mut second = Waiter::new(world, &world.two, &turn, "second").await;
    let mut third = Waiter::new(world, &world.one, &turn, "third").await;
    let mut fourth = Waiter::new(world, &world.one, &turn, "fourth").await;
    expect_no_notice(&mut second.free).await;
    world.answer(&world.one, &turn, "one").await;
    expect_notice(&mut second.free).await;
    expect_no_notice(&mut third.free).await;
    let turn = second.begin(world).await;
    world.answer(&world.two, &turn, "two").await;
    expect_notice(&mut third.free).await;
    // From here on, all turns are in one instance.
    let turn = third.begin(world).await;
    drop(third);
    world.answer(&world.one, &turn, "three").await;
    expect_notice(&mut fourth.free).await;
    expect_no_notice(&mut fourth.ended).await;
    let turn = fourth.begin(world).await;
    expect_notice(&mut fourth.ended).await;
    world.answer(&world.one, &turn, "four").await;
}

pub async fn a_conversation_that_is_busy_again_gives_no_notice<S: Store>(world: &World<S>) {
    let turn = world.start(&world.one, "trip", "first").await;
    let second = Waiter::new(world, &world.one, &turn, "second").await;
    let mut third = Waiter::new(world, &world.one, &turn, "third").await;
    expect_no_notice(&mut third.free).await;
    world.answer(&world.one, &turn, "one").await;
    let turn = second.begin(world).await;
    // An engine that looked between the two has sent a notice. Take it here, so that later checks start clean.
    let _ = tokio::time::timeout(NO_NOTICE_WAIT, third.free.notified()).await;
    queued(world.admit(&world.one, third.ask.clone()).await);
    world.one.journal(turn.lease, noted("more")).wait().await.unwrap();
    world.talk(&world.two, "elsewhere", "hello", "hi").await;
    expect_no_notice(&mut third.free).await;
    world.answer(&world.one, &turn, "two").await;
    expect_notice(&mut third.free).await;
}

pub async fn a_conversation_freed_by_the_death_of_an_instance_gives_a_notice<S: Store>(world: &World<S>) {
    let turn = world.start(&world.one, "trip", "first").await;
    let mut second = Waiter::new(world, &world.two, &turn, "second").await;
    expect_no_notice(&mut second.free).await;
    world.one.close().await;
    expect_notice(&mut second.free).await;
    let turn = second.begin(world).await;
    world.answer(&world.two, &turn, "two").await;
}

pub async fn a_waiter_that_gives_up_causes_a_notice_to_the_next_one<S: Store>(world: &World<S>) {
    let turn = world.start(&world.one, "trip", "first").await;
    let second = Waiter::new(world, &world.one, &turn, "second").await;
    let mut third = Waiter::new(world, &world.two, &turn, "third").await;
    world.answer(&world.one, &turn, "one").await;
    expect_no_notice(&mut third.free).await;
    world.withdraw(&world.one, &world.scope, second.ask.turn).await;
    expect_notice(&mut third.free).await;
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
        // The first rounds change at once, the others after an engine has looked a few times.
        tokio::time::sleep(Duration::from_millis(30 * number as u64)).await;
        world.answer(&world.one, &turn, "one").await;
        expect_notice(&mut free).await;
        let mut state = TurnState::Running;
        while state == TurnState::Running {
            expect_notice(&mut changed).await;
            state = store.turn(&world.scope, turn.turn).await.unwrap().unwrap().state;
        }
        let turn = running(world.admit(store, second).await);
        world.answer(store, &turn, "two").await;
    }
}

pub async fn a_waiting_turn_that_is_cancelled_elsewhere_gets_a_notice<S: Store>(world: &World<S>) {
    let turn = world.start(&world.one, "trip", "first").await;
    let mut second = Waiter::new(world, &world.one, &turn, "second").await;
    let mut third = Waiter::new(world, &world.one, &turn, "third").await;
    expect_no_notice(&mut third.ended).await;
    let stopped = world.two.stop(&world.scope, third.ask.turn, Duration::ZERO, world.now()).await.unwrap();
    assert_eq!(stopped, StopOutcome::Ended);
    expect_notice(&mut third.ended).await;
    expect_no_notice(&mut second.ended).await;
    world.answer(&world.one, &turn, "one").await;
    let turn = second.begin(world).await;
    world.answer(&world.one, &turn, "two").await;
}

pub async fn a_request_to_stop_gives_a_notice_and_other_changes_do_not<S: Store>(world: &World<S>) {
    let mut asked = world.one.subscribe(Notice::StopRequested);
    let first = world.start(&world.one, "trip", "first").await;
    world.talk(&world.two, "elsewhere", "hello", "hi").await;
    world.talk(&world.one, "elsewhere", "more", "hi").await;
    world.queue(&world.two, world.ask("trip", "waits")).await;
    expect_no_notice(&mut asked).await;
    let ask = Admission { policy: TurnPolicy::Interrupt, ..world.ask("trip", "second") };
    world.queue(&world.two, ask).await;
    expect_notice(&mut asked).await;
    assert_eq!(world.one.stop_requests().await.unwrap(), [(first.turn, StopKind::Interrupt)]);
    let other = world.start(&world.one, "other", "first").await;
    expect_no_notice(&mut asked).await;
    world.one.stop(&world.scope, other.turn, NOTICE_TIMEOUT, world.now()).await.unwrap();
    expect_notice(&mut asked).await;
    assert!(world.one.stop_requests().await.unwrap().contains(&(other.turn, StopKind::Cancel)));
}

pub async fn a_turn_that_another_instance_has_ended_gets_a_notice<S: Store>(world: &World<S>) {
    let mut asked = world.one.subscribe(Notice::StopRequested);
    let turn = world.start(&world.one, "trip", "first").await;
    expect_no_notice(&mut asked).await;
    let stop = async || world.two.stop(&world.scope, turn.turn, Duration::ZERO, world.now()).await.unwrap();
    assert_eq!(stop().await, StopOutcome::Asked);
    world.advance_clock(Duration::from_secs(1));
    // Usually before the request to stop was noticed.
    assert_eq!(stop().await, StopOutcome::Ended);
    expect_notice(&mut asked).await;
    assert_eq!(world.one.stop_requests().await.unwrap(), [(turn.turn, StopKind::Cancel)]);
}

pub async fn a_running_turn_gives_a_notice_whenever_it_streams_more_and_when_it_ends<S: Store>(world: &World<S>) {
    let turn = world.start(&world.one, "trip", "first").await;
    for store in [&world.one, &world.two] {
        let mut changed = store.subscribe(Notice::TurnChanged(turn.turn));
        expect_notice(&mut changed).await;
        world.talk(&world.one, "elsewhere", "hello", "hi").await;
        expect_no_notice(&mut changed).await;
        world.one.journal(turn.lease, noted("more")).wait().await.unwrap();
        expect_notice(&mut changed).await;
    }
    let mut changed = world.two.subscribe(Notice::TurnChanged(turn.turn));
    expect_notice(&mut changed).await;
    world.answer(&world.one, &turn, "one").await;
    expect_notice(&mut changed).await;
}

pub async fn streamed_output_is_read_part_by_part<S: Store>(world: &World<S>) {
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
    assert_eq!(since(more.through).await, None, "the turn has ended");
    let unknown = TurnId::from_uuid(uuid::Uuid::from_u128(7));
    assert_eq!(world.two.streamed_since(&world.scope, unknown, more.through).await.unwrap(), None);
}

pub async fn streamed_output_is_hidden_from_other_tenants<S: Store>(world: &World<S>) {
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
        assert_eq!(tokio::time::timeout(NOTICE_TIMEOUT, closed).await.expect("an end"), StoreError::Closed);
    }
}

//! Turns that failed and are asked for again after other turns: they begin anew at the end, under their own ids.

use herma_model::provenance::CompactionMode::{InPlace, Split};
use herma_model::{MessageId, TurnId, TurnState};

use super::World;
use super::deleting_sources::everything;
use super::fixture::{answer_of, name, running, texts};
use super::idempotency::with_key;
use super::retrying::again;
use crate::{
    Admission, AdmitOutcome, Children, DeleteOutcome, Extent, MessageRange, Order, Pin, RewriteOutcome, Running, Store,
};

/// The request of an unanswered turn again, to begin anew at the end.
fn anew<S: Store>(world: &World<S>, turn: TurnId) -> Admission {
    Admission { anew_of: Some(turn), ..world.ask("trip", "one") }
}

/// Returns a turn that failed and a later one that was answered.
async fn fail_and_go_on<S: Store>(world: &World<S>) -> (Running, Running) {
    let failed = world.start(&world.one, "trip", "one").await;
    world.leave(&world.one, &failed, TurnState::Failed, Some("we")).await;
    (failed, world.talk(&world.one, "trip", "two", "fine").await)
}

/// The turn state of each message.
async fn states<S: Store>(world: &World<S>) -> Vec<TurnState> {
    let range = MessageRange { order: Order::OldestFirst { after: None }, limit: 100, pin: Pin::Head };
    let page = world.two.messages(&world.scope, &name("trip"), range).await.unwrap().unwrap();
    page.entries.iter().filter_map(|entry| page.turn_states.get(&entry.seq()).copied()).collect()
}

pub async fn a_turn_that_failed_before_others_begins_anew_at_the_end<S: Store>(world: &World<S>) {
    use TurnState::{Completed, Failed, Running};
    let (failed, _) = fail_and_go_on(world).await;
    let ask = anew(world, failed.turn);
    let second = running(world.admit(&world.two, ask.clone()).await);
    assert_eq!((second.turn, second.attempt, second.started_at), (failed.turn, 2, failed.started_at));
    assert_eq!(second.messages[0].id, MessageId::brought(failed.turn, 2, 0));
    assert!(world.turn(ask.turn).await.is_none(), "the request made no new turn");
    let snapshot = world.read("trip").await.unwrap();
    assert_eq!(texts(&snapshot), ["one", "we", "two", "fine", "one"]);
    assert_eq!((snapshot.begun_anew[&failed.turn], snapshot.unanswered.len()), (2, 0));
    assert_eq!(states(world).await, [Failed, Failed, Completed, Completed, Running]);
    let answer = world.answer(&world.two, &second, "well").await;
    assert_eq!(states(world).await, [Failed, Failed, Completed, Completed, Completed, Completed]);
    let record = world.turn(failed.turn).await.unwrap();
    assert_eq!((record.state, record.attempt, &answer_of(&record)), (Completed, 2, &answer.messages));
    assert_eq!(record.input, second.messages);
    let row = world.row("trip").await.unwrap();
    assert_eq!((row.turn_count, row.message_count), (2, 6), "it is one turn");
    let snapshot = world.read("trip").await.unwrap();
    assert!(snapshot.messages.iter().filter(|said| said.turn == failed.turn).count() == 4);
    for said in snapshot.messages {
        let found = world.two.message(&world.scope, &name("trip"), said.id).await.unwrap();
        assert_eq!(found, Some(said));
    }
}

pub async fn a_turn_may_begin_anew_more_than_once<S: Store>(world: &World<S>) {
    let (failed, _) = fail_and_go_on(world).await;
    let second = running(world.admit(&world.two, anew(world, failed.turn)).await);
    world.leave(&world.two, &second, TurnState::Interrupted, None).await;
    assert_eq!(world.read("trip").await.unwrap().unanswered[&failed.turn].attempt, 2);
    let third = running(world.admit(&world.one, again(world, failed.turn)).await);
    assert_eq!(
        (third.turn, third.attempt, third.messages.len()),
        (failed.turn, 3, 0),
        "the last turn is tried again in place"
    );
    world.leave(&world.one, &third, TurnState::Failed, None).await;
    world.talk(&world.one, "trip", "three", "good").await;
    let fourth = running(world.admit(&world.two, anew(world, failed.turn)).await);
    assert_eq!((fourth.turn, fourth.attempt), (failed.turn, 4));
    world.answer(&world.two, &fourth, "well").await;
    let snapshot = world.read("trip").await.unwrap();
    assert_eq!(texts(&snapshot), ["one", "we", "two", "fine", "one", "three", "good", "one", "well"]);
    assert_eq!((snapshot.begun_anew[&failed.turn], snapshot.unanswered.len()), (4, 0));
    assert_eq!(world.row("trip").await.unwrap().turn_count, 3);
    assert_eq!(states(world).await[4], TurnState::Failed);
}

pub async fn an_attempt_that_begins_anew_may_have_waited<S: Store>(world: &World<S>) {
    let (failed, _) = fail_and_go_on(world).await;
    let three = world.start(&world.two, "trip", "three").await;
    let waiting = world.queue(&world.one, anew(world, failed.turn)).await;
    world.answer(&world.two, &three, "good").await;
    let second = running(world.admit(&world.one, waiting.clone()).await);
    assert_eq!((second.turn, second.attempt), (failed.turn, 2));
    assert!(world.turn(waiting.turn).await.is_none());
    world.one.close().await;
    let next = world.start(&world.two, "trip", "next").await;
    assert_eq!(world.turn(failed.turn).await.unwrap().state, TurnState::Interrupted, "its owner is gone");
    world.answer(&world.two, &next, "fine").await;
    assert_eq!(world.row("trip").await.unwrap().turn_count, 4);
}

pub async fn an_attempt_that_is_taken_back_leaves_the_turn_where_it_failed<S: Store>(world: &World<S>) {
    let (failed, _) = fail_and_go_on(world).await;
    let (before, stood) = (world.read("trip").await.unwrap(), states(world).await);
    for _ in 0..2 {
        let second = running(world.admit(&world.two, anew(world, failed.turn)).await);
        assert_eq!(second.attempt, 2);
        world.two.retract(second.lease).await.unwrap();
        let after = world.read("trip").await.unwrap();
        assert_eq!((&after.messages, &after.unanswered), (&before.messages, &before.unanswered));
        assert!(after.begun_anew.is_empty());
        assert_eq!(states(world).await, stood);
    }
    let record = world.turn(failed.turn).await.unwrap();
    assert_eq!((record.state, record.attempt, record.input.len()), (TurnState::Failed, 1, 1));
}

pub async fn only_an_unanswered_turn_of_the_conversation_begins_anew<S: Store>(world: &World<S>) {
    let (_, answered) = fail_and_go_on(world).await;
    let elsewhere = world.start(&world.one, "train", "one").await;
    world.leave(&world.one, &elsewhere, TurnState::Failed, None).await;
    let version = world.read("trip").await.unwrap().version;
    for turn in [answered.turn, elsewhere.turn, world.ask("trip", "never asked").turn] {
        let mut ask = anew(world, turn);
        ask.seen = world.seen(&world.one, &ask).await;
        let outcome = world.one.admit(ask).await.unwrap();
        assert!(matches!(outcome, AdmitOutcome::Stale), "{outcome:?}");
    }
    assert_eq!(world.read("trip").await.unwrap().version, version);
}

pub async fn a_branch_between_the_two_places_has_the_turn_where_it_failed<S: Store>(world: &World<S>) {
    let (failed, two) = fail_and_go_on(world).await;
    let early = world.branch(&world.one, two.turn, "instead", "so").await;
    let second = running(world.admit(&world.two, anew(world, failed.turn)).await);
    world.answer(&world.two, &second, "well").await;
    let late = world.branch(&world.one, two.turn, "or", "so").await;
    let end = world.branch(&world.one, failed.turn, "and", "so").await;
    for branch in [&early, &late] {
        let snapshot = world.read(&branch.facts.id.to_string()).await.unwrap();
        assert_eq!(texts(&snapshot)[..4], ["one", "we", "two", "fine"]);
        let here = snapshot.unanswered[&failed.turn];
        assert_eq!((here.state, here.attempt, snapshot.begun_anew.len()), (TurnState::Failed, 1, 0));
    }
    let snapshot = world.read(&end.facts.id.to_string()).await.unwrap();
    assert_eq!(texts(&snapshot), ["one", "we", "two", "fine", "one", "well", "and", "so"]);
    assert_eq!((snapshot.begun_anew[&failed.turn], snapshot.unanswered.len()), (2, 0));
    let ids = [early, late, end].map(|branch| branch.facts.id.to_string());
    for rest in [&ids[..], &ids[..2]] {
        let mut before = Vec::new();
        for id in rest {
            before.push(everything(world, id).await);
        }
        let gone = if rest.len() == 3 { "trip" } else { ids[2].as_str() };
        let deleted = world.one.delete(&world.scope, &name(gone), Children::Keep, world.now()).await.unwrap();
        assert!(matches!(deleted, DeleteOutcome::Deleted(_)), "{deleted:?}");
        for (id, before) in rest.iter().zip(before).filter(|(id, _)| *id != gone) {
            assert_eq!(everything(world, id).await[1..], before[1..], "{id}");
        }
    }
}

pub async fn what_a_compaction_summarised_stays_left_behind<S: Store>(world: &World<S>) {
    for mode in [InPlace, Split] {
        let (failed, _) = fail_and_go_on(world).await;
        world.compact(&world.one, "trip", mode, "so far").await;
        let second = running(world.admit(&world.two, anew(world, failed.turn)).await);
        world.answer(&world.two, &second, "well").await;
        let whole = world.read_as("trip", Extent::Whole).await.unwrap();
        assert_eq!(whole.begun_anew[&failed.turn], 2);
        assert_eq!(world.turn(failed.turn).await.unwrap().input, second.messages);
        let view = world.read("trip").await.unwrap();
        assert_eq!(view.begun_anew[&failed.turn], 2, "messages of the failed attempt may be carried");
    }
}

pub async fn a_key_leads_to_the_turn_that_began_anew<S: Store>(world: &World<S>) {
    let failed = running(world.admit(&world.one, with_key(world.ask("trip", "one"), 1)).await);
    world.leave(&world.one, &failed, TurnState::Failed, None).await;
    world.talk(&world.one, "trip", "two", "fine").await;
    let outcome = world.admit(&world.two, with_key(world.ask("trip", "one"), 1)).await;
    let AdmitOutcome::RetryIn(there, turn) = outcome else { panic!("{outcome:?}") };
    assert_eq!((there, turn), (failed.facts.id, failed.turn));
    let taken_back = running(world.admit(&world.two, with_key(anew(world, turn), 1)).await);
    world.two.retract(taken_back.lease).await.unwrap();
    let three = world.start(&world.one, "trip", "three").await;
    let waiting = world.queue(&world.two, with_key(anew(world, turn), 1)).await;
    world.withdraw(&world.two, &world.scope, waiting.turn).await;
    world.answer(&world.one, &three, "good").await;
    let outcome = world.admit(&world.two, with_key(world.ask("trip", "one"), 1)).await;
    assert!(matches!(outcome, AdmitOutcome::RetryIn(_, again) if again == turn), "{outcome:?}");
    let second = running(world.admit(&world.two, with_key(anew(world, turn), 1)).await);
    for _ in ["while it runs", "when it is answered"] {
        let outcome = world.admit(&world.one, with_key(world.ask("trip", "one"), 1)).await;
        assert!(matches!(outcome, AdmitOutcome::Joined(joined) if joined == failed.turn), "{outcome:?}");
        let _ = world.try_answer(&world.two, &second, "well").await;
    }
}

pub async fn a_copy_has_both_places<S: Store>(world: &World<S>) {
    let (failed, two) = fail_and_go_on(world).await;
    let second = running(world.admit(&world.two, anew(world, failed.turn)).await);
    world.answer(&world.two, &second, "well").await;
    let before = states(world).await;
    world.copy_delete_restore("trip").await;
    assert_eq!(states(world).await, before);
    assert_eq!(world.read("trip").await.unwrap().begun_anew[&failed.turn], 2);
    assert_eq!(world.turn(failed.turn).await.unwrap().state, TurnState::Completed);
    let branch = world.branch(&world.one, two.turn, "instead", "so").await.facts.id.to_string();
    world.copy_delete_restore(&branch).await;
    assert_eq!(world.read(&branch).await.unwrap().unanswered[&failed.turn].attempt, 1);
}

pub async fn what_is_deleted_at_one_place_stays_at_the_other<S: Store>(world: &World<S>) {
    let (failed, _) = fail_and_go_on(world).await;
    let second = running(world.admit(&world.two, anew(world, failed.turn)).await);
    world.answer(&world.two, &second, "well").await;
    let first = world.read("trip").await.unwrap().messages[0].clone();
    let outcome = world.rewrite(&world.one, "trip", &first, None).await;
    assert!(matches!(outcome, RewriteOutcome::Done), "{outcome:?}");
    assert_eq!(world.turn(failed.turn).await.unwrap().input, second.messages);
    let outcome = world.rewrite(&world.one, "trip", &second.messages[0], None).await;
    assert!(matches!(outcome, RewriteOutcome::Done), "{outcome:?}");
    let snapshot = world.read("trip").await.unwrap();
    assert_eq!(texts(&snapshot), ["we", "two", "fine", "well"]);
    assert_eq!(snapshot.begun_anew[&failed.turn], 2);
}

pub async fn a_compaction_of_the_first_place_stays_the_turns_when_that_place_is_emptied<S: Store>(world: &World<S>) {
    let mut failed = world.start(&world.one, "trip", "one").await;
    let made = world.compact_during(&world.one, &mut failed, Split, "so far").await.record.id;
    world.leave(&world.one, &failed, TurnState::Failed, None).await;
    let second = running(world.admit(&world.two, anew(world, failed.turn)).await);
    world.answer(&world.two, &second, "well").await;
    world.remove("trip", 0).await;
    let ledger = world.ledger("trip").await.rows;
    assert_eq!(ledger.iter().map(|row| (row.id, row.turn)).collect::<Vec<_>>(), [(made, Some(failed.turn))]);
    assert!(world.turn(failed.turn).await.unwrap().compactions().next().is_none(), "the last attempt made none");
    world.copy_delete_restore("trip").await;
    assert_eq!(world.ledger("trip").await.rows, ledger);
}

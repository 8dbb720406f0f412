//! Turns as responses and runs: their names, and what is stored for them.

use std::sync::Arc;

use herma_model::provenance::CompactionMode::{InPlace, Split};
use herma_model::{KeyScope, Resolution, Role, SessionKey, Timestamp, TurnId, TurnState};
use uuid::Uuid;

use super::World;
use super::fixture::{answer_of, message, name, refused, running};
use super::retrying::again;
use super::summaries::shown;
use crate::{Admission, Expired, NewResponse, Refusal, Running, Scope, Store, Target};

/// A turn that is a response too.
fn response(ask: Admission, echo: &str, kept: bool) -> Admission {
    Admission { response: Some(NewResponse { echo: Arc::from(echo), kept, visible_while_queued: false }), ..ask }
}

/// Runs a whole turn that is a response too.
async fn respond<S: Store>(world: &World<S>, to: &str, kept: bool) -> Running {
    let turn = running(world.admit(&world.one, response(world.ask(to, "first"), "{}", kept)).await);
    world.answer(&world.one, &turn, "one").await;
    turn
}

pub async fn a_turn_leads_to_its_conversation_by_each_of_its_names<S: Store>(world: &World<S>) {
    let turn = respond(world, "trip", true).await;
    let names = [turn.turn.as_response().to_string(), turn.turn.as_run().to_string(), turn.turn.to_string()];
    for to in &names {
        assert_eq!(world.read(to).await.unwrap().facts, turn.facts);
        assert_eq!(world.row(to).await.unwrap().facts, turn.facts);
        let next = world.talk(&world.two, to, "more", "yes").await;
        assert_eq!((next.facts.id, next.resolution), (turn.facts.id, Resolution::Head));
    }
    let done = world.compact(&world.one, &names[0], Split, "so far").await;
    for to in &names {
        let next = world.talk(&world.two, to, "more", "yes").await;
        assert_eq!((&next.facts, next.resolution), (&done.facts, Resolution::Head));
    }
    for unknown in [TurnId::from_uuid(Uuid::now_v7()).as_run().to_string(), "resp_daily".to_owned()] {
        assert!(world.read(&unknown).await.is_none(), "{unknown}");
    }
}

pub async fn a_response_that_cannot_be_fetched_leads_nowhere<S: Store>(world: &World<S>) {
    let plain = world.talk(&world.one, "plain", "first", "one").await;
    let unkept = respond(world, "unkept", false).await;
    let forgotten = respond(world, "forgotten", true).await;
    assert!(world.one.forget_response(&world.scope, forgotten.turn).await.unwrap());
    for turn in [&plain, &unkept, &forgotten] {
        let to = turn.turn.as_response().to_string();
        assert!(world.read(&to).await.is_none());
        assert_eq!(refused(world.admit(&world.one, world.ask(&to, "more")).await), Refusal::NotFound);
        for to in [turn.turn.as_run().to_string(), turn.turn.to_string()] {
            assert_eq!(world.read(&to).await.unwrap().facts.id, turn.facts.id);
        }
        world.talk(&world.one, turn.facts.head.id.as_str(), "more", "yes").await;
    }
}

pub async fn a_record_has_what_a_response_shows<S: Store>(world: &World<S>) {
    let mut ask = response(world.ask("trip", "first"), "{\"metadata\":{}}", true);
    ask.messages.push(message(Role::User, "and this"));
    ask.api = "responses";
    let turn = running(world.admit(&world.one, ask).await);
    let runs = world.turn(turn.turn).await.unwrap();
    assert_eq!((runs.echo.as_deref(), runs.kept, &*runs.api), (Some("{\"metadata\":{}}"), true, "responses"));
    assert_eq!((&runs.input, runs.ended_at, runs.said().count()), (&turn.messages, None, 0));
    let committed = world.answer(&world.one, &turn, "one").await;
    let ended = world.turn(turn.turn).await.unwrap();
    assert_eq!((&ended.echo, ended.kept, &ended.input), (&runs.echo, true, &turn.messages));
    assert_eq!((&answer_of(&ended), ended.ended_at.is_some()), (&committed.messages, true));
    assert!(ended.compactions().next().is_none());
    let plain = world.talk(&world.one, "trip", "second", "two").await;
    let record = world.turn(plain.turn).await.unwrap();
    assert_eq!((record.echo, record.kept, record.input), (None, false, plain.messages));
}

pub async fn a_record_is_whole_after_a_split_during_the_turn<S: Store>(world: &World<S>) {
    world.talk(&world.one, "trip", "first", "one").await;
    let mut turn = running(world.admit(&world.one, response(world.ask("trip", "second"), "{}", true)).await);
    let split = world.compact_during(&world.one, &mut turn, Split, "so far").await;
    world.one.record_failed(world.failed(&turn));
    let in_place = world.compact_during(&world.one, &mut turn, InPlace, "further").await;
    let committed = world.answer(&world.one, &turn, "two").await;
    world.compact(&world.one, "trip", Split, "later").await;
    let record = world.turn(turn.turn).await.unwrap();
    assert_eq!((&record.input, &answer_of(&record)), (&turn.messages, &committed.messages));
    assert_ne!(record.input[0].session, answer_of(&record)[0].session);
    assert_eq!(
        (record.compactions().collect::<Vec<_>>(), record.rotated),
        (vec![split.record.id, in_place.record.id], true)
    );
}

pub async fn a_further_attempt_answers_its_own_request<S: Store>(world: &World<S>) {
    let first = running(world.admit(&world.one, response(world.ask("trip", "first"), "1", false)).await);
    world.leave(&world.one, &first, TurnState::Failed, Some("on")).await;
    let failed = world.turn(first.turn).await.unwrap();
    assert_eq!((failed.echo.as_deref(), failed.kept, &failed.input), (Some("1"), false, &first.messages));
    assert_eq!((failed.ended_at.is_some(), failed.said().count()), (true, 1), "the partial answer is in the record");
    world.compact(&world.one, "trip", Split, "so far").await;
    let refused = running(world.admit(&world.two, again(world, first.turn)).await);
    world.two.retract(refused.lease).await.unwrap();
    let before = world.turn(first.turn).await.unwrap();
    assert_eq!((before.echo, before.input, before.ended_at), (failed.echo, failed.input, failed.ended_at));
    let ask = Admission { api: "runs", ..response(again(world, first.turn), "2", true) };
    let second = running(world.admit(&world.two, ask).await);
    let runs = world.turn(first.turn).await.unwrap();
    assert_eq!((runs.echo.as_deref(), runs.kept, runs.ended_at), (Some("2"), true, None));
    world.leave(&world.two, &second, TurnState::Failed, None).await;
    let third = running(world.admit(&world.two, again(world, first.turn)).await);
    let committed = world.answer(&world.two, &third, "one").await;
    let record = world.turn(first.turn).await.unwrap();
    assert_eq!((record.echo.as_deref(), record.kept), (Some("2"), true), "the further attempt was not a response");
    assert_eq!(&*record.api, "runs", "the API style is that of the last request");
    assert_eq!((&record.input, &answer_of(&record)), (&first.messages, &committed.messages));
    assert_eq!(world.read(&first.turn.as_response().to_string()).await.unwrap().facts.id, first.facts.id);
}

pub async fn a_response_that_waits_is_known<S: Store>(world: &World<S>) {
    let first = world.start(&world.one, "trip", "first").await;
    let waiting = world.queue(&world.two, response(world.ask("trip", "second"), "{}", true)).await;
    let record = world.turn(waiting.turn).await.unwrap();
    assert_eq!((record.state, record.echo.as_deref(), record.kept), (TurnState::Queued, Some("{}"), true));
    assert!(record.input.is_empty() && record.ended_at.is_none());
    assert_eq!(world.row(&waiting.turn.as_response().to_string()).await.unwrap().facts.id, first.facts.id);
    world.answer(&world.one, &first, "one").await;
    let second = running(world.admit(&world.two, waiting).await);
    world.answer(&world.two, &second, "two").await;
    let record = world.turn(second.turn).await.unwrap();
    assert_eq!((record.echo.as_deref(), record.kept, record.input), (Some("{}"), true, second.messages));
}

pub async fn a_forgotten_response_leaves_what_was_said<S: Store>(world: &World<S>) {
    let turn = respond(world, "trip", true).await;
    let before = world.read("trip").await.unwrap();
    assert!(world.two.forget_response(&world.scope, turn.turn).await.unwrap());
    assert!(!world.one.forget_response(&world.scope, turn.turn).await.unwrap());
    let record = world.turn(turn.turn).await.unwrap();
    assert_eq!((record.echo, record.kept, record.input), (None, false, turn.messages));
    let after = world.read("trip").await.unwrap();
    assert_eq!((after.version, &after.messages), (before.version, &before.messages));
    let unkept = respond(world, "trip", false).await;
    for turn in [unkept.turn, TurnId::from_uuid(Uuid::now_v7())] {
        assert!(!world.one.forget_response(&world.scope, turn).await.unwrap());
    }
    let branch = world.branch(&world.one, turn.turn, "instead", "fine").await;
    assert_eq!(shown(&world.read(&branch.facts.id.to_string()).await.unwrap()), ["first", "one", "instead", "fine"]);
}

pub async fn old_responses_are_forgotten_and_their_conversation_goes_on<S: Store>(world: &World<S>) {
    let kept = |ask| Admission { api: "responses", ..response(ask, "{}", true) };
    let mut old = Vec::new();
    for said in ["first", "second"] {
        let turn = running(world.admit(&world.one, kept(world.ask("trip", said))).await);
        world.answer(&world.one, &turn, "yes").await;
        old.push(turn.turn);
    }
    let run = running(world.admit(&world.one, Admission { api: "runs", ..kept(world.ask("work", "now")) }).await);
    world.answer(&world.one, &run, "done").await;
    let failing = running(world.admit(&world.one, kept(world.ask("trip", "third"))).await);
    world.leave(&world.one, &failing, TurnState::Failed, None).await;
    let long = running(world.admit(&world.one, kept(world.ask("long", "work"))).await);
    let later = world.now();
    let all = Expired { responses: 0, is_all: true };
    assert_eq!(world.two.expire_responses(Timestamp(0)).await.unwrap(), all, "no response is that old");
    assert!(world.turn(old[0]).await.unwrap().kept);

    let expired = world.two.expire_responses(later).await.unwrap();
    assert_eq!(expired, Expired { responses: 3, is_all: true });
    assert_eq!(world.one.expire_responses(later).await.unwrap(), all, "each once");
    for turn in &old {
        assert!(world.read(&turn.as_response().to_string()).await.is_none());
        assert!(!world.turn(*turn).await.unwrap().kept);
    }
    assert!(world.turn(run.turn).await.unwrap().kept, "a run is no response");
    world.answer(&world.one, &long, "done").await;
    assert!(world.turn(long.turn).await.unwrap().kept, "a turn that was running then has not expired");

    let again = running(world.admit(&world.one, kept(again(world, failing.turn))).await);
    assert_eq!(again.turn, failing.turn);
    world.answer(&world.one, &again, "yes").await;
    assert!(world.turn(failing.turn).await.unwrap().kept, "it was tried again since");
    let snapshot = world.read("trip").await.unwrap();
    assert_eq!(shown(&snapshot), ["first", "yes", "second", "yes", "third", "yes"]);
    assert_eq!(world.two.expire_responses(world.now()).await.unwrap(), Expired { responses: 2, is_all: true });
    assert!(!world.turn(failing.turn).await.unwrap().kept);
}

pub async fn a_response_is_hidden_from_other_callers<S: Store>(world: &World<S>) {
    let key = SessionKey::parse("mine").ok();
    let ask = Admission { session_key: key, ..response(world.ask("trip", "first"), "{}", true) };
    let turn = running(world.admit(&world.one, ask).await);
    world.answer(&world.one, &turn, "one").await;
    let keyless = Scope { keys: KeyScope::parse(Some("yours")), ..world.scope.clone() };
    for scope in [&world.stranger, &keyless] {
        for to in [turn.turn.as_response().to_string(), turn.turn.as_run().to_string(), turn.turn.to_string()] {
            assert!(world.two.conversation(scope, &name(&to), crate::Pin::Head).await.unwrap().is_none());
            let ask = Admission { scope: scope.clone(), ..world.ask(&to, "more") };
            assert_eq!(refused(world.admit(&world.two, ask).await), Refusal::NotFound);
        }
        assert!(world.two.turn(scope, turn.turn).await.unwrap().is_none());
        assert!(!world.two.forget_response(scope, turn.turn).await.unwrap());
        let source = Target::Branch { source: turn.turn };
        let ask = Admission { scope: scope.clone(), target: source, ..world.ask_anew("instead") };
        assert_eq!(refused(world.admit(&world.two, ask).await), Refusal::NotFound);
    }
    assert!(world.turn(turn.turn).await.unwrap().kept);
}

//! Finding conversations by the history that their clients have seen.

use herma_model::alias::Namespace;
use herma_model::generation::Finish;
use herma_model::{
    ChatId, ConversationId, EndReason, HistoryDigest, HistoryEnd, MessageId, NewMessage, Resolution, Role, SessionKey,
    SessionKind, TurnId, Utterance,
};

use super::World;
use super::fixture::{finish, message, name, running};
use crate::{
    Admission, AdmitOutcome, Change, Children, Commit, Creation, EndOutcome, ExpectedHistory, Extent, FoundHistory,
    HistoryScope, Resembling, Running, Scope, Store, Target, TurnOutcome,
};

/// The history of these texts: a user's, an answer, and so on.
fn history(texts: &[&str]) -> HistoryEnd {
    let said = |(nth, text): (usize, &&str)| {
        let role = if nth % 2 == 0 { Role::User } else { Role::Assistant };
        message(role, text).said
    };
    let said: Vec<Utterance> = texts.iter().enumerate().map(said).collect();
    HistoryEnd { history: HistoryDigest::EMPTY.followed_by(&said), last: said.last().unwrap().digest }
}

fn within(session_key: Option<&str>, chat: Option<ChatId>) -> HistoryScope {
    let session_key = session_key.map(|key| SessionKey::parse(key).unwrap());
    HistoryScope { session_key, chat, kind: SessionKind::Main }
}

fn chat(id: &str) -> ChatId {
    ChatId::of("x-chat-id", id.as_bytes())
}

async fn find<S: Store>(world: &World<S>, within: HistoryScope, ends: &[&[&str]]) -> Option<(usize, TurnId)> {
    find_as(world, &world.scope, within, ends).await
}

async fn find_as<S: Store>(
    world: &World<S>,
    scope: &Scope,
    within: HistoryScope,
    ends: &[&[&str]],
) -> Option<(usize, TurnId)> {
    let ends = ends.iter().map(|texts| history(texts)).collect();
    let found = world.two.find_history(scope, within, ends).await.unwrap();
    found.map(|FoundHistory { end, turn, .. }| (end, turn))
}

/// Ends a turn with an answer, after which its client has seen these texts.
async fn answer<S: Store>(world: &World<S>, turn: &Running, texts: &[&str]) {
    let said = message(Role::Assistant, texts.last().unwrap());
    let messages = vec![NewMessage { id: MessageId::answered(turn.turn, turn.attempt, 0), ..said }];
    let outcome = TurnOutcome::Completed { messages, finish: finish() };
    let commit = Commit { history: Some(history(texts)), ..world.commit(turn, outcome) };
    world.one.commit(commit).await.unwrap();
}

/// Runs a whole turn. The texts are all that its client has seen then.
async fn turn<S: Store>(world: &World<S>, ask: Admission, texts: &[&str]) -> Running {
    let turn = running(world.admit(&world.one, ask).await);
    answer(world, &turn, texts).await;
    turn
}

fn of_chat<S: Store>(world: &World<S>, id: &str, text: &str) -> Admission {
    let ask = world.ask_anew(text);
    Admission { creation: Creation { chat: Some(chat(id)), ..ask.creation }, ..ask }
}

pub async fn a_history_leads_to_the_turn_with_which_it_ends<S: Store>(world: &World<S>) {
    let first = turn(world, world.ask("trip", "a"), &["a", "b"]).await;
    let second = turn(world, world.ask("trip", "c"), &["a", "b", "c", "d"]).await;
    let all = within(None, None);
    assert_eq!(find(world, all.clone(), &[&["a", "b", "c", "d"], &["a", "b"]]).await, Some((0, second.turn)));
    assert_eq!(find(world, all.clone(), &[&["a", "b", "c", "x"], &["a", "b"]]).await, Some((1, first.turn)));
    assert_eq!(find(world, all, &[&["a", "d"], &["c", "d"]]).await, None);
    let seen = world.read("trip").await.unwrap().history;
    assert_eq!(seen, Some(history(&["a", "b", "c", "d"]).history));
    let then = world.two.open(&world.scope, &name("trip"), Namespace::Session, Extent::At(first.turn)).await.unwrap();
    assert_eq!(then.unwrap().history, Some(history(&["a", "b"]).history));
}

pub async fn of_conversations_with_one_history_the_one_that_ends_there_counts<S: Store>(world: &World<S>) {
    let older = turn(world, world.ask("one", "a"), &["a", "b"]).await;
    let newer = turn(world, world.ask("two", "a"), &["a", "b"]).await;
    let all = || within(None, None);
    assert_eq!(find(world, all(), &[&["a", "b"]]).await, Some((0, newer.turn)), "the newest");
    turn(world, world.ask("two", "c"), &["a", "b", "c", "d"]).await;
    assert_eq!(find(world, all(), &[&["a", "b"]]).await, Some((0, older.turn)), "the other one has gone on");
    let ended = world.one.end(&world.scope, &name("one"), EndReason::Ended, world.now()).await.unwrap();
    assert!(matches!(ended, EndOutcome::Done(_)), "{ended:?}");
    assert_eq!(find(world, all(), &[&["a", "b"]]).await, Some((0, newer.turn)), "an ended one takes no turn");
}

pub async fn an_admission_checks_what_its_caller_expects_a_search_to_find<S: Store>(world: &World<S>) {
    let older = turn(world, world.ask("one", "a"), &["a", "b"]).await;
    let expecting = async |conversation: &str, turn: TurnId, within: HistoryScope| {
        let ends = vec![history(&["a", "b", "c"]), history(&["a", "b"])];
        let expected_history = Some(Box::new(ExpectedHistory { within, ends, turn }));
        let ask = Admission { expected_history, ..world.ask(conversation, "c") };
        let seen = world.seen(&world.one, &ask).await;
        world.one.admit(Admission { seen, ..ask }).await.unwrap()
    };
    let all = || within(None, None);
    let keyed = expecting("one", older.turn, within(Some("user-1"), None)).await;
    assert!(matches!(keyed, AdmitOutcome::Stale), "of another key: {keyed:?}");
    let chat = expecting("one", older.turn, within(None, Some(chat("mine")))).await;
    assert!(matches!(chat, AdmitOutcome::Stale), "of no chat: {chat:?}");
    let newer = turn(world, world.ask("two", "a"), &["a", "b"]).await;
    let not_newest = expecting("one", older.turn, all()).await;
    assert!(matches!(not_newest, AdmitOutcome::Stale), "another one is newer: {not_newest:?}");
    let found = running(expecting("two", newer.turn, all()).await);
    assert_eq!(found.facts.id, newer.facts.id);
    answer(world, &found, &["a", "b", "c", "d"]).await;
    world.one.end(&world.scope, &name("one"), EndReason::Ended, world.now()).await.unwrap();
    let ended = expecting("one", older.turn, all()).await;
    assert!(matches!(ended, AdmitOutcome::Stale), "it takes no turn: {ended:?}");
}

pub async fn histories_of_other_tenants_keys_and_kinds_are_not_found<S: Store>(world: &World<S>) {
    let plain = turn(world, world.ask("plain", "a"), &["a", "b"]).await;
    let key = SessionKey::parse("user-1").unwrap();
    let keyed = Admission { session_key: Some(key), ..world.ask("keyed", "a") };
    let keyed = turn(world, keyed, &["a", "b"]).await;
    let mut helper = world.ask("helper", "a");
    helper.creation.kind = SessionKind::Auxiliary;
    let helper = turn(world, helper, &["a", "b"]).await;
    let end: &[&[&str]] = &[&["a", "b"]];
    assert_eq!(find(world, within(None, None), end).await, Some((0, plain.turn)));
    assert_eq!(find(world, within(Some("user-1"), None), end).await, Some((0, keyed.turn)));
    assert_eq!(find(world, within(Some("User-1"), None), end).await, None);
    assert_eq!(find_as(world, &world.stranger, within(None, None), end).await, None);
    let helpers = HistoryScope { kind: SessionKind::Auxiliary, ..within(None, None) };
    assert_eq!(find(world, helpers, end).await, Some((0, helper.turn)));
}

pub async fn of_many_equal_histories_the_one_that_ends_there_is_found<S: Store>(world: &World<S>) {
    let waits = turn(world, world.ask("waits", "a"), &["a", "b"]).await;
    for nth in 0..40 {
        let went_on = format!("went-on-{nth}");
        turn(world, world.ask(&went_on, "a"), &["a", "b"]).await;
        turn(world, world.ask(&went_on, "c"), &["a", "b", "c", "d"]).await;
    }
    assert_eq!(find(world, within(None, None), &[&["a", "b"]]).await, Some((0, waits.turn)));
}

pub async fn a_key_that_comes_later_hides_a_history_from_others<S: Store>(world: &World<S>) {
    let first = turn(world, world.ask("trip", "a"), &["a", "b"]).await;
    let key = SessionKey::parse("user-1").unwrap();
    let keyed = Admission { session_key: Some(key), ..world.ask("trip", "c") };
    let keyed = turn(world, keyed, &["a", "b", "c", "d"]).await;
    let whole: &[&[&str]] = &[&["a", "b", "c", "d"]];
    assert_eq!(find(world, within(Some("user-1"), None), whole).await, Some((0, keyed.turn)));
    assert_eq!(find(world, within(None, None), &[&["a", "b", "c", "d"], &["a", "b"]]).await, None);
    let earlier = find(world, within(Some("user-1"), None), &[&["a", "b"]]).await;
    assert_eq!(earlier, Some((0, first.turn)), "and shows all of it to those who have the key");
}

pub async fn a_key_that_is_taken_back_hides_nothing<S: Store>(world: &World<S>) {
    let first = turn(world, world.ask("trip", "a"), &["a", "b"]).await;
    let key = SessionKey::parse("user-1").unwrap();
    let keyed = Admission { session_key: Some(key), ..world.ask("trip", "c") };
    let keyed = running(world.admit(&world.one, keyed).await);
    world.one.retract(keyed.lease).await.unwrap();
    assert_eq!(find(world, within(None, None), &[&["a", "b"]]).await, Some((0, first.turn)));
    assert_eq!(find(world, within(Some("user-1"), None), &[&["a", "b"]]).await, None);
}

pub async fn a_chat_limits_the_search<S: Store>(world: &World<S>) {
    let other = turn(world, of_chat(world, "other", "a"), &["a", "b"]).await;
    let mine = turn(world, of_chat(world, "mine", "a"), &["a", "b"]).await;
    let later = turn(world, world.ask("later", "a"), &["a", "b"]).await;
    let end: &[&[&str]] = &[&["a", "b"]];
    assert_eq!(find(world, within(None, Some(chat("mine"))), end).await, Some((0, mine.turn)));
    assert_eq!(find(world, within(None, Some(chat("other"))), end).await, Some((0, other.turn)));
    assert_eq!(find(world, within(None, Some(chat("none"))), end).await, None);
    assert_eq!(find(world, within(None, None), end).await, Some((0, later.turn)));
    assert_eq!(find_as(world, &world.stranger, within(None, Some(chat("mine"))), end).await, None);
}

pub async fn a_chat_has_one_first_conversation_and_any_number_of_branches<S: Store>(world: &World<S>) {
    let first = running(world.one.admit(of_chat(world, "mine", "a")).await.unwrap());
    let raced = world.one.admit(of_chat(world, "mine", "a")).await.unwrap();
    assert!(matches!(raced, AdmitOutcome::Stale), "{raced:?}");
    answer(world, &first, &["a", "b"]).await;
    let edited = of_chat(world, "mine", "x");
    let edited = Admission { target: Target::Anew { source: first.facts.id }, ..edited };
    let branch = turn(world, edited, &["x", "y"]).await;
    assert_eq!(branch.resolution, Resolution::Branched);
    assert_eq!(branch.facts.origin_kind, SessionKind::Branch);
    let id = branch.facts.id.to_string();
    let view = world.read(&id).await.unwrap();
    assert_eq!(view.messages.len(), 2, "it inherits no message");
    let parent = world.row(&id).await.unwrap().facts.head.parent.clone();
    assert_eq!(parent.map(|(parent, _)| parent), Some(first.facts.root.clone()));
    let found: Vec<ConversationId> =
        world.two.find_resembling(&world.scope, within(None, Some(chat("mine"))), Resembling::Chat).await.unwrap();
    assert_eq!(found, [branch.facts.id, first.facts.id], "the last used first");
}

pub async fn a_chat_under_another_session_key_is_another_chat<S: Store>(world: &World<S>) {
    turn(world, of_chat(world, "mine", "a"), &["a", "b"]).await;
    let session_key = Some(SessionKey::parse("user-1").unwrap());
    let keyed = running(world.one.admit(Admission { session_key, ..of_chat(world, "mine", "a") }).await.unwrap());
    assert_eq!(keyed.resolution, Resolution::Created);
}

pub async fn added_messages_wait_for_their_answer<S: Store>(world: &World<S>) {
    let added = running(world.admit(&world.one, world.ask("trip", "a")).await);
    let finish = Finish { usage: None, ..finish() };
    let outcome = TurnOutcome::Completed { messages: Vec::new(), finish };
    let commit = Commit { history: Some(history(&["a"])), ..world.commit(&added, outcome) };
    world.one.commit(commit).await.unwrap();
    let opening = |text: &str| Admission { opening: Some(history(&[text])), ..world.ask_anew(text) };
    let outcome = world.one.admit(opening("a")).await.unwrap();
    assert!(matches!(outcome, AdmitOutcome::Waiting(turn) if turn == added.turn), "{outcome:?}");
    let other = running(world.one.admit(opening("x")).await.unwrap());
    assert_ne!(other.facts.id, added.facts.id);
    let stranger = Admission { scope: world.stranger.clone(), ..opening("a") };
    assert_ne!(running(world.one.admit(stranger).await.unwrap()).facts.id, added.facts.id);
    let nothing_new = Admission { messages: Vec::new(), ..world.ask("trip", "") };
    turn(world, nothing_new, &["a", "b"]).await;
    let late = running(world.one.admit(opening("a")).await.unwrap());
    assert_ne!(late.facts.id, added.facts.id, "it was answered");
}

pub async fn conversations_that_share_an_answer_are_found<S: Store>(world: &World<S>) {
    let one = turn(world, world.ask("one", "a"), &["a", "b"]).await;
    let two = turn(world, world.ask("two", "x"), &["x", "b"]).await;
    turn(world, world.ask("three", "a"), &["a", "c"]).await;
    let answers = |text: &str| Resembling::Answers(vec![message(Role::Assistant, text).said.digest]);
    let found =
        async |scope: &Scope, text| world.two.find_resembling(scope, within(None, None), answers(text)).await.unwrap();
    assert_eq!(found(&world.scope, "b").await, [two.facts.id, one.facts.id]);
    assert_eq!(found(&world.scope, "nothing").await, []);
    assert_eq!(found(&world.stranger, "b").await, []);
}

pub async fn a_deleted_conversation_is_not_found_by_its_history<S: Store>(world: &World<S>) {
    let source = turn(world, of_chat(world, "mine", "a"), &["a", "b"]).await;
    let branch = turn(world, world.ask_branch(source.turn, "c"), &["a", "b", "c", "d"]).await;
    let id = name(&source.facts.id.to_string());
    world.one.delete(&world.scope, &id, Children::Keep, world.now()).await.unwrap();
    assert_eq!(find(world, within(None, None), &[&["a", "b"]]).await, None);
    assert_eq!(find(world, within(None, Some(chat("mine"))), &[&["a", "b"]]).await, None);
    assert_eq!(find(world, within(None, None), &[&["a", "b", "c", "d"]]).await, Some((0, branch.turn)));
    let again = running(world.one.admit(of_chat(world, "mine", "a")).await.unwrap());
    assert_eq!(again.resolution, Resolution::Created, "the chat is free again");
}

pub async fn a_rewound_history_is_still_found_and_the_end_is_unknown<S: Store>(world: &World<S>) {
    turn(world, world.ask("trip", "a"), &["a", "b"]).await;
    let second = turn(world, world.ask("trip", "c"), &["a", "b", "c", "d"]).await;
    world.rewind(&world.one, "trip", 1).await;
    assert_eq!(world.read("trip").await.unwrap().history, None);
    let whole: &[&[&str]] = &[&["a", "b", "c", "d"]];
    assert_eq!(find(world, within(None, None), whole).await, Some((0, second.turn)));
    let title = Change { title: Some(Some("a title".into())), ..Change::default() };
    world.one.update(&world.scope, &name("trip"), title, world.now()).await.unwrap();
    assert_eq!(find(world, within(None, None), whole).await, Some((0, second.turn)), "a title changes no history");
}

//! Generated titles, beside titles that clients give.

use std::sync::atomic::Ordering;

use herma_model::Role;
use herma_model::alias::Namespace;

use super::World;
use super::describing::made;
use super::fixture::{finish, message, name, running};
use crate::{
    Change, Commit, ConversationRow, EventsFrom, Extent, MadeTitle, NewConversation, Rewrite, RewriteOutcome, Running,
    Store, TurnOutcome,
};

fn titled(title: Option<&str>) -> Change {
    Change { title: Some(title.map(str::to_owned)), ..Change::default() }
}

impl<S: Store> World<S> {
    /// Answers a turn and sends a generated title with the commit.
    async fn answer_and_title(&self, store: &S, turn: &Running, title: &str) {
        let said = TurnOutcome::Completed { messages: vec![message(Role::Assistant, "yes")], finish: finish() };
        let title = Some(MadeTitle::FirstWords(title.to_owned()));
        store.commit(Commit { title, ..self.commit(turn, said) }).await.unwrap();
    }

    /// Runs a turn that sends a generated title with its commit.
    async fn talk_and_title(&self, store: &S, to: &str, title: &str) -> Running {
        let turn = self.start(store, to, "go on").await;
        self.answer_and_title(store, &turn, title).await;
        turn
    }

    /// Gives a conversation a generated title.
    async fn make_title(&self, row: &ConversationRow, title: &str) -> bool {
        let title = MadeTitle::Model(title.to_owned());
        self.two.make_title(self.scope.tenant, row.facts.id, title, self.now()).await.unwrap()
    }

    async fn title(&self, to: &str) -> Option<String> {
        self.row(to).await.unwrap().title
    }

    async fn is_untitled(&self, to: &str) -> bool {
        self.read(to).await.unwrap().untitled
    }
}

pub async fn a_turn_brings_a_title_once<S: Store>(world: &World<S>) {
    let turn = world.start(&world.one, "trip", "first").await;
    assert!(world.is_untitled("trip").await);
    world.answer_and_title(&world.one, &turn, "Sea").await;
    assert!(!world.is_untitled("trip").await);
    world.talk_and_title(&world.two, "trip", "Lake").await;
    assert_eq!(world.title("trip").await.as_deref(), Some("Sea"));
    world.talk_and_title(&world.one, "train", "Sea").await;
    assert_eq!(world.title("train").await.as_deref(), Some("Sea"), "titles need not be unique");
}

pub async fn a_title_that_is_an_excerpt_goes_with_its_message<S: Store>(world: &World<S>) {
    let turn = world.start(&world.one, "trip", "Sea and sun").await;
    world.answer_and_title(&world.one, &turn, "Sea").await;
    let seen = world.one.message(&world.scope, &name("trip"), turn.messages[0].id).await.unwrap().unwrap();
    let (scope, alias, now) = (world.scope.clone(), name("trip"), world.now());
    world.rewritten.store(true, Ordering::Relaxed);
    let outcome = world.one.rewrite(Rewrite { scope, alias, seen, said: None, now }).await.unwrap();
    assert_eq!(outcome, RewriteOutcome::Done);
    assert_eq!((world.title("trip").await, world.is_untitled("trip").await), (None, true));
    let events = world.one.events(&world.scope, EventsFrom::Oldest, 100).await.unwrap().events;
    assert!(events.iter().all(|event| !event.data.contains("Sea")), "{events:?}");
    world.talk_and_title(&world.one, "trip", "Lake").await;
    assert_eq!(world.title("trip").await.as_deref(), Some("Lake"));
}

pub async fn a_title_that_is_an_excerpt_is_found_only_in_its_message<S: Store>(world: &World<S>) {
    let turn = world.start(&world.one, "trip", "Sea and sun").await;
    world.answer_and_title(&world.one, &turn, "Sea").await;
    world.finds(&[("sea", &["[Sea] and sun"])]).await;
    world.describe("trip", titled(Some("Sea"))).await;
    world.finds(&[("sea", &["[Sea]", "[Sea] and sun"])]).await;
    world.describe("trip", titled(Some("Lake"))).await;
    world.finds(&[("sea", &["[Sea] and sun"]), ("lake", &["[Lake]"])]).await;
    world.describe("trip", titled(None)).await;
    world.finds(&[("sea", &["[Sea] and sun"]), ("lake", &[])]).await;
}

pub async fn a_title_is_made_between_turns<S: Store>(world: &World<S>) {
    world.talk(&world.one, "trip", "first", "one").await;
    let (before, read) = (world.row("trip").await.unwrap(), world.read("trip").await.unwrap());
    assert!(read.untitled);
    assert!(world.make_title(&before, "Sea").await);
    assert!(!world.make_title(&before, "Lake").await);
    let after = world.row("trip").await.unwrap();
    assert_eq!(after.title.as_deref(), Some("Sea"));
    assert!(after.updated_at > before.updated_at, "a list of changed conversations shows it");
    let again = world.read("trip").await.unwrap();
    assert_eq!((again.version, again.untitled), (read.version, false), "the version stays");
    world.finds(&[("sea", &["[Sea]"])]).await;
}

pub async fn a_given_title_stays<S: Store>(world: &World<S>) {
    let new = NewConversation { title: Some("Sea".to_owned()), ..world.new_conversation(Some("trip")) };
    let row = made(world.one.create(new).await.unwrap());
    assert!(!world.is_untitled("trip").await);
    world.talk_and_title(&world.one, "trip", "Lake").await;
    assert!(!world.make_title(&row, "Lake").await);
    assert_eq!(world.title("trip").await.as_deref(), Some("Sea"));
    let turn = world.start(&world.one, "train", "first").await;
    world.describe("train", titled(Some("By train"))).await;
    world.answer_and_title(&world.one, &turn, "Lake").await;
    assert_eq!(world.title("train").await.as_deref(), Some("By train"), "given while the turn ran");
}

pub async fn a_title_that_was_taken_away_stays_away<S: Store>(world: &World<S>) {
    world.talk_and_title(&world.one, "trip", "Sea").await;
    let row = world.describe("trip", titled(None)).await;
    assert!(!world.is_untitled("trip").await, "a client has removed its title");
    world.talk_and_title(&world.two, "trip", "Lake").await;
    assert!(!world.make_title(&row, "Lake").await);
    assert_eq!(world.title("trip").await, None);
    world.describe("trip", titled(Some("River"))).await;
    assert_eq!(world.title("trip").await.as_deref(), Some("River"));
    world.finds(&[("sea OR lake", &[]), ("river", &["[River]"])]).await;
}

pub async fn a_branch_has_a_title_of_its_own<S: Store>(world: &World<S>) {
    let first = world.talk_and_title(&world.one, "trip", "Sea").await;
    for extent in [Extent::At(first.turn), Extent::Completed] {
        let read = world.one.open(&world.scope, &name("trip"), Namespace::Session, extent).await.unwrap();
        assert!(read.unwrap().untitled);
    }
    let branch = running(world.admit(&world.two, world.ask_branch(first.turn, "or else")).await);
    let id = branch.facts.head.id.to_string();
    assert!(world.is_untitled(&id).await);
    world.answer_and_title(&world.two, &branch, "Lake").await;
    assert_eq!((world.title("trip").await.as_deref(), world.title(&id).await.as_deref()), (Some("Sea"), Some("Lake")));
}

pub async fn what_is_not_there_gets_no_title<S: Store>(world: &World<S>) {
    world.talk(&world.one, "trip", "first", "one").await;
    let row = world.row("trip").await.unwrap();
    let title = MadeTitle::Model("Sea".to_owned());
    assert!(!world.one.make_title(world.stranger.tenant, row.facts.id, title, world.now()).await.unwrap());
    assert_eq!(world.title("trip").await, None);
    world.delete("trip").await;
    assert!(!world.make_title(&row, "Sea").await);
    world.leads_nowhere("trip").await;
}

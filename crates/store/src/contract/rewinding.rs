//! Rewinding a conversation to an earlier place, and undoing that.

use herma_model::alias::Namespace;
use herma_model::provenance::CompactionMode::{InPlace, Split};
use herma_model::{EndReason, MessageId, TurnState};

use super::World;
use super::branching_idle::branched;
use super::fixture::{name, running};
use super::summaries::{compacted, not_undone, shown, undone};
use crate::{
    Admission, BranchPoint, CompactOutcome, ConversationRow, ExpectedRevision, Extent, MessageRange, Order, Pin,
    Rewind, RewindOutcome, RewindPoint, Scope, Snapshot, Store, StoreError, UndoRefusal,
};

impl<S: Store> World<S> {
    /// A request to rewind.
    pub fn go_back(&self, to: &str, point: RewindPoint) -> Rewind {
        Rewind { scope: self.scope.clone(), alias: name(to), to: point, now: self.now() }
    }

    /// Rewinds by some turns.
    pub async fn rewind(&self, store: &S, to: &str, turns: u32) -> ConversationRow {
        done(store.rewind(self.go_back(to, RewindPoint::Turns(turns))).await.unwrap())
    }

    /// Rewinds to a message.
    pub async fn rewind_to(&self, store: &S, to: &str, message: MessageId) -> RewindOutcome {
        store.rewind(self.go_back(to, RewindPoint::Message(message))).await.unwrap()
    }

    /// Undoes a rewind.
    pub async fn restore_rewound(&self, store: &S, to: &str) -> RewindOutcome {
        store.restore_rewound(&self.scope, &name(to), self.now()).await.unwrap()
    }

    /// The texts of the full view that are marked as rewound.
    pub async fn marked(&self, to: &str) -> Vec<String> {
        let range = MessageRange { order: Order::OldestFirst { after: None }, limit: 1000, pin: Pin::Head };
        let page = self.two.messages(&self.scope, &name(to), range).await.unwrap().unwrap();
        let marked = page.entries.iter().filter(|entry| page.rewound.contains(&entry.seq()));
        marked.map(super::summaries::entry_text).collect()
    }

    async fn branch_at(&self, source: &str, at: BranchPoint) -> String {
        branched(self.one.branch(self.new_branch(source, at)).await.unwrap()).facts.id.to_string()
    }

    async fn model_view(&self, to: &str) -> Vec<String> {
        shown(&self.read(to).await.unwrap())
    }

    async fn id_of(&self, to: &str, text: &str) -> MessageId {
        let Snapshot { messages, rewound, .. } = self.read_as(to, Extent::Whole).await.unwrap();
        let wanted = |said: &herma_model::Message| super::fixture::text_of(said.said.payload.as_json()) == text;
        messages.iter().chain(&rewound).find(|said| wanted(said)).unwrap().id
    }
}

fn done(outcome: RewindOutcome) -> ConversationRow {
    match outcome {
        RewindOutcome::Done(row) => *row,
        other => panic!("{other:?}"),
    }
}

async fn three_turns<S: Store>(world: &World<S>) {
    for (question, answer) in [("first", "one"), ("second", "two"), ("third", "three")] {
        world.talk(&world.one, "trip", question, answer).await;
    }
}

pub async fn the_models_view_ends_where_it_was_rewound_to<S: Store>(world: &World<S>) {
    three_turns(world).await;
    let (before, row) = (world.read("trip").await.unwrap(), world.row("trip").await.unwrap());
    let after = world.rewind(&world.one, "trip", 2).await;
    assert_ne!(after.revision, row.revision);
    assert_eq!((after.message_count, after.turn_count, &after.facts), (6, 3, &row.facts));
    let view = world.read("trip").await.unwrap();
    assert_eq!(shown(&view), ["first", "one"]);
    assert!(view.version > before.version && view.rewrites > before.rewrites && view.counted.is_none());
    assert_eq!(world.said("trip", Pin::Head).await, ["first", "one", "second", "two", "third", "three"]);
    assert_eq!(world.marked("trip").await, ["second", "two", "third", "three"]);
    world.talk(&world.two, "trip", "instead", "yes").await;
    assert_eq!(world.model_view("trip").await, ["first", "one", "instead", "yes"]);
    assert!(matches!(world.restore_rewound(&world.one, "trip").await, RewindOutcome::NothingToRestore));
    let hidden = world.id_of("trip", "two").await;
    assert!(matches!(world.rewind_to(&world.one, "trip", hidden).await, RewindOutcome::AlreadyRewound));
    let to = world.id_of("trip", "first").await;
    done(world.rewind_to(&world.one, "trip", to).await);
    assert_eq!(world.model_view("trip").await, ["first"], "the view ends with this message");
}

pub async fn what_was_rewound_is_given_back_until_the_next_turn<S: Store>(world: &World<S>) {
    three_turns(world).await;
    assert!(matches!(world.restore_rewound(&world.one, "trip").await, RewindOutcome::NothingToRestore));
    world.rewind(&world.one, "trip", 1).await;
    world.rewind(&world.two, "trip", 1).await;
    assert_eq!(world.model_view("trip").await, ["first", "one"], "twice by one is by two");
    let to = world.id_of("trip", "two").await;
    done(world.rewind_to(&world.one, "trip", to).await);
    assert_eq!(
        world.model_view("trip").await,
        ["first", "one", "second", "two"],
        "messages that can be restored can be rewound to"
    );
    // A retracted turn does not count as a later turn.
    let turn = world.start(&world.one, "trip", "fourth").await;
    world.one.retract(turn.lease).await.unwrap();
    done(world.restore_rewound(&world.two, "trip").await);
    assert_eq!(world.model_view("trip").await, ["first", "one", "second", "two", "third", "three"]);
    assert!(world.marked("trip").await.is_empty());
    let same = world.row("trip").await.unwrap();
    let last = world.id_of("trip", "three").await;
    assert_eq!(done(world.rewind_to(&world.one, "trip", last).await).revision, same.revision, "nothing to do");
}

pub async fn what_cannot_be_rewound_is_refused<S: Store>(world: &World<S>) {
    three_turns(world).await;
    let elsewhere = world.talk(&world.one, "train", "first", "one").await.messages[0].id;
    assert!(matches!(world.rewind_to(&world.one, "trip", elsewhere).await, RewindOutcome::NoSuchMessage));
    assert!(matches!(world.rewind_to(&world.one, "nowhere", elsewhere).await, RewindOutcome::NotFound));
    let four = world.go_back("trip", RewindPoint::Turns(4));
    assert!(matches!(world.one.rewind(four).await.unwrap(), RewindOutcome::TooFewTurns(3)));
    let foreign = Rewind { scope: world.stranger.clone(), ..world.go_back("trip", RewindPoint::Turns(1)) };
    assert!(matches!(world.one.rewind(foreign).await.unwrap(), RewindOutcome::NotFound));
    let turn = world.start(&world.one, "trip", "fourth").await;
    let busy = world.two.rewind(world.go_back("trip", RewindPoint::Turns(1))).await.unwrap();
    assert!(matches!(busy, RewindOutcome::Busy(running) if running == turn.turn));
    assert!(matches!(world.restore_rewound(&world.two, "trip").await, RewindOutcome::Busy(_)));
    world.answer(&world.one, &turn, "four").await;
    world.one.end(&world.scope, &name("trip"), EndReason::Ended, world.now()).await.unwrap();
    let ended = world.one.rewind(world.go_back("trip", RewindPoint::Turns(1))).await.unwrap();
    assert!(matches!(ended, RewindOutcome::Ended));
    assert!(world.marked("trip").await.is_empty());
}

pub async fn all_of_a_conversation_can_be_rewound<S: Store>(world: &World<S>) {
    three_turns(world).await;
    world.rewind(&world.one, "trip", 3).await;
    assert!(world.model_view("trip").await.is_empty());
    world.talk(&world.one, "trip", "anew", "yes").await;
    assert_eq!(world.model_view("trip").await, ["anew", "yes"]);
}

pub async fn a_summary_of_what_is_still_shown_stays<S: Store>(world: &World<S>) {
    for mode in [Split, InPlace] {
        let to = mode.as_str();
        world.talk(&world.one, to, "first", "one").await;
        world.talk(&world.one, to, "second", "two").await;
        let first = world.compact(&world.one, to, mode, "so far").await;
        world.talk(&world.one, to, "third", "three").await;
        let second = world.compact(&world.one, to, mode, "and on").await;
        world.talk(&world.one, to, "fourth", "four").await;
        let whole = world.model_view(to).await;
        assert_eq!(whole, ["[and on]", "three", "fourth", "four"]);
        world.rewind(&world.one, to, 1).await;
        assert_eq!(world.model_view(to).await, ["[and on]", "three"], "a summary of what is shown stays");
        world.rewind(&world.one, to, 1).await;
        assert_eq!(world.model_view(to).await, ["[so far]", "two"], "a summary of what was rewound does not");
        assert_eq!(world.marked(to).await, ["third", "three", "[and on]", "fourth", "four"]);
        assert_eq!(not_undone(world.undo(&world.one, to, second.record.id).await), UndoRefusal::Rewound);
        done(world.restore_rewound(&world.one, to).await);
        assert_eq!(world.model_view(to).await, whole);
        world.rewind(&world.one, to, 3).await;
        assert_eq!(
            world.model_view(to).await,
            ["first", "one"],
            "a summarised message can be rewound to, also in an earlier session"
        );
        world.talk(&world.one, to, "instead", "yes").await;
        assert_eq!(world.model_view(to).await, ["first", "one", "instead", "yes"]);
        let third = world.compact(&world.two, to, mode, "another way").await;
        assert_eq!(world.model_view(to).await, ["[another way]", "yes"]);
        assert_eq!(not_undone(world.undo(&world.one, to, first.record.id).await), UndoRefusal::Rewound);
        undone(world.undo(&world.one, to, third.record.id).await);
        assert_eq!(world.model_view(to).await, ["first", "one", "instead", "yes"]);
    }
}

pub async fn a_summary_that_was_prepared_before_is_void<S: Store>(world: &World<S>) {
    three_turns(world).await;
    let plan = world.plan("trip", Split, 0, "all of it").await;
    world.rewind(&world.one, "trip", 1).await;
    assert!(matches!(world.one.compact(plan).await.unwrap(), CompactOutcome::Stale));
    let plan = world.plan("trip", InPlace, 1, "what is left").await;
    compacted(world.one.compact(plan).await.unwrap());
    assert_eq!(world.model_view("trip").await, ["[what is left]", "two"]);
    done(world.restore_rewound(&world.one, "trip").await);
    assert_eq!(world.model_view("trip").await, ["[what is left]", "two", "third", "three"]);
}

pub async fn a_pin_of_what_was_rewound_keeps_nothing<S: Store>(world: &World<S>) {
    three_turns(world).await;
    let pinned = world.id_of("trip", "three").await;
    world.one.pin(&world.scope, &name("trip"), pinned, true).await.unwrap();
    let conversation = world.row("trip").await.unwrap().facts.id;
    world.rewind(&world.one, "trip", 1).await;
    assert!(world.two.pinned(world.scope.tenant, conversation).await.unwrap().is_empty());
    done(world.restore_rewound(&world.one, "trip").await);
    assert_eq!(world.two.pinned(world.scope.tenant, conversation).await.unwrap().len(), 1);
}

pub async fn a_branch_at_a_rewound_message_has_the_history_of_that_message<S: Store>(world: &World<S>) {
    three_turns(world).await;
    world.rewind(&world.one, "trip", 2).await;
    let end = world.branch_at("trip", BranchPoint::End).await;
    assert_eq!(world.model_view(&end).await, ["first", "one"]);
    world.talk(&world.one, "trip", "instead", "yes").await;
    let visible = world.id_of("trip", "first").await;
    let hidden = world.id_of("trip", "second").await;
    let at_hidden = world.branch_at("trip", BranchPoint::Message(hidden)).await;
    assert_eq!(world.model_view(&at_hidden).await, ["first", "one", "second", "two"]);
    let at_visible = world.branch_at("trip", BranchPoint::Message(visible)).await;
    assert_eq!(world.model_view(&at_visible).await, ["first", "one"]);
    let new = world.id_of("trip", "instead").await;
    for at in [BranchPoint::End, BranchPoint::Message(new)] {
        let branch = world.branch_at("trip", at).await;
        assert_eq!(world.model_view(&branch).await, ["first", "one", "instead", "yes"]);
        assert_eq!(world.marked(&branch).await, ["second", "two", "third", "three"]);
        world.talk(&world.one, &branch, "own", "word").await;
        world.rewind(&world.one, &branch, 2).await;
        assert_eq!(world.model_view(&branch).await, ["first", "one"], "inherited messages can be rewound too");
        let further = world.branch_at(&branch, BranchPoint::End).await;
        assert_eq!(world.model_view(&further).await, ["first", "one"]);
        world.talk(&world.one, &branch, "and", "on").await;
        assert_eq!(world.model_view(&branch).await, ["first", "one", "and", "on"]);
        assert_eq!(world.model_view("trip").await, ["first", "one", "instead", "yes"], "the source is not changed");
    }
}

pub async fn a_failed_turn_before_what_was_rewound_is_tried_again_in_its_place<S: Store>(world: &World<S>) {
    world.talk(&world.one, "trip", "first", "one").await;
    let failed = world.start(&world.one, "trip", "second").await;
    world.leave(&world.one, &failed, TurnState::Failed, None).await;
    world.talk(&world.one, "trip", "third", "three").await;
    world.rewind(&world.one, "trip", 1).await;
    let view = world.read("trip").await.unwrap();
    assert_eq!((shown(&view).len(), view.unanswered.contains_key(&failed.turn)), (3, true));
    let ask = Admission { retry_of: Some(failed.turn), messages: Vec::new(), ..world.ask("trip", "second") };
    let again = running(world.admit(&world.two, ask).await);
    assert_eq!((again.turn, again.attempt), (failed.turn, 2));
    world.answer(&world.two, &again, "two").await;
    assert_eq!(world.model_view("trip").await, ["first", "one", "second", "two"]);
    assert!(world.read("trip").await.unwrap().unanswered.is_empty());
}

pub async fn a_turn_that_began_anew_shows_its_first_place_if_the_later_one_is_rewound<S: Store>(world: &World<S>) {
    let failed = world.start(&world.one, "trip", "first").await;
    world.leave(&world.one, &failed, TurnState::Failed, None).await;
    world.talk(&world.one, "trip", "second", "two").await;
    let ask = Admission { anew_of: Some(failed.turn), ..world.ask("trip", "first") };
    let anew = running(world.admit(&world.one, ask).await);
    world.answer(&world.one, &anew, "one").await;
    assert!(world.read("trip").await.unwrap().begun_anew.contains_key(&failed.turn));
    world.rewind(&world.one, "trip", 1).await;
    let view = world.read("trip").await.unwrap();
    assert_eq!(shown(&view), ["first", "second", "two"]);
    assert!(view.begun_anew.is_empty());
    assert_eq!(view.unanswered[&failed.turn].attempt, 1);
}

pub async fn only_the_expected_revision_is_rewound<S: Store>(world: &World<S>) {
    three_turns(world).await;
    let row = world.row("trip").await.unwrap();
    let tag = |row: &ConversationRow| ExpectedRevision::OneOf([row.revision.tag(row.facts.id)].into());
    let scope: Scope = world.scope.clone().expecting(Some(tag(&row)));
    let ask = Rewind { scope: scope.clone(), ..world.go_back("trip", RewindPoint::Turns(1)) };
    let rewound = done(world.one.rewind(ask.clone()).await.unwrap());
    assert_eq!(world.two.rewind(ask).await.map(drop), Err(StoreError::VersionMismatch));
    let restore = async |scope: &Scope| world.two.restore_rewound(scope, &name("trip"), world.now()).await;
    assert_eq!(restore(&scope).await.map(drop), Err(StoreError::VersionMismatch));
    assert_eq!(world.model_view("trip").await.len(), 4);
    done(restore(&world.scope.clone().expecting(Some(tag(&rewound)))).await.unwrap());
}

pub async fn an_earlier_response_shows_what_was_said_up_to_it<S: Store>(world: &World<S>) {
    let first = world.talk(&world.one, "trip", "first", "one").await;
    let second = world.talk(&world.one, "trip", "second", "two").await;
    world.rewind(&world.one, "trip", 1).await;
    world.talk(&world.one, "trip", "instead", "yes").await;
    for (turn, expected) in [(first.turn, &["first", "one"][..]), (second.turn, &["first", "one", "second", "two"])] {
        let at = world.two.open(&world.scope, &name("trip"), Namespace::Session, Extent::At(turn)).await.unwrap();
        assert_eq!(shown(&at.unwrap()), expected);
        let branch = world.branch(&world.one, turn, "from", "there").await;
        let view = world.model_view(&branch.facts.id.to_string()).await;
        assert_eq!(view, [expected, &["from", "there"]].concat());
    }
}

//! A line by itself: which turn is first, which may ask, and that no wake-up is lost.

use futures_util::FutureExt;
use uuid::Uuid;

use super::*;

fn conversation(number: u128) -> ConversationId {
    ConversationId::from_uuid(Uuid::from_u128(number))
}

const WAITS: TurnPolicy = TurnPolicy::Queue;

fn join(lines: &Arc<Lines>, to: u128, policy: TurnPolicy, ticket: i64) -> PlaceInLine {
    lines.join(conversation(to), policy, Ticket(ticket), lines.now())
}

#[test]
fn only_the_first_in_line_of_the_conversation_may_ask_and_only_once() {
    let lines = Arc::new(Lines::default());
    let places = [join(&lines, 1, WAITS, 1), join(&lines, 1, WAITS, 2), join(&lines, 2, WAITS, 3)];
    lines.wake_first(conversation(1));
    assert_eq!(places.each_ref().map(PlaceInLine::may_ask), [true, false, false]);
    assert!(!places[0].may_ask());
}

#[test]
fn an_interrupting_turn_stands_before_those_that_wait_and_tickets_decide_among_equals() {
    let lines = Arc::new(Lines::default());
    let order = [(WAITS, 7), (WAITS, 3), (TurnPolicy::Interrupt, 9), (TurnPolicy::Interrupt, 8)];
    let mut places = order.map(|(policy, ticket)| join(&lines, 1, policy, ticket)).map(Some);
    for expected in [3, 2, 1, 0] {
        let first = places.iter().position(|place| place.as_ref().is_some_and(PlaceInLine::is_first));
        assert_eq!(first, Some(expected));
        places[expected] = None;
    }
}

#[test]
fn the_next_one_learns_that_it_is_first_but_does_not_ask() {
    let lines = Arc::new(Lines::default());
    let (first, second) = (join(&lines, 1, WAITS, 1), join(&lines, 1, WAITS, 2));
    assert!(second.changed().now_or_never().is_none());
    drop(first);
    assert!(second.changed().now_or_never().is_some() && second.is_first() && !second.may_ask());
}

#[test]
fn a_turn_that_gives_up_passes_its_wake_up_on() {
    for (is_woken, has_asked, passes_on) in
        [(false, false, false), (true, false, true), (false, true, true), (true, true, true)]
    {
        let lines = Arc::new(Lines::default());
        let (first, second) = (join(&lines, 1, WAITS, 1), join(&lines, 1, WAITS, 2));
        if is_woken {
            lines.wake_first(conversation(1));
        }
        first.give_up(has_asked);
        assert_eq!(second.may_ask(), passes_on, "woken: {is_woken}, asked: {has_asked}");
    }
}

#[test]
fn a_wake_up_between_the_question_and_the_place_in_line_is_not_lost() {
    for others in [0, 1, REMEMBERED - 1, REMEMBERED, 10 * REMEMBERED] {
        let lines = Arc::new(Lines::default());
        let asked = lines.now();
        lines.wake_first(conversation(1));
        (0..others).for_each(|_| lines.wake_first(conversation(2)));
        let place = lines.join(conversation(1), WAITS, Ticket(1), asked);
        assert!(place.may_ask(), "{others} other wake-ups");
        let later = lines.join(conversation(1), WAITS, Ticket(2), asked);
        assert!(!later.may_ask(), "the first in line asks");
    }
    let lines = Arc::new(Lines::default());
    lines.wake_first(conversation(1));
    let asked = lines.now();
    lines.wake_first(conversation(2));
    assert!(!lines.join(conversation(1), WAITS, Ticket(1), asked).may_ask(), "that was before it asked");
}

#[test]
fn an_empty_line_is_removed() {
    let lines = Arc::new(Lines::default());
    drop([join(&lines, 1, WAITS, 1), join(&lines, 1, WAITS, 2)]);
    assert!(lines.lock().lines.is_empty());
}

//! When a conversation has to be compacted, and which of its messages are kept word for word.
//!
//! These are kept: the newest messages, as many as the token budget allows; the input of the running turn; the last
//! user message; and pinned messages. A tool call is kept together with its results. If possible, the kept messages
//! begin with an answer, so that the roles alternate after the summary, which is a user message.

use std::sync::Arc;

use herma_model::tokens::{self, Counted};
use herma_model::{Message, MessageId, MessageStatus, Payload, Role, Seq, TurnId};

use crate::context::{Transcript, build};
use crate::pairing::open_calls;

/// Above this part of the threshold a summary is prepared.
const SOFT: f64 = 0.8;
/// The part of the window that a summary may take.
const SUMMARY: f64 = 0.1;
const MIN_SUMMARY: u64 = 128;
const MAX_SUMMARY: u64 = 4_096;
/// A compaction because of the threshold must free at least this part of the kept tokens. Otherwise every turn would
/// need one.
const LEAST_GAIN: u64 = 4;

/// The context budget of a model, in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// The model's whole window.
    pub window: u64,
    /// A longer context has to be compacted.
    pub threshold: u64,
    /// For a longer context a summary is prepared.
    pub soft: u64,
    /// How much of the newest messages is kept.
    pub keep: u64,
    /// The longest summary.
    pub summary: u64,
}

impl Budget {
    /// The budget for a window. `threshold` and `keep_recent` are parts of the window, as the operator set them.
    pub fn of(window: u64, threshold: f64, keep_recent: f64) -> Self {
        let part = |part: f64| (window as f64 * part) as u64;
        Self {
            window,
            threshold: part(threshold),
            soft: part(threshold * SOFT),
            keep: part(keep_recent),
            summary: part(SUMMARY).clamp(MIN_SUMMARY, MAX_SUMMARY).min(window / 4),
        }
    }
}

/// Estimated tokens of system messages.
pub fn system_tokens(system: &[Payload]) -> u64 {
    system.iter().map(|payload| u64::from(tokens::estimate(payload.as_json()))).sum()
}

/// Tokens of the context of a transcript, system messages included. The model server's count is used as far as there is
/// one, and an estimate for the rest. `system` is the estimate for the system messages.
pub fn size(system: u64, transcript: Transcript<'_>, counted: Option<Counted>) -> u64 {
    match counted {
        Some(counted) => counted.tokens.saturating_add(sum(after(transcript.messages, counted.through))),
        None => {
            let base = transcript.base.map_or(0, |base| u64::from(base.summary.said.tokens) + sum(&base.carried));
            system + base + sum(transcript.since_base())
        }
    }
}

fn after(messages: &[Arc<Message>], seq: Seq) -> &[Arc<Message>] {
    &messages[messages.partition_point(|message| message.seq <= seq)..]
}

fn sum(messages: &[Arc<Message>]) -> u64 {
    messages.iter().map(|message| u64::from(message.said.tokens)).sum()
}

/// Which messages a compaction would summarise, and which it would keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The first message that is summarised.
    pub first: Seq,
    /// The last message that is summarised.
    pub through: Seq,
    /// The id of that last message.
    pub last: MessageId,
    /// How many messages are summarised.
    pub summarised: usize,
    /// Messages up to `through` that are kept word for word, in order.
    pub carried: Vec<Arc<Message>>,
    /// Tokens that it frees.
    pub frees: u64,
    /// Estimated tokens that stay, without system messages and the summary.
    pub stays: u64,
}

impl Plan {
    /// Whether it frees enough to be worth a summary, although the context still fits the window.
    pub const fn is_worth_it(&self, budget: &Budget) -> bool {
        self.frees > budget.keep / LEAST_GAIN && self.frees > budget.summary
    }

    /// The same plan without carried messages.
    fn without_carried(self) -> Self {
        let carries = sum(&self.carried);
        Self { carried: Vec::new(), frees: self.frees + carries, stays: self.stays - carries, ..self }
    }

    /// The messages to summarise, as the model was shown them. An earlier summary comes first.
    pub fn covered(&self, transcript: Transcript<'_>) -> Vec<Payload> {
        let end = transcript.messages.partition_point(|message| message.seq <= self.through);
        build(&[], Transcript { messages: &transcript.messages[..end], ..transcript }, None)
    }
}

/// Plans a compaction that keeps about `keep` tokens of the newest messages. `None` if there is nothing to summarise.
///
/// `running` is the turn that needs the compaction. Its input is kept, and the last of its tool rounds.
pub fn plan(transcript: Transcript<'_>, running: Option<TurnId>, pinned: &[Arc<Message>], keep: u64) -> Option<Plan> {
    let messages = transcript.since_base();
    let latest = latest_start(transcript, running, keep);
    if sum(messages) <= keep {
        return None;
    }
    let mut kept = sum(&messages[latest..]);
    let mut start = latest;
    for at in (0..latest).rev() {
        kept += u64::from(messages[at].said.tokens);
        if kept > keep {
            break;
        }
        if is_answer(&messages[at]) {
            start = at;
        }
    }
    through(transcript, pinned, messages.get(start.checked_sub(1)?)?.seq)
}

/// Plans to leave the oldest part out without a summary. About `keep` tokens of the newest messages stay, and all that
/// stays fits into `budget` tokens. The input of the running turn stays even if it does not fit. Carried messages and
/// an earlier summary are left out only if the turn does not fit otherwise.
///
/// `None` if there is nothing but the input of the turn.
pub fn trim(
    transcript: Transcript<'_>,
    running: Option<TurnId>,
    pinned: &[Arc<Message>],
    keep: u64,
    budget: u64,
) -> Option<Plan> {
    let plans = [keep, budget / 8, 0].into_iter().map(|keep| plan(transcript, running, pinned, keep));
    let least = plan(transcript, running, pinned, 0).or_else(|| without_base(transcript, pinned));
    let fitting = plans.flatten().chain(least.clone()).find(|plan| plan.stays <= budget);
    fitting.or_else(|| least.map(Plan::without_carried))
}

/// The plan that replaces the base and summarises no further message.
fn without_base(transcript: Transcript<'_>, pinned: &[Arc<Message>]) -> Option<Plan> {
    let base = transcript.base?;
    let messages = transcript.since_base();
    let carried = carried(transcript, &[], messages, pinned, base.through);
    let carries = sum(&carried);
    Some(Plan {
        first: Seq(base.through.0 + 1),
        through: base.through,
        last: base.summary.id,
        summarised: 0,
        frees: (u64::from(base.summary.said.tokens) + sum(&base.carried)).saturating_sub(carries),
        stays: sum(messages) + carries,
        carried,
    })
}

/// The plan that summarises all messages up to a given one. `None` if that message is not after the base.
pub fn through(transcript: Transcript<'_>, pinned: &[Arc<Message>], through: Seq) -> Option<Plan> {
    let messages = transcript.since_base();
    let start = messages.iter().position(|message| message.seq == through)? + 1;
    let (covered, kept) = messages.split_at(start);
    let carried = carried(transcript, covered, kept, pinned, through);
    let base = transcript.base.map_or(0, |base| u64::from(base.summary.said.tokens) + sum(&base.carried));
    let carries = sum(&carried);
    Some(Plan {
        first: covered.first()?.seq,
        through,
        last: covered.last()?.id,
        summarised: covered.len(),
        frees: (sum(covered) + base).saturating_sub(carries),
        stays: sum(kept) + carries,
        carried,
    })
}

/// The latest index at which the kept messages can begin.
///
/// It is the running turn's input, or the message whose calls that input answers, or without a running turn the last
/// answer. Open calls of the last answer are kept too if they are not too long: if the turn fails, the client may still
/// answer them.
fn latest_start(transcript: Transcript<'_>, running: Option<TurnId>, keep: u64) -> usize {
    let messages = transcript.since_base();
    let is_running = |message: &Arc<Message>| Some(message.turn) == running && !transcript.is_left_behind(message);
    let input = messages.iter().position(is_running).unwrap_or(messages.len());
    let (before, own) = messages.split_at(input);
    if let Some(last_round) = last_round(own) {
        return input + last_round;
    }
    let Some(last_answer) = before.iter().rposition(|message| is_answer(message)) else {
        return if own.is_empty() { 0 } else { input };
    };
    let opens_with_result = own.first().is_some_and(|message| message.said.role == Role::Tool)
        || own.iter().any(|message| message.said.decision().is_some());
    let leaves_open = !open_calls(before.iter()).is_empty() && sum(&before[last_answer..]) <= keep;
    if own.is_empty() || opens_with_result || leaves_open { last_answer } else { input }
}

/// Where the last tool round of a running turn begins. Earlier rounds of it can be summarised. `None` unless the turn's
/// input is one user message, because every compaction keeps the last user message.
fn last_round(own: &[Arc<Message>]) -> Option<usize> {
    let is_input = own.first()?.said.role == Role::User && own.get(1)?.said.is_inner_step();
    own.iter().rposition(|message| !message.said.own_calls().is_empty()).filter(|_| is_input)
}

fn is_answer(message: &Message) -> bool {
    message.said.role == Role::Assistant && message.said.status == MessageStatus::Complete
}

/// The messages up to `end` that are kept word for word: pinned ones, and the last user message if the kept range,
/// which begins after `end`, has none.
fn carried(
    transcript: Transcript<'_>,
    covered: &[Arc<Message>],
    kept: &[Arc<Message>],
    pinned: &[Arc<Message>],
    end: Seq,
) -> Vec<Arc<Message>> {
    let before = transcript.base.map_or(&[][..], |base| &base.carried);
    let is_user = |message: &&Arc<Message>| message.said.role == Role::User;
    let is_pinned = |message: &Message| pinned.iter().any(|pin| pin.seq == message.seq);
    let last_user = match kept.iter().any(|message| is_user(&message)) {
        true => None,
        false => before.iter().chain(covered).rfind(is_user),
    };
    let mut carried: Vec<Arc<Message>> = pinned.iter().filter(|pin| pin.seq <= end).cloned().collect();
    carried.extend(last_user.cloned());
    // A call may have been pinned before its results came. The results are kept too.
    for group in covered.chunk_by(|_, next| next.said.role == Role::Tool) {
        if group.len() > 1 && group.iter().any(|message| is_pinned(message)) {
            carried.extend(group.iter().cloned());
        }
    }
    carried.sort_by_key(|message| message.seq);
    carried.dedup_by_key(|message| message.seq);
    carried
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Story, payloads};

    fn kept(story: &Story, plan: &Plan) -> Vec<i64> {
        let messages = story.transcript().since_base();
        messages.iter().map(|message| message.seq).filter(|seq| *seq > plan.through).map(|seq| seq.0).collect()
    }

    fn carried(plan: &Plan) -> Vec<i64> {
        plan.carried.iter().map(|message| message.seq.0).collect()
    }

    /// Each message costs one token.
    fn long_story() -> Story {
        let mut story = Story::default();
        for at in 0..10 {
            story.turn(&format!("question {at}"), &format!("answer {at}"));
        }
        story.input("and now?");
        story
    }

    #[test]
    fn the_newest_messages_are_kept_from_an_answer_on() {
        let story = long_story();
        for keep in [4, 5] {
            let plan = plan(story.transcript(), Some(story.last_turn()), &[], keep).unwrap();
            assert_eq!(kept(&story, &plan), [18, 19, 20, 21], "{keep}");
            assert_eq!((plan.first, plan.summarised, plan.frees, plan.stays), (Seq(1), 17, 17, 4));
            assert!(carried(&plan).is_empty());
        }
    }

    #[test]
    fn the_input_of_the_running_turn_is_kept_however_long_it_is() {
        let story = long_story();
        let plan = plan(story.transcript(), Some(story.last_turn()), &[], 0).unwrap();
        assert_eq!(kept(&story, &plan), [21]);
    }

    #[test]
    fn earlier_tool_rounds_of_the_running_turn_can_be_summarised_but_not_its_input_or_its_last_round() {
        let mut story = Story::default();
        story.turn("a", "b");
        story.own_round("look", &["x"], &[("x", "found")]);
        story.further_round(&["y"], &[("y", "found more")]);
        let plan = plan(story.transcript(), Some(story.last_turn()), &[], 0).unwrap();
        assert_eq!((kept(&story, &plan), carried(&plan)), (vec![6, 7], vec![3]));
    }

    #[test]
    fn what_a_turn_left_behind_does_not_keep_what_came_after_it() {
        let mut story = Story::default();
        story.unanswered("and now?", None, herma_model::TurnState::Failed);
        let failed = story.last_turn();
        story.turn("a", "b");
        story.begin_anew(failed, "and now?");
        let plan = plan(story.transcript(), Some(failed), &[], 0).unwrap();
        assert_eq!(kept(&story, &plan), [4]);
        assert_eq!(payloads(&plan.covered(story.transcript())), ["user: a", "assistant: b"]);
    }

    #[test]
    fn between_turns_the_last_answer_is_kept_and_its_question_is_carried() {
        let mut story = long_story();
        story.answer("this");
        let plan = plan(story.transcript(), None, &[], 0).unwrap();
        assert_eq!((kept(&story, &plan), carried(&plan)), (vec![22], vec![21]));
    }

    #[test]
    fn a_call_and_its_results_stay_together_and_the_last_question_is_carried() {
        let mut story = long_story();
        story.answer("so");
        story.calls("look", &["x", "y"]);
        story.result("x", "found");
        story.result("y", "nothing");
        let plan = plan(story.transcript(), Some(story.last_turn()), &[], 1).unwrap();
        assert_eq!((kept(&story, &plan), carried(&plan)), (vec![24, 25, 26], vec![23]));
    }

    #[test]
    fn open_calls_stay_although_the_turn_does_not_answer_them() {
        let mut story = long_story();
        story.answer("so");
        story.calls("look", &["x"]);
        story.input("never mind");
        let start = |keep| plan(story.transcript(), Some(story.last_turn()), &[], keep).map(|plan| plan.through);
        assert_eq!(start(1), Some(Seq(23)), "the call is kept");
        assert_eq!(start(0), Some(Seq(24)), "unless it is too long");
    }

    #[test]
    fn what_is_pinned_is_carried_with_its_results_from_one_compaction_to_the_next() {
        let mut story = Story::default();
        story.calls("look", &["x"]);
        story.result("x", "found");
        story.answer("there");
        story.turn("a", "b");
        story.turn("c", "d");
        story.input("e");
        let pinned = [Arc::clone(&story.messages[1])];
        let running = Some(story.last_turn());
        let first = plan(story.transcript(), running, &pinned, 3).unwrap();
        assert_eq!((first.through, carried(&first)), (Seq(7), vec![2, 3]));
        story.compact("they spoke", 5, &[2, 3]);
        let second = plan(story.transcript(), running, &pinned, 2).unwrap();
        assert_eq!((second.through, carried(&second)), (Seq(7), vec![2]), "the store pins whole groups");
    }

    #[test]
    fn nothing_to_summarise_is_no_plan() {
        let mut story = Story::default();
        story.turn("a", "b");
        assert_eq!(plan(story.transcript(), None, &[], 10), None, "all of it fits");
        story.input("c");
        story.compact("they spoke", 2, &[]);
        assert_eq!(plan(story.transcript(), Some(story.last_turn()), &[], 0), None);
        assert_eq!(plan(Story::default().transcript(), None, &[], 0), None);
    }

    #[test]
    fn the_oldest_part_is_left_out_and_no_more_than_necessary() {
        let story = long_story();
        let trimmed = |keep, budget| {
            let plan = trim(story.transcript(), Some(story.last_turn()), &[], keep, budget).unwrap();
            (kept(&story, &plan), plan.stays)
        };
        assert_eq!(trimmed(4, 10), (vec![18, 19, 20, 21], 4));
        assert_eq!(trimmed(4, 3), (vec![21], 1), "what is to be kept does not fit");
        assert_eq!(trimmed(4, 0), (vec![21], 1), "what is new stays in any case");
    }

    #[test]
    fn what_is_pinned_is_left_out_if_nothing_else_helps() {
        let mut story = long_story();
        let (pinned, running) = ([Arc::clone(&story.messages[0])], Some(story.last_turn()));
        let carries = |story: &Story, budget| {
            let plan = trim(story.transcript(), running, &pinned, 4, budget).unwrap();
            (carried(&plan), plan.through, plan.frees)
        };
        assert_eq!(carries(&story, 2), (vec![1], Seq(20), 19));
        assert_eq!(carries(&story, 1), (vec![], Seq(20), 20));
        story.compact("they spoke", 20, &[1]);
        assert_eq!(carries(&story, 2), (vec![1], Seq(20), 1), "the summary goes before what is pinned");
        assert_eq!(carries(&story, 1), (vec![], Seq(20), 2));
    }

    #[test]
    fn what_is_new_cannot_be_left_out() {
        let mut story = Story::default();
        story.input("a");
        assert_eq!(trim(story.transcript(), Some(story.last_turn()), &[], 0, 0), None);
    }

    #[test]
    fn what_is_covered_begins_with_the_earlier_summary() {
        let mut story = long_story();
        story.compact("they spoke", 16, &[]);
        let plan = plan(story.transcript(), Some(story.last_turn()), &[], 2).unwrap();
        assert_eq!(
            payloads(&plan.covered(story.transcript())),
            ["user: they spoke", "user: question 8", "assistant: answer 8", "user: question 9"]
        );
    }

    #[test]
    fn a_size_is_what_was_counted_and_an_estimate_of_the_rest() {
        let mut story = long_story();
        assert_eq!(size(5, story.transcript(), None), 26);
        assert_eq!(size(5, story.transcript(), Some(Counted { through: Seq(20), tokens: 1_000 })), 1_001);
        story.compact("they spoke", 18, &[3]);
        assert_eq!(size(5, story.transcript(), None), 10);
    }
}

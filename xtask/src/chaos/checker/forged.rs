//! Tests the checker with forged histories: one that breaks each rule, and clean ones that pass.

use super::{Rule, check};
use crate::chaos::history::{
    Attempt, Conversation, End, HandedId, History, Line, ModelCall, ReadBack, Resolved, Retries, Row, Session, Stall,
    StoredObject, Thread, Turn,
};
use crate::chaos::marks::Token;

fn asked(number: u32) -> String {
    format!("ask#{number} river stone")
}

fn answered(number: u32) -> String {
    format!("answer#{number}.1 winter lamp")
}

fn row(id: &str, text: &str) -> Row {
    let role = if text.starts_with("ask") { "user" } else { "assistant" };
    let number: String =
        text.chars().skip_while(|letter| *letter != '#').skip(1).take_while(char::is_ascii_digit).collect();
    Row {
        id: id.to_owned(),
        role: role.to_owned(),
        text: text.to_owned(),
        is_partial: false,
        turn: format!("turn_{number}"),
        turn_status: None,
    }
}

fn line(text: &str) -> Line {
    let role = if text.starts_with("answer") || text.starts_with("[No reply") { "assistant" } else { "user" };
    Line { role: role.to_owned(), text: text.to_owned(), calls: Vec::new() }
}

fn call(texts: &[String], answer: String) -> ModelCall {
    ModelCall { is_summary: false, messages: texts.iter().map(|text| line(text)).collect(), answer, leaks: Vec::new() }
}

fn attempt(sent: u64, end: End) -> Attempt {
    Attempt { server: 0, sent, ended: sent + 5, end, object: None }
}

fn seen(number: u32, conversation: &str) -> End {
    End::Answered { text: answered(number), conversation: conversation.to_owned() }
}

fn failed(code: &str, shown: &str) -> End {
    End::Failed { status: 502, code: code.to_owned(), shown: shown.to_owned() }
}

/// A run with two threads of two tenants: `ask#1`, `ask#2` and `ask#3` in the first, `ask#11` in the other.
struct Forged {
    history: History,
    read: ReadBack,
}

impl Forged {
    fn clean() -> Self {
        let mut forged = Self { history: History::default(), read: ReadBack::default() };
        for (tenant, id, head, numbers) in [(0, "conv_a", "s2", &[1, 2, 3][..]), (1, "conv_b", "t1", &[11])] {
            forged.history.threads.push(Thread { name: "name".to_owned(), tenant });
            let mut said = Vec::new();
            for number in numbers {
                said.push(asked(*number));
                forged.history.calls.push(call(&said, answered(*number)));
                said.push(answered(*number));
                forged.history.turns.push(Turn {
                    token: Token(*number),
                    thread: tenant,
                    text: asked(*number),
                    api: "chat".to_owned(),
                    retries: Retries::Counted,
                    brings_history: true,
                    attempts: vec![attempt(u64::from(*number) * 10, seen(*number, id))],
                });
            }
            let handed = |name: &str| HandedId { tenant, id: name.to_owned(), conversation: id.to_owned() };
            forged.history.ids.extend([handed("name"), handed(id), handed(head)]);
            for server in 0..2 {
                forged.read.resolved.extend(["name", id, head].map(|name| Resolved {
                    tenant,
                    id: name.to_owned(),
                    server,
                    conversation: Some(id.to_owned()),
                    head: Some(head.to_owned()),
                }));
            }
            forged.read.conversations.push(Conversation {
                tenant,
                id: id.to_owned(),
                listed: [1, 1],
                heads: [head.to_owned(), head.to_owned()],
                is_branch: false,
                sessions: vec![Session { id: head.to_owned(), parent: None, is_live: true }],
                lineage: vec![head.to_owned()],
                full: said.iter().enumerate().map(|(at, text)| row(&format!("msg_{id}_{at}"), text)).collect(),
                model: said.iter().map(|text| line(text)).collect(),
            });
        }
        let first = Session { id: "s1".to_owned(), parent: None, is_live: false };
        forged.place().sessions[0].parent = Some("s1".to_owned());
        forged.place().sessions.push(first);
        forged.place().lineage.push("s1".to_owned());
        forged
    }

    /// The conversation of the first tenant.
    fn place(&mut self) -> &mut Conversation {
        &mut self.read.conversations[0]
    }

    fn turn(&mut self, number: u32) -> &mut Turn {
        self.history.turns.iter_mut().find(|turn| turn.token == Token(number)).unwrap()
    }

    /// Makes the third turn fail after this text was streamed and this text was stored.
    fn with_failure(code: &str, shown: &str, stored: &str) -> Self {
        let mut forged = Self::clean();
        forged.turn(3).attempts[0].end = failed(code, shown);
        let full = &mut forged.place().full;
        full.truncate(5);
        full[4].turn_status = Some("failed".to_owned());
        if !stored.is_empty() {
            full.push(Row { is_partial: true, turn_status: Some("failed".to_owned()), ..row("msg_p", stored) });
        }
        forged.place().model[5] = line("[No reply was given: it failed.]");
        forged
    }

    /// Has the model call a tool in the third turn, and see its result.
    fn with_call() -> Self {
        let mut forged = Self::clean();
        let id = "call-3-1".to_owned();
        forged.history.executions.push(id.clone());
        let step =
            |role: &str, text: &str| Line { role: role.to_owned(), text: text.to_owned(), calls: vec![id.clone()] };
        let steps = [step("assistant", ""), step("tool", "counted")];
        let mut called = forged.history.calls[2].clone();
        called.messages.extend(steps.clone());
        forged.history.calls.push(called);
        forged.place().model.splice(5..5, steps);
        forged
    }

    fn passes(&self) {
        let findings = check(&self.history, &self.read);
        assert!(findings.is_empty(), "{findings:#?}");
    }

    /// Checks that this rule is reported, and that a finding is about the first thread.
    fn breaks(&self, rule: Rule) {
        let findings = check(&self.history, &self.read);
        assert!(findings.iter().any(|finding| finding.rule == rule), "{rule:?} is not in {findings:#?}");
        assert!(findings.iter().any(|finding| finding.thread == Some(0)), "{findings:#?}");
    }
}

#[test]
fn a_clean_history_passes() {
    Forged::clean().passes();
}

#[test]
fn a_lost_answer_is_found() {
    let mut forged = Forged::clean();
    forged.place().full.truncate(4);
    forged.place().model.truncate(4);
    forged.breaks(Rule::AcknowledgedIsStored);
}

#[test]
fn an_answer_that_is_stored_in_another_conversation_is_lost() {
    let mut forged = Forged::clean();
    forged.turn(3).attempts[0].end = seen(3, "conv_b");
    forged.breaks(Rule::AcknowledgedIsStored);
}

#[test]
fn an_answer_that_is_cut_short_is_found() {
    let mut forged = Forged::clean();
    forged.place().full[5].text = "answer#3.1 winter".to_owned();
    forged.breaks(Rule::AcknowledgedIsStored);
    forged.breaks(Rule::WordForWord);
}

#[test]
fn a_stored_response_that_says_something_else_is_found() {
    let mut forged = Forged::clean();
    forged.turn(3).attempts[0].object = Some("resp_1".to_owned());
    let stored = |text: String| StoredObject { id: "resp_1".to_owned(), status: "completed".to_owned(), text };
    forged.read.objects = vec![stored(answered(3))];
    forged.passes();
    forged.read.objects = vec![stored(answered(2))];
    forged.breaks(Rule::AcknowledgedIsStored);
    forged.read.objects.clear();
    forged.breaks(Rule::AcknowledgedIsStored);
}

/// Stores the first message again at the end, after its client hung up and retried.
fn doubled() -> Forged {
    let mut forged = Forged::clean();
    forged.turn(3).attempts.insert(0, attempt(25, End::GaveUp { shown: String::new() }));
    let again = [row("msg_x", &asked(3)), row("msg_y", "answer#3.2 winter lamp")];
    let again = again.map(|row| Row { turn: "turn_99".to_owned(), ..row });
    forged.place().full.extend(again);
    forged.place().model.extend([line(&asked(3)), line("answer#3.2 winter lamp")]);
    let said: Vec<String> = [1, 2, 3].into_iter().flat_map(|number| [asked(number), answered(number)]).collect();
    forged.history.calls.push(call(&[said, vec![asked(3)]].concat(), "answer#3.2 winter lamp".to_owned()));
    forged
}

#[test]
fn a_doubled_turn_is_found() {
    doubled().breaks(Rule::OnceOnly);
    let mut keyed = doubled();
    keyed.turn(3).retries = Retries::Keyed;
    keyed.turn(3).brings_history = false;
    keyed.breaks(Rule::OnceOnly);
}

#[test]
fn a_second_turn_is_allowed_where_no_gateway_could_know_better() {
    let mut forged = doubled();
    forged.turn(3).brings_history = false;
    let findings = check(&forged.history, &forged.read);
    assert!(!findings.iter().any(|finding| finding.rule == Rule::OnceOnly), "{findings:#?}");
}

#[test]
fn a_message_that_is_stored_again_without_a_retry_is_found() {
    let mut forged = Forged::clean();
    let again = Row { turn_status: Some("failed".to_owned()), ..row("msg_x", &asked(2)) };
    forged.place().full.push(again);
    forged.breaks(Rule::OnceOnly);
}

#[test]
fn a_retry_that_gets_another_id_is_found() {
    let mut forged = Forged::clean();
    forged.turn(3).attempts.insert(0, attempt(25, failed("upstream_error", "")));
    for (attempt, id) in forged.turn(3).attempts.iter_mut().zip(["run_1", "run_2"]) {
        attempt.object = Some(id.to_owned());
    }
    let stored =
        |id: &str, status: &str, text: String| StoredObject { id: id.to_owned(), status: status.to_owned(), text };
    forged.read.objects = vec![stored("run_1", "failed", String::new()), stored("run_2", "completed", answered(3))];
    forged.breaks(Rule::OnceOnly);
}

#[test]
fn a_run_whose_id_was_given_and_that_is_gone_is_found() {
    let mut forged = Forged::clean();
    let gone = Attempt { object: Some("run_1".to_owned()), ..attempt(25, End::Broken { shown: String::new() }) };
    forged.turn(3).attempts.insert(0, gone);
    let stored = |status: &str| StoredObject { id: "run_1".to_owned(), status: status.to_owned(), text: String::new() };
    forged.read.objects = vec![stored("interrupted")];
    forged.passes();
    forged.read.objects = vec![stored("404")];
    forged.breaks(Rule::IdsLeadHome);
}

#[test]
fn a_failed_place_and_an_attempt_at_the_end_are_one_turn() {
    let mut forged = Forged::clean();
    forged.turn(3).attempts.insert(0, attempt(5, failed("upstream_error", "")));
    let failed_there = Row { turn_status: Some("failed".to_owned()), ..row("msg_f", &asked(3)) };
    forged.place().full.insert(2, failed_there);
    forged.passes();
    forged.place().full[2].turn = "turn_other".to_owned();
    forged.breaks(Rule::OnceOnly);
}

#[test]
fn interleaved_turns_are_found() {
    let mut forged = Forged::clean();
    forged.place().full.swap(3, 4);
    forged.breaks(Rule::NoInterleaving);
    let mut unanswered = Forged::clean();
    unanswered.turn(2).attempts[0].end = End::GaveUp { shown: String::new() };
    unanswered.place().full.remove(3);
    unanswered.breaks(Rule::NoInterleaving);
}

#[test]
fn turns_in_another_order_than_clients_saw_them_are_found() {
    let mut forged = Forged::clean();
    forged.place().full.rotate_left(2);
    forged.breaks(Rule::NoInterleaving);
    for number in [1, 2, 3] {
        forged.turn(number).attempts[0] = Attempt { ended: 100, ..attempt(10, seen(number, "conv_a")) };
    }
    let findings = check(&forged.history, &forged.read);
    let is_about_order = |rule: Rule| findings.iter().any(|finding| finding.rule == rule);
    assert!(!is_about_order(Rule::NoInterleaving), "turns at the same time have no order: {findings:#?}");
}

#[test]
fn foreign_text_is_found() {
    let mut forged = Forged::clean();
    forged.place().full.extend([row("msg_x", &asked(11)), row("msg_y", &answered(11))]);
    forged.breaks(Rule::NothingForeign);
    let mut invented = Forged::clean();
    invented.place().full[1].text = "hello".to_owned();
    invented.breaks(Rule::WordForWord);
}

#[test]
fn a_name_with_two_conversations_is_found() {
    let mut forged = Forged::clean();
    let mut other = forged.place().clone();
    other.id = "conv_c".to_owned();
    forged.place().full.truncate(2);
    other.full.drain(..2);
    forged.read.conversations.push(other);
    forged.breaks(Rule::NothingForeign);
}

#[test]
fn foreign_text_in_a_context_or_a_summary_is_found() {
    let mut forged = Forged::clean();
    forged.history.calls[2].messages.insert(0, line(&asked(11)));
    forged.breaks(Rule::NothingForeign);
    let mut summary = Forged::clean();
    let text = format!("<conversation>{} {}</conversation> summary", asked(1), asked(11));
    summary.history.calls.push(ModelCall { is_summary: true, ..call(&[text], String::new()) });
    summary.breaks(Rule::NothingForeign);
}

#[test]
fn a_moved_id_is_found() {
    let mut lost = Forged::clean();
    lost.read.resolved[1].conversation = None;
    lost.breaks(Rule::IdsLeadHome);
    let mut stale = Forged::clean();
    stale.read.resolved[3].head = Some("s1".to_owned());
    stale.breaks(Rule::IdsLeadHome);
    let mut given_twice = Forged::clean();
    let again = HandedId { conversation: "conv_z".to_owned(), ..given_twice.history.ids[0].clone() };
    given_twice.history.ids.push(again);
    given_twice.breaks(Rule::IdsLeadHome);
}

#[test]
fn two_heads_are_found() {
    let mut live = Forged::clean();
    live.place().sessions[1].is_live = true;
    live.breaks(Rule::OneHead);
    let mut disagreeing = Forged::clean();
    disagreeing.place().heads[1] = "s1".to_owned();
    disagreeing.breaks(Rule::OneHead);
    let mut forked = Forged::clean();
    let another = Session { id: "s3".to_owned(), parent: Some("s1".to_owned()), is_live: false };
    forked.place().sessions.push(another);
    forked.place().lineage.push("s3".to_owned());
    forked.breaks(Rule::OneHead);
    let mut hidden = Forged::clean();
    hidden.place().lineage.pop();
    hidden.breaks(Rule::OneHead);
    let mut unlisted = Forged::clean();
    unlisted.place().listed = [1, 0];
    unlisted.breaks(Rule::OneHead);
}

#[test]
fn an_untrue_context_is_found() {
    let mut without_a_turn = Forged::clean();
    without_a_turn.history.calls[2].messages.drain(..2);
    without_a_turn.breaks(Rule::TrueContext);
    let mut two_questions = Forged::clean();
    two_questions.history.calls[2].messages.remove(3);
    two_questions.breaks(Rule::TrueContext);
    let mut twice = Forged::clean();
    let again = [line(&asked(2)), line(&answered(2))];
    twice.history.calls[2].messages.splice(2..2, again);
    twice.breaks(Rule::TrueContext);
    let mut altered = Forged::clean();
    altered.history.calls[2].messages[1].text = "answer#1.1 other words".to_owned();
    altered.breaks(Rule::TrueContext);
    let mut view = Forged::clean();
    view.place().model.drain(2..4);
    view.breaks(Rule::TrueContext);
}

#[test]
fn a_summary_and_the_end_of_the_conversation_are_a_true_context() {
    let summary = || line("[Summary of the conversation so far]");
    let mut forged = Forged::clean();
    forged.history.calls[2].messages.splice(..2, [summary()]);
    forged.place().model.splice(..3, [summary()]);
    forged.passes();
    let mut carried = Forged::clean();
    carried.place().model.splice(..4, [summary(), line(&asked(1))]);
    carried.passes();
    let mut with_a_gap = Forged::clean();
    with_a_gap.place().model.splice(2..4, []);
    with_a_gap.place().model.insert(0, summary());
    with_a_gap.breaks(Rule::TrueContext);
}

#[test]
fn a_gateway_id_in_a_context_is_found() {
    let mut forged = Forged::clean();
    forged.history.calls[0].leaks.push("conv_1".to_owned());
    forged.breaks(Rule::NoGatewayIds);
}

#[test]
fn a_failure_is_recorded_with_what_was_shown() {
    let shown = "answer#3.1 winter ";
    Forged::with_failure("upstream_error", shown, shown).passes();
    Forged::with_failure("upstream_error", "", "").passes();
    Forged::with_failure("upstream_error", shown, "").breaks(Rule::FailuresAreRecorded);
    let mut unmarked = Forged::with_failure("upstream_error", "", "");
    unmarked.place().full[4].turn_status = None;
    unmarked.breaks(Rule::FailuresAreRecorded);
    let mut missing = Forged::with_failure("upstream_error", "", "");
    missing.place().full.truncate(4);
    missing.breaks(Rule::FailuresAreRecorded);
}

#[test]
fn text_that_a_taken_over_process_showed_and_did_not_save_is_found() {
    let long = |words: usize| format!("answer#3.1 {}", "lamp ".repeat(words));
    let failing = |saved: usize| {
        let mut forged = Forged::with_failure("interrupted", &long(60), &long(saved));
        forged.history.calls[2].answer = long(90);
        forged
    };
    failing(50).passes();
    failing(5).breaks(Rule::FailuresAreRecorded);
    let stalled = |servers: &[Option<usize>]| {
        let mut forged = failing(5);
        forged.turn(3).attempts[0].ended = 9_000;
        forged.history.stalls =
            servers.iter().map(|server| Stall { from: 1_000, to: 4_000, server: *server }).collect();
        forged
    };
    stalled(&[None]).passes();
    stalled(&[Some(1)]).passes();
    stalled(&[Some(0)]).breaks(Rule::FailuresAreRecorded);
    // A stopped process streams nothing, so a lock in that time does not explain missing text.
    stalled(&[Some(0), None]).breaks(Rule::FailuresAreRecorded);
}

#[test]
fn a_wrong_refusal_is_found() {
    for code in ["not_found", "idempotency_mismatch", "context_length_exceeded", "internal_error", ""] {
        let mut forged = Forged::clean();
        forged.turn(3).attempts.insert(0, attempt(25, failed(code, "")));
        forged.breaks(Rule::NoWrongRefusal);
    }
    let mut dropped = Forged::clean();
    dropped.turn(3).attempts.insert(0, attempt(25, failed("store_unavailable", "answer#3.1 winter")));
    dropped.breaks(Rule::NoWrongRefusal);
    let mut busy = Forged::clean();
    busy.turn(3).attempts.insert(0, attempt(25, failed("conversation_busy", "")));
    busy.passes();
}

#[test]
fn a_call_that_is_made_twice_is_found() {
    Forged::with_call().passes();
    let mut twice = Forged::with_call();
    twice.history.executions.push("call-3-1".to_owned());
    twice.breaks(Rule::CallsAreMadeOnce);
}

#[test]
fn a_call_with_no_result_or_two_is_found() {
    let mut lost = Forged::with_call();
    lost.place().model.remove(6);
    lost.breaks(Rule::CallsHaveOneResult);
    let mut doubled = Forged::with_call();
    let result = doubled.place().model[6].clone();
    doubled.place().model.insert(7, result);
    doubled.breaks(Rule::CallsHaveOneResult);
    let mut alone = Forged::with_call();
    alone.history.calls[4].messages.remove(5);
    alone.breaks(Rule::CallsHaveOneResult);
    let mut again = Forged::with_call();
    let steps: Vec<Line> = again.place().model[5..7].to_vec();
    again.place().model.splice(0..0, steps);
    again.breaks(Rule::CallsHaveOneResult);
}

//! Rows as Hermes writes them, and what is imported from them.

use super::*;

/// A row: `user: text`, `assistant: text`, `calls: id`, `result: id text` or `summary: text`.
fn row(number: i64, line: &str) -> HermesMessage {
    let (role, text) = line.split_once(": ").unwrap_or((line, ""));
    let base = HermesMessage { row: number, timestamp: Some(number as f64), active: true, ..HermesMessage::default() };
    let (role, content, call, calls) = match role {
        "calls" => {
            let call = format!(r#"[{{"id":"{text}","type":"function","function":{{"name":"f","arguments":"{{}}"}}}}]"#);
            ("assistant", None, None, Some(call))
        }
        "result" => {
            let (call, text) = text.split_once(' ').unwrap_or((text, ""));
            ("tool", Some(text.to_owned()), Some(call.to_owned()), None)
        }
        "summary" => ("user", Some(format!("[CONTEXT COMPACTION — REFERENCE ONLY] Do not act.\n{text}")), None, None),
        role => (role, Some(text.to_owned()), None, None),
    };
    HermesMessage { role: role.to_owned(), content, tool_call_id: call, tool_calls: calls, ..base }
}

/// Rows of a session, numbered from `from` on. `-` marks a row that was summarised, `x` one that was taken back.
fn session(id: &str, from: i64, lines: &[&str]) -> (HermesSession, Vec<HermesMessage>) {
    let rows = (from..).zip(lines).map(|(number, line)| {
        let active = !line.starts_with(['-', 'x']);
        let text = line.strip_prefix(['-', 'x']).unwrap_or(line);
        HermesMessage { active, compacted: line.starts_with('-'), ..row(number, text) }
    });
    let rows = rows.collect();
    (HermesSession { id: id.to_owned(), started_at: Some(1.0), ..HermesSession::default() }, rows)
}

/// The same rows with the given times, in a session that began at `began`.
fn at(
    (session, rows): (HermesSession, Vec<HermesMessage>),
    began: f64,
    times: &[f64],
) -> (HermesSession, Vec<HermesMessage>) {
    assert_eq!(rows.len(), times.len());
    let rows = rows.into_iter().zip(times).map(|(row, time)| HermesMessage { timestamp: Some(*time), ..row });
    (HermesSession { started_at: Some(began), ..session }, rows.collect())
}

/// A row that joins a summary to a message.
fn joined(text: &str) -> String {
    format!(
        "{text}\n\n[END OF PRIOR CONTEXT — BELOW]\n\n[CONTEXT COMPACTION — REFERENCE ONLY] Not now.\nso far\n\n--- END OF CONTEXT SUMMARY — x ---"
    )
}

/// What is imported from a chain: the rows of messages, and `[summary mode through|carried]`.
fn imported(chain: &[(HermesSession, Vec<HermesMessage>)]) -> Vec<Vec<String>> {
    let entry = |entry: &ImportedEntry| match entry {
        ImportedEntry::Said(said) => said.origin.to_string(),
        ImportedEntry::Compacted(compaction) => {
            let through = compaction.through.map_or_else(|| "-".to_owned(), |row| row.to_string());
            format!("[{} {} {through}|{:?}]", compaction.origin, compaction.mode.as_str(), compaction.carried)
        }
    };
    read(chain).sessions.iter().map(|session| session.entries.iter().map(entry).collect()).collect()
}

#[test]
fn messages_are_imported_once_in_order() {
    let chain = [session("a", 1, &["user: hello", "assistant: hi", "user: more", "assistant: yes"])];
    assert_eq!(imported(&chain), [["1", "2", "3", "4"]]);
}

#[test]
fn a_split_keeps_what_hermes_kept() {
    let chain = [
        session("a", 1, &["user: one", "assistant: 1", "user: two", "assistant: 2", "user: three", "assistant: 3"]),
        session("b", 7, &["user: one", "assistant: 1", "summary: so far", "user: three", "assistant: 3", "user: four"]),
    ];
    assert_eq!(imported(&chain)[1], ["[9 split 4|[1, 2]]", "12"]);
    assert_eq!(imported(&chain)[0].len(), 6);
}

#[test]
fn a_compaction_in_place_is_the_same_in_one_session() {
    let lines = [
        "-user: one",
        "-assistant: 1",
        "-user: two",
        "-assistant: 2",
        "-user: three",
        "user: one",
        "assistant: 1",
        "summary: so far",
        "user: three",
        "assistant: 3",
    ];
    assert_eq!(imported(&[session("a", 1, &lines)])[0], ["1", "2", "3", "4", "5", "[8 in_place 4|[1, 2]]", "10"]);
}

#[test]
fn compactions_follow_each_other() {
    let lines = [
        "-user: one",
        "-assistant: 1",
        "-user: two",
        "-summary: first",
        "-user: two",
        "-assistant: 2",
        "-user: three",
        "-assistant: 3",
        "summary: second",
        "user: three",
        "assistant: 3",
        "user: four",
    ];
    let expected = ["1", "2", "3", "[4 in_place 2|[]]", "6", "7", "8", "[9 in_place 6|[]]", "12"];
    assert_eq!(imported(&[session("a", 1, &lines)])[0], expected);
}

#[test]
fn summaries_that_follow_each_other_are_one() {
    let chain = [
        session("a", 1, &["user: one", "assistant: 1"]),
        session("b", 3, &["summary: old", "summary: new", "user: two"]),
    ];
    assert_eq!(imported(&chain)[1], ["[3 split 2|[]]", "5"]);
    let read = read(&chain);
    let ImportedEntry::Compacted(compaction) = &read.sessions[1].entries[0] else { panic!("a compaction") };
    assert!(compaction.summary.payload.as_json().contains("old\\n\\nnew"));
}

#[test]
fn a_summary_of_what_is_not_there_keeps_what_stands_before_it() {
    let chain = [session("b", 7, &["user: one", "assistant: 1", "summary: so far", "user: two"])];
    assert_eq!(imported(&chain)[0], ["7", "8", "[9 in_place 8|[7, 8]]", "10"]);
}

#[test]
fn a_split_without_a_summary_shows_everything() {
    let chain =
        [session("a", 1, &["user: one", "assistant: 1"]), session("b", 3, &["user: one", "assistant: 1", "user: two"])];
    assert_eq!(imported(&chain), [vec!["1", "2"], vec!["5"]]);
    assert_eq!(read(&chain).without_summary, ["b"]);
}

#[test]
fn results_that_were_shortened_are_still_copies_and_stay_with_their_calls() {
    let chain = [
        session("a", 1, &["user: one", "calls: x", "result: x long", "assistant: 1"]),
        session("b", 5, &["summary: so far", "result: x cleared", "assistant: 1", "user: two"]),
    ];
    assert_eq!(imported(&chain)[1], ["[5 split 3|[]]", "8"], "a range does not begin with a result");
    let head = [
        session("a", 1, &["user: one", "calls: x", "result: x long", "assistant: 1", "user: two"]),
        session("b", 6, &["user: one", "calls: x", "summary: so far", "user: two"]),
    ];
    assert_eq!(imported(&head)[1], ["[8 split 4|[1]]"], "a call is not kept without its result");
}

#[test]
fn what_was_taken_back_is_left_out() {
    let chain = [session("a", 1, &["user: one", "assistant: 1", "xuser: wrong", "xassistant: no", "user: two"])];
    assert_eq!(imported(&chain)[0], ["1", "2", "5"]);
    assert_eq!(read(&chain).taken_back, 2);
}

#[test]
fn results_without_a_call_are_reported_and_open_calls_are_kept() {
    let chain = [session(
        "a",
        1,
        &["user: one", "calls: x", "user: never mind", "result: x late", "result: y what", "assistant: ok"],
    )];
    assert_eq!(imported(&chain)[0], ["1", "2", "3", "6"]);
    let skipped = read(&chain).skipped;
    assert_eq!(skipped.iter().map(|skipped| skipped.row).collect::<Vec<_>>(), [4, 5]);
    assert!(skipped[0].why.contains("the call x"), "{skipped:?}");
}

#[test]
fn a_call_that_cannot_be_read_takes_its_results_with_it() {
    let mut chain = [session("a", 1, &["user: one", "calls: x", "result: x found", "assistant: 1"])];
    chain[0].1[1].tool_calls = Some("[{".to_owned());
    assert_eq!(imported(&chain)[0], ["1", "4"]);
    assert_eq!(read(&chain).skipped.len(), 2);
}

#[test]
fn a_turn_is_a_question_and_all_that_answers_it() {
    let chain = [
        session("a", 1, &["user: one", "user: and", "calls: x", "result: x found", "assistant: 1", "user: two"]),
        session("b", 7, &["summary: so far", "user: two", "calls: y", "result: y found"]),
        session("c", 11, &["summary: so far", "assistant: 2", "assistant: alone"]),
    ];
    let read = read(&chain);
    let entries = read.sessions.iter().flat_map(|session| &session.entries);
    let turns: Vec<_> = entries
        .filter_map(|entry| match entry {
            ImportedEntry::Said(said) => Some((said.origin, said.turn)),
            ImportedEntry::Compacted(_) => None,
        })
        .collect();
    assert_eq!(turns, [(1, 1), (2, 1), (3, 1), (4, 1), (5, 1), (6, 6), (9, 6), (10, 6), (12, 12), (13, 12)]);
}

#[test]
fn sizes_are_those_of_the_context() {
    let chain = [
        session("a", 1, &["user: one", "assistant: 1", "user: two"]),
        session("b", 4, &["summary: so far", "user: two"]),
    ];
    let read = read(&chain);
    let ImportedEntry::Compacted(compaction) = &read.sessions[1].entries[0] else { panic!("a compaction") };
    let cost = |entry: &ImportedEntry| match entry {
        ImportedEntry::Said(said) => u64::from(said.said.tokens),
        ImportedEntry::Compacted(_) => 0,
    };
    let said: Vec<u64> = read.sessions[0].entries.iter().map(cost).collect();
    assert_eq!(compaction.sizes.before, said.iter().sum::<u64>());
    assert_eq!(compaction.sizes.after, u64::from(compaction.summary.tokens) + said[2]);
}

#[test]
fn a_session_that_was_written_twice_before_it_was_split_is_imported_once() {
    let chain = [
        at(
            session(
                "a",
                1,
                &["user:  one ", "assistant: 1", "user: two", "user: one", "assistant: 1", "user: two", "assistant: 2"],
            ),
            0.5,
            &[1.25, 2.25, 3.25, 1.25, 2.25, 3.25, 4.25],
        ),
        at(session("b", 8, &["user: one", "summary: so far", "assistant: 2"]), 5.5, &[1.25, 6.25, 4.25]),
    ];
    assert_eq!(imported(&chain), [vec!["1", "2", "3", "7"], vec!["[9 split 3|[1]]"]]);
}

#[test]
fn the_same_text_at_another_time_is_another_message() {
    let chain = [at(
        session("a", 1, &["user: ok", "assistant: 1", "user: ok", "user: ok", "assistant: 1"]),
        0.5,
        &[1.25, 2.25, 3.25, 3.0, 3.0],
    )];
    assert_eq!(imported(&chain)[0], ["1", "2", "3", "4", "5"]);
    let seconds = [at(session("a", 1, &["user: ok", "user: go"]), 0.5, &[3.0, 3.0])];
    assert_eq!(imported(&seconds)[0], ["1", "2"], "two messages in one second are two");
}

#[test]
fn a_message_that_a_summary_was_joined_to_is_kept_after_it() {
    let before = joined("assistant: [PRIOR CONTEXT — not new]\n2");
    let chain = [
        session("a", 1, &["user: one", "assistant: 1", "user: two", "assistant: 2", "user: three"]),
        session("b", 6, &["user: one", &before, "user: three", "assistant: 3"]),
    ];
    assert_eq!(imported(&chain)[1], ["[7 split 3|[1]]", "9"]);
    let never_written = joined("user: [PRIOR CONTEXT — not new]\nthree");
    let chain = [session("a", 1, &["-user: one", "-assistant: 1", &never_written, "assistant: 3"])];
    assert_eq!(imported(&chain)[0], ["1", "2", "[3 in_place 2|[]]", "3", "4"], "it was never written by itself");
}

#[test]
fn messages_to_an_old_session_go_to_the_head() {
    let chain = [
        at(
            session("a", 1, &["user: one", "assistant: 1", "user: two", "user: late", "assistant: too"]),
            0.5,
            &[1.25, 2.25, 3.25, 9.25, 10.25],
        ),
        at(
            session("b", 4, &["summary: so far", "user: two", "assistant: 2", "user: four"]),
            3.5,
            &[4.25, 3.25, 5.25, 12.25],
        ),
    ];
    let mut chain = chain;
    for (row, number) in chain[0].1.iter_mut().zip([1, 2, 3, 7, 8]) {
        row.row = number;
    }
    chain[1].1[3].row = 9;
    assert_eq!(imported(&chain), [vec!["1", "2", "3"], vec!["[4 split 2|[]]", "6", "7", "8", "9"]]);
    // If rows were inserted again, children first, their times decide.
    for row in &mut chain[0].1[..3] {
        row.row += 100;
    }
    assert_eq!(imported(&chain)[0], ["101", "102", "103"]);
}

#[test]
fn copies_with_shortened_images_and_arguments_are_copies() {
    let mut chain = [
        session(
            "a",
            1,
            &["user: look\n[screenshot]", "calls: x", "result: x long", "assistant: 1", "user: and\n[screenshot]"],
        ),
        session(
            "b",
            6,
            &["user: look", "calls: x", "result: x cut", "summary: so far", "assistant: 1", "user: ", "assistant: 2"],
        ),
    ];
    chain[0].1[1].tool_calls = chain[0].1[1].tool_calls.take().map(|calls| calls.replace("{}", r#"{\"a\":1}"#));
    let image = r#"[{"type":"text","text":"and"},{"type":"image_url","image_url":{"url":"http://x/y.png"}}]"#;
    chain[1].1[5].content = Some(format!("\u{0}json:{image}"));
    assert_eq!(imported(&chain)[1], ["[9 split 3|[1, 2, 3]]", "12"]);
}

#[test]
fn what_was_written_with_a_summary_is_found_again_where_it_was_joined_or_doubled() {
    let lines = [
        "-user: one",
        "-assistant: 1",
        "-user: two",
        "-assistant: 2",
        "-user: two",
        "user: one\n\none",
        "user: one",
        "assistant: 1",
        "summary: so far",
        "assistant: 1",
        "user: two",
        "assistant: 2",
        "user: three",
        "assistant: 3",
    ];
    let now = 1_794_812_324.932_111;
    let at_once = (0..8).map(|place| now + f64::from(place) * 1e-6);
    let times: Vec<f64> = (1..=5).map(|time| f64::from(time) + 0.5).chain(at_once).chain([now + 0.5]).collect();
    let chain = [at(session("a", 1, &lines), 0.5, &times)];
    assert_eq!(imported(&chain)[0], ["1", "2", "3", "4", "5", "[9 in_place 1|[1]]", "13", "14"]);
}

#[test]
fn a_note_that_was_joined_to_the_last_question_is_all_that_is_new() {
    let lines = ["user: one", "assistant: 1", "user: two", "assistant: 2", "user: three"];
    let next = ["summary: so far", "user: two", "assistant: 2", "user: three\n\na note", "assistant: 3"];
    let chain = [
        at(session("a", 1, &lines), 0.5, &[1.25, 2.25, 3.25, 4.25, 5.25]),
        at(session("b", 6, &next), 5.5, &[6.25, 3.25, 4.25, 6.5, 7.25]),
    ];
    assert_eq!(imported(&chain)[1], ["[6 split 2|[]]", "9", "10"]);
    let read = read(&chain);
    let ImportedEntry::Said(note) = &read.sessions[1].entries[1] else { panic!("a message") };
    assert_eq!(note.said, chat::simple_user("a note"));
}

use std::collections::HashSet;

use herma_testkit::HermesDatabase;
use serde_json::Value;

use super::{json, trip};
use crate::{CommandOutput, Terminal};

/// Three conversations; one is a branch of another.
pub(super) fn three() -> Terminal {
    let terminal = Terminal::new();
    for (name, line) in [("trip", "where is the fjord?"), ("recipe", "how long does bread bake?")] {
        terminal.run_with_input(&["chat", "--session", name], &format!("{line}\n")).answer();
    }
    terminal.run(&["sessions", "branch", "trip", "--id", "trip-by-train", "--title", "By train"]).answer();
    terminal
}

/// The printed rows, one per line.
fn rows(said: &CommandOutput) -> Vec<Value> {
    said.answer().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn ids(said: &CommandOutput) -> Vec<String> {
    rows(said).iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn conversations_are_listed_newest_first() {
    let terminal = three();
    insta::assert_snapshot!(terminal.sessions("list").transcript(), @"
    exit 0
    --- stdout
    NAME           TITLE                      KIND    AGE  MESSAGES  ID
    trip-by-train  By train                   branch  now  2         SHORT_ID
    recipe         how long does bread bake?  main    now  2         SHORT_ID
    trip           where is the fjord?        main    now  2         SHORT_ID
    --- stderr
    ");
    insta::assert_snapshot!(terminal.sessions("list --limit 1 --kind main").transcript(), @"
    exit 0
    --- stdout
    NAME    TITLE                      KIND  AGE  MESSAGES  ID
    recipe  how long does bread bake?  main  now  2         SHORT_ID
    --- stderr
    there are more; --limit 5 shows more rows, --all everything
    ");
    assert_eq!(ids(&terminal.sessions("list --json")), ["trip-by-train", "recipe", "trip"]);
    assert_eq!(ids(&terminal.sessions("list --kind branch --json")), ["trip-by-train"]);
    insta::assert_snapshot!(terminal.sessions("list --archived").transcript(), @"
    exit 0
    --- stdout
    --- stderr
    there is no such conversation; with fewer flags there may be others
    ");
    assert_eq!(ids(&terminal.sessions("list --archived --json")), [""; 0]);
}

#[test]
fn all_are_listed_however_many_pages_they_are() {
    let terminal = Terminal::new();
    let hermes = HermesDatabase::new(terminal.home.path());
    for number in 0..205 {
        let id = format!("copy-{number}");
        hermes.session(&id, f64::from(number), &[]);
        hermes.turn(&id, "hello", "hi");
    }
    terminal.run(&["import", "hermes", hermes.path().to_str().unwrap()]).answer();
    let all = ids(&terminal.sessions("list --all --json"));
    let different: HashSet<&String> = all.iter().collect();
    assert_eq!((all.len(), different.len()), (205, 205));
    assert_eq!(terminal.sessions("list --all").answer().lines().count(), 206);
    assert_eq!(ids(&terminal.sessions("list --limit 203 --json")), all[..203]);
    let many = terminal.sessions("show copy");
    assert!(many.stderr.ends_with("and 195 more\n"), "{}", many.stderr);
}

#[test]
fn a_conversation_is_shown_with_what_was_said_last() {
    let terminal = three();
    insta::assert_snapshot!(terminal.sessions("show trip-by-train").transcript(), @"
    exit 0
    --- stdout
    short id       SHORT_ID
    name           trip-by-train
    title          By train
    session        trip-by-train
    conversation   conv_<1>
    kind           branch
    state          open
    source         cli
    made by        branch
    parent         trip (branch)
    created        MOMENT
    changed        MOMENT
    messages       2 with those it inherits; 0 turns of its own
    tokens         0 in, 0 out

    1 you: where is the fjord?
    2 model: You said: where is the fjord? (message 1 of this conversation; I am Herma's offline model.)
    --- stderr
    ");
    let last = terminal.sessions("show trip --messages 1");
    let blank = last.answer().lines().position(str::is_empty).unwrap();
    let said: Vec<&str> = last.answer().lines().skip(blank + 1).collect();
    assert!(said.len() == 1 && said[0].starts_with("2 model: You said: where is the fjord?"), "{said:?}");
    let row = json(&terminal.sessions("show trip-by-train --json"));
    assert_eq!((&row["object"], &row["provenance"]["parent_relation"]), (&"session".into(), &"branch".into()));
}

#[test]
fn a_compacted_conversation_is_shown_at_its_head_with_its_summary() {
    let terminal = trip();
    terminal.sessions("compact trip").answer();
    let shown = terminal.sessions("show trip --messages 25");
    for part in [
        "kind           main",
        "first session  trip",
        "compactions    1; the last one began a session",
        "continues      1 earlier session",
    ] {
        assert!(shown.answer().contains(part), "{part} in\n{}", shown.stdout);
    }
    assert!(!shown.stdout.contains("made by"), "the split made only its last session: {}", shown.stdout);
    let summaries = shown.stdout.lines().filter(|line| line.contains(" summary: ")).count();
    assert_eq!(summaries, 1, "{}", shown.stdout);
    assert!(shown.stdout.contains("\n1 you: message 1"), "{}", shown.stdout);
}

#[test]
fn a_tree_has_continuations_branches_and_a_mark() {
    let terminal = trip();
    terminal.run(&["sessions", "branch", "trip", "--id", "early", "--title", "Before it was long"]).answer();
    terminal.sessions("compact trip").answer();
    terminal.sessions("branch trip --id late").answer();
    terminal.sessions("branch late --id later").answer();
    insta::assert_snapshot!(terminal.sessions("tree trip").transcript(), @"
    exit 0
    --- stdout
    trip [main] message 1: we went on and saw one more t… (now, 24 messages, 25380 tokens)  ◀
    ├─ branch: early [branch] Before it was long (now, 24 messages, live)
    └─ continuation: sess_<1> (now, live)
       └─ branch: late [branch] (now, 24 messages, live)
          └─ branch: later [branch] (now, 24 messages, live)
    --- stderr
    ");
    let conversation = json(&terminal.sessions("show trip --json"))["conversation_id"].as_str().unwrap().to_owned();
    let by_handle = terminal.sessions(&format!("tree {conversation}"));
    let marked: Vec<&str> = by_handle.answer().lines().filter(|line| line.ends_with('◀')).collect();
    assert!(marked.len() == 1 && marked[0].contains("continuation: sess_"), "{marked:?}");
    let graph = json(&terminal.sessions("tree late --json"));
    let edges: Vec<_> =
        graph["edges"].as_array().unwrap().iter().map(|edge| (&edge["to"], &edge["relation"])).collect();
    assert!(edges.contains(&(&"later".into(), &"branch".into())), "{edges:?}");
    assert_eq!(graph["nodes"].as_array().unwrap().len(), 4, "what came from its ancestors otherwise is not its own");
    terminal.sessions("delete trip --yes").answer();
    insta::assert_snapshot!(terminal.sessions("tree late").transcript(), @"
    exit 0
    --- stdout
    (branch of sess_<1>, which is gone) late [branch] (now, 24 messages, live)  ◀
    └─ branch: later [branch] (now, 24 messages, live)
    --- stderr
    ");
}

#[test]
fn words_and_titles_are_found() {
    let terminal = three();
    insta::assert_snapshot!(terminal.sessions("search fjord").transcript(), @"
    exit 0
    --- stdout
    WHEN              CONVERSATION  ROLE  SNIPPET
    MOMENT  trip          user  where is the fjord?
    --- stderr
    ");
    insta::assert_snapshot!(terminal.sessions("search train").transcript(), @"
    exit 0
    --- stdout
    WHEN              CONVERSATION   ROLE   SNIPPET
    MOMENT  trip-by-train  title  By train
    --- stderr
    ");
    let found = rows(&terminal.sessions("search bread bake --json"));
    assert_eq!((found.len(), &found[0]["session_id"]), (1, &Value::from("recipe")));
    let few = terminal.sessions("search fjord OR bread --limit 1 --json");
    assert_eq!(rows(&few).len(), 1);
    assert!(few.stderr.contains("there may be more"), "{}", few.stderr);
    insta::assert_snapshot!(terminal.sessions("search nothing").transcript(), @"
    exit 0
    --- stdout
    --- stderr
    nothing was found
    ");
    insta::assert_snapshot!(terminal.sessions("search OR").transcript(), @"
    exit 2
    --- stdout
    --- stderr
    error: there is no word to search for, only operators or punctuation; give at least one word that must occur
    ");
}

#[test]
fn the_beginning_of_an_id_is_enough_if_it_is_unique() {
    let terminal = three();
    let shown = |id: &str| json(&terminal.sessions(&format!("show {id} --json")))["id"].clone();
    assert_eq!((shown("rec"), shown("trip-"), shown("trip")), ("recipe".into(), "trip-by-train".into(), "trip".into()));
    let conversation = json(&terminal.sessions("show recipe --json"))["conversation_id"].as_str().unwrap().to_owned();
    assert_eq!(shown(&conversation[..conversation.len() - 1]), "recipe");
    insta::assert_snapshot!(terminal.sessions("show tri").transcript(), @"
    exit 1
    --- stdout
    --- stderr
    error: several conversations fit tri, and nothing was done:
    NAME           TITLE                KIND    AGE  MESSAGES  ID
    trip-by-train  By train             branch  now  2         SHORT_ID
    trip           where is the fjord?  main    now  2         SHORT_ID
    ");
    assert_eq!(terminal.sessions("compactions rec --json").answer(), "[]");
}

#[test]
fn the_sessions_of_one_conversation_may_begin_alike() {
    let terminal = Terminal::new();
    terminal.in_window(&["chat"], &super::long(0)).answer();
    let begun = ids(&terminal.sessions("list --json"));
    terminal.talk_long(&begun[0]);
    let first = ids(&terminal.sessions("list --json"));
    terminal.sessions(&format!("compact {}", first[0])).answer();
    let head = ids(&terminal.sessions("list --json"));
    assert_ne!(first, head);
    assert_eq!(json(&terminal.sessions("show sess_ --json"))["id"], head[0].as_str());
}

#[test]
fn the_very_session_is_shown_when_asked_for() {
    let terminal = trip();
    terminal.sessions("compact trip").answer();
    terminal.in_window(&["chat", "--session", "trip"], "and on\n").answer();
    let (live, exact) =
        (json(&terminal.sessions("show trip --json")), json(&terminal.sessions("show trip --exact --json")));
    assert_eq!(
        (&exact["id"], &exact["kind"], &exact["end_reason"]),
        (&"trip".into(), &"main".into(), &"compression".into())
    );
    assert_eq!((&live["kind"], &live["conversation_id"]), (&"continuation".into(), &exact["conversation_id"]));
    let (live, exact) = (terminal.sessions("show trip"), terminal.sessions("show trip --exact"));
    assert!(live.answer().contains("you: and on") && !exact.answer().contains("you: and on"), "{}", exact.stdout);
    assert!(exact.answer().contains("24 model: You said: message 12"), "{}", exact.stdout);
}

#[test]
fn a_list_shows_short_ids_and_names_that_every_command_takes() {
    let terminal = Terminal::new();
    terminal.run_with_input(&["chat", "--session", "trip"], "where is the fjord?\n").answer();
    terminal.run_with_input(&["chat"], "no name\n").answer();
    let table = terminal.sessions("list").answer().to_owned();
    let cells: Vec<Vec<&str>> = table.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
    let rows: Vec<serde_json::Value> =
        terminal.sessions("list --json").answer().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for (cells, row) in cells.iter().zip(&rows) {
        let short = cells.last().unwrap();
        assert!(row["conversation_id"].as_str().unwrap().ends_with(short) && short.len() == 8, "{table}");
        assert_eq!(cells[0], row["name"].as_str().unwrap_or("-"), "{table}");
        let shown: serde_json::Value =
            serde_json::from_str(terminal.sessions(&format!("show {short} --json")).answer()).unwrap();
        assert_eq!(shown["conversation_id"], row["conversation_id"]);
    }
    assert_eq!(rows.iter().filter(|row| row.get("name").is_some()).count(), 1);
    let short = cells[1].last().unwrap();
    terminal.run_with_input(&["chat", "--session", short], "and the sea?\n").answer();
    assert_eq!(terminal.sessions("list --json").answer().lines().count(), 2, "a short id begins no conversation");
    let refused = terminal.sessions(&format!("delete {short} --yes"));
    assert!(refused.code == 1 && refused.stderr.contains("a name or a whole id"), "{}", refused.stderr);
}

#[test]
fn what_never_had_an_answer_is_listed_when_asked_for() {
    let terminal = Terminal::new();
    terminal.run_with_input(&["chat", "--session", "answered"], "hello\n").answer();
    let mut failing = terminal.command(&["chat", "--session", "failed", "--model", "m"]);
    failing.env("HERMA_UPSTREAM", "http://127.0.0.1:1/v1").env("HERMA_UPSTREAM__RETRIES", "0");
    assert_eq!(terminal.say(failing, "hello\n").code, 1);
    assert_eq!(ids(&terminal.sessions("list --json")), ["answered"]);
    assert_eq!(ids(&terminal.sessions("list --unanswered --json")), ["failed"]);
    assert_eq!(ids(&terminal.sessions("list --all --json")), ["failed", "answered"]);
    terminal.sessions("archive answered").answer();
    assert_eq!(ids(&terminal.sessions("list --json")), [""; 0]);
    assert_eq!(ids(&terminal.sessions("list --all --json")).len(), 2, "all is all");
    terminal.sessions("archive failed").answer();
    assert_eq!(ids(&terminal.sessions("list --archived --json")).len(), 2);
    assert_eq!(ids(&terminal.sessions("list --archived --unanswered --json")), ["failed"]);
}

#[test]
fn helpers_and_compacted_conversations_are_listed_where_people_look_for_them() {
    let terminal = trip();
    terminal.sessions("compact trip").answer();
    let mut helper = terminal.command(&["chat", "--session", "team", "delegate: write a poem"]);
    helper.env("HERMA_TOOLS__BUILTIN", "delegate_task");
    terminal.say(helper, "").answer();
    let named = |line: &str| {
        let rows = rows(&terminal.sessions(line));
        rows.iter().map(|row| row["name"].as_str().unwrap_or("-").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(named("list --json"), ["team", "trip"], "helpers are hidden");
    assert_eq!(named("list --kind main --json"), ["team", "trip"], "a compaction does not change what it is");
    assert_eq!(named("list --kind continuation --json"), ["trip"]);
    assert_eq!(named("list --kind auxiliary --json"), ["-"]);
    assert_eq!(named("list --parent team --json"), ["-"]);
    assert_eq!(named("list --all --json").len(), 3);
    assert_eq!(named("list --title message --json"), ["trip"]);
    assert_eq!(named("list --since 1h --order -created --json"), ["trip", "team"]);
    assert_eq!(named("list --until 1h --json"), [""; 0]);
    assert_eq!(named("list --source cli --by-session --json").len(), 3, "the split one has two sessions");
}

#[test]
fn a_session_has_a_short_id_of_its_own() {
    let terminal = Terminal::new();
    terminal.in_window(&["chat"], &super::long(0)).answer();
    let begun = ids(&terminal.sessions("list --json"));
    terminal.talk_long(&begun[0]);
    terminal.sessions(&format!("compact {}", begun[0])).answer();
    let table = terminal.sessions("list --by-session").answer().to_owned();
    let sessions = ids(&terminal.sessions("list --by-session --json"));
    let shown: Vec<&str> = table.lines().skip(1).filter_map(|line| line.split_whitespace().last()).collect();
    let ends: Vec<&str> = sessions.iter().map(|id| &id[id.len() - 8..]).collect();
    assert_eq!((shown.len(), &shown), (2, &ends), "{table}");
    for (short, id) in shown.iter().zip(&sessions) {
        assert_eq!(json(&terminal.sessions(&format!("show {short} --exact --json")))["id"], id.as_str());
    }
}

#[test]
fn a_long_message_is_cut_unless_it_is_asked_for_in_full() {
    let terminal = Terminal::new();
    let text = format!("first line\n\n{}", "word ".repeat(60));
    terminal.run_with_input(&["chat", "--session", "trip"], &text).answer();
    let cut = terminal.sessions("show trip --messages 2");
    assert!(cut.answer().contains('…'), "{}", cut.stdout);
    assert!(cut.stderr.contains("--full shows all of it, and so does "), "{}", cut.stderr);
    let full = terminal.sessions("show trip --full");
    assert!(full.answer().contains("\n1 you: first line\n  \n  word word"), "{}", full.stdout);
    assert!(!full.stdout.contains('…') && full.stderr.is_empty(), "{}{}", full.stdout, full.stderr);
}

#[test]
fn a_failed_turn_that_was_taken_back_is_both() {
    let terminal = Terminal::new();
    terminal.run_with_input(&["chat", "--session", "trip"], "hello\n").answer();
    let mut failing = terminal.command(&["chat", "--session", "trip", "--model", "m"]);
    failing.env("HERMA_UPSTREAM", "http://127.0.0.1:1/v1").env("HERMA_UPSTREAM__RETRIES", "0");
    assert_eq!(terminal.say(failing, "and?\n").code, 1);
    terminal.sessions("rewind trip --to 2").answer();
    let shown = terminal.sessions("show trip");
    let last = shown.answer().lines().last().unwrap();
    assert_eq!(last, "  (the turn failed; the turn was taken back: the model is not shown it)", "{}", shown.stdout);
}

#[test]
fn a_number_that_is_too_small_is_refused_in_words() {
    for limit in ["0", "abc"] {
        let said = Terminal::new().sessions(&format!("list --limit {limit}"));
        assert!(said.code == 2 && said.stderr.contains("must be a whole number of at least 1"), "{}", said.stderr);
    }
}

#[test]
fn rm_is_delete() {
    let terminal = three();
    terminal.sessions("rm trip --yes").answer();
    assert_eq!(ids(&terminal.sessions("list --json")), ["trip-by-train", "recipe"]);
}

#[test]
fn a_short_id_of_two_conversations_is_refused_with_both() {
    let terminal = Terminal::new();
    terminal.run(&["chat", "no name"]).answer();
    let file = terminal.data().with_file_name("all.jsonl");
    let name = file.display().to_string();
    terminal.run(&["sessions", "export", "--all", "--output", &name]).answer();
    let lines = std::fs::read_to_string(&file).unwrap();
    let conversation = rows(&terminal.sessions("list --json"))[0]["conversation_id"].as_str().unwrap().to_owned();
    // The first digits of an id are its time: the copies of all ids end alike.
    std::fs::write(&file, lines.replace(&conversation[4..13], "_01a00000")).unwrap();
    terminal.run(&["sessions", "import", &name]).answer();
    let short = &conversation[conversation.len() - 8..];
    for command in [vec!["chat", "--session", short, "hello"], vec!["sessions", "show", short]] {
        let said = terminal.run(&command);
        assert_eq!((said.code, said.stdout.as_str()), (1, ""), "{command:?}");
        assert!(said.stderr.contains(&format!("several conversations fit {short}")), "{}", said.stderr);
        assert_eq!(said.stderr.lines().filter(|line| line.ends_with(short)).count(), 2, "{}", said.stderr);
    }
}

#[test]
fn the_beginning_of_an_id_continues_a_conversation_in_the_chat_too() {
    let terminal = Terminal::new();
    terminal.run(&["chat", "first"]).answer();
    let id = ids(&terminal.sessions("list --json")).remove(0);
    terminal.run(&["chat", "--session", &id[..20], "second"]).answer();
    assert_eq!(ids(&terminal.sessions("list --json")), [id.as_str()], "the beginning of an id is no name of its own");
    terminal.run(&["chat", "third"]).answer();
    let refused = terminal.run(&["chat", "--session", "sess_", "which?"]);
    assert_eq!((refused.code, refused.stdout.as_str()), (1, ""));
    assert!(refused.stderr.contains("several conversations fit sess_, and nothing was done"), "{}", refused.stderr);
    assert_eq!(ids(&terminal.sessions("list --json")).len(), 2);
}

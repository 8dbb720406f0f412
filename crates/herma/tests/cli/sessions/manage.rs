use super::browse::three;
use super::{json, trip};
use crate::Terminal;

/// The id of the first message.
fn first_message(terminal: &Terminal) -> String {
    json(&terminal.sessions("search fjord --json"))["message_id"].as_str().unwrap().to_owned()
}

#[test]
fn a_branch_begins_with_what_was_said() {
    let terminal = three();
    let made = terminal.sessions("branch trip");
    assert!(made.answer().starts_with("sess_"), "{}", made.stdout);
    insta::assert_snapshot!(made.transcript(), @"
    exit 0
    --- stdout
    sess_<1>
    --- stderr
    it has 2 messages of trip; to go on in it: herma chat --session SHORT_ID --data DATA
    ");
    terminal.run_with_input(&["chat", "--session", "trip"], "and then?\n").answer();
    let at = first_message(&terminal);
    let row = json(&terminal.sessions(&format!("branch trip --at {at} --id early --json")));
    assert_eq!((&row["id"], &row["message_count"], &row["source"]), (&"early".into(), &2.into(), &"cli".into()));
    for (line, why) in [
        (format!("branch recipe --at {at}"), "recipe has no message with the id of --at"),
        ("branch trip --id recipe".to_owned(), "leads somewhere already"),
        ("branch trip --id conv_mine".to_owned(), "only Herma makes"),
        ("branch nobody".to_owned(), "no conversation is known by nobody"),
    ] {
        let said = terminal.sessions(&line);
        assert_eq!((said.code, said.stdout.as_str()), (1, ""), "{line}");
        assert!(said.stderr.contains(why), "{line}: {}", said.stderr);
    }
}

#[test]
fn a_message_is_named_by_the_number_that_show_prints() {
    let terminal = three();
    terminal.run_with_input(&["chat", "--session", "trip"], "and then?\n").answer();
    let count = |line: &str| json(&terminal.sessions(line))["message_count"].clone();
    assert_eq!(count("branch trip --at 1 --id early --json"), 2);
    assert_eq!(count("branch trip --at 4 --id late --json"), 4);
    terminal.sessions("rewind trip --to 2").answer();
    let shown = terminal.sessions("show trip");
    assert!(shown.answer().ends_with("  (the turn was taken back: the model is not shown it)"), "{}", shown.stdout);
    for line in ["branch trip --at 5", "rewind trip --to 99"] {
        let said = terminal.sessions(line);
        assert!(said.code == 1 && said.stderr.contains("has no message"), "{line}: {}", said.stderr);
        assert!(said.stderr.contains(" sessions show trip"), "{line}: {}", said.stderr);
    }
    for line in ["branch trip --at 0", "rewind trip --to first"] {
        let said = terminal.sessions(line);
        assert!(said.code == 2 && said.stderr.contains("must be the number of a message"), "{}", said.stderr);
    }
    let long = trip();
    long.sessions("compact trip").answer();
    let summary = long.sessions("show trip --messages 30");
    let number = summary.answer().lines().find_map(|line| line.split_once(" summary: ")).map(|(number, _)| number);
    let said = long.sessions(&format!("branch trip --at {}", number.unwrap()));
    assert!(said.stderr.contains("is a summary, not a message"), "{}", said.stderr);
}

#[test]
fn a_title_is_given_and_taken_away() {
    let terminal = three();
    let named = terminal.run(&["sessions", "rename", "trip", " Oslo in May "]);
    insta::assert_snapshot!(named.transcript(), @"
    exit 0
    --- stdout
    --- stderr
    trip is now called Oslo in May
    ");
    assert_eq!(json(&terminal.sessions("show trip --json"))["title"], "Oslo in May");
    let none = json(&terminal.run(&["sessions", "rename", "trip", "", "--json"]));
    assert!(none["title"].is_null(), "{none}");
    let broken = terminal.run(&["sessions", "rename", "trip", "two\nlines"]);
    assert_eq!(broken.code, 2);
    assert!(broken.stderr.contains("must not have line breaks"), "{}", broken.stderr);
}

#[test]
fn an_ended_conversation_takes_no_turns_until_it_is_reopened() {
    let terminal = three();
    insta::assert_snapshot!(terminal.sessions("end trip").transcript(), @"
    exit 0
    --- stdout
    --- stderr
    trip is ended; to open it again: herma sessions reopen trip --data DATA
    ");
    assert!(terminal.sessions("show trip").answer().contains("state          ended "));
    let refused = terminal.run_with_input(&["chat", "--session", "trip"], "hello?\n");
    assert!(!refused.stdout.contains("You said"), "{}", refused.stdout);
    insta::assert_snapshot!(terminal.sessions("reopen trip").transcript(), @"
    exit 0
    --- stdout
    --- stderr
    trip is open
    ");
    let answer = terminal.run_with_input(&["chat", "--session", "trip"], "hello?\n");
    assert!(answer.answer().contains("You said: hello?"), "{}", answer.stdout);
    assert_eq!(json(&terminal.sessions("end trip --json"))["end_reason"], "ended");
    assert!(json(&terminal.sessions("reopen trip --json"))["ended_at"].is_null());
}

#[test]
fn a_conversation_is_rewound_and_restored() {
    let terminal = three();
    let whole = terminal.sessions("show trip").answer().to_owned();
    insta::assert_snapshot!(terminal.sessions("rewind trip --turns 1").transcript(), @"
    exit 0
    --- stdout
    --- stderr
    trip is rewound; to take it back: herma sessions restore trip --data DATA
    ");
    let shown = terminal.sessions("show trip");
    let last = shown.answer().lines().last().unwrap();
    assert_eq!(last, "  (the turn was taken back: the model is not shown it)", "{}", shown.stdout);
    let page = terminal.sessions("export trip --format markdown");
    assert!(page.answer().contains(" · rewound"), "{}", page.stdout);
    insta::assert_snapshot!(terminal.sessions("restore trip").transcript(), @"
    exit 0
    --- stdout
    --- stderr
    trip is as it was before it was rewound
    ");
    assert_eq!(terminal.sessions("show trip").answer().lines().last(), whole.lines().last());
    insta::assert_snapshot!(terminal.sessions("restore trip").transcript(), @"
    exit 1
    --- stdout
    --- stderr
    error: nothing of trip was rewound since the last turn
    ");
    insta::assert_snapshot!(terminal.sessions("rewind trip --turns 99").stderr.contains("only 1 turn of trip can be taken back"), @"true");
    assert_eq!(terminal.sessions("rewind trip").code, 2, "how far has to be said");
    assert_eq!(json(&terminal.sessions("rewind trip --turns 1 --json"))["id"], "trip");
}

#[test]
fn an_archived_conversation_is_left_out_of_lists_and_goes_on() {
    let terminal = three();
    insta::assert_snapshot!(terminal.sessions("archive recip").transcript(), @"
    exit 0
    --- stdout
    --- stderr
    recipe is archived; to bring it back into lists: herma sessions unarchive recipe --data DATA
    ");
    assert!(!terminal.sessions("list").answer().contains("recipe"));
    assert!(terminal.sessions("list --archived").answer().contains("recipe"));
    assert!(terminal.sessions("show recipe").answer().contains("state          open, archived"));
    terminal.run_with_input(&["chat", "--session", "recipe"], "and rolls?\n").answer();
    assert_eq!(json(&terminal.sessions("archive recipe --json"))["archived"], true);
    insta::assert_snapshot!(terminal.sessions("unarchive recipe").transcript(), @"
    exit 0
    --- stdout
    --- stderr
    recipe is in lists again
    ");
    assert_eq!(json(&terminal.sessions("unarchive recipe --json"))["archived"], false);
    let nobody = terminal.sessions("archive nobody");
    assert!(nobody.stderr.contains("no conversation is known by nobody"), "{}", nobody.stderr);
}

#[test]
fn nothing_is_deleted_without_consent() {
    let terminal = three();
    insta::assert_snapshot!(terminal.sessions("delete trip").transcript(), @"
    exit 2
    --- stdout
    --- stderr
    error: nobody can be asked here; to delete it without a question, add --yes
    ");
    let begun = terminal.sessions("delete trip-by --yes");
    assert_eq!(begun.code, 1);
    assert!(begun.stderr.contains("no conversation is known by trip-by;"), "{}", begun.stderr);
    assert!(begun.stderr.contains("give a name or a whole id"), "{}", begun.stderr);
    assert!(!begun.stderr.contains("delete --yes"), "it may be meant for one that is gone: {}", begun.stderr);
    let whole = json(&terminal.sessions("show trip --json"))["conversation_id"].as_str().unwrap().to_owned();
    let short = terminal.sessions(&format!("delete {} --yes", &whole[whole.len() - 8..]));
    assert!(short.stderr.contains(" sessions delete --yes trip"), "{}", short.stderr);
    assert_eq!(terminal.sessions("list --json").answer().lines().count(), 3);
    let nobody = terminal.sessions("delete 0a1b2c3d --yes");
    assert!(!nobody.stderr.contains("whole id"), "nothing begins so: {}", nobody.stderr);
}

#[test]
fn a_conversation_is_deleted_alone_or_with_what_came_from_it() {
    let terminal = three();
    let deleted = json(&terminal.sessions("delete recipe --yes --json"));
    assert_eq!((&deleted["object"], &deleted["removed"]["conversations"]), (&"erasure".into(), &1.into()));
    assert_eq!((&deleted["left"], &deleted["pending"]), (&0.into(), &0.into()), "{deleted}");
    terminal.sessions("delete trip --yes").answer();
    let again = terminal.sessions("delete trip --yes");
    assert!(again.stderr.contains("no conversation is known by trip;"), "{}", again.stderr);
    let kept = terminal.sessions("show trip-by-train");
    assert!(kept.answer().contains("1 you: where is the fjord?"), "{}", kept.stdout);
    terminal.sessions("branch trip-by-train --id twig").answer();
    insta::assert_snapshot!(terminal.sessions("delete trip-by-train --children delete --yes").transcript(), @"
    exit 0
    --- stdout
    --- stderr
    trip-by-train is deleted: 2 conversations, 2 messages, 1 turn
    no file has the text any more
    ");
    assert_eq!(terminal.sessions("list --json").answer(), "");
}

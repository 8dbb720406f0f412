//! `herma chat` at a terminal: typing, keys, pastes, commands, and what the screen shows.

mod at_prompt;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use herma_testkit::upstream::Pace;
use herma_testkit::{Completion, Gate, Reply, ScriptedUpstream};

use crate::Terminal;
use crate::typed::{ALT_ENTER, CTRL_C, CTRL_D, CTRL_R, ENTER, LEFT, TypedCommand, UP};

/// A chat at its first prompt.
fn chat(terminal: &Terminal, arguments: &[&str]) -> TypedCommand {
    let arguments = [&["chat"], arguments].concat();
    begin(&terminal.command(&arguments))
}

fn begin(command: &std::process::Command) -> TypedCommand {
    let mut chat = TypedCommand::start(command);
    chat.shows(is_at_prompt);
    chat
}

/// Whether the last line of the screen is an empty prompt.
fn is_at_prompt(screen: &str) -> bool {
    screen.trim_end_matches('\n').lines().last().is_some_and(|line| line.trim_end() == ">")
}

/// Waits for an answer and the next prompt.
fn answered(chat: &mut TypedCommand, answer: &str) -> String {
    chat.shows(|screen| screen.contains(answer) && is_at_prompt(screen))
}

/// What the model was sent, message by message.
fn messages(upstream: &ScriptedUpstream) -> Vec<String> {
    let request = upstream.last_request();
    let messages = request.body["messages"].as_array().unwrap().iter();
    messages.map(|message| message["content"].as_str().unwrap().to_owned()).collect()
}

/// A chat with a model server that writes down what it is sent.
async fn scripted(upstream: &ScriptedUpstream, terminal: &Terminal) -> TypedCommand {
    let mut command = terminal.command(&["chat", "--session", "trip"]);
    command.env("HERMA_UPSTREAM", upstream.base_url()).env("HERMA_MODEL", "scripted");
    tokio::task::block_in_place(|| begin(&command))
}

#[test]
fn keys_edit_the_line_and_the_history_is_there_in_the_next_chat() {
    let terminal = Terminal::new();
    let mut first = chat(&terminal, &[]);
    first.types("helo");
    first.types(LEFT);
    first.types("l");
    first.types(ENTER);
    answered(&mut first, "You said: hello (message 1");
    first.types("the second");
    first.types(ENTER);
    answered(&mut first, "You said: the second");
    first.types(CTRL_D);
    let end = first.shows(|screen| screen.contains("to continue:"));
    assert!(!end.contains("[D"), "{end}");
    assert_eq!(first.code(), Some(0));

    let mut second = chat(&terminal, &[]);
    second.types(UP);
    second.shows(|screen| screen.contains("> the second"));
    second.types(UP);
    second.shows(|screen| screen.contains("> hello"));
    second.types(ENTER);
    answered(&mut second, "You said: hello (message 1");
    second.types(CTRL_R);
    second.types("seco");
    second.shows(|screen| screen.contains("the second"));
    second.types(ENTER);
    answered(&mut second, "You said: the second (message 2");
    second.types(CTRL_D);
    assert_eq!(second.code(), Some(0));
}

#[test]
fn messages_of_a_deleted_conversation_leave_the_history() {
    let terminal = Terminal::new();
    for (session, text) in [("kept", "what stays"), ("gone", "what goes")] {
        terminal.run(&["chat", "--session", session, text]).answer();
    }
    terminal.run(&["sessions", "delete", "gone", "--yes"]).answer();
    let mut next = chat(&terminal, &[]);
    next.types(UP);
    next.shows(|screen| screen.contains("> what stays"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paste_of_20000_characters_and_three_pasted_lines_are_one_message_each() {
    let upstream = ScriptedUpstream::start().await;
    let terminal = Terminal::new();
    let mut chat = scripted(&upstream, &terminal).await;
    let long = "Oslo in May. ".repeat(1_600);
    upstream.push(Reply::text("it is long"));
    tokio::task::block_in_place(|| {
        chat.pastes(&long);
        chat.types(ENTER);
        answered(&mut chat, "it is long");
    });
    assert_eq!(messages(&upstream), [long.trim_end()]);
    tokio::task::block_in_place(|| {
        chat.pastes("one\ntwo\n/new");
        chat.shows(|screen| screen.contains("two"));
        chat.types(ENTER);
        answered(&mut chat, "reply to: one");
    });
    assert_eq!(messages(&upstream).last().unwrap(), "one\ntwo\n/new");
    tokio::task::block_in_place(|| {
        chat.types("three\\");
        chat.types(ENTER);
        chat.types("four");
        chat.types(ALT_ENTER);
        chat.types("five");
        chat.types(ENTER);
        answered(&mut chat, "reply to: three");
    });
    assert_eq!(messages(&upstream).last().unwrap(), "three\nfour\nfive");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_typed_ahead_does_not_land_in_the_answer_and_waits_for_the_prompt() {
    let upstream = ScriptedUpstream::start().await;
    let gate = Gate::new();
    upstream.push(Completion::chunks(["first ", "second"]).pace(Pace::Gated(gate.clone())).into());
    let terminal = Terminal::new();
    let mut chat = scripted(&upstream, &terminal).await;
    gate.release(1);
    tokio::task::block_in_place(|| {
        chat.types("one");
        chat.types(ENTER);
        chat.until("first");
        chat.types("typed ahead");
        chat.pastes(", a paste\nof two lines");
    });
    gate.open();
    tokio::task::block_in_place(|| {
        let screen = chat.shows(|screen| screen.contains("> typed ahead, a paste\nof two lines"));
        assert!(screen.contains("first second\n"), "{screen}");
        chat.types(ENTER);
        answered(&mut chat, "reply to: typed ahead");
    });
    assert_eq!(messages(&upstream).last().unwrap(), "typed ahead, a paste\nof two lines");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ctrl_c_cancels_the_answer_and_not_the_chat() {
    let upstream = ScriptedUpstream::start().await;
    upstream.push(Reply::hang_after(1));
    let terminal = Terminal::new();
    let mut chat = scripted(&upstream, &terminal).await;
    tokio::task::block_in_place(|| {
        chat.types("one");
        chat.types(ENTER);
        chat.until("chunk1");
        chat.types(CTRL_C);
        answered(&mut chat, "(cancelled)");
        chat.types("two");
        chat.types(ENTER);
        answered(&mut chat, "reply to: two");
    });
    assert_eq!(messages(&upstream).len(), 3, "what was streamed of the cancelled answer is kept");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_typed_ahead_of_ctrl_c_waits_for_the_prompt() {
    let upstream = ScriptedUpstream::start().await;
    upstream.push(Reply::hang_after(1));
    let terminal = Terminal::new();
    let mut chat = scripted(&upstream, &terminal).await;
    tokio::task::block_in_place(|| {
        chat.types("one");
        chat.types(ENTER);
        chat.until("chunk1");
        chat.types("typed ahead");
        chat.types(CTRL_C);
        chat.shows(|screen| screen.contains("(cancelled)") && screen.contains("> typed ahead"));
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_comes_while_the_terminal_changes_its_size_fits_from_then_on() {
    let upstream = ScriptedUpstream::start().await;
    let gate = Gate::new();
    let (before, after) = ("wide ".repeat(14), "narrow ".repeat(20));
    upstream.push(Completion::chunks([before, after]).pace(Pace::Gated(gate.clone())).into());
    let terminal = Terminal::new();
    let mut chat = scripted(&upstream, &terminal).await;
    gate.release(1);
    tokio::task::block_in_place(|| {
        chat.types("one");
        chat.types(ENTER);
        chat.until("wide");
        chat.resize(24, 40);
    });
    gate.open();
    tokio::task::block_in_place(|| {
        let screen = chat.shows(|screen| screen.matches("narrow").count() == 20 && is_at_prompt(screen));
        assert!(screen.lines().any(|line| line.trim_end() == ["narrow"; 5].join(" ")), "{screen}");
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_asked_after_a_cancelled_first_question_and_new_is_not_that_question() {
    let upstream = ScriptedUpstream::start().await;
    upstream.push(Reply::hang_after(1));
    let terminal = Terminal::new();
    let mut command = terminal.command(&["chat"]);
    command.env("HERMA_UPSTREAM", upstream.base_url()).env("HERMA_MODEL", "scripted");
    tokio::task::block_in_place(|| {
        let mut chat = begin(&command);
        chat.types("one");
        chat.types(ENTER);
        chat.until("chunk1");
        chat.types(CTRL_C);
        answered(&mut chat, "(cancelled)");
        chat.types("/new");
        chat.types(ENTER);
        answered(&mut chat, "a new conversation");
        chat.types("two");
        chat.types(ENTER);
        answered(&mut chat, "reply to: two");
    });
    assert_eq!(messages(&upstream), ["two"]);
}

#[test]
fn ctrl_c_twice_at_the_prompt_ends_and_gives_the_terminal_back() {
    let terminal = Terminal::new();
    let mut chat = chat(&terminal, &[]);
    chat.types("never sent");
    chat.types(CTRL_C);
    chat.shows(|screen| screen.contains("Ctrl-C once more") && is_at_prompt(screen));
    chat.types(CTRL_C);
    assert_eq!(chat.code(), Some(0));
    assert_eq!(terminal.sessions("list --all --json").answer(), "");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_is_wrapped_at_words_and_its_markdown_is_shown() {
    let upstream = ScriptedUpstream::start().await;
    let text = "# Oslo\n\nA **capital** with *fjords* and `code`, and many words that do not fit into one line of it.\n\
                - first\n- second";
    upstream.push(Reply::text(text));
    let terminal = Terminal::new();
    let mut chat = scripted(&upstream, &terminal).await;
    tokio::task::block_in_place(|| {
        chat.resize(24, 40);
        chat.types("tell me");
        chat.types(ENTER);
        let screen = answered(&mut chat, "second");
        for line in
            ["Oslo", "A capital with fjords and code, and many", "words that do not fit into one line of", "it."]
        {
            assert!(screen.lines().any(|shown| shown.trim_end() == line), "{line:?} in\n{screen}");
        }
        assert!(screen.contains("• first\n• second"), "{screen}");
        chat.types("a line that is edited while the terminal changes its size");
        chat.resize(24, 60);
        chat.types(" and goes on");
        chat.shows(|screen| screen.replace('\n', "").contains("terminal changes its size and goes on"));
    });
}

#[test]
fn commands_list_switch_branch_undo_and_title() {
    let terminal = Terminal::new();
    terminal.run(&["chat", "--session", "recipe", "flour and water"]).answer();
    let mut chat = chat(&terminal, &["--session", "trip"]);
    let mut say = |text: &str, wanted: &str| {
        chat.types(text);
        chat.types(ENTER);
        answered(&mut chat, wanted)
    };
    say("/help", "/switch ID");
    say("where is Oslo", "(message 1 of");
    say("and Bergen", "(message 2 of");
    say("/undo", "the last turn is taken back");
    say("and Tromsø", "(message 2 of");
    say("/title Norway", "the title is: Norway");
    say("/model", "the model is offline");
    say("/branch By train", "a branch of trip; /switch trip goes back");
    say("by train", "(message 3 of");
    let listed = say("/sessions", "MESSAGES");
    let column = |row: &str, cell: &str| {
        let line = listed.lines().rfind(|line| line.starts_with(row)).unwrap_or_else(|| panic!("{row} in\n{listed}"));
        line.find(cell).unwrap_or_else(|| panic!("{cell} in {line}"))
    };
    for (heading, cell) in [("TITLE", "flour and water"), ("KIND", "main")] {
        assert_eq!(column("NAME", heading), column("recipe", cell), "{listed}");
    }
    say("/switch recipe", "continuing recipe");
    say("and salt", "(message 2 of");
    say("/compact", "error: ");
    say("/nwe", "there is no command /nwe");
    say("/reset", "a new conversation");
    say("fresh", "(message 1 of");
    chat.types("/sw\t");
    chat.shows(|screen| screen.contains("> /switch "));
    chat.types("rec\t");
    chat.shows(|screen| screen.contains("> /switch recipe"));
    chat.types(ENTER);
    answered(&mut chat, "you: and salt");
    chat.types("/copy");
    chat.types(ENTER);
    let last = "You said: and salt (message 2 of this conversation; I am Herma's offline model.)";
    chat.until(&format!("\u{1b}]52;c;{}\u{7}", BASE64_STANDARD.encode(last)));
    answered(&mut chat, "clipboard");
    chat.types("/exit");
    chat.types(ENTER);
    assert_eq!(chat.code(), Some(0));
    let trip = terminal.sessions("show trip").answer().to_owned();
    assert!(trip.contains("Norway") && !trip.contains("by train"), "{trip}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sign_turns_and_counts_while_an_answer_is_awaited() {
    let upstream = ScriptedUpstream::start().await;
    upstream.push(Reply::hang_after(0));
    let terminal = Terminal::new();
    let mut chat = scripted(&upstream, &terminal).await;
    tokio::task::block_in_place(|| {
        chat.types("hello");
        chat.types(ENTER);
        chat.shows(|screen| screen.contains(" s, the model reads about ") && screen.contains(" tokens"));
        chat.types(CTRL_C);
        let screen = answered(&mut chat, "(cancelled)");
        assert!(!screen.contains("the model reads"), "{screen}");
    });
}

#[test]
fn a_list_fits_into_the_terminal_by_the_width_of_its_letters() {
    let terminal = Terminal::new();
    terminal
        .run(&["chat", "--session", "オスロ", "オスロへの旅行を計画しています、五月に一週間ほど滞在したいです"])
        .answer();
    terminal
        .run(&["chat", "--session", "party", "🎉 a party with 👩‍🚀 and more words than fit into a narrow list"])
        .answer();
    let mut list = TypedCommand::start(&terminal.command(&["sessions", "list"]));
    list.until("\u{1b}[33m");
    let screen = list.shows(|screen| screen.contains("オスロ") && screen.contains("party"));
    let lines: Vec<&str> = screen.lines().filter(|line| !line.is_empty()).collect();
    assert_eq!(lines.len(), 3, "each row is one line\n{screen}");
    assert!(lines[1..].iter().all(|line| line.contains('…') && line.contains("main")), "{screen}");
    assert_eq!(list.code(), Some(0));
}

#[test]
fn a_tree_fits_into_terminals_of_every_width_and_marks_what_is_live() {
    let terminal = Terminal::new();
    let long = "北海道から九州まで電車で旅する計画を立てています 🚄 and many more words about it";
    terminal.run(&["chat", "--session", "旅行", long]).answer();
    for (name, of) in [("by-train", "旅行"), ("by-train-at-night-in-winter", "by-train")] {
        terminal.run(&["sessions", "branch", of, "--id", name, "--title", long]).answer();
    }
    for columns in [40, 60, 80, 200] {
        let mut tree = TypedCommand::start_in(&terminal.command(&["sessions", "tree", "旅行"]), 24, columns);
        tree.until("\u{1b}[32mlive");
        let screen = tree.shows(|screen| screen.matches("live").count() == 3);
        let lines: Vec<&str> = screen.lines().filter(|line| !line.is_empty()).collect();
        assert_eq!(lines.len(), 3, "each session is one line of {columns} columns\n{screen}");
        assert!(lines[0].contains("旅行") && lines[0].contains("now") && lines[0].ends_with("live)  ◀"), "{screen}");
        assert!(columns < 80 || lines[2].contains("└─ branch: by-train-at-night"), "{screen}");
        assert!(columns < 80 || lines[0].contains("2 messages"), "{screen}");
        assert_eq!(tree.code(), Some(0));
    }
}

#[test]
fn a_deletion_asks_first_and_names_what_was_typed() {
    let terminal = Terminal::new();
    terminal.run(&["chat", "--session", "gone", "hello"]).answer();
    for (answer, said, code) in [("n", "nothing was deleted", 1), ("y", "gone is deleted: 1 conversation", 0)] {
        let mut delete = TypedCommand::start(&terminal.command(&["sessions", "rm", "gone"]));
        delete.shows(|screen| screen.contains("delete gone (hello) with its 2 messages, for good? [y/N]"));
        delete.types(answer);
        delete.types(ENTER);
        delete.shows(|screen| screen.contains(said));
        assert_eq!(delete.code(), Some(code));
    }
}

/// The lines that a command prints in a terminal of this width.
fn printed(terminal: &Terminal, arguments: &[&str], columns: u16) -> Vec<String> {
    let mut command = TypedCommand::start_in(&terminal.command(arguments), 60, columns);
    let printed = command.rest();
    assert_eq!(command.code(), Some(0), "{arguments:?}");
    let lines = printed.lines().map(|line| line.trim_end().to_owned());
    lines.filter(|line| !line.is_empty()).collect()
}

#[test]
fn facts_and_hits_fit_into_narrow_terminals_and_ids_stay_whole() {
    let terminal = Terminal::new();
    let long = "北海道から九州まで電車で旅する計画を立てています、五月に一週間ほど";
    terminal.run(&["chat", "--session", "a-name-that-is-longer-than-a-narrow-terminal", long]).answer();
    let name = "a-name-that-is-longer-than-a-narrow-terminal";
    let id = terminal.run(&["sessions", "show", name, "--json"]);
    let id = serde_json::from_str::<serde_json::Value>(id.answer()).unwrap();
    let id = id["conversation_id"].as_str().unwrap().to_owned();
    for columns in [40, 60] {
        let shown = printed(&terminal, &["sessions", "show", name], columns);
        assert!(shown.iter().any(|line| line.trim_start().ends_with(&id)), "{shown:#?}");
        let title: String = shown.iter().skip_while(|line| !line.starts_with("title")).take(2).cloned().collect();
        assert!(title.starts_with("title          北海道") && title.contains("               "), "{shown:#?}");
        let hits = printed(&terminal, &["sessions", "search", "電車"], columns);
        assert_eq!(hits.len(), 2, "a heading and a hit\n{hits:#?}");
    }
    terminal.run(&["memory", "add", "--session-key", "agent:main:webui:dm:user-42", "Ann likes trams"]).answer();
    terminal.run(&["keys", "create", "--tenant", "web-shop", "--session-keys", "agent:*"]).answer();
    for (arguments, wanted) in
        [(["memory", "list"], ["SESSION KEY", "Ann likes"]), (["keys", "list"], ["TENANT", "web-shop"])]
    {
        let listed = printed(&terminal, &arguments, 40).join("\n");
        assert_eq!(listed.lines().count(), 2, "a heading and a row\n{listed}");
        assert!(wanted.iter().all(|wanted| listed.contains(wanted)), "{listed}");
    }
    let doctor = printed(&terminal, &["doctor"], 40);
    assert!(doctor.iter().any(|line| line.ends_with("  configuration")), "what was found stands below\n{doctor:#?}");
}

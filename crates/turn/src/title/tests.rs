//! Titles from all kinds of texts and answers, by tables and by properties.

use herma_model::generation::Finish;
use herma_model::{Answer, FinishReason, Payload, Role, Utterance};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{LONGEST, judge, of_messages, of_text, opening, request};
use crate::words;

fn said(role: Role, content: &Value) -> Utterance {
    let payload = Payload::from_json(json!({ "role": role.as_str(), "content": content }).to_string());
    Utterance { role, payload, ..Utterance::partial_text("") }
}

fn answer(text: &str) -> Answer {
    let finish = Finish { reason: FinishReason::Stop, usage: None, model: None, extra: Default::default() };
    Answer {
        content: Some(text.to_owned()),
        refusal: None,
        tool_calls: Vec::new(),
        extra: Default::default(),
        choice_extra: Default::default(),
        finish,
    }
}

#[test]
fn a_title_is_the_beginning_of_what_was_said() {
    for (text, title) in [
        ("Oslo in May", "Oslo in May"),
        ("  Book a table\tfor two.\nAt seven.  ", "Book a table for two"),
        ("What now?", "What now?"),
        ("Well...", "Well..."),
        ("Look at this:\n```\nlet x = 1;\n```", "Look at this"),
        ("## Plan\n- one", "Plan"),
        ("> **quoted** words", "**quoted** words"),
        ("- [ ] **buy milk**", "buy milk"),
        ("1. First, the train", "First, the train"),
        ("2024 was a good year", "2024 was a good year"),
        ("\"Trip to Rome\"", "Trip to Rome"),
        ("'tis \"it\"", "'tis \"it\""),
        ("---\n***\nAfter the rule", "After the rule"),
        ("#hashtag is no heading", "#hashtag is no heading"),
        ("你好。今天天气怎么样？", "你好。今天天气怎么样？"),
        ("Zoe\u{308} asks", "Zoe\u{308} asks"),
    ] {
        assert_eq!(of_text(text).as_deref(), Some(title), "{text:?}");
    }
}

#[test]
fn a_long_beginning_ends_with_a_sentence_or_a_word_or_a_letter() {
    for (text, title) in [
        (
            "Please fix the login page. It shows an error whenever I enter a password that has an umlaut in it.",
            "Please fix the login page",
        ),
        (
            "Hi! I want to write a small web server in Rust that serves files from a directory.",
            "Hi! I want to write a small web server in Rust that serves…",
        ),
        (
            "Can you explain to me how it comes that, in spring, the snow melts?",
            "Can you explain to me how it comes that, in spring, the…",
        ),
        (&"春".repeat(80), &format!("{}…", "春".repeat(59))),
        (&format!("{}e\u{301}{}", "x".repeat(58), "y".repeat(9)), &format!("{}…", "x".repeat(58))),
        (&format!("{}🇳🇴{}", "x".repeat(57), "y".repeat(9)), &format!("{}🇳🇴…", "x".repeat(57))),
    ] {
        assert_eq!(of_text(text).as_deref(), Some(title), "{text:?}");
    }
}

#[test]
fn invisible_characters_are_left_out() {
    for (text, title) in [
        ("a\u{0}b\u{7}c\u{1b}", "abc"),
        ("\u{202e}evil\u{202c} \u{200b}words\u{feff}", "evil words"),
        ("one\u{2028}two", "one"),
        ("a\u{a0}\u{3000}b", "a b"),
        ("tag\u{e0041}ged", "tagged"),
        ("a\u{200d}b 👩\u{200d} \u{200d}🚀 c\u{200d}", "ab 👩 🚀 c"),
        ("“\u{200d}👩 x”", "👩 x"),
    ] {
        assert_eq!(of_text(text).as_deref(), Some(title), "{text:?}");
    }
}

#[test]
fn joiners_stay_where_they_join_and_a_joined_emoji_is_not_cut() {
    for text in ["👩\u{200d}🚀 in orbit", "🏳\u{fe0f}\u{200d}🌈 flag", "می\u{200c}خواهم"] {
        assert_eq!(of_text(text).as_deref(), Some(text));
    }
    let family = "👨\u{200d}👩\u{200d}👧\u{200d}👦";
    for before in 50..59 {
        let whole = format!("{}{family}{}", "x".repeat(before), "y".repeat(20));
        let title = of_text(&whole).unwrap();
        let cut = title.trim_start_matches('x').trim_end_matches('…').trim_end_matches('y');
        assert!(cut.is_empty() || cut == family, "{title:?}");
    }
}

#[test]
fn what_a_front_end_puts_before_the_words_is_left_out() {
    for (text, title) in [
        ("<environment_context>\n<cwd>/tmp</cwd>\n</environment_context>\n\nFix the tests", "Fix the tests"),
        ("<user_instructions>Be brief.</user_instructions><x y=\"1\">z</x> Go on", "Go on"),
        ("<USER_QUERY>\nWhere is it?\n</USER_QUERY>", "Where is it?"),
        ("<task>Rename a</task><environment_details># VSCode</environment_details>", "Rename a"),
        ("Rename a <system-reminder>Never say this.</system-reminder>", "Rename a"),
        ("<!-- internal -->Hello", "Hello"),
        ("```rust\nfn main() {}\n```\nWhy does this not work?", "Why does this not work?"),
        ("<T> in Rust: what is it?", "<T> in Rust: what is it?"),
        ("a <b and c", "a <b and c"),
        ("<3", "<3"),
    ] {
        assert_eq!(of_text(text).as_deref(), Some(title), "{text:?}");
    }
}

#[test]
fn a_text_without_words_of_the_user_makes_no_title() {
    for text in [
        "",
        " \n\t",
        "\u{200b}\u{0}",
        "???",
        "👍",
        "<environment_context><cwd>/tmp</cwd></environment_context>",
        "<system-reminder>that does not end",
        "# AGENTS.md instructions for /tmp\n\n<INSTRUCTIONS>\nBe brief.\n</INSTRUCTIONS>",
        "### Task:\nGenerate a concise title.",
        "```\ncode alone\n```",
    ] {
        assert_eq!(of_text(text), None, "{text:?}");
    }
}

#[test]
fn the_first_words_of_a_person_make_the_title() {
    let picture = json!([{ "type": "image_url", "image_url": { "url": "data:image/png;base64,AAAA" } }]);
    let context = json!("<environment_context>x</environment_context>");
    let messages = [
        said(Role::Assistant, &json!("Welcome, dear user.")),
        said(Role::User, &context),
        said(Role::User, &picture),
        said(Role::Tool, &json!("a result")),
        said(Role::User, &json!([{ "type": "text", "text": "What is on it?" }])),
        said(Role::User, &json!("And that?")),
    ];
    assert_eq!(of_messages(&messages).as_deref(), Some("What is on it?"));
    assert_eq!(opening(&messages), Some(&messages[4]));
    assert_eq!(of_messages(&messages[..4]), None);
    assert_eq!(opening(&messages[2..4]), Some(&messages[2]));
    assert_eq!(opening(&messages[..1]), None);
}

fn content(payload: &Payload) -> String {
    let message: Value = serde_json::from_str(payload.as_json()).unwrap();
    message["content"].as_str().unwrap().to_owned()
}

#[test]
fn a_request_quotes_the_first_exchange_and_ends_with_our_instruction() {
    let asked = said(Role::User, &json!("<environment_context>secret</environment_context>Ignore this.\nAnd that."));
    let [system, question] = &request(Some(&asked.payload), "No.\u{0}")[..] else { panic!("two messages") };
    assert_eq!(content(system), words::TITLER);
    let quoted = "<conversation>\nUser: Ignore this.\nAnd that.\n\nAssistant: No.\n\n</conversation>\n\n";
    assert_eq!(content(question), format!("{quoted}{}", words::ASK_FOR_TITLE));
    let long = said(Role::User, &json!("word ".repeat(10_000)));
    let length =
        request(Some(&long.payload), &"x".repeat(100_000)).iter().map(|said| content(said).len()).sum::<usize>();
    assert!(length < 6_000, "{length}");
    let picture = said(Role::User, &json!([{ "type": "image_url", "image_url": { "url": "data:x" } }]));
    assert!(content(&request(Some(&picture.payload), "")[1]).starts_with("<conversation>\nUser: [image]\n\n</conv"));
}

#[test]
fn what_looks_like_a_title_is_one() {
    for (text, title) in [
        ("Spring Trip to Oslo", "Spring Trip to Oslo"),
        (" \"Spring Trip\"\n", "Spring Trip"),
        ("Title: Spring Trip.", "Spring Trip"),
        ("**Title: \"Spring Trip\"**", "Spring Trip"),
        ("**Title:** Spring Trip", "Spring Trip"),
        ("<think>hm\nwell</think>\nSpring Trip", "Spring Trip"),
        ("Here is a title:\n\n# Spring Trip", "Spring Trip"),
        ("Sp\u{0}ring\u{202e} Trip", "Spring Trip"),
        ("春の旅", "春の旅"),
    ] {
        assert_eq!(judge(&answer(text)).as_deref(), Some(title), "{text:?}");
    }
}

#[test]
fn what_does_not_look_like_a_title_is_none() {
    for text in [
        "",
        "\u{0}\u{200b}",
        "I'm sorry, but I can't help with that.",
        "Oslo is lovely in May.\n\nYou should go by train.",
        "Sure! Here is a summary of all that was said so far, and more besides, because there is always more to say.",
        "Write a title for the conversation above",
        "reply with the title alone.",
        "You give titles to conversations",
        "Title:",
        "<conversation> User: hello",
        "Trip</conversation>",
        &"long ".repeat(2_000),
    ] {
        assert_eq!(judge(&answer(text)), None, "{text:?}");
    }
    for reason in [FinishReason::Length, FinishReason::ContentFilter, FinishReason::ToolCalls] {
        let mut cut = answer("Spring Trip");
        cut.finish.reason = reason;
        assert_eq!(judge(&cut), None);
    }
}

/// Texts that are made of pieces which the rules treat specially.
fn texts() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        any::<char>().prop_map(String::from),
        "[a-zA-Z ]{1,12}",
        "[\u{0}-\u{9f}]{1,3}",
        "[\u{200b}-\u{206f}]{1,3}",
        "[一-龥]{1,40}",
        prop::sample::select(vec![
            "\n",
            "\r\n",
            " ",
            "  ",
            "# ",
            "> ",
            "- ",
            "1. ",
            "**",
            "\"",
            "“",
            "”",
            "`",
            "```",
            "<task>",
            "</task>",
            "<x>",
            "</x>",
            "<system-reminder>",
            "<!--",
            "-->",
            "### Task:",
            ". ",
            "...",
            "…",
            ":",
            "e\u{301}",
            "🇳🇴",
            "👍🏽",
            "👩\u{200d}🚀",
            "\u{200d}",
            "title:",
        ])
        .prop_map(str::to_owned),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

fn is_mark(sign: char) -> bool {
    matches!(sign, '\u{200b}' | '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
}

proptest! {
    #[test]
    fn every_title_is_one_short_line_that_can_be_read(text in texts()) {
        if let Some(title) = of_text(&text) {
            let length = title.chars().count();
            prop_assert!((1..=LONGEST).contains(&length), "{length}");
            prop_assert!(!title.chars().any(char::is_control));
            prop_assert!(title.chars().any(char::is_alphanumeric));
            prop_assert!(!title.chars().any(is_mark), "a mark that is not seen");
            prop_assert_eq!(title.trim(), &title);
            prop_assert!(!title.contains("<system-reminder>"));
        }
    }

    #[test]
    fn the_title_from_a_title_is_that_title(text in texts()) {
        if let Some(title) = of_text(&text) {
            prop_assert_eq!(of_text(&title), Some(title));
        }
    }

    #[test]
    fn whatever_a_model_says_becomes_a_title_or_nothing(text in texts()) {
        if let Some(title) = judge(&answer(&text)) {
            prop_assert_eq!(of_text(&title), Some(title));
        }
    }
}

//! What Herma itself says to a model.

use herma_wire::chat::{not_executed, note};

#[test]
fn an_open_call_is_answered_with_the_truth() {
    insta::assert_snapshot!(not_executed("call \"1\"").as_json(), @r#"{"role":"tool","content":"Not executed: the conversation went on without a result for this call.","tool_call_id":"call \"1\""}"#);
}

#[test]
fn a_note_stands_in_one_message_with_what_was_shown() {
    insta::assert_snapshot!(note(Some("Once upon a "), "The answer broke off here.").as_json(), @r#"{"role":"assistant","content":"Once upon a\n\n[The answer broke off here.]"}"#);
}

#[test]
fn a_note_stands_alone_when_nothing_was_shown() {
    for shown in [None, Some(""), Some(" \n")] {
        assert_eq!(note(shown, "No answer.").as_json(), r#"{"role":"assistant","content":"[No answer.]"}"#);
    }
}

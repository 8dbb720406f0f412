//! Results of calls in Herma's own words, and as they are stored.

use herma_model::CallStatus;
use herma_model::tool::{UNCERTAIN, cut};
use herma_tools::CallEnd;

/// How a call ended: its status, and the text that the model sees.
pub(crate) type Settled = (CallStatus, String);

/// The end of a call as it is stored. The text is cut at `most` characters.
pub(crate) fn settled(end: CallEnd, most: usize) -> Settled {
    match end {
        CallEnd::Result { text, is_error } => {
            let status = if is_error { CallStatus::Failed } else { CallStatus::Done };
            let text = if text.trim().is_empty() { "[The tool gave no output.]".to_owned() } else { cut(text, most) };
            (status, text)
        }
        CallEnd::NotMade(why) => (CallStatus::NotMade, not_made(&why)),
        CallEnd::Uncertain(why) => (CallStatus::Uncertain, cut(format!("{UNCERTAIN}\n{why}"), most)),
    }
}

pub(crate) fn not_made(why: &str) -> String {
    format!("[This call was not made: {}]", sentence(why))
}

pub(crate) fn denied(why: &str) -> Settled {
    (CallStatus::Denied, format!("[This call was denied: {}]", sentence(why)))
}

pub(crate) fn unknown_tool(name: &str) -> Settled {
    (CallStatus::NotMade, not_made(&format!("there is no tool named '{name}'")))
}

/// A sentence with a full stop.
fn sentence(text: &str) -> String {
    let text = text.trim();
    if text.ends_with(['.', '!', '?']) { text.to_owned() } else { format!("{text}.") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_end_has_its_status_and_words() {
        let text = |end| settled(end, 100).1;
        assert_eq!(text(CallEnd::Result { text: " ".to_owned(), is_error: false }), "[The tool gave no output.]");
        assert_eq!(text(CallEnd::NotMade("it is down".to_owned())), "[This call was not made: it is down.]");
        assert_eq!(text(CallEnd::Uncertain("It took too long.".to_owned())), format!("{UNCERTAIN}\nIt took too long."));
        assert_eq!(settled(CallEnd::Result { text: "x".into(), is_error: true }, 9).0, CallStatus::Failed);
    }
}

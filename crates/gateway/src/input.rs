//! Which messages of a request its conversation does not have yet.

use std::collections::HashMap;
use std::sync::Arc;

use herma_model::{Message, MessageStatus, Role, TurnId, Utterance};
use herma_store::Snapshot;
use herma_turn::{Alignment, Transcript, align, align_after, check_tool_results};

use crate::compaction::transcript;
use crate::error::{GatewayError, InvalidRequest};
use crate::history::KnownPart;
use crate::request::TurnRequest;
use crate::tools::decisions::{answers_open_question, repeated_turn};

/// The last answer of a conversation, if a request that only adds messages begins with it. Some clients store what they
/// were answered as an item again.
pub(crate) fn repeated_output<'t>(request: &TurnRequest, transcript: Transcript<'t>) -> Option<&'t Arc<Message>> {
    let last = transcript.messages.last().filter(|last| last.id.is_answer() && last.said.role == Role::Assistant)?;
    let first = request.input.messages.first()?;
    let is_answered = last.said.status == MessageStatus::Complete && transcript.ending(last.turn).is_none();
    (is_answered && last.said.is_repeated_by(first)).then_some(last)
}

/// What a request adds to its conversation.
pub(crate) struct Input<'a> {
    pub(crate) new: &'a [Utterance],
    /// The unanswered last turn that it repeats.
    pub(crate) retry_of: Option<TurnId>,
    /// The unanswered turn, not the last one, that it repeats.
    pub(crate) anew_of: Option<TurnId>,
}

impl<'a> Input<'a> {
    /// Aligns a request with its conversation. `None` if more of the conversation has to be read to decide.
    pub(crate) fn of(
        request: &'a TurnRequest,
        before: Option<&Snapshot>,
        known: &KnownPart,
    ) -> Option<Result<Self, GatewayError>> {
        let (unanswered, begun_anew) = (HashMap::new(), HashMap::new());
        let empty = Transcript {
            base: None,
            messages: &[],
            rewound: &[],
            whole: true,
            unanswered: &unanswered,
            begun_anew: &begun_anew,
        };
        let transcript = before.map_or(empty, transcript);
        if request.input.all_new {
            let new_from = usize::from(repeated_output(request, transcript).is_some());
            return Some(Self::check(request, transcript, Alignment { new_from, retry_of: None }));
        }
        let messages = &request.input.messages;
        let alignment = match known {
            KnownPart::ByAlignment => align(messages, transcript)?,
            KnownPart::First(known) => align_after(messages, *known, transcript)?,
            KnownPart::Replaced(replacement) if replacement.new_from < messages.len() => {
                align_after(messages, replacement.new_from, transcript)?
            }
            KnownPart::All | KnownPart::Replaced(_) => {
                return Some(Ok(Self { new: &[], retry_of: None, anew_of: None }));
            }
        };
        Some(Self::check(request, transcript, alignment))
    }

    /// A further attempt of a conversation's only turn, if that has no answer. The request must have the same messages.
    pub(crate) fn of_only_turn(conversation: &Snapshot) -> Option<Self> {
        let turn = conversation.messages.first()?.turn;
        let is_only = conversation.messages.iter().all(|message| message.turn == turn);
        let repeats = is_only && conversation.unanswered.contains_key(&turn);
        repeats.then_some(Self { new: &[], retry_of: Some(turn), anew_of: None })
    }

    fn check(request: &'a TurnRequest, transcript: Transcript<'_>, alignment: Alignment) -> Result<Self, GatewayError> {
        let new = &request.input.messages[alignment.new_from..];
        let says_nothing = new.is_empty() && !answers_open_question(request, transcript);
        let repeats_decisions = || repeated_turn(request, transcript).filter(|_| says_nothing);
        let retry_of = alignment.retry_of.or_else(repeats_decisions);
        if says_nothing && retry_of.is_none() && !request.input.all_new {
            return Err(GatewayError::Invalid(InvalidRequest::NothingNew));
        }
        check_tool_results(transcript, new).map_err(|bad| {
            let place = request.input.indices.get(alignment.new_from + bad.index).copied().unwrap_or(bad.index);
            GatewayError::Invalid(InvalidRequest::ToolResult { reason: bad.reason, message: Some(place) })
        })?;
        Ok(Self { new, retry_of, anew_of: None })
    }

    /// The same input for a turn of its own, which cannot be a further attempt of the turn that it repeats. The
    /// messages of that turn are new messages of this one. Decisions of that turn cannot be made again.
    pub(crate) fn into_new_turn(self, request: &'a TurnRequest, known: &KnownPart) -> Result<Self, GatewayError> {
        if self.retry_of.is_none() {
            return Ok(self);
        }
        let messages = &request.input.messages;
        let answered = || messages.iter().rposition(|said| said.role == Role::Assistant);
        let new_from = match known {
            KnownPart::Replaced(replacement) => replacement.new_from,
            KnownPart::ByAlignment | KnownPart::First(_) | KnownPart::All => answered().map_or(0, |at| at + 1),
        };
        let new = &messages[new_from..];
        if new.is_empty() && !request.input.approvals.is_empty() {
            return Err(GatewayError::Invalid(InvalidRequest::NothingNew));
        }
        Ok(Self { new, retry_of: None, anew_of: None })
    }
}

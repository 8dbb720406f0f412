//! What a request says that its conversation does not know yet.

use std::collections::HashMap;

use herma_model::{Role, TurnId, Utterance};
use herma_store::Snapshot;
use herma_turn::{Alignment, Transcript, align, check_tool_results};

use crate::compaction::transcript;
use crate::error::{GatewayError, InvalidRequest};
use crate::request::TurnRequest;

/// What a request adds to its conversation.
pub(crate) struct Input<'a> {
    pub(crate) new: &'a [Utterance],
    /// The unanswered last turn that it says again.
    pub(crate) retry_of: Option<TurnId>,
    /// The unanswered turn, not the last one, that it says again.
    pub(crate) anew_of: Option<TurnId>,
}

impl<'a> Input<'a> {
    /// Aligns a request with its conversation; `None` if more of that has to be read first.
    pub(crate) fn of(request: &'a TurnRequest, before: Option<&Snapshot>) -> Option<Result<Self, GatewayError>> {
        let nobody = HashMap::new();
        let nowhere = HashMap::new();
        let nothing = Transcript {
            base: None,
            messages: &[],
            rewound: &[],
            whole: true,
            unanswered: &nobody,
            begun_anew: &nowhere,
        };
        let transcript = before.map_or(nothing, transcript);
        if request.input.all_new {
            return Some(Self::check(request, transcript, Alignment { new_from: 0, retry_of: None }));
        }
        let alignment = align(&request.input.messages, transcript)?;
        Some(Self::check(request, transcript, alignment))
    }

    /// Another attempt of a conversation's only turn, if that has no answer. The request says the same, word for word.
    pub(crate) fn of_only_turn(conversation: &Snapshot) -> Option<Self> {
        let turn = conversation.messages.first()?.turn;
        let is_only = conversation.messages.iter().all(|message| message.turn == turn);
        let repeats = is_only && conversation.unanswered.contains_key(&turn);
        repeats.then_some(Self { new: &[], retry_of: Some(turn), anew_of: None })
    }

    fn check(request: &'a TurnRequest, transcript: Transcript<'_>, alignment: Alignment) -> Result<Self, GatewayError> {
        let new = &request.input.messages[alignment.new_from..];
        if new.is_empty() && alignment.retry_of.is_none() && !request.input.all_new {
            return Err(GatewayError::Invalid(InvalidRequest::NothingNew));
        }
        check_tool_results(transcript, new).map_err(|bad| {
            let place = request.input.indices.get(alignment.new_from + bad.index).copied().unwrap_or(bad.index);
            GatewayError::Invalid(InvalidRequest::ToolResult { reason: bad.reason, message: Some(place) })
        })?;
        Ok(Self { new, retry_of: alignment.retry_of, anew_of: None })
    }

    /// The same input for a turn whose id was given out, so that it cannot become a further attempt of another one: what that one
    /// was asked is asked again.
    pub(crate) fn into_new_turn(self, request: &'a TurnRequest) -> Self {
        if self.retry_of.is_none() {
            return self;
        }
        let answered = request.input.messages.iter().rposition(|said| said.role == Role::Assistant);
        Self { new: &request.input.messages[answered.map_or(0, |at| at + 1)..], retry_of: None, anew_of: None }
    }
}

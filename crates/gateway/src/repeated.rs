//! The turn that a request repeats, as the store says, and what follows from the state of that turn.

use herma_model::{TurnId, TurnState, Utterance};
use herma_store::{Scope, Snapshot};
use herma_turn::check_tool_results;

use crate::admission::PendingAdmission;
use crate::compaction::transcript;
use crate::error::{GatewayError, InvalidRequest};
use crate::input::Input;

/// A turn that a request repeats.
pub(crate) enum Repeated {
    /// It was answered or cancelled. Its outcome is the outcome of the request.
    Over(TurnId),
    /// It has no answer. This was its input, without decisions about calls.
    Unanswered(TurnId, Vec<Utterance>),
}

impl Repeated {
    /// The turn, if it can be tried again.
    pub(crate) fn unanswered(&self) -> Option<TurnId> {
        match self {
            Self::Over(_) => None,
            Self::Unanswered(turn, _) => Some(*turn),
        }
    }

    /// The input of a further attempt. If alignment has found that the turn is the last one, the attempt continues at
    /// its place. Otherwise it begins anew at the end, with the first input of the turn.
    pub(crate) fn input<'a>(
        &'a self,
        aligned: Result<Input<'a>, GatewayError>,
        before: &Snapshot,
    ) -> Result<Input<'a>, GatewayError> {
        let Self::Unanswered(turn, asked) = self else { return aligned };
        if aligned.as_ref().is_ok_and(|input| input.retry_of == Some(*turn)) {
            return aligned;
        }
        if asked.is_empty() {
            return Err(GatewayError::Invalid(InvalidRequest::QuestionClosed));
        }
        check_tool_results(transcript(before), asked)
            .map_err(|bad| GatewayError::Invalid(InvalidRequest::ToolResult { reason: bad.reason, message: None }))?;
        Ok(Input { new: asked, retry_of: None, anew_of: Some(*turn) })
    }
}

impl PendingAdmission<'_> {
    /// The state of the turn that a request repeats. `None` while it waits or runs, and if it never began or its input
    /// was deleted.
    pub(crate) async fn repeated(&self, scope: &Scope, turn: TurnId) -> Result<Option<Repeated>, GatewayError> {
        let Some(earlier) = self.gateway.store.turn(scope, turn).await? else { return Ok(None) };
        Ok(match earlier.state {
            TurnState::Queued | TurnState::Running => None,
            TurnState::Completed => Some(Repeated::Over(turn)),
            TurnState::Failed | TurnState::Cancelled | TurnState::Interrupted if earlier.called_off => {
                Some(Repeated::Over(turn))
            }
            TurnState::Failed | TurnState::Cancelled | TurnState::Interrupted => {
                let is_message = |said: &&Utterance| said.decision().is_none();
                let asked = earlier.input.iter().map(|message| &message.said).filter(is_message).cloned().collect();
                (earlier.has_begun && !earlier.input.is_empty()).then_some(Repeated::Unanswered(turn, asked))
            }
        })
    }
}

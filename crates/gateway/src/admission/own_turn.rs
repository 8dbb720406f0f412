//! Whether a request with the input of an unanswered turn is a turn of its own.

use herma_model::TurnState;
use herma_store::{RetryIdentity, Scope, Snapshot, TurnRecord};

use crate::admission::PendingAdmission;
use crate::error::GatewayError;
use crate::gateway::Registered;
use crate::input::Input;
use crate::waiting::Waiting;

/// Whether a request with the input of an unanswered turn is a turn of its own.
pub(super) enum OwnTurn {
    /// It is a further attempt of that turn.
    No,
    /// It is a turn of its own.
    Yes,
    /// It is a turn of its own if the history comes from the store. A cached one may be old: another process may have
    /// tried the turn since.
    YesIfFresh,
}

impl PendingAdmission<'_> {
    /// Whether a request with the input of an unanswered turn is a turn of its own.
    ///
    /// - A turn that was visible while queued keeps its end until the very same request comes again.
    /// - A turn that was cancelled by its id stays cancelled.
    /// - A response never becomes a run, nor a run a response.
    pub(super) async fn is_own_turn(
        &self,
        scope: &Scope,
        input: &Input<'_>,
        before: Option<&Snapshot>,
        waiting: &Waiting<'_>,
        retry: &RetryIdentity,
    ) -> Result<OwnTurn, GatewayError> {
        let Some(earlier) = input.retry_of else { return Ok(OwnTurn::No) };
        let attempt_of = waiting.attempt_of.as_ref().map(Registered::turn);
        let has_own_id = (waiting.ticket.is_some() || self.takes_over) && attempt_of != Some(earlier);
        if self.request.is_visible_while_queued() && (has_own_id || !retry.may_repeat()) {
            return Ok(OwnTurn::Yes);
        }
        let Some(earlier) = self.gateway.store.turn(scope, earlier).await? else { return Ok(OwnTurn::No) };
        let is_another_kind = self.request.options.response.is_some() && earlier.echo.is_some();
        Ok(match before {
            _ if earlier.called_off || is_another_kind && &*earlier.api != self.request.identity.route => OwnTurn::Yes,
            Some(before) if continued_elsewhere(&earlier, before) => OwnTurn::YesIfFresh,
            _ => OwnTurn::No,
        })
    }
}

/// True if an unanswered turn cannot be tried again at its place, because it continued at another place. There are two
/// cases: a rewind hides the place where the turn began anew and perhaps was answered, or the conversation is a branch
/// that was rewound to a turn of its source.
fn continued_elsewhere(earlier: &TurnRecord, before: &Snapshot) -> bool {
    let visible_attempt = before.unanswered.get(&earlier.id).map(|unanswered| unanswered.attempt);
    earlier.facts.id != before.facts.id
        || earlier.state == TurnState::Completed
        || !earlier.state.is_live() && visible_attempt.is_some_and(|attempt| attempt < earlier.attempt)
}

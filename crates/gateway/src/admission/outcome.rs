//! What follows from the store's answer to an admission.

use herma_model::alias::Namespace;
use herma_model::{Alias, ConversationId, HistoryDigest, Resolution, TurnId};
use herma_store::{AdmitOutcome, Refusal, Running, Scope};

use crate::admission::ask::{AdmissionContext, AskProgress, Opening};
use crate::admission::by_history::end_of_compacted;
use crate::admission::failure::refused;
use crate::admission::{Admitted, AdmittedTurn, PendingAdmission, own_alias};
use crate::error::GatewayError;
use crate::line::Moment;
use crate::log::SessionView;
use crate::request::ConversationRef;
use crate::waiting::Waiting;

impl<'a> PendingAdmission<'a> {
    /// Ends the asking, or prepares the next round and returns `None`. A queued turn waits here. `asked` is a moment
    /// before the store was asked.
    pub(super) async fn take_outcome(
        &mut self,
        scope: &Scope,
        outcome: AdmitOutcome,
        context: AdmissionContext,
        asked: Moment,
        progress: &mut AskProgress,
        waiting: &mut Waiting<'a>,
    ) -> Result<Option<Admitted>, GatewayError> {
        match outcome {
            AdmitOutcome::Running(running) => {
                let client_history = progress.history.as_ref().map(|asked| asked.whole(&self.request.input).history);
                let admitted = self.admitted(scope, *running, context, &progress.conversation, client_history);
                return admitted.await.map(Some);
            }
            AdmitOutcome::Queued { ticket, facts, running, since, attempt_of } => {
                self.note_queued(&context, attempt_of, progress, waiting);
                // It keeps its place, although another conversation may become the current one meanwhile.
                if progress.conversation.is_current() {
                    progress.conversation = by_id(facts.id)?;
                }
                let turn = attempt_of.unwrap_or(self.turn);
                let view = SessionView {
                    facts,
                    requested: self.request.destination.conversation.name(),
                    resolution: Resolution::Head,
                    rotated: false,
                    revision: None,
                };
                self.wait(waiting, (ticket, asked), (turn, since), view, running).await?;
            }
            AdmitOutcome::Joined(turn) => return Ok(Some(Admitted::Joined(turn))),
            AdmitOutcome::NeverBegan(turn) => return Ok(Some(Admitted::NeverBegan(turn))),
            AdmitOutcome::RetryIn(conversation, turn) => {
                if progress.repeated.replace(turn) == Some(turn) {
                    progress.stale += 1;
                }
                let is_named = matches!(progress.conversation, ConversationRef::Named { .. });
                if !is_named || conversation != context.conversation {
                    progress.conversation = by_id(conversation)?;
                }
            }
            AdmitOutcome::Reopen(conversation) => {
                progress.conversation = by_id(conversation)?;
                progress.opening = Opening::Repeats;
            }
            AdmitOutcome::Waiting(turn) => {
                progress.waiting = Some(turn);
                progress.stale += 1;
            }
            AdmitOutcome::Stale => {
                progress.waiting = None;
                progress.stale += 1;
            }
            // What was read from the cache did not say so. The next round reads the store, and makes a branch.
            AdmitOutcome::Refused(Refusal::Ended) if progress.conversation == ConversationRef::ByHistory => {
                progress.stale += 1;
            }
            AdmitOutcome::Refused(_) if progress.opening == Opening::Repeats => self.open_own(progress),
            AdmitOutcome::Refused(refusal) => {
                return Err(match (refusal, context.flaw) {
                    (Refusal::NotRepeated, Some(flaw)) => flaw,
                    (Refusal::NotFound, _) if matches!(progress.conversation, ConversationRef::After(_)) => {
                        GatewayError::previous_not_found()
                    }
                    (refusal, _) => refused(&refusal),
                });
            }
        }
        Ok(None)
    }

    /// A turn that has just got the lease, with the history before it.
    async fn admitted(
        &self,
        scope: &Scope,
        running: Running,
        context: AdmissionContext,
        conversation: &ConversationRef,
        client_history: Option<HistoryDigest>,
    ) -> Result<Admitted, GatewayError> {
        // The named conversation was busy, and the policy of the request is to branch.
        let has_branched = running.resolution == Resolution::Branched && context.is_to_continue;
        let before = if has_branched { Some(self.inherited(scope, &running).await?) } else { context.before };
        let alias = self.cached_as(&running, conversation, has_branched)?;
        let is_anew = context.anew_of.is_some();
        let replacement = context.replacement;
        let admitted = AdmittedTurn { running, is_anew, before, alias, client_history, replacement };
        Ok(Admitted::Running(Box::new(admitted)))
    }

    /// The name under which the conversation is cached: the one by which the next request will probably ask for it.
    fn cached_as(
        &self,
        running: &Running,
        conversation: &ConversationRef,
        has_branched: bool,
    ) -> Result<Alias, GatewayError> {
        match conversation {
            ConversationRef::Named { .. } if has_branched => own_alias(running.facts.head.id.as_str()),
            ConversationRef::Named { alias, .. } => Ok(alias.clone()),
            // The next request of this client is found by this turn.
            ConversationRef::ByHistory => own_alias(&running.turn.as_run().to_string()),
            _ if self.request.options.response.is_some() => own_alias(&running.turn.as_response().to_string()),
            ConversationRef::New | ConversationRef::Stateless | ConversationRef::After(_) => {
                own_alias(running.facts.head.id.as_str())
            }
        }
    }

    /// Notes which turn the request is an attempt of while it waits. Other turns may be answered meanwhile, so later
    /// rounds could not find it by alignment.
    fn note_queued(
        &self,
        context: &AdmissionContext,
        attempt_of: Option<TurnId>,
        progress: &mut AskProgress,
        waiting: &mut Waiting<'a>,
    ) {
        if let Some(replacement) = &context.replacement {
            let messages = &self.request.input.messages;
            progress.compacted_after = end_of_compacted(messages, replacement, context.before.as_ref());
        }
        if self.request.shows_its_own_history_alone() {
            // It waits as a turn of its own. If others are answered meanwhile, its history leads to a branch.
            if progress.repeated.is_some() {
                progress.search_again(self.request);
            }
            return;
        }
        progress.repeated = match waiting.ticket {
            // In its first round in the queue the request's own id becomes visible, unless it waits under another one.
            None if self.request.is_visible_while_queued() => attempt_of,
            _ => progress.repeated.or(context.retry_of.filter(|_| context.is_retry)),
        };
        if let Some(turn) = attempt_of {
            waiting.attempt_of = Some(self.registered.again(turn));
        }
    }
}

/// A conversation that exists, by its id.
fn by_id(conversation: ConversationId) -> Result<ConversationRef, GatewayError> {
    let alias = own_alias(&conversation.to_string())?;
    Ok(ConversationRef::Named { alias, namespace: Namespace::Session, must_exist: true })
}

//! Waiting in line until the lease can be asked for again.
//!
//! Every turn in line waits for its place, and for a notice that its row in the store no longer waits. The first turn
//! in line also waits for the store's notice that the conversation is free.

use std::time::Duration;

use herma_model::{ConversationId, Timestamp, TurnId};
use herma_store::{Notice, Subscription, Ticket, TurnPolicy};
use herma_turn::Stop;
use tokio::time::Instant;

use crate::admission::{PendingAdmission, cancelled};
use crate::error::GatewayError;
use crate::gateway::Registered;
use crate::line::{Moment, PlaceInLine};
use crate::log::{SessionView, TurnEvent};

/// How often the first turn in line asks without a notice. So it finds that the running turn's process has died, or
/// that a turn did not obey an interrupt in time. Every other change sends a notice.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// The state of a request in the queue. Empty before it is queued.
pub(crate) struct Waiting<'a> {
    /// Its place in the store's queue.
    pub(crate) ticket: Option<Ticket>,
    /// Its place in the line of this process.
    pub(crate) line: Option<InLine>,
    /// Its entry under the id of an unanswered turn. Set if the request waits as a further attempt of that turn, and
    /// clients know the id.
    pub(crate) attempt_of: Option<Registered<'a>>,
    /// When it gives up.
    until: Instant,
}

impl Waiting<'_> {
    pub(crate) const fn new(until: Instant) -> Self {
        Self { ticket: None, line: None, attempt_of: None, until }
    }
}

/// A turn's place in line, and the notices that can end its waiting.
pub(crate) struct InLine {
    place: PlaceInLine,
    conversation: ConversationId,
    /// Notified when the turn's row no longer waits.
    ended: Subscription,
    /// Notified when the conversation is free. Only while the turn is the first in line.
    free: Option<Subscription>,
    /// Whether the turn asks for the lease now.
    is_asking: bool,
}

impl InLine {
    /// Leaves without the lease. If the lease may be free, the next in line is woken.
    pub(crate) fn give_up(self) {
        self.place.give_up(self.is_asking);
    }

    /// Waits until the turn should ask for the lease, or a drain begins. Cancel-safe.
    async fn until_worth_asking(&mut self, pending: &PendingAdmission<'_>) {
        while !self.place.may_ask() && !pending.gateway.is_draining() {
            // A closed store ends the subscription. The next question to it returns the error.
            if self.place.is_first() {
                let subscribe = || pending.gateway.store.subscribe(Notice::ConversationFree(self.conversation));
                let free = self.free.get_or_insert_with(subscribe);
                tokio::select! {
                    () = self.place.changed() => {}
                    _ = free.notified() => return,
                    _ = self.ended.notified() => return,
                    () = tokio::time::sleep(LOOK_AGAIN) => return,
                }
            } else {
                self.free = None;
                tokio::select! {
                    () = self.place.changed() => {}
                    _ = self.ended.notified() => return,
                }
            }
        }
    }
}

impl<'a> PendingAdmission<'a> {
    /// Waits until the turn should ask again. `asked` is a moment before the admission that gave the ticket.
    pub(crate) async fn wait(
        &mut self,
        waiting: &mut Waiting<'a>,
        (ticket, asked): (Ticket, Moment),
        (turn, since): (TurnId, Timestamp),
        view: SessionView,
        running: Option<TurnId>,
    ) -> Result<(), GatewayError> {
        if let Some(running) = running.filter(|_| self.request.destination.policy == TurnPolicy::Interrupt) {
            self.gateway.live.stop(running, Stop::Interrupt);
        }
        waiting.ticket = Some(ticket);
        let line = match &mut waiting.line {
            Some(line) => line,
            none => {
                let conversation = view.facts.id;
                self.log.push(TurnEvent::Queued { turn, since, session: view });
                none.insert(InLine {
                    place: self.gateway.live.lines.join(conversation, self.request.destination.policy, ticket, asked),
                    conversation,
                    ended: self.gateway.store.subscribe(Notice::WaitEnded(self.turn)),
                    free: None,
                    is_asking: false,
                })
            }
        };
        line.is_asking = false;
        let (until, pending) = (waiting.until, &*self);
        let mut stopped = pending.stop.clone();
        tokio::select! {
            () = line.until_worth_asking(pending) => {}
            () = tokio::time::sleep_until(until) => {
                let running = running.unwrap_or(self.turn);
                return Err(GatewayError::busy(running));
            }
            stop = stopped.wait_for(Option::is_some) => {
                drop(stop);
                return Err(cancelled());
            }
        }
        if self.gateway.is_draining() {
            return Err(GatewayError::Draining);
        }
        line.is_asking = true;
        Ok(())
    }
}

//! Turns that wait for a person and that no prompt of this connection waits for: an earlier connection has ended
//! while it asked. A load or a resume asks again, and a new prompt denies what was asked.

use std::sync::Arc;

use herma_model::Role;
use herma_store::{ConversationRow, Entry, MessageRange, Order, Pin, TurnRecord};

use crate::agent::{Agent, ORIGIN};
use crate::error::of_session;
use crate::in_flight::Place;
use crate::schema::Error;
use crate::session::OpenSession;
use crate::turn::TurnTeller;

impl Agent {
    /// The parked turn of a session, if an editor's prompt has begun it.
    async fn parked_turn(&self, session: &OpenSession, row: &ConversationRow) -> Option<TurnRecord> {
        if !row.running {
            return None;
        }
        let newest = MessageRange { order: Order::NewestFirst { before: None }, limit: 1, pin: Pin::Head };
        let page = self.sessions().messages(&session.alias, newest).await.ok()?;
        let Some(Entry::Said(message)) = page.entries.first() else { return None };
        let asks = message.said.role == Role::Assistant && message.said.own_calls().iter().any(|call| call.asks);
        let record = self.sessions().turn(message.turn, ORIGIN.source).await.ok().filter(|_| asks)?;
        record.parked.then_some(record)
    }

    /// Ends the parked turn of a session, if there is one: its calls were not allowed.
    pub(crate) async fn deny_parked_turn(&self, session: &OpenSession, row: &ConversationRow) -> Result<(), Error> {
        let Some(parked) = self.parked_turn(session, row).await else { return Ok(()) };
        let denied = self.gateway.cancel(&self.principal, parked.id).await;
        denied.map_err(|error| of_session(&session.id, &error))
    }

    /// What is to be asked again of a session that was just taken up. A prompt that comes from now on supersedes it.
    pub(crate) async fn open_questions(
        &self,
        session: Arc<OpenSession>,
        row: ConversationRow,
    ) -> Option<OpenQuestions> {
        let turn = self.parked_turn(&session, &row).await?;
        let place = self.in_flight.enter_own(session.id.clone());
        Some(OpenQuestions { session, row, turn, place })
    }

    /// Asks again, and tells how the turn goes on. Returns at once.
    pub(crate) fn ask_again(self: &Arc<Self>, open: OpenQuestions) {
        let agent = Arc::clone(self);
        self.in_background(async move {
            let OpenQuestions { session, row, turn, mut place } = open;
            let handle = agent.gateway.read_again(&agent.principal, turn.id, None);
            let teller = TurnTeller::new(&agent, &session, row.editor.model.as_deref()).knowing(&turn);
            // No prompt waits for the outcome, so only the updates are told.
            let _ = teller.follow(handle, &mut place.stop).await;
        });
    }
}

/// A parked turn that is to ask again.
pub(crate) struct OpenQuestions {
    session: Arc<OpenSession>,
    row: ConversationRow,
    turn: TurnRecord,
    place: Place,
}

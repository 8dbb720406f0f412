//! Remembers the last response of a connection that is not stored, so that the next turn can continue from it.
//!
//! It holds one response: the last one without a conversation. A request that continues from it takes it out, so it is
//! also lost if that request fails.

use herma_gateway::Finished;
use herma_model::limits::MAX_REQUEST_MESSAGES;
use herma_model::{Payload, ResponseId, Utterance};
use herma_wire::responses::ResponsesRequest;

/// The messages of a request and, once it is remembered, the answer.
pub(super) struct RememberedMessages {
    system: Vec<Payload>,
    messages: Vec<Utterance>,
}

/// The memory of one connection.
#[derive(Default)]
pub(super) struct Memory {
    last: Option<(ResponseId, RememberedMessages)>,
}

impl Memory {
    /// If the request continues from the remembered response, puts the remembered messages before its own and removes
    /// its `previous_response_id`.
    ///
    /// A request with `store: true` gets nothing: it would store messages that were not to be stored.
    pub(super) fn recall(&mut self, asked: &mut ResponsesRequest) {
        let Some(before) = self.take(asked.previous_response_id.as_deref()) else { return };
        if asked.store {
            return;
        }
        asked.previous_response_id = None;
        asked.indices.splice(..0, before.messages.iter().map(|_| 0));
        asked.messages.splice(..0, before.messages);
        asked.system.splice(..0, before.system);
    }

    /// Forgets the response that an unreadable request wanted to continue from.
    pub(super) fn forget(&mut self, previous: Option<&str>) {
        drop(self.take(previous));
    }

    fn take(&mut self, previous: Option<&str>) -> Option<RememberedMessages> {
        let previous = previous?.parse::<ResponseId>().ok()?;
        self.last.take_if(|(id, _)| *id == previous).map(|(_, remembered)| remembered)
    }

    /// Remembers a request and its answer, if the turn has no conversation and both together fit into one request.
    pub(super) fn remember(&mut self, mut remembered: RememberedMessages, finished: &Finished, most_bytes: usize) {
        if finished.session.is_some() {
            return;
        }
        remembered.messages.push(finished.message.said.clone());
        let fits = remembered.messages.len() < MAX_REQUEST_MESSAGES && remembered.bytes() <= most_bytes;
        self.last = fits.then(|| (finished.turn.as_response(), remembered));
    }
}

impl RememberedMessages {
    /// The messages of a request, without an answer.
    pub(super) fn of_request(asked: &ResponsesRequest) -> Self {
        Self { system: asked.system.clone(), messages: asked.messages.clone() }
    }

    fn bytes(&self) -> usize {
        let messages = self.messages.iter().map(|message| &message.payload);
        messages.chain(&self.system).map(|payload| payload.as_json().len()).sum()
    }
}

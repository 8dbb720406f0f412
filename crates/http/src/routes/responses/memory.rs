//! What a connection remembers of a response that nothing else keeps, so that its next turn can go on from it.
//!
//! One response at a time: the last one that belongs to no conversation. Who goes on from it takes it out, so what fails is forgotten.

use herma_gateway::Finished;
use herma_model::limits::MAX_REQUEST_MESSAGES;
use herma_model::{Payload, ResponseId, Utterance};
use herma_wire::responses::ResponsesRequest;

/// Everything that was said up to a response, with it or without.
pub(super) struct Said {
    system: Vec<Payload>,
    messages: Vec<Utterance>,
}

/// The memory of one connection.
#[derive(Default)]
pub(super) struct Memory {
    last: Option<(ResponseId, Said)>,
}

impl Memory {
    /// Puts what is remembered in front of a request that goes on from it, in place of its `previous_response_id`.
    ///
    /// A request that is to be stored cannot: it would keep what was not to be kept.
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

    /// Forgets what a request wanted to go on from that could not even be read.
    pub(super) fn forget(&mut self, previous: Option<&str>) {
        drop(self.take(previous));
    }

    fn take(&mut self, previous: Option<&str>) -> Option<Said> {
        let previous = previous?.parse::<ResponseId>().ok()?;
        self.last.take_if(|(id, _)| *id == previous).map(|(_, said)| said)
    }

    /// Remembers what was said and what was answered, if that is kept nowhere and is no more than one request may be.
    pub(super) fn remember(&mut self, mut said: Said, finished: &Finished, most_bytes: usize) {
        if finished.session.is_some() {
            return;
        }
        said.messages.push(finished.message.said.clone());
        let fits = said.messages.len() < MAX_REQUEST_MESSAGES && said.bytes() <= most_bytes;
        self.last = fits.then(|| (finished.turn.as_response(), said));
    }
}

impl Said {
    /// What a request says.
    pub(super) fn by(asked: &ResponsesRequest) -> Self {
        Self { system: asked.system.clone(), messages: asked.messages.clone() }
    }

    fn bytes(&self) -> usize {
        let messages = self.messages.iter().map(|said| &said.payload);
        messages.chain(&self.system).map(|payload| payload.as_json().len()).sum()
    }
}

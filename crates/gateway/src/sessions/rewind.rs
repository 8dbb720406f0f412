//! Goes back to an earlier message of a conversation, and undoes that.

use herma_model::{Alias, Principal};
use herma_store::{ConversationRow, ExpectedRevision, Rewind, RewindOutcome, RewindPoint, Scope};

use crate::error::{Conflict, Field, GatewayError, InvalidRequest};
use crate::gateway::Gateway;
use crate::mint;

/// A rewind that a caller wants made or undone.
#[derive(Debug, Clone)]
pub struct RewindRequest {
    /// Who asks.
    pub principal: Principal,
    /// A name of the conversation.
    pub alias: Alias,
    /// The revision at which the conversation has to be, if the request says so.
    pub expected: Option<ExpectedRevision>,
}

impl RewindRequest {
    fn scope(&self) -> Scope {
        Scope::of(&self.principal).expecting(self.expected.clone())
    }
}

impl Gateway {
    /// Ends the model's view of a conversation at an earlier message. Does not wait for a running turn. Durable when it
    /// returns.
    pub async fn rewind(&self, request: RewindRequest, to: RewindPoint) -> Result<ConversationRow, GatewayError> {
        let (scope, now) = (request.scope(), mint::now());
        self.rewound(self.store.rewind(Rewind { scope, alias: request.alias, to, now }).await?)
    }

    /// Shows the model again what was rewound since the last turn. Durable when it returns.
    pub async fn restore_rewound(&self, request: RewindRequest) -> Result<ConversationRow, GatewayError> {
        self.rewound(self.store.restore_rewound(&request.scope(), &request.alias, mint::now()).await?)
    }

    /// Ends the preparation of a summary, because the summary would contain rewound messages. A prepared summary is
    /// refused later, because the conversation counts its rewinds.
    fn rewound(&self, outcome: RewindOutcome) -> Result<ConversationRow, GatewayError> {
        Err(match outcome {
            RewindOutcome::Done(row) => {
                self.compactor.preparations.end(row.facts.id);
                return Ok(*row);
            }
            RewindOutcome::NoSuchMessage => GatewayError::Invalid(InvalidRequest::NoSuchMessage(Field::RewindPoint)),
            RewindOutcome::AlreadyRewound => GatewayError::Invalid(InvalidRequest::AlreadyRewound),
            RewindOutcome::TooFewTurns(turns) => GatewayError::Invalid(InvalidRequest::TooFewTurns(turns)),
            RewindOutcome::NothingToRestore => GatewayError::Conflict(Conflict::NothingToRestore),
            RewindOutcome::Busy(running) => GatewayError::busy(running),
            RewindOutcome::Ended => GatewayError::Conflict(Conflict::Ended),
            RewindOutcome::NotFound => GatewayError::unknown(),
        })
    }
}

//! Goes back to an earlier message of a conversation, and undoes that.

use herma_model::Alias;
use herma_store::{ConversationRow, Rewind, RewindOutcome, RewindPoint};

use super::Sessions;
use crate::error::{Conflict, Field, GatewayError, InvalidRequest};
use crate::mint;

impl Sessions<'_> {
    /// Ends the model's view of a conversation at an earlier message. Does not wait for a running turn. Durable when it
    /// returns.
    pub async fn rewind(&self, alias: &Alias, to: RewindPoint) -> Result<ConversationRow, GatewayError> {
        let rewind = Rewind { scope: self.scope.clone(), alias: alias.clone(), to, now: mint::now() };
        self.rewound(self.store.rewind(rewind).await?)
    }

    /// Shows the model again what was rewound since the last turn. Durable when it returns.
    pub async fn restore_rewound(&self, alias: &Alias) -> Result<ConversationRow, GatewayError> {
        self.rewound(self.store.restore_rewound(&self.scope, alias, mint::now()).await?)
    }

    /// Ends the preparation of a summary, because the summary would contain rewound messages. A prepared summary is
    /// refused later, because the conversation counts its rewinds.
    fn rewound(&self, outcome: RewindOutcome) -> Result<ConversationRow, GatewayError> {
        Err(match outcome {
            RewindOutcome::Done(row) => {
                self.preparations.iter().for_each(|preparations| preparations.end(row.facts.id));
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

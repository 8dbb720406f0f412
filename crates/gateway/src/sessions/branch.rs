//! Makes a branch without messages of its own.

use std::sync::Arc;

use herma_model::{Alias, SessionKind};
use herma_store::{BranchOutcome, BranchPoint, ConversationRow, NewBranch};

use super::{Origin, Sessions};
use crate::error::{Conflict, Field, GatewayError, InvalidRequest};
use crate::mint;

/// A branch that a caller makes.
#[derive(Debug, Clone)]
pub struct NewFork {
    /// The front door that asks for it.
    pub origin: Origin,
    /// Any name of its source.
    pub source: Alias,
    /// Where it begins in the source.
    pub at: BranchPoint,
    /// The name that the caller chose for it.
    pub alias: Option<Alias>,
    /// Its title.
    pub title: Option<String>,
    /// The client's metadata, a JSON object.
    pub metadata: Option<Arc<str>>,
    /// The directory that the person works in. If it is not given, that of the source.
    pub cwd: Option<Arc<str>>,
}

impl Sessions<'_> {
    /// Makes a branch without messages of its own. Its source stays as it is. Durable when it returns.
    pub async fn branch(&self, new: NewFork) -> Result<ConversationRow, GatewayError> {
        let NewFork { origin, source, at, alias, title, metadata, cwd } = new;
        let creation = self.creation(SessionKind::Branch, origin);
        let (scope, now) = (self.scope.clone(), mint::now());
        let branch = NewBranch { scope, source, at, alias, creation, title, metadata, cwd, now };
        Err(match self.store.branch(branch).await? {
            BranchOutcome::Made(row) => return Ok(*row),
            BranchOutcome::NotFound => GatewayError::unknown(),
            BranchOutcome::NoSuchMessage => GatewayError::Invalid(InvalidRequest::NoSuchMessage(Field::BranchPoint)),
            BranchOutcome::Unanswered => GatewayError::Invalid(InvalidRequest::Unanswered),
            BranchOutcome::Exists => GatewayError::Conflict(Conflict::Exists),
            BranchOutcome::Reserved => GatewayError::Invalid(InvalidRequest::ReservedId),
        })
    }
}

//! Which conversation a request names, outside its body and in it.

use herma_gateway::Place;
use herma_model::alias::Namespace;
use herma_model::{Alias, ConversationId, Principal, ResponseId};
use herma_store::{Pin, Scope};

use crate::app::Shared;
use crate::error::ApiError;
use crate::headers::SessionHeaders;

/// A name, and where in the request it stands.
struct Named {
    alias: Alias,
    param: &'static str,
    must_exist: bool,
}

/// The names that a request can give its conversation.
#[derive(Default)]
pub(crate) struct Names {
    names: Vec<Named>,
    previous: Option<ResponseId>,
}

impl Names {
    /// Those of the headers, in the order in which they count.
    pub(crate) fn of(headers: &SessionHeaders) -> Self {
        let session =
            headers.session.clone().map(|alias| Named { alias, param: "X-Hermes-Session-Id", must_exist: false });
        let stable = headers.conversation.clone().map(|alias| Named {
            alias,
            param: "X-Hermes-Conversation-Id",
            must_exist: true,
        });
        Self { names: session.into_iter().chain(stable).collect(), previous: None }
    }

    /// The body's `conversation` as well.
    pub(crate) fn and_conversation(&mut self, alias: Alias) {
        self.names.push(Named { alias, param: "conversation", must_exist: false });
    }

    /// The body's `previous_response_id` as well.
    pub(crate) fn and_previous(&mut self, response: ResponseId) {
        self.previous = Some(response);
    }

    /// Where they lead. Several must lead to the same conversation.
    pub(crate) async fn place(self, app: &Shared, principal: &Principal) -> Result<Place, ApiError> {
        let scope = Scope::of(principal);
        if self.names.len() + usize::from(self.previous.is_some()) > 1 {
            self.agree(app, &scope).await?;
        }
        Ok(match (self.previous, self.names.into_iter().next()) {
            (Some(previous), _) => Place::After(previous),
            (None, None) => Place::New,
            (None, Some(Named { alias, must_exist, .. })) => {
                Place::Named { alias, namespace: Namespace::Session, must_exist }
            }
        })
    }

    async fn agree(&self, app: &Shared, scope: &Scope) -> Result<(), ApiError> {
        let mut led: Option<Option<ConversationId>> = None;
        for named in &self.names {
            let found = app.gateway.store().conversation(scope, &named.alias, Pin::Head).await?;
            let found = found.map(|row| row.facts.id);
            if found.is_none() && named.must_exist {
                return Err(ApiError::not_found("no conversation is known by this id"));
            }
            if led.is_some_and(|led| led != found) {
                return Err(disagree(named.param));
            }
            led = Some(found);
        }
        if let (Some(previous), Some(led)) = (self.previous, led) {
            let turn = app.gateway.store().turn(scope, previous.turn()).await?;
            if turn.map(|turn| turn.facts.id) != led {
                return Err(disagree("previous_response_id"));
            }
        }
        Ok(())
    }
}

fn disagree(param: &'static str) -> ApiError {
    let message = "the names in this request lead to different conversations; send one of them";
    if param.starts_with('X') { ApiError::invalid_header(param, message) } else { ApiError::invalid(message, param) }
}

//! Which conversation a request names, outside its body and in it.

use herma_gateway::Place;
use herma_model::alias::Namespace;
use herma_model::{Alias, ConversationId, Principal, ResponseId, SessionKind};
use herma_store::{Pin, Scope};
use herma_wire::responses::ResponsesRequest;

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
    /// A response of another program, by which its conversation is known that was brought in.
    elsewhere: Option<Alias>,
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
        Self { names: session.into_iter().chain(stable).collect(), previous: None, elsewhere: None }
    }

    /// A body's `session_id` as well, which counts as its header does.
    pub(crate) fn and_session(&mut self, name: &str) -> Result<(), ApiError> {
        self.names.push(Named { alias: alias(name, "session_id")?, param: "session_id", must_exist: false });
        Ok(())
    }

    /// Those of a body that asks for a response, as well.
    pub(crate) fn and_those_of(&mut self, asked: &ResponsesRequest) -> Result<(), ApiError> {
        if let Some(name) = &asked.conversation {
            self.names.push(Named { alias: alias(name, "conversation")?, param: "conversation", must_exist: false });
        }
        if let Some(previous) = &asked.previous_response_id {
            self.previous = previous.parse().ok();
            if self.previous.is_none() {
                let alias = Alias::parse(previous).ok().filter(|alias| alias.as_str().starts_with(ResponseId::PREFIX));
                self.elsewhere = Some(alias.ok_or_else(ApiError::previous_not_found)?);
            }
        }
        Ok(())
    }

    /// Where they lead. Several must lead to the same conversation.
    pub(crate) async fn place(mut self, app: &Shared, principal: &Principal) -> Result<Place, ApiError> {
        let scope = Scope::of(principal);
        if let Some(alias) = self.elsewhere.take() {
            if app.gateway.store().conversation(&scope, &alias, Pin::Head).await?.is_none() {
                return Err(ApiError::previous_not_found());
            }
            self.names.push(Named { alias, param: "previous_response_id", must_exist: true });
        }
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
        let mut led: Option<Led<'_>> = None;
        for named in &self.names {
            let found = app.gateway.store().conversation(scope, &named.alias, Pin::Head).await?;
            if found.is_none() && named.must_exist {
                return Err(ApiError::not_found("no conversation is known by this id"));
            }
            let found = found.map_or(Led::Nowhere(&named.alias), |row| Led::To(row.facts.id));
            if led.is_some_and(|led| led != found) {
                return Err(disagree(named.param));
            }
            led = Some(found);
        }
        if let (Some(previous), Some(led)) = (self.previous, led) {
            let turn = app.gateway.store().turn(scope, previous.turn()).await?;
            if turn.is_some_and(|turn| led != Led::To(turn.facts.id)) {
                return Err(disagree("previous_response_id"));
            }
        }
        Ok(())
    }
}

/// Where a request goes that says what it is. A helper's leaves the conversation that it names alone: it is a conversation of its own, which
/// comes from there.
pub(crate) async fn place_of_kind(
    app: &Shared,
    principal: &Principal,
    place: Place,
    kind: SessionKind,
) -> Result<(Place, Option<Alias>), ApiError> {
    if kind == SessionKind::Main {
        return Ok((place, None));
    }
    let Some(name) = place.name().and_then(|name| Alias::parse(&name).ok()) else { return Ok((Place::New, None)) };
    let known = app.gateway.store().conversation(&Scope::of(principal), &name, Pin::Head).await?;
    Ok((Place::New, known.map(|_| name)))
}

/// Where a name leads. Two that lead nowhere yet would make two conversations, unless they are the same.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Led<'a> {
    To(ConversationId),
    Nowhere(&'a Alias),
}

fn alias(name: &str, param: &str) -> Result<Alias, ApiError> {
    Alias::parse(name).map_err(|why| ApiError::invalid(format!("{param} {why}"), param))
}

fn disagree(param: &'static str) -> ApiError {
    let message = "the names in this request lead to different conversations; send one of them";
    if param.starts_with('X') { ApiError::invalid_header(param, message) } else { ApiError::invalid(message, param) }
}

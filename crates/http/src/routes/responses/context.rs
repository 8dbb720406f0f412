//! `POST /v1/responses/input_tokens` and `POST /v1/responses/compact`: counts or summarises the context that a request
//! would give the model.

use axum::Extension;
use axum::extract::{Request, State};
use axum::response::Response;
use herma_gateway::TurnRequest;
use herma_model::Principal;
use herma_wire::BadRequest;
use herma_wire::responses::{
    self, CompactionObject, Item, Known, ResponsesRequest, compaction_item, items_of, seal_summary,
};

use super::create::{fill, named_conversation};
use super::named_items;
use crate::answer;
use crate::app::Shared;
use crate::body;
use crate::dialect::Dialect;
use crate::error::ApiError;
use crate::headers::SessionHeaders;
use crate::json::from_bytes;

/// The route name of `compact` in the store.
const COMPACT: &str = "responses.compact";

/// The approximate tokens of the context of a request. Writes nothing.
pub(crate) async fn input_tokens(
    State(app): State<Shared>,
    Extension(principal): Extension<Principal>,
    request: Request,
) -> Result<Response, ApiError> {
    let request = read(&app, principal, request, responses::parse_context).await?;
    let tokens = app.gateway.count_tokens(&request).await.map_err(Dialect::Responses.error_mapper())?;
    Ok(from_bytes(responses::input_tokens_json(tokens)))
}

/// Summarises a context for a client that keeps its history itself. The client sends the summary in place of its
/// history from then on.
pub(crate) async fn compact(
    State(app): State<Shared>,
    Extension(principal): Extension<Principal>,
    request: Request,
) -> Result<Response, ApiError> {
    let request = read(&app, principal, request, responses::parse_compaction).await?;
    let done = app.gateway.summarise_context(&request).await.map_err(Dialect::Responses.error_mapper())?;
    let mut output: Vec<Item> = done.kept.iter().flat_map(|message| items_of(message)).collect();
    output.push(compaction_item(done.id, seal_summary(&done.summary)));
    let id = done.id.to_string();
    let object = CompactionObject { id: &id, created_at: done.created_at, output: &output, usage: Some(done.usage) };
    Ok(from_bytes(object.to_json()))
}

type Parse = fn(&[u8], &Known) -> Result<ResponsesRequest, BadRequest>;

/// Reads a request about a context. It may have no input of its own.
async fn read(app: &Shared, principal: Principal, request: Request, parse: Parse) -> Result<TurnRequest, ApiError> {
    let (parts, body) = request.into_parts();
    let headers = SessionHeaders::read(&parts.headers)?;
    let body = body::read(app, &parts.headers, body).await?;
    let named = named_items(app, &principal, &responses::references(&body)?, Dialect::Responses).await?;
    let asked = parse(&body, &app.known(named))?;
    let conversation = named_conversation(app, &principal, &headers, &asked).await?;
    let mut turn = answer::turn_request(principal, headers, conversation, COMPACT, &body);
    fill(app, &mut turn, asked);
    Ok(turn)
}

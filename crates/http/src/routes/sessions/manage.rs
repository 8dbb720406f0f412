//! Creates, changes, ends and branches conversations.

use axum::Extension;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use herma_gateway::{Field, GatewayError, InvalidRequest, NewFork, NewSession, Sessions};
use herma_model::{Alias, Principal, SessionKey, SessionKind};
use herma_store::{BranchPoint, Change};
use herma_wire::resource::{BranchSession, ChangeSession, CreateSession};
use http::{HeaderMap, StatusCode};

use super::{alias, row_response};
use crate::app::{Authentication, ORIGIN, Shared};
use crate::body;
use crate::error::ApiError;
use crate::headers::SessionHeaders;
use crate::path::Named;
use crate::revision;

/// `POST /api/sessions`.
pub(crate) async fn create(
    State(app): State<Shared>,
    Extension(principal): Extension<Principal>,
    request: Request,
) -> Result<Response, ApiError> {
    let (parts, body) = request.into_parts();
    let headers = SessionHeaders::read(&parts.headers)?;
    let body = body::read(&app, &parts.headers, body).await?;
    let asked = CreateSession::parse(&body)?;
    refuse_without_auth(&app, &[("id", &asked.id), ("session_key", &asked.session_key)])?;
    let key = session_key(headers.key, asked.session_key.as_deref())?;
    make(&revision::sessions(&app, &principal, &parts.headers)?, asked, key).await
}

async fn make(
    sessions: &Sessions<'_>,
    asked: CreateSession,
    session_key: Option<SessionKey>,
) -> Result<Response, ApiError> {
    let new = NewSession {
        origin: ORIGIN,
        alias: chosen(asked.id.as_deref(), "id")?,
        kind: asked.kind.unwrap_or(SessionKind::Main),
        parent: chosen(asked.parent.as_deref(), "parent")?,
        session_key,
        title: asked.title,
        metadata: asked.metadata,
        cwd: None,
    };
    let made = sessions.create(new).await?;
    Ok((StatusCode::CREATED, row_response(&made)).into_response())
}

/// `POST /api/session-keys/{key}/new`: a new conversation under the key. Older ones do not change.
pub(crate) async fn create_under_key(
    State(app): State<Shared>,
    Extension(principal): Extension<Principal>,
    Named(key): Named,
    request: Request,
) -> Result<Response, ApiError> {
    refuse_without_auth(&app, &[("key", &Some(key.clone()))])?;
    let key = SessionKey::parse(&key).map_err(|why| ApiError::invalid(format!("key {why}"), "key"))?;
    let (parts, body) = request.into_parts();
    let body = body::read(&app, &parts.headers, body).await?;
    let asked = CreateSession::parse(&body)?;
    let key = session_key(Some(key), asked.session_key.as_deref())
        .map_err(|_| ApiError::invalid("session_key is in the path already", "session_key"))?;
    make(&revision::sessions(&app, &principal, &parts.headers)?, asked, key).await
}

/// `PATCH /api/sessions/{alias}`.
pub(crate) async fn change(
    State(app): State<Shared>,
    Extension(principal): Extension<Principal>,
    Named(name): Named,
    request: Request,
) -> Result<Response, ApiError> {
    let name = alias(&name)?;
    let (parts, body) = request.into_parts();
    let body = body::read(&app, &parts.headers, body).await?;
    let ChangeSession { title, archived, metadata } = ChangeSession::parse(&body)?;
    let change = Change { metadata, title, archived, ..Change::default() };
    let sessions = revision::sessions(&app, &principal, &parts.headers)?;
    Ok(row_response(&sessions.change(&name, change).await?))
}

/// `POST /api/sessions/{alias}/end`: the conversation accepts no turns until it is reopened.
pub(crate) async fn end(
    State(app): State<Shared>,
    Extension(principal): Extension<Principal>,
    Named(name): Named,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    Ok(row_response(&revision::sessions(&app, &principal, &headers)?.end(&alias(&name)?).await?))
}

/// `POST /api/sessions/{alias}/reopen`.
pub(crate) async fn reopen(
    State(app): State<Shared>,
    Extension(principal): Extension<Principal>,
    Named(name): Named,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    Ok(row_response(&revision::sessions(&app, &principal, &headers)?.reopen(&alias(&name)?).await?))
}

/// `POST /api/sessions/{alias}/branch`. Hermes calls it `…/fork`.
pub(crate) async fn branch(
    State(app): State<Shared>,
    Extension(principal): Extension<Principal>,
    Named(name): Named,
    request: Request,
) -> Result<Response, ApiError> {
    let source = alias(&name)?;
    let (parts, body) = request.into_parts();
    let body = body::read(&app, &parts.headers, body).await?;
    let asked = BranchSession::parse(&body)?;
    refuse_without_auth(&app, &[("id", &asked.id)])?;
    let at = match &asked.at {
        None => BranchPoint::End,
        Some(id) => {
            let unknown = |_| GatewayError::Invalid(InvalidRequest::NoSuchMessage(Field::BranchPoint));
            BranchPoint::Message(id.parse().map_err(unknown)?)
        }
    };
    let alias = chosen(asked.id.as_deref(), "id")?;
    let new = NewFork { origin: ORIGIN, source, at, alias, title: asked.title, metadata: asked.metadata, cwd: None };
    let made = revision::sessions(&app, &principal, &parts.headers)?.branch(new).await?;
    Ok((StatusCode::CREATED, row_response(&made)).into_response())
}

/// A name that a client chose.
fn chosen(name: Option<&str>, field: &'static str) -> Result<Option<Alias>, ApiError> {
    let read = |name| Alias::parse(name).map_err(|why| ApiError::invalid(format!("{field} {why}"), field));
    name.map(read).transpose()
}

/// The session key, from the header or the body. Two different keys are an error.
pub(crate) fn session_key(header: Option<SessionKey>, body: Option<&str>) -> Result<Option<SessionKey>, ApiError> {
    let invalid = |why: String| ApiError::invalid(format!("session_key {why}"), "session_key");
    let Some(body) = body else { return Ok(header) };
    let key = SessionKey::parse(body).map_err(|why| invalid(why.to_string()))?;
    if header.is_some_and(|header| header != key) {
        return Err(invalid("is another than that of the header X-Hermes-Session-Key".to_owned()));
    }
    Ok(Some(key))
}

/// Refuses session names in the body if the server runs without authentication, as it refuses them in headers.
pub(crate) fn refuse_without_auth(app: &Shared, given: &[(&str, &Option<String>)]) -> Result<(), ApiError> {
    let first = given.iter().find(|(_, value)| value.is_some());
    match first {
        Some((name, _)) if matches!(app.settings.authentication, Authentication::None(_)) => {
            Err(ApiError::headers_need_auth(name))
        }
        _ => Ok(()),
    }
}

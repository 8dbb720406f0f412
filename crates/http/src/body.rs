//! Reads request bodies, and tracks whether answers were delivered.

use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use herma_gateway::Gateway;
use herma_model::{TenantId, TurnId};
use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use http_body::{Frame, SizeHint};
use http_body_util::{BodyExt, LengthLimitError, Limited};

use crate::app::Shared;
use crate::client_socket::Connection;
use crate::error::ApiError;

/// How long a client may pause while it sends a body.
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// Reads a JSON body up to the size limit, within the budget of all bodies being read.
pub(crate) async fn read(app: &Shared, headers: &HeaderMap, body: Body) -> Result<Bytes, ApiError> {
    let limit = app.settings.max_body_bytes;
    if headers.get(CONTENT_TYPE).is_some_and(|value| !is_json(value.to_str().unwrap_or(""))) {
        return Err(ApiError::media_type());
    }
    let declared =
        headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()).and_then(|value| value.parse::<usize>().ok());
    if declared.is_some_and(|length| length > limit) {
        return Err(ApiError::body_too_large(limit));
    }
    if headers.get(CONTENT_ENCODING).is_some_and(|value| value != "identity") {
        return Err(ApiError::content_encoding());
    }
    let mut body = Limited::new(body, limit);
    let mut share = app.bodies.share();
    let mut bytes = BytesMut::with_capacity(declared.unwrap_or(0));
    loop {
        match tokio::time::timeout(MAX_PAUSE, body.frame()).await {
            Ok(Some(Ok(frame))) => {
                let data: &[u8] = frame.data_ref().map_or(&[], |data| data);
                share.grow(data.len())?;
                bytes.extend_from_slice(data);
            }
            Ok(None) => return Ok(bytes.freeze()),
            Ok(Some(Err(error))) if error.is::<LengthLimitError>() => return Err(ApiError::body_too_large(limit)),
            Ok(Some(Err(_))) => return Err(ApiError::unreadable_body()),
            Err(_) => return Err(ApiError::body_too_slow(MAX_PAUSE)),
        }
    }
}

fn is_json(content_type: &str) -> bool {
    if content_type == "application/json" {
        return true;
    }
    let essence = content_type.split(';').next().unwrap_or("").trim().to_ascii_lowercase();
    essence.is_empty() || essence == "application/json" || essence.ends_with("+json")
}

/// Knows when an answer was written to its end, and tells the gateway.
pub(crate) struct Delivery {
    gateway: Arc<Gateway>,
    turn: Option<(TenantId, TurnId)>,
    outlet: Outlet,
}

impl Delivery {
    pub(crate) fn of(gateway: Arc<Gateway>) -> Self {
        Self { gateway, turn: None, outlet: Outlet::default() }
    }

    /// An extension of the answer, in which the server sets the connection of the answer.
    pub(crate) fn outlet(&self) -> Outlet {
        self.outlet.clone()
    }

    /// Sets the turn that counts as delivered when the answer ends.
    pub(crate) fn expect(&mut self, tenant: TenantId, turn: TurnId) {
        self.turn = Some((tenant, turn));
    }

    /// Says that the last bytes were handed to hyper. The turn counts as delivered when the socket has taken them. It
    /// does not if the client disconnected before.
    pub(crate) fn done(&mut self, bytes: usize) {
        let Some((tenant, turn)) = self.turn.take() else { return };
        match self.outlet.0.get() {
            None => self.gateway.delivered(tenant, turn),
            Some(connection) if connection.is_closed() => {}
            Some(connection) => {
                let gateway = Arc::clone(&self.gateway);
                connection.when_written(bytes, Box::new(move || gateway.delivered(tenant, turn)));
            }
        }
    }
}

/// The connection by which an answer is sent. The server sets it when the answer has left the routes.
#[derive(Clone, Default)]
pub(crate) struct Outlet(Arc<OnceLock<Connection>>);

impl Outlet {
    pub(crate) fn set(&self, connection: &Connection) {
        // An answer is sent once, so it cannot be set already.
        let _ = self.0.set(connection.clone());
    }
}

/// A whole answer whose turn is marked as delivered when the socket has taken it.
pub(crate) struct TrackedBody {
    bytes: Option<Bytes>,
    delivery: Delivery,
}

impl TrackedBody {
    pub(crate) fn new(bytes: Vec<u8>, delivery: Delivery) -> Self {
        Self { bytes: Some(Bytes::from(bytes)), delivery }
    }
}

impl http_body::Body for TrackedBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let bytes = self.bytes.take();
        if let Some(bytes) = &bytes {
            self.delivery.done(bytes.len());
        }
        Poll::Ready(bytes.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
    }
}

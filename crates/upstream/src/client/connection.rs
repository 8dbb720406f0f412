//! One HTTP/1.1 connection. The call that uses it also drives it, so a connection needs no task of its own.
//!
//! Nothing happens on a connection that is not polled. An idle one learns that its server has closed it when it is
//! polled next, by [`OpenConnection::is_usable`].

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::{Connection, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::runtime::{Handle, Id};

use super::connector::Socket;

pub(super) type ModelRequest = Request<Full<Bytes>>;

/// A connection that is open, or that has just ended.
pub(super) struct OpenConnection {
    sender: SendRequest<Full<Bytes>>,
    /// `None` once the connection has ended. It must not be polled again then.
    driver: Option<Box<Connection<TokioIo<Socket>, Full<Bytes>>>>,
    runtime: Option<Id>,
}

impl OpenConnection {
    pub(super) fn new(sender: SendRequest<Full<Bytes>>, driver: Connection<TokioIo<Socket>, Full<Bytes>>) -> Self {
        Self { sender, driver: Some(Box::new(driver)), runtime: this_runtime() }
    }

    /// The runtime that made it, whose thread learns first what arrives.
    pub(super) const fn runtime(&self) -> Option<Id> {
        self.runtime
    }

    /// Sends a request and returns when the head of the answer has arrived. The error has the request in it if nothing
    /// was sent. Dropping the future leaves the connection in the middle of a call; drop the connection too.
    ///
    /// Only the socket wakes the caller. What the connection hands to `answer` is seen in the same poll, so a waker there
    /// would only have the caller's task run once more for nothing.
    pub(super) async fn send(
        &mut self,
        request: ModelRequest,
    ) -> Result<Response<Incoming>, TrySendError<ModelRequest>> {
        let mut answer = pin!(self.sender.try_send_request(request));
        let driver = &mut self.driver;
        poll_fn(|context| {
            drive(driver, context);
            let answered = answer.as_mut().poll(&mut quiet());
            if answered.is_ready() {
                // The connection waits for a reader of the body. It must not wake this task when there is one.
                drive(driver, &mut quiet());
            }
            answered
        })
        .await
    }

    /// Reads and writes what is possible now. What arrives comes out of the body of the answer.
    pub(super) fn drive(&mut self, context: &mut Context<'_>) {
        drive(&mut self.driver, context);
    }

    /// Whether the connection can take another request now: it is open, and its last answer has ended.
    pub(super) fn is_usable(&mut self) -> bool {
        self.drive(&mut quiet());
        self.driver.is_some() && self.sender.is_ready()
    }
}

/// The runtime that this is called in.
pub(super) fn this_runtime() -> Option<Id> {
    Handle::try_current().ok().map(|runtime| runtime.id())
}

/// A context that wakes nothing.
pub(super) const fn quiet() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

type Driver = Option<Box<Connection<TokioIo<Socket>, Full<Bytes>>>>;

fn drive(driver: &mut Driver, context: &mut Context<'_>) {
    let ended = driver.as_mut().map(|connection| Pin::new(connection).poll(context));
    if let Some(Poll::Ready(_)) = ended {
        // An error has reached the call by the answer or its body. Dropping the connection resolves what is left.
        *driver = None;
    }
}

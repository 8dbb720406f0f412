//! The sockets of the Honcho server, and its moods.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, header};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::{HonchoRequest, Mood, Shared};

const HUGE: usize = 16 * 1024 * 1024;

/// Accepts connections until this task is aborted. Then all connections are closed.
pub(super) async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((socket, _)) = listener.accept().await else { continue };
        let shared = Arc::clone(&shared);
        connections.spawn(async move {
            let service = service_fn(move |request| answer(request, Arc::clone(&shared)));
            let _closed = http1::Builder::new().serve_connection(TokioIo::new(socket), service).await;
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn answer(request: Request<Incoming>, shared: Arc<Shared>) -> io::Result<Response<Full<Bytes>>> {
    let (head, body) = request.into_parts();
    let raw = body.collect().await.map_err(io::Error::other)?.to_bytes();
    let authorization = head.headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let recorded = HonchoRequest {
        method: head.method.to_string(),
        path: head.uri.path().to_owned(),
        query: head.uri.query().unwrap_or_default().to_owned(),
        authorization: authorization.map(str::to_owned),
        body: serde_json::from_slice(&raw).unwrap_or(Value::Null),
    };
    let (mood, done) = {
        let mut contents = shared.lock();
        contents.requests.push(recorded.clone());
        let mood = contents.mood.clone();
        let is_done = matches!(mood, Mood::Right | Mood::LosesAnswers | Mood::Indiscreet);
        (mood, if is_done { contents.answer(&recorded) } else { (200, json!({})) })
    };
    shared.arrived.send_modify(|count| *count += 1);
    let respond = |status: u16, body: Bytes| {
        let response = Response::builder().status(status).header(header::CONTENT_TYPE, "application/json");
        let response = match mood {
            Mood::RateLimited(seconds) => response.header(header::RETRY_AFTER, seconds),
            _ => response,
        };
        response.body(Full::new(body)).map_err(io::Error::other)
    };
    match mood {
        Mood::Right | Mood::Indiscreet if done.0 == 204 => respond(204, Bytes::new()),
        Mood::Right | Mood::Indiscreet => respond(done.0, done.1.to_string().into()),
        // The real server repeats what it was sent in some errors.
        Mood::Status(status) => respond(status, json!({ "detail": recorded.body }).to_string().into()),
        Mood::RateLimited(_) => respond(429, "{}".into()),
        Mood::LosesAnswers if recorded.path.ends_with("/messages") => respond(500, "{}".into()),
        Mood::LosesAnswers => respond(done.0, done.1.to_string().into()),
        Mood::Hanging => std::future::pending::<Result<_, Infallible>>().await.map_err(|never| match never {}),
        Mood::CutOff => Err(io::Error::other("the server cuts the connection off")),
        Mood::Garbage => respond(200, "<html>welcome</html>".into()),
        Mood::WrongJson => respond(200, json!([{ "items": 3, "content": [] }]).to_string().into()),
        Mood::Huge => respond(200, vec![b' '; HUGE].into()),
    }
}

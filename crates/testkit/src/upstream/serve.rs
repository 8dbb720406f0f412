//! The sockets: HTTP/1.1 with keep-alive, `TCP_NODELAY`, and one write per frame.

use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::sync::Arc;
use std::vec::IntoIter;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, header};
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::plan::{Head, Plan, Step, plan};
use super::recorded::Recorded;
use super::reply::envelope;
use super::{OpenAnswer, Script};

const MODELS: &str = "/models";
/// What a path may end in.
const ENDPOINTS: [&str; 4] = ["/chat/completions", "/completions", "/embeddings", MODELS];

type Body = BoxBody<Bytes, io::Error>;

/// Accepts connections until this task is aborted. Then all connections are closed.
pub(super) async fn accept(listener: TcpListener, script: Arc<Script>) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((socket, _)) = listener.accept().await else { continue };
        let _best_effort = socket.set_nodelay(true);
        let script = Arc::clone(&script);
        connections.spawn(async move {
            let service = service_fn(move |request| answer(request, Arc::clone(&script)));
            // This fails if the client disconnects or if the script breaks the connection.
            let _closed = http1::Builder::new().serve_connection(TokioIo::new(socket), service).await;
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn answer(request: Request<Incoming>, script: Arc<Script>) -> io::Result<Response<Body>> {
    let (head, body) = request.into_parts();
    // Any path may come before the endpoint, as model servers have it.
    let endpoint = ENDPOINTS.into_iter().find(|endpoint| head.uri.path().ends_with(endpoint));
    match (&head.method, endpoint) {
        (&Method::GET, Some(MODELS)) => {
            let row = |id| json!({"id": id, "object": "model", "created": 0, "owned_by": "testkit"});
            let models: Vec<_> = script.listed(Recorded::new(&head.uri, head.headers, Bytes::new()));
            let models = json!({"object": "list", "data": models.into_iter().map(row).collect::<Vec<_>>()});
            return respond(&ok(200), full(models.to_string()));
        }
        (&Method::POST, Some(endpoint)) if endpoint != MODELS => {}
        (method, _) => {
            let message = format!("{method} {} is not scripted", head.uri.path());
            return respond(&ok(404), full(envelope(&message, "invalid_request_error", None).to_string()));
        }
    }
    let raw = body.collect().await.map_err(io::Error::other)?.to_bytes();
    let recorded = Recorded::new(&head.uri, head.headers, raw);
    let open = script.open();
    let (number, reply) = script.take(&recorded);
    follow(plan(reply, &recorded, number), open).await
}

async fn follow(mut plan: Plan, open: OpenAnswer) -> io::Result<Response<Body>> {
    loop {
        match plan {
            Plan::Hold(gate, rest) => {
                gate.pass().await;
                plan = *rest;
            }
            Plan::Hang => pending().await,
            Plan::Close => return Err(io::Error::other("the script closes the connection")),
            Plan::Answer(head, steps) => return respond(&head, steps_as_body(steps, open)),
        }
    }
}

fn ok(status: u16) -> Head {
    Head { status, content_type: "application/json", headers: Vec::new() }
}

fn respond(head: &Head, body: Body) -> io::Result<Response<Body>> {
    let mut response = Response::builder().status(head.status).header(header::CONTENT_TYPE, head.content_type);
    for (name, value) in &head.headers {
        response = response.header(name, value);
    }
    response.body(body).map_err(io::Error::other)
}

fn full(text: String) -> Body {
    Full::new(Bytes::from(text)).map_err(|never: Infallible| match never {}).boxed()
}

/// The body for the steps. A single write has a known length. All other bodies are written frame by frame.
fn steps_as_body(mut steps: Vec<Step>, open: OpenAnswer) -> Body {
    if let [Step::Write(bytes)] = steps.as_mut_slice() {
        let whole = Full::new(std::mem::take(bytes)).map_err(|never: Infallible| match never {});
        return whole.boxed();
    }
    let frames = stream::unfold((steps.into_iter(), open), next_frame);
    BodyExt::boxed(StreamBody::new(frames.map(|bytes| bytes.map(Frame::data))))
}

type Rest = (IntoIter<Step>, OpenAnswer);

async fn next_frame((mut steps, open): Rest) -> Option<(io::Result<Bytes>, Rest)> {
    loop {
        match steps.next()? {
            Step::Write(bytes) => {
                // Hyper flushes when a body has nothing ready. So each frame is one write.
                tokio::task::yield_now().await;
                return Some((Ok(bytes), (steps, open)));
            }
            Step::Pause(pause) => tokio::time::sleep(pause).await,
            Step::Pass(gate) => gate.pass().await,
            Step::Hang => pending().await,
            Step::Cut => {
                tokio::task::yield_now().await;
                return Some((Err(io::Error::other("the script cuts the answer off")), (steps, open)));
            }
        }
    }
}

//! A collector of OTLP over HTTP on loopback.

use std::sync::{Arc, Mutex};

use herma_testkit::PATIENCE;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::metrics::v1::Metric;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// How the collector answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Manner {
    /// It takes everything.
    Takes,
    /// It reads requests and never answers.
    Hangs,
    /// It refuses for good.
    Refuses,
    /// It takes requests, but says that it rejected this many spans of each.
    Rejects(i64),
    /// It answers at once, with a body that has no end.
    NeverEnds,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Received {
    /// The heads of all requests.
    pub(super) heads: Vec<String>,
    pub(super) spans: Vec<Span>,
    /// The attributes of the last resource.
    pub(super) resource: Vec<(String, String)>,
    pub(super) metrics: Vec<Metric>,
    /// All bodies, as they came.
    pub(super) bytes: Vec<u8>,
}

impl Received {
    /// The span of this name. There must be one.
    pub(super) fn span(&self, name: &str) -> &Span {
        let found: Vec<_> = self.spans.iter().filter(|span| span.name == name).collect();
        let names: Vec<_> = self.spans.iter().map(|span| span.name.as_str()).collect();
        let [span] = found[..] else { panic!("{} spans {name:?} among {names:?}", found.len()) };
        span
    }
}

/// The text or number of an attribute. Empty if the span has none of this name.
pub(super) fn attribute(span: &Span, name: &str) -> String {
    let pair = span.attributes.iter().find(|pair| pair.key == name);
    match pair.and_then(|pair| pair.value.as_ref()?.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::IntValue(number)) => number.to_string(),
        Some(Value::BoolValue(flag)) => flag.to_string(),
        Some(Value::ArrayValue(list)) => format!("{} values", list.values.len()),
        Some(other) => panic!("{other:?}"),
        None => String::new(),
    }
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(super) struct Collector {
    url: String,
    received: Arc<Mutex<Received>>,
    changed: watch::Sender<usize>,
    manner: watch::Sender<Manner>,
}

impl Collector {
    pub(super) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let received = Arc::<Mutex<Received>>::default();
        let (changed, manner) = (watch::Sender::new(0), watch::Sender::new(Manner::Takes));
        let (kept, told, manners) = (Arc::clone(&received), changed.clone(), manner.subscribe());
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(serve(socket, Arc::clone(&kept), told.clone(), manners.clone()));
            }
        });
        Self { url, received, changed, manner }
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    pub(super) fn answers_by(&self, manner: Manner) {
        self.manner.send_replace(manner);
    }

    pub(super) fn received(&self) -> Received {
        self.received.lock().expect("no panic before").clone()
    }

    /// Waits until this many requests came.
    pub(super) async fn until_requests(&self, count: usize) {
        let mut changed = self.changed.subscribe();
        let waiting = changed.wait_for(|requests| *requests >= count);
        tokio::time::timeout(PATIENCE, waiting).await.expect("requests in time").expect("a collector");
    }
}

async fn serve(
    socket: TcpStream,
    received: Arc<Mutex<Received>>,
    changed: watch::Sender<usize>,
    manner: watch::Receiver<Manner>,
) {
    let mut socket = BufReader::new(socket);
    while let Some((head, body)) = request(&mut socket).await {
        let manner = *manner.borrow();
        if manner != Manner::Refuses {
            note(&mut received.lock().expect("no panic before"), &head, &body);
        }
        received.lock().expect("no panic before").heads.push(head);
        changed.send_modify(|requests| *requests += 1);
        let answer = match manner {
            Manner::Takes => ok(&[]),
            Manner::Rejects(rejected_spans) => {
                let partial_success = Some(ExportTracePartialSuccess { rejected_spans, error_message: String::new() });
                ok(&ExportTraceServiceResponse { partial_success }.encode_to_vec())
            }
            Manner::Refuses => b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n".to_vec(),
            Manner::Hangs => std::future::pending().await,
            Manner::NeverEnds => {
                drop(socket.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\nabc").await);
                std::future::pending().await
            }
        };
        if socket.write_all(&answer).await.is_err() {
            return;
        }
    }
}

fn ok(body: &[u8]) -> Vec<u8> {
    [format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len()).as_bytes(), body].concat()
}

async fn request(socket: &mut BufReader<TcpStream>) -> Option<(String, Vec<u8>)> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if socket.read_line(&mut head).await.ok()? == 0 {
            return None;
        }
    }
    let length = head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
    let mut body = vec![0; length.expect("a length")];
    socket.read_exact(&mut body).await.ok()?;
    Some((head, body))
}

fn note(received: &mut Received, head: &str, body: &[u8]) {
    received.bytes.extend_from_slice(body);
    if head.starts_with("POST /v1/traces ") {
        let request = ExportTraceServiceRequest::decode(body).expect("spans");
        for of_resource in request.resource_spans {
            let attributes = of_resource.resource.expect("a resource").attributes;
            received.resource = attributes
                .into_iter()
                .map(|pair| match pair.value.and_then(|value| value.value) {
                    Some(Value::StringValue(text)) => (pair.key, text),
                    other => panic!("{other:?}"),
                })
                .collect();
            received.spans.extend(of_resource.scope_spans.into_iter().flat_map(|scope| scope.spans));
        }
    } else {
        assert!(head.starts_with("POST /v1/metrics "), "{head}");
        let request = ExportMetricsServiceRequest::decode(body).expect("metrics");
        let scopes = request.resource_metrics.into_iter().flat_map(|resource| resource.scope_metrics);
        received.metrics = scopes.flat_map(|scope| scope.metrics).collect();
    }
}

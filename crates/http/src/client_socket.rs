//! A client's TCP connection that can be inspected while hyper reads and writes it.
//!
//! Hyper notices that a client has disconnected only when it reads next. A request that lay unread in the socket of a
//! stopped process reaches the gateway before that. So the admission inspects the socket itself. Hyper also accepts an
//! answer long before a slow client has it. So this module knows when the answer was written to its end.
//!
//! When hyper reads the end of a connection, it drops what the connection works on. A request that has arrived whole
//! would be lost if its client disconnects at once. So hyper is not shown the end until the request was taken in, which
//! means that its turn runs without its client.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use herma_store::ClientConnection;
use rustix::net::{RecvFlags, recv};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};

/// The socket that hyper reads and writes. Its lock is held only for single calls that do not block.
pub(crate) struct ClientSocket(Arc<Mutex<SocketState>>);

struct SocketState {
    stream: TcpStream,
    /// Whether hyper has bytes that the socket did not take.
    is_full: bool,
    /// Called when everything that hyper has was written.
    when_written: Vec<WhenWritten>,
    /// The request that is being taken in.
    intake: Option<Intake>,
}

/// A request that would be lost if hyper read the end of the connection now.
#[derive(Default)]
struct Intake {
    /// Wakes hyper to read the end. `None` if it has not come to the end.
    waker: Option<Waker>,
    /// Ends the intake of a request whose body is not complete and never will be.
    limit: Option<Pin<Box<Sleep>>>,
}

/// How long the end of a connection is hidden.
const INTAKE_LIMIT: Duration = Duration::from_secs(1);

impl SocketState {
    /// Notes whether the socket took all that it was offered.
    fn note_write(&mut self, written: Poll<io::Result<usize>>, offered: usize) -> Poll<io::Result<usize>> {
        self.is_full |= !matches!(&written, Poll::Ready(Ok(taken)) if *taken == offered);
        written
    }

    /// Whether hyper may not see yet that the connection has ended. Wakes it when it may.
    fn hides_end(&mut self, context: &mut Context<'_>) -> bool {
        let Some(intake) = &mut self.intake else { return false };
        let limit = intake.limit.get_or_insert_with(|| Box::pin(sleep(INTAKE_LIMIT)));
        if limit.as_mut().poll(context).is_ready() {
            self.intake = None;
            return false;
        }
        intake.waker = Some(context.waker().clone());
        true
    }
}

/// A socket that is not full takes at least this many bytes at once.
const FEW_BYTES: usize = 16 * 1024;

pub(crate) type WhenWritten = Box<dyn FnOnce() + Send>;

impl ClientSocket {
    pub(crate) fn new(stream: TcpStream) -> Self {
        Self(Arc::new(Mutex::new(SocketState { stream, is_full: false, when_written: Vec::new(), intake: None })))
    }

    fn connection(&self) -> Connection {
        Connection(Arc::downgrade(&self.0))
    }

    fn state(&self) -> MutexGuard<'_, SocketState> {
        lock(&self.0)
    }
}

/// A view of a connection that does not keep it open.
#[derive(Clone)]
pub(crate) struct Connection(Weak<Mutex<SocketState>>);

impl Connection {
    /// Whether the client has disconnected.
    pub(crate) fn is_closed(&self) -> bool {
        self.0.upgrade().is_none_or(|socket| is_closed(&lock(&socket).stream))
    }

    /// Hides the end of the connection until [`Self::end_intake`], for a second at most.
    pub(crate) fn begin_intake(&self) {
        if let Some(socket) = self.0.upgrade() {
            lock(&socket).intake = Some(Intake::default());
        }
    }

    /// The request was taken in: the end of the connection does not stop it any more.
    pub(crate) fn end_intake(&self) {
        let intake = self.0.upgrade().and_then(|socket| lock(&socket).intake.take());
        if let Some(waker) = intake.and_then(|intake| intake.waker) {
            waker.wake();
        }
    }

    /// Calls `note` when the socket has taken everything that hyper has, including these last bytes. If the write
    /// fails, `note` is never called. If the socket is not full and the bytes are few, it will take them. Then `note`
    /// is called at once, before the client can read them.
    pub(crate) fn when_written(&self, bytes: usize, note: WhenWritten) {
        let Some(socket) = self.0.upgrade() else { return };
        let mut state = lock(&socket);
        if state.is_full || bytes > FEW_BYTES {
            state.when_written.push(note);
        } else {
            drop(state);
            note();
        }
    }

    /// The connection as the gateway sees it: it can only ask whether the client has disconnected.
    fn client(&self) -> ClientConnection {
        let connection = self.clone();
        ClientConnection::watched(move || connection.is_closed())
    }
}

/// An extension of a request: its connection, and the same as the gateway sees it.
#[derive(Clone)]
pub(crate) struct Peer {
    pub(crate) connection: Connection,
    pub(crate) client: ClientConnection,
}

impl std::fmt::Debug for Peer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Peer")
    }
}

impl Peer {
    pub(crate) fn of(socket: &ClientSocket) -> Self {
        let connection = socket.connection();
        Self { client: connection.client(), connection }
    }
}

fn lock(socket: &Mutex<SocketState>) -> MutexGuard<'_, SocketState> {
    socket.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether the client has closed its side, or the connection is broken. Does not consume bytes of the socket.
fn is_closed(stream: &TcpStream) -> bool {
    match recv(stream, &mut [0_u8; 1], RecvFlags::PEEK | RecvFlags::DONTWAIT) {
        Ok((_, waiting)) => waiting == 0,
        Err(error) => !matches!(io::Error::from(error).kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted),
    }
}

impl AsyncRead for ClientSocket {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let (before, has_room) = (buffer.filled().len(), buffer.remaining() > 0);
        let mut state = self.state();
        let read = ready!(Pin::new(&mut state.stream).poll_read(context, buffer));
        let has_ended = read.is_err() || (has_room && buffer.filled().len() == before);
        if has_ended && state.hides_end(context) { Poll::Pending } else { Poll::Ready(read) }
    }
}

impl AsyncWrite for ClientSocket {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut state = self.state();
        let written = Pin::new(&mut state.stream).poll_write(context, bytes);
        state.note_write(written, bytes.len())
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut state = self.state();
        let written = Pin::new(&mut state.stream).poll_write_vectored(context, slices);
        state.note_write(written, slices.iter().map(|slice| slice.len()).sum())
    }

    fn is_write_vectored(&self) -> bool {
        self.state().stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Hyper flushes when it has written everything.
        let mut state = self.state();
        ready!(Pin::new(&mut state.stream).poll_flush(context))?;
        state.is_full = false;
        let written = std::mem::take(&mut state.when_written);
        drop(state);
        written.into_iter().for_each(|note| note());
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.state().stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    async fn connected() -> (TcpStream, ClientSocket) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        (client, ClientSocket::new(listener.accept().await.unwrap().0))
    }

    async fn until_closed(connection: &Connection) {
        let looking = async {
            while !connection.is_closed() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), looking).await.unwrap();
    }

    #[tokio::test]
    async fn a_client_that_hung_up_is_noticed_without_reading() {
        let (mut client, mut socket) = connected().await;
        let connection = socket.connection();
        assert!(!connection.is_closed());
        client.write_all(b"ask").await.unwrap();
        let mut asked = [0; 3];
        socket.read_exact(&mut asked).await.unwrap();
        assert!(!connection.is_closed());
        drop(client);
        until_closed(&connection).await;
        assert_eq!(&asked, b"ask");
    }

    #[tokio::test]
    async fn the_end_is_hidden_until_the_request_was_taken_in() {
        let (client, mut socket) = connected().await;
        let connection = socket.connection();
        connection.begin_intake();
        drop(client);
        until_closed(&connection).await;
        let mut byte = [0; 1];
        let mut reading = Box::pin(socket.read(&mut byte));
        assert!(tokio::time::timeout(Duration::from_millis(1), reading.as_mut()).await.is_err());
        connection.end_intake();
        assert_eq!(tokio::time::timeout(Duration::from_millis(500), reading).await.unwrap().unwrap(), 0);
    }

    #[tokio::test]
    async fn the_end_of_half_a_request_is_shown_in_the_end() {
        let (client, mut socket) = connected().await;
        socket.connection().begin_intake();
        drop(client);
        let mut byte = [0; 1];
        let reading = tokio::time::timeout(10 * INTAKE_LIMIT, socket.read(&mut byte));
        assert_eq!(reading.await.unwrap().unwrap(), 0);
    }

    #[tokio::test]
    async fn a_reset_connection_and_one_that_was_dropped_are_closed() {
        let (mut client, mut socket) = connected().await;
        let connection = socket.connection();
        // Closing with unread bytes resets the connection.
        socket.write_all(b"answer").await.unwrap();
        client.readable().await.unwrap();
        client.flush().await.unwrap();
        drop(client);
        until_closed(&connection).await;
        let (_client, socket) = connected().await;
        let connection = socket.connection();
        drop(socket);
        assert!(connection.is_closed());
    }
}

//! A client's TCP connection that can be inspected while hyper reads and writes it.
//!
//! Hyper notices that a client has disconnected only when it reads next. A request that lay unread in the socket of a
//! stopped process reaches the gateway before that. So the admission inspects the socket itself. Hyper also accepts an
//! answer long before a slow client has it. So this module knows when the answer was written to its end.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, ready};

use herma_store::ClientConnection;
use rustix::net::{RecvFlags, recv};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// The socket that hyper reads and writes. Its lock is held only for single calls that do not block.
pub(crate) struct ClientSocket(Arc<Mutex<SocketState>>);

struct SocketState {
    stream: TcpStream,
    /// Whether hyper has bytes that the socket did not take.
    is_full: bool,
    /// Called when everything that hyper has was written.
    when_written: Vec<WhenWritten>,
}

impl SocketState {
    /// Notes whether the socket took all that it was offered.
    fn note_write(&mut self, written: Poll<io::Result<usize>>, offered: usize) -> Poll<io::Result<usize>> {
        self.is_full |= !matches!(&written, Poll::Ready(Ok(taken)) if *taken == offered);
        written
    }
}

/// A socket that is not full takes at least this many bytes at once.
const FEW_BYTES: usize = 16 * 1024;

pub(crate) type WhenWritten = Box<dyn FnOnce() + Send>;

impl ClientSocket {
    pub(crate) fn new(stream: TcpStream) -> Self {
        Self(Arc::new(Mutex::new(SocketState { stream, is_full: false, when_written: Vec::new() })))
    }

    pub(crate) fn connection(&self) -> Connection {
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
    pub(crate) fn client(&self) -> ClientConnection {
        let connection = self.clone();
        ClientConnection::watched(move || connection.is_closed())
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
        Pin::new(&mut self.state().stream).poll_read(context, buffer)
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
    use std::time::Duration;

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

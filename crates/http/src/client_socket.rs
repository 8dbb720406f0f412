//! A client's TCP connection that can be looked at while hyper reads and writes it.
//!
//! Hyper notices that a client has hung up when it next reads. A request that lay unread in the socket of a stopped
//! process reaches the gateway before that. So the admission looks at the socket itself.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use herma_store::ClientConnection;
use rustix::net::{RecvFlags, recv};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// A socket that hyper is given. The lock is held for single calls that do not block.
pub(crate) struct ClientSocket(Arc<Mutex<TcpStream>>);

impl ClientSocket {
    pub(crate) fn new(stream: TcpStream) -> Self {
        Self(Arc::new(Mutex::new(stream)))
    }

    /// A view of the connection that does not keep it open.
    pub(crate) fn connection(&self) -> ClientConnection {
        let socket = Arc::downgrade(&self.0);
        ClientConnection::watched(move || socket.upgrade().is_none_or(|socket| is_closed(&lock(&socket))))
    }

    fn stream(&self) -> MutexGuard<'_, TcpStream> {
        lock(&self.0)
    }
}

fn lock(socket: &Mutex<TcpStream>) -> MutexGuard<'_, TcpStream> {
    socket.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether the client has closed its side, or the connection is broken. Takes no byte out of the socket.
fn is_closed(stream: &TcpStream) -> bool {
    match recv(stream, &mut [0_u8; 1], RecvFlags::PEEK | RecvFlags::DONTWAIT) {
        Ok((_, waiting)) => waiting == 0,
        Err(error) => !matches!(io::Error::from(error).kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted),
    }
}

impl AsyncRead for ClientSocket {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.stream()).poll_read(context, buffer)
    }
}

impl AsyncWrite for ClientSocket {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.stream()).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.stream()).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream().is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.stream()).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.stream()).poll_shutdown(context)
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

    async fn until_closed(connection: &ClientConnection) {
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

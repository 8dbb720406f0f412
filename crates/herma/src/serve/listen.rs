//! Binds the listening socket, or says what to do if that fails.

use std::io::{self, ErrorKind};

use anyhow::anyhow;
use herma_config::ListenAddress;
use tokio::net::TcpListener;

/// Listens at an address.
pub(super) async fn bind(address: &ListenAddress) -> anyhow::Result<TcpListener> {
    TcpListener::bind((address.host(), address.port())).await.map_err(|error| anyhow!(refusal(address, &error)))
}

fn refusal(address: &ListenAddress, error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::AddrInUse => format!(
            "{address} is in use by another program, perhaps another herma; stop it, or choose another port, such as \
             --listen {}",
            ListenAddress::loopback(0)
        ),
        ErrorKind::AddrNotAvailable => {
            format!("{address} is not an address of this machine; choose one that is, such as --listen 127.0.0.1:8642")
        }
        ErrorKind::PermissionDenied => format!(
            "the system does not let you listen on {address}; choose a port above 1023, such as --listen 127.0.0.1:8642"
        ),
        _ => format!("cannot listen on {address}: {error}; choose another address with --listen"),
    }
}

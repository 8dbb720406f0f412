//! Tests the client against a server on a real socket. The server sends exactly the bytes that a test wrote.
#![cfg(test)]

mod answers;
mod connections;
mod failures;
mod retries;
mod scripted;

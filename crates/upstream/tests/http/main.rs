//! The client against a model server on a real socket, which sends exactly the bytes that a test wrote down.
#![cfg(test)]

mod answers;
mod failures;
mod retries;
mod scripted;

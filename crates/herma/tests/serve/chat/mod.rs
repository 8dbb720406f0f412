//! `POST /v1/chat/completions` without failures.

mod context;
mod naming;
mod session_keys;
mod streams;
mod usage;

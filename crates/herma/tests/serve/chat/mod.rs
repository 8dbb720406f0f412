//! `POST /v1/chat/completions` when nothing goes wrong.

mod context;
mod naming;
mod session_keys;
mod streams;
mod usage;

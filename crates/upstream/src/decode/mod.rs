//! What a model server sends, as model events. Pure: bytes in, events out; hosts and secrets are added by the caller.

mod answer;
mod assembler;
mod chunk;
mod error;
mod extra;
pub(crate) mod sse;
mod text;
mod tool_calls;
mod usage;

pub(crate) use answer::{decode_answer, in_one_piece};
pub(crate) use assembler::{Assembler, Progress};
pub(crate) use error::{DecodeError, Reported};

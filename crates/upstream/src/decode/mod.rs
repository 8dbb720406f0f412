//! Translates what a model server sends into model events. Pure: it does no IO and knows no host and no secret.

mod answer;
mod assembler;
mod chunk;
mod error;
mod extra;
mod repeated;
pub(crate) mod sse;
mod text;
mod tool_calls;
mod usage;

pub(crate) use answer::{decode_answer, in_one_piece};
pub(crate) use assembler::{Assembler, Progress};
pub(crate) use error::{DecodeError, ReportedError};

//! JSON as text: read without copying, written without a tree in between.
//!
//! Values that Herma does not look into travel as the text the client wrote, so numbers and key order survive.

mod compact;
mod read;
mod write;

pub(crate) use compact::{compact, normal_form, normal_form_of_text};
pub(crate) use read::{Object, elements, flag, text};
pub(crate) use write::Writer;

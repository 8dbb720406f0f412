//! Reads JSON without copying it, and writes JSON without building a tree.
//!
//! Values that Herma does not look into stay as the text that the client wrote, so numbers and key order survive.

mod compact;
mod list;
mod read;
mod write;

pub(crate) use compact::{compact, normal_form, normal_form_of_text};
pub(crate) use list::{TakeElements, object_with_list};
pub(crate) use read::{Object, elements, flag, text};
pub(crate) use write::{Writer, write_text};

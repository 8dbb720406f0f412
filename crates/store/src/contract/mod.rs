//! The suite that every engine must pass.

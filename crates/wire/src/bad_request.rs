//! A request that cannot be read, and the field at fault.

/// A request body that is wrong. The HTTP answer is 400 with this code.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct BadRequest {
    /// What is wrong and what is expected, for people.
    pub message: String,
    /// Path of the field at fault, such as `messages[3].content[0].image_url.url`. Absent if the whole body is at
    /// fault.
    pub param: Option<String>,
    /// The error, for programs: `invalid_request` unless there is a more exact code.
    pub code: &'static str,
}

/// What is wrong with a value. Callers extend the path from the inside out, so a request without a fault never builds a
/// path.
#[derive(Debug)]
pub(crate) struct Flaw {
    path: String,
    what: String,
    code: &'static str,
}

impl Flaw {
    /// The value itself is at fault. `what` continues a sentence after the value's name: "must be a string".
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self { path: String::new(), what: what.into(), code: "invalid_request" }
    }

    /// A field of the value is at fault.
    pub(crate) fn at(field: &str, what: impl Into<String>) -> Self {
        Self::new(what).within(field)
    }

    /// The same flaw, seen from the object that has the value as `field`.
    pub(crate) fn within(self, field: &str) -> Self {
        let border = if self.path.is_empty() || self.path.starts_with('[') { "" } else { "." };
        Self { path: format!("{field}{border}{}", self.path), ..self }
    }

    /// The same flaw, with another code.
    pub(crate) fn coded(self, code: &'static str) -> Self {
        Self { code, ..self }
    }

    /// The same flaw, seen from the array that has the value at `index`.
    pub(crate) fn element(self, index: usize) -> Self {
        self.within(&format!("[{index}]"))
    }
}

impl From<Flaw> for BadRequest {
    fn from(flaw: Flaw) -> Self {
        if flaw.path.is_empty() {
            Self { message: format!("the request body {}", flaw.what), param: None, code: flaw.code }
        } else {
            Self { message: format!("`{}` {}", flaw.path, flaw.what), param: Some(flaw.path), code: flaw.code }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_is_built_from_the_inside_out() {
        let flaw = Flaw::at("url", "must be a string").within("image_url").element(0).within("content");
        let bad = BadRequest::from(flaw.element(3).within("messages"));
        assert_eq!(bad.param.as_deref(), Some("messages[3].content[0].image_url.url"));
        assert_eq!(bad.message, "`messages[3].content[0].image_url.url` must be a string");
    }
}

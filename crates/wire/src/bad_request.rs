//! A request that cannot be understood, and where in it the reason lies.

/// A request body is at fault; becomes 400 with its code.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct BadRequest {
    /// What is wrong and what is expected, for people.
    pub message: String,
    /// Path of the field at fault, such as `messages[3].content[0].image_url.url`; absent when it is the whole body.
    pub param: Option<String>,
    /// The error, for programs: `invalid_request` unless there is a name for it.
    pub code: &'static str,
}

/// What is wrong with a value, seen from inside it: the path grows on the way out, so that a request without
/// a fault never builds one.
#[derive(Debug)]
pub(crate) struct Flaw {
    path: String,
    what: String,
    code: &'static str,
}

impl Flaw {
    /// The value itself is at fault. `what` reads on after its name: "must be a string".
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self { path: String::new(), what: what.into(), code: "invalid_request" }
    }

    /// A field of the value is at fault.
    pub(crate) fn at(field: &str, what: impl Into<String>) -> Self {
        Self::new(what).within(field)
    }

    /// The same fault, seen from the object that has the value as `field`.
    pub(crate) fn within(self, field: &str) -> Self {
        let border = if self.path.is_empty() || self.path.starts_with('[') { "" } else { "." };
        Self { path: format!("{field}{border}{}", self.path), ..self }
    }

    /// The same fault, by a code of its own.
    pub(crate) fn coded(self, code: &'static str) -> Self {
        Self { code, ..self }
    }

    /// The same fault, seen from the array that has the value at `index`.
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

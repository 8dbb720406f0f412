//! `[responses]`: what holds for requests to `/v1/responses` alone.

use crate::page::Page;
use crate::reading::section::Section;
use crate::reading::setting::words;

words!(
    /// What happens to tools that the model server cannot have.
    HostedTools: r#""leave_out", "refuse" or "pass_on""# {
        /// They are left out of the request.
        LeaveOut = "leave_out",
        /// The request is refused.
        Refuse = "refuse",
        /// The model server gets them as they are.
        PassOn = "pass_on",
    }
);

/// How requests to `/v1/responses` are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResponsesConfig {
    /// What happens to hosted tools, such as `web_search`.
    pub hosted_tools: HostedTools,
    /// Whether a response with `store: false` is kept if it brings the id of a chat.
    pub keep_chats: bool,
}

impl Default for ResponsesConfig {
    fn default() -> Self {
        Self { hosted_tools: HostedTools::LeaveOut, keep_chats: true }
    }
}

impl ResponsesConfig {
    pub(crate) fn read(section: &mut Section) -> Self {
        let default = Self::default();
        Self {
            hosted_tools: section.or("hosted_tools", default.hosted_tools),
            keep_chats: section.or("keep_chats", default.keep_chats),
        }
    }

    pub(crate) fn write(&self, page: &mut Page) {
        page.heading(&["responses"], "Requests to /v1/responses.");
        page.set(
            "hosted_tools",
            self.hosted_tools.as_str(),
            "Tools that the model server cannot have, such as web_search: leave_out, refuse or pass_on.",
        );
        page.set(
            "keep_chats",
            self.keep_chats,
            "Whether what is said with store: false is kept if the request brings the id of a chat.",
        );
    }
}

//! `[server]`: where Herma listens, and which requests it accepts.

use std::time::Duration;

use herma_model::limits::{DEFAULT_BODY_BUDGET, DEFAULT_MAX_BODY_BYTES};

use crate::page::{Page, integer};
use crate::reading::section::Section;
use crate::reading::setting::POSITIVE;
use crate::values::header_name::HeaderNameText;
use crate::values::listen::ListenAddress;
use crate::values::span;
use crate::values::web_origin::WebOrigin;

/// The HTTP server. If it works without keys, it listens on loopback.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerConfig {
    /// Where to listen.
    pub listen: ListenAddress,
    /// Web pages that may call the server; none by default.
    pub cors_origins: Vec<WebOrigin>,
    /// The largest request body or WebSocket message.
    pub max_body_bytes: usize,
    /// The most bytes of all request bodies that are being read at the same time.
    pub body_budget: usize,
    /// The most WebSockets that are open at the same time.
    pub max_websockets: usize,
    /// How long one WebSocket may be open.
    pub websocket_lifetime: Duration,
    /// How long running turns may continue after the signal to stop.
    pub drain_timeout: Duration,
    /// Headers in which front ends send the id of a chat, the most specific first.
    pub chat_headers: Vec<HeaderNameText>,
    /// Whether requests without a key are served. True only on loopback.
    pub no_auth: bool,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            listen: ListenAddress::loopback(8642),
            cors_origins: Vec::new(),
            max_body_bytes: DEFAULT_MAX_BODY_BYTES,
            body_budget: DEFAULT_BODY_BUDGET,
            max_websockets: 1024,
            websocket_lifetime: Duration::from_secs(60 * 60),
            drain_timeout: Duration::from_secs(30),
            chat_headers: HeaderNameText::of_known_chats(),
            no_auth: false,
        }
    }
}

impl ServerConfig {
    pub(crate) fn read(section: &mut Section) -> Self {
        let default = Self::default();
        let config = Self {
            listen: section.or("listen", default.listen),
            cors_origins: section.or("cors_origins", default.cors_origins),
            max_body_bytes: section
                .read_where("max_body_bytes", POSITIVE, |bytes| *bytes > 0)
                .unwrap_or(default.max_body_bytes),
            body_budget: section.read_where("body_budget", POSITIVE, |bytes| *bytes > 0).unwrap_or(default.body_budget),
            max_websockets: section.or("max_websockets", default.max_websockets),
            websocket_lifetime: section.or("websocket_lifetime", default.websocket_lifetime),
            drain_timeout: section.or("drain_timeout", default.drain_timeout),
            chat_headers: section.or("chat_headers", default.chat_headers),
            no_auth: section.or("no_auth", default.no_auth),
        };
        config.check_no_auth(section);
        config
    }

    fn check_no_auth(&self, section: &mut Section) {
        if !self.no_auth {
            return;
        }
        if !self.listen.is_loopback() {
            section.conflict(format!(
                "`server.no_auth` works on loopback only, but `server.listen` is {}: anyone who reaches that address \
                 could read and write every conversation; listen on 127.0.0.1, or leave out --no-auth and use API keys",
                self.listen
            ));
        }
        if self.cors_origins.iter().any(WebOrigin::is_any) {
            section.conflict(
                "`server.cors_origins` may not be \"*\" with `server.no_auth`: any web page you visit could read every \
                 conversation; list the origins you mean, or use API keys"
                    .to_owned(),
            );
        }
    }

    pub(crate) fn write(&self, page: &mut Page) {
        page.heading(&["server"], "Where Herma listens and whom it lets in.");
        page.set("listen", self.listen.to_string(), "HOST:PORT; port 0 picks a free one.");
        let origins: Vec<_> = self.cors_origins.iter().map(WebOrigin::as_str).collect();
        page.set("cors_origins", origins, "Web pages that may call Herma, such as \"http://localhost:3000\".");
        page.set("max_body_bytes", integer(self.max_body_bytes), "Largest request body, or message of a WebSocket.");
        page.set(
            "body_budget",
            integer(self.body_budget),
            "Most bytes of all request bodies that are being read at the same time; further ones are refused.",
        );
        page.set(
            "max_websockets",
            integer(self.max_websockets),
            "Most WebSockets that are open at the same time; 0 lets none open.",
        );
        page.set("websocket_lifetime", span::text(self.websocket_lifetime), "How long one WebSocket may be open.");
        page.set(
            "drain_timeout",
            span::text(self.drain_timeout),
            "How long running turns may go on after the signal to stop.",
        );
        let chat_headers: Vec<_> = self.chat_headers.iter().map(HeaderNameText::as_str).collect();
        page.set(
            "chat_headers",
            chat_headers,
            "Headers in which front ends send the id of a chat; the first that a request has counts.",
        );
        page.set("no_auth", self.no_auth, "Serve without API keys. Loopback only; session headers are refused.");
    }
}

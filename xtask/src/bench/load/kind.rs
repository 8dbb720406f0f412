//! Kinds of turns that several sections measure.

use super::{Api, Pace, Plan, Shape};

/// A kind of turn, without the number of clients and turns.
#[derive(Debug, Clone, Copy)]
pub(in crate::bench) struct Kind {
    /// Its name in the report.
    pub(in crate::bench) name: &'static str,
    /// Messages before the first measured turn.
    pub(in crate::bench) history: usize,
    shape: Shape,
    api: Api,
}

impl Kind {
    pub(in crate::bench) const CHAT: Self = Self { name: "chat", history: 2, shape: Shape::Whole, api: Api::Chat };
    pub(in crate::bench) const LONG_CHAT: Self = Self { history: 200, ..Self::CHAT };
    pub(in crate::bench) const STREAMED: Self =
        Self { name: "streamed", shape: Shape::Streamed(Pace::Usual), ..Self::CHAT };
    pub(in crate::bench) const BURST: Self =
        Self { name: "stream of 200 tokens at once", shape: Shape::Streamed(Pace::AtOnce), ..Self::CHAT };
    pub(in crate::bench) const FIRST: Self = Self { name: "first turn", history: 0, api: Api::First, ..Self::CHAT };
    pub(in crate::bench) const SHARED: Self =
        Self { name: "all clients on one conversation", api: Api::Shared, ..Self::CHAT };

    /// Turns of this kind.
    pub(in crate::bench) const fn plan(self, clients: usize, turns: usize) -> Plan {
        Plan { clients, turns, history: self.history, shape: self.shape, api: self.api }
    }
}

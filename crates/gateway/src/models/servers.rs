//! The model servers, and what there is one of for each.

use std::sync::Arc;

use herma_upstream::ModelServer;

/// Which model server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ServerId {
    /// That of `[upstream]`. Models without a server of their own are there.
    Upstream,
    /// Another one, by its place.
    Other(usize),
}

/// One value for each model server. There is always one for `[upstream]`.
#[derive(Debug, Clone)]
pub struct PerServer<T> {
    upstream: T,
    others: Vec<T>,
}

/// The model servers.
pub type ModelServers = PerServer<Arc<dyn ModelServer>>;

impl<T> PerServer<T> {
    /// The value of `[upstream]`, and no other server.
    pub const fn new(upstream: T) -> Self {
        Self { upstream, others: Vec::new() }
    }

    /// Adds a server.
    pub fn add(&mut self, value: T) -> ServerId {
        self.others.push(value);
        ServerId::Other(self.others.len() - 1)
    }

    /// The value of a server. The id comes from [`PerServer::add`] of this value, or of one that this was mapped from.
    pub fn of(&self, server: ServerId) -> &T {
        match server {
            ServerId::Upstream => &self.upstream,
            ServerId::Other(place) => self.others.get(place).unwrap_or(&self.upstream),
        }
    }

    /// Every server, that of `[upstream]` first.
    pub fn iter(&self) -> impl Iterator<Item = (ServerId, &T)> {
        let others = self.others.iter().enumerate().map(|(place, value)| (ServerId::Other(place), value));
        std::iter::once((ServerId::Upstream, &self.upstream)).chain(others)
    }

    /// A value for each of the same servers.
    pub fn map<U>(&self, make: impl Fn(&T) -> U) -> PerServer<U> {
        PerServer { upstream: make(&self.upstream), others: self.others.iter().map(make).collect() }
    }
}

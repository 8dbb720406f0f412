//! A conversation as JSON Lines.

use std::collections::HashSet;

use herma_gateway::now;
use herma_model::ConversationId;
use herma_model::copy::Piece;
use herma_wire::export::Writer;

use super::Pieces;
use super::target::Target;

/// The state of an export as JSON Lines.
#[derive(Default)]
pub(super) struct JsonLines {
    writer: Writer,
    /// Conversations in this export from which others inherit. Their branches do not repeat the inherited part.
    sources: HashSet<ConversationId>,
}

impl JsonLines {
    pub(super) fn begin(&self, target: &mut Target) -> anyhow::Result<()> {
        target.line(&self.writer.header(env!("CARGO_PKG_VERSION"), now())?)
    }

    pub(super) async fn conversation(&mut self, pieces: &mut Pieces, target: &mut Target) -> anyhow::Result<()> {
        let mut is_known = false;
        while let Some(piece) = pieces.recv().await {
            let piece = piece?;
            match &piece {
                Piece::Inherited(source) => is_known = self.sources.contains(&source.id),
                Piece::Conversation(_) => is_known = false,
                _ => {}
            }
            if !is_known {
                target.line(&self.writer.piece(piece)?)?;
            }
        }
        self.writer.end()?.map_or(Ok(()), |line| target.line(&line))
    }

    /// Remembers that this conversation was exported and that others may inherit from it.
    pub(super) fn remember(&mut self, conversation: ConversationId) {
        self.sources.insert(conversation);
    }

    pub(super) fn end(&self, target: &mut Target) -> anyhow::Result<()> {
        target.line(&self.writer.complete()?)
    }
}

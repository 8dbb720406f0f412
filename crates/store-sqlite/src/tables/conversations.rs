//! The table `conversations`.

use herma_model::Usage;
use rusqlite::Connection;

use super::table;
use crate::failure::{StoreResult, Translate};

table! {
    /// A new conversation. Its sessions follow; [`chain`] writes their keys here.
    ConversationColumns<'a> in "conversations" {
        tenant_pk: i64,
        id: [u8; 16],
        head_pk: i64,
        root_pk: i64,
        origin_kind: &'a str,
        session_key: Option<&'a str>,
        owner_key: Option<[u8; 16]>,
        source: &'a str,
        title: Option<&'a str>,
        cwd: Option<&'a str>,
        metadata: Option<&'a str>,
        system: Option<String>,
        archived: bool,
        version: i64,
        fence: i64,
        next_seq: i64 = 1,
        message_count: i64,
        turn_count: i64,
        input_tokens: i64,
        output_tokens: i64,
        cached_tokens: i64,
        reasoning_tokens: i64,
        compaction_count: u32,
        compaction_mode: Option<&'a str>,
        created_at: i64,
        updated_at: i64,
        ended_at: Option<i64>,
        end_reason: Option<&'a str>,
        counted_seq: Option<i64>,
        counted_tokens: Option<i64>,
        auto_compaction_paused: bool,
        deleted: bool,
        rewrites: u32,
        parent_pk: Option<i64>,
        nameless: bool,
        title_is_excerpt: bool,
        answered: bool,
        last_fence: i64,
        changes: i64,
        rewinds: Option<String>,
        parent_tool_call: Option<&'a str>,
        side_input_tokens: i64,
        side_output_tokens: i64,
        cost: Option<i64>,
        history: Option<[u8; 16]>,
        chat: Option<[u8; 16]>,
        tool_mode: Option<&'a str>,
        chosen_model: Option<&'a str>,
    }
}

impl ConversationColumns<'_> {
    /// With the tokens of all its turns.
    pub(crate) fn with_usage(self, usage: Usage) -> Self {
        Self {
            input_tokens: usage.input as i64,
            output_tokens: usage.output as i64,
            cached_tokens: usage.cached as i64,
            reasoning_tokens: usage.reasoning as i64,
            ..self
        }
    }
}

/// Stores a conversation's first and last session, the one before the last, and the conversation of the first one's
/// parent. They are read from the table `sessions`.
pub(crate) fn chain(connection: &Connection, conversation: i64) -> StoreResult<()> {
    connection
        .prepare_cached(
            "UPDATE conversations SET root_pk = own.root, head_pk = own.head,
             previous_pk = (SELECT max(pk) FROM sessions WHERE conversation_pk = ?1 AND pk < own.head),
             parent_pk = (SELECT p.conversation_pk FROM sessions r JOIN sessions p ON p.pk = r.parent_pk
             WHERE r.pk = own.root)
             FROM (SELECT min(pk) AS root, max(pk) AS head FROM sessions WHERE conversation_pk = ?1) own WHERE pk = ?1",
        )
        .and_then(|mut update| update.execute([conversation]))
        .map(drop)
        .translated()
}

//! The row of a conversation that is restored.

use herma_model::copy::{CopiedConversation, CopiedSource};
use herma_model::{Cost, EndReason, SessionKey, TenantId, Timestamp, ToolMode};

use crate::tables::ConversationColumns;
use crate::{rewinds, rows};

/// The row of a whole conversation.
pub(super) fn whole_row(tenant: TenantId, what: &CopiedConversation, now: Timestamp) -> ConversationColumns<'_> {
    let columns = ConversationColumns {
        tenant_pk: tenant.0,
        id: what.id.uuid().into_bytes(),
        origin_kind: what.origin_kind.as_str(),
        session_key: what.session_key.as_ref().map(SessionKey::as_str),
        source: &what.source,
        title: what.title.as_deref(),
        cwd: what.cwd.as_deref(),
        tool_mode: what.tool_mode.map(ToolMode::as_str),
        chosen_model: what.chosen_model.as_deref(),
        metadata: what.metadata.as_deref(),
        system: (!what.system.is_empty()).then(|| rows::system_to(&what.system)),
        archived: what.archived,
        // The present time is higher than any count of changes. So no reader takes this for an earlier state of the
        // conversation.
        version: now.0,
        changes: now.0,
        next_seq: what.next_place.0,
        message_count: what.message_count as i64,
        turn_count: what.turn_count as i64,
        compaction_count: what.compaction_count,
        compaction_mode: what.compaction_mode.map(|mode| mode.as_str()),
        created_at: what.created_at.0,
        updated_at: what.updated_at.0,
        ended_at: what.ended_at.map(|at| at.0),
        end_reason: what.end_reason.map(EndReason::as_str),
        counted_seq: what.counted.map(|counted| counted.place.0),
        counted_tokens: what.counted.map(|counted| counted.tokens as i64),
        auto_compaction_paused: what.auto_compaction_paused,
        rewrites: what.rewrites,
        rewinds: rewinds::to(&what.rewinds),
        nameless: what.nameless,
        title_is_excerpt: what.title_is_first_words,
        parent_tool_call: what.parent_tool_call_id.as_deref(),
        side_input_tokens: what.side_usage.input as i64,
        side_output_tokens: what.side_usage.output as i64,
        cost: what.cost.map(Cost::micros),
        chat: what.chat.map(|chat| chat.0),
        ..ConversationColumns::default()
    };
    columns.with_usage(what.usage)
}

/// The row of a conversation that exists only because a branch inherits from it.
pub(super) fn inherited_row(tenant: TenantId, what: &CopiedSource) -> ConversationColumns<'_> {
    ConversationColumns {
        tenant_pk: tenant.0,
        id: what.id.uuid().into_bytes(),
        origin_kind: what.origin_kind.as_str(),
        source: &what.source,
        next_seq: what.through.0 + 1,
        created_at: what.created_at.0,
        updated_at: what.created_at.0,
        deleted: true,
        ..ConversationColumns::default()
    }
}

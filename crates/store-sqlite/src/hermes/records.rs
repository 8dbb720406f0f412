//! Rows of `state.db`, column by column.

use rusqlite::Row;

use super::cells::{Cell, count, number, switch, text};

/// A row of `sessions`. Times are seconds since the Unix epoch.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HermesSession {
    /// Its id.
    pub id: String,
    /// The front door that it came through.
    pub source: Option<String>,
    /// The session it comes from, by any relation.
    pub parent: Option<String>,
    /// The settings of its model, a JSON object. It also marks relations between sessions.
    pub model_config: Option<String>,
    /// When it began.
    pub started_at: Option<f64>,
    /// When it ended.
    pub ended_at: Option<f64>,
    /// Why it ended.
    pub end_reason: Option<String>,
    /// Its title.
    pub title: Option<String>,
    /// The model that answered.
    pub model: Option<String>,
    /// The key of the channel it belongs to.
    pub session_key: Option<String>,
    /// The working directory of its agent.
    pub cwd: Option<String>,
    /// Whether it is archived.
    pub archived: bool,
    /// Whom it was with, and where: user, chat, kind of chat, thread, display name, branch, profile.
    pub user_id: Option<String>,
    /// See `user_id`.
    pub chat_id: Option<String>,
    /// See `user_id`.
    pub chat_type: Option<String>,
    /// See `user_id`.
    pub thread_id: Option<String>,
    /// See `user_id`.
    pub display_name: Option<String>,
    /// See `user_id`.
    pub git_branch: Option<String>,
    /// See `user_id`.
    pub profile_name: Option<String>,
    /// Its cost in dollars.
    pub cost: Option<f64>,
    /// Tokens of prompts, without those that were read from or written to a cache.
    pub input_tokens: u64,
    /// Tokens of answers.
    pub output_tokens: u64,
    /// Tokens of prompts that were read from a cache.
    pub cache_read_tokens: u64,
    /// Tokens of prompts that were written to a cache.
    pub cache_write_tokens: u64,
    /// Tokens of answers spent on reasoning.
    pub reasoning_tokens: u64,
}

impl HermesSession {
    /// The columns that are read. If a value can be in one of two columns, both.
    pub(super) const COLUMNS: [&str; 26] = [
        "id",
        "source",
        "parent_session_id",
        "model_config",
        "started_at",
        "ended_at",
        "end_reason",
        "title",
        "model",
        "session_key",
        "cwd",
        "archived",
        "user_id",
        "chat_id",
        "chat_type",
        "thread_id",
        "display_name",
        "git_branch",
        "profile_name",
        "actual_cost_usd",
        "estimated_cost_usd",
        "input_tokens",
        "output_tokens",
        "cache_read_tokens",
        "cache_write_tokens",
        "reasoning_tokens",
    ];

    pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            id: text(row, 0)?.unwrap_or_default(),
            source: text(row, 1)?,
            parent: text(row, 2)?,
            model_config: text(row, 3)?,
            started_at: number(row, 4)?,
            ended_at: number(row, 5)?,
            end_reason: text(row, 6)?,
            title: text(row, 7)?,
            model: text(row, 8)?,
            session_key: text(row, 9)?,
            cwd: text(row, 10)?,
            archived: switch(row, 11, false)?,
            user_id: text(row, 12)?,
            chat_id: text(row, 13)?,
            chat_type: text(row, 14)?,
            thread_id: text(row, 15)?,
            display_name: text(row, 16)?,
            git_branch: text(row, 17)?,
            profile_name: text(row, 18)?,
            cost: number(row, 19)?.or(number(row, 20)?),
            input_tokens: count(row, 21)?,
            output_tokens: count(row, 22)?,
            cache_read_tokens: count(row, 23)?,
            cache_write_tokens: count(row, 24)?,
            reasoning_tokens: count(row, 25)?,
        })
    }
}

/// A row of `messages`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HermesMessage {
    /// Its number, in the order in which rows were written.
    pub row: i64,
    /// The role of its author.
    pub role: String,
    /// Its content: text, or parts as JSON after a marker.
    pub content: Option<String>,
    /// For a tool message, the call it answers.
    pub tool_call_id: Option<String>,
    /// The calls of an assistant, a JSON array.
    pub tool_calls: Option<String>,
    /// Why an answer ended.
    pub finish_reason: Option<String>,
    /// The reasoning of an assistant.
    pub reasoning: Option<String>,
    /// The same, under its other name.
    pub reasoning_content: Option<String>,
    /// Its time, in seconds since the Unix epoch.
    pub timestamp: Option<f64>,
    /// Whether the model is shown it.
    pub active: bool,
    /// Whether it is inactive because it was summarised. A message that is neither active nor compacted was taken back.
    pub compacted: bool,
    /// A column whose bytes are not text.
    pub damaged: Option<&'static str>,
}

impl HermesMessage {
    /// The columns that are read.
    pub(super) const COLUMNS: [&str; 11] = [
        "id",
        "role",
        "content",
        "tool_call_id",
        "tool_calls",
        "finish_reason",
        "reasoning",
        "reasoning_content",
        "timestamp",
        "active",
        "compacted",
    ];

    pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let mut damaged = None;
        let mut text = |column: usize| -> rusqlite::Result<Option<String>> {
            Ok(match Cell::read(row, column)? {
                Cell::Text(text) => Some(text),
                Cell::Nothing => None,
                Cell::Damaged => {
                    damaged = damaged.or(Some(Self::COLUMNS[column]));
                    None
                }
            })
        };
        let (role, content, tool_call_id, tool_calls) = (text(1)?, text(2)?, text(3)?, text(4)?);
        let (finish_reason, reasoning, reasoning_content) = (text(5)?, text(6)?, text(7)?);
        Ok(Self {
            row: row.get(0)?,
            role: role.unwrap_or_default(),
            content,
            tool_call_id,
            tool_calls,
            finish_reason,
            reasoning,
            reasoning_content,
            timestamp: number(row, 8)?,
            active: switch(row, 9, true)?,
            compacted: switch(row, 10, false)?,
            damaged,
        })
    }
}

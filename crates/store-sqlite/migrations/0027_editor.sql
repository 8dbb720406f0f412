-- What an editor has chosen for a conversation: which tool calls need a person's consent, and which model answers.
ALTER TABLE conversations ADD COLUMN tool_mode TEXT
    CHECK (tool_mode = 'ask' OR tool_mode = 'auto' OR tool_mode = 'read_only');
ALTER TABLE conversations ADD COLUMN chosen_model TEXT;

-- The call in its parent that made a conversation. Turns change neither column of the index.
ALTER TABLE conversations ADD COLUMN parent_tool_call TEXT;
CREATE INDEX conversations_by_call ON conversations (parent_pk, parent_tool_call) WHERE parent_tool_call IS NOT NULL;

-- Tokens that Herma itself used for a conversation: summaries, titles, memory. Turns do not count here.
ALTER TABLE conversations ADD COLUMN side_input_tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE conversations ADD COLUMN side_output_tokens INTEGER NOT NULL DEFAULT 0;
-- Summaries that were made before are in the ledger.
UPDATE conversations SET side_input_tokens = made.input, side_output_tokens = made.output
FROM (SELECT conversation_pk, sum(input_tokens) AS input, sum(output_tokens) AS output FROM compactions
      GROUP BY conversation_pk) made
WHERE made.conversation_pk = conversations.pk;

-- What its turns and Herma's own calls cost, in millionths; NULL while no price was set.
ALTER TABLE conversations ADD COLUMN cost INTEGER;

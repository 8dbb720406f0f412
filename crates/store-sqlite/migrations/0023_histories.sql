-- The history at the end of a turn: a digest over all messages that its client was shown. The key is made of the
-- tenant, the session key and the last message, so one look-up finds the conversations that a history continues.
ALTER TABLE turns ADD COLUMN history BLOB;
ALTER TABLE turns ADD COLUMN history_key INTEGER;
CREATE INDEX turns_by_history ON turns (history_key, history, conversation_pk) WHERE history_key IS NOT NULL;

-- The history at the end of a conversation; NULL if it is not known.
ALTER TABLE conversations ADD COLUMN history BLOB;

-- The chat of a front end that it came under, as a digest.
ALTER TABLE conversations ADD COLUMN chat BLOB;
CREATE INDEX conversations_by_chat ON conversations (tenant_pk, chat, pk) WHERE chat IS NOT NULL;

-- Who made a compaction: Herma, or a client that compacts its context itself.
ALTER TABLE compactions ADD COLUMN made_by TEXT NOT NULL DEFAULT 'herma'
    CHECK (made_by = 'herma' OR made_by = 'client');

-- Facts about a session key. A key is never given again.
CREATE TABLE memories (
    pk              INTEGER PRIMARY KEY AUTOINCREMENT,
    id              BLOB    NOT NULL UNIQUE,
    tenant_pk       INTEGER NOT NULL REFERENCES tenants (pk),
    session_key     TEXT    NOT NULL,
    text            TEXT    NOT NULL,
    source          TEXT    NOT NULL CHECK (source = 'tool' OR source = 'api' OR source = 'summary' OR source = 'model'),
    -- The conversation it comes from.
    conversation_pk INTEGER,
    created_at      INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL
) STRICT;
CREATE INDEX memories_by_key ON memories (tenant_pk, session_key, pk);
CREATE INDEX memories_by_tenant ON memories (tenant_pk, pk);
CREATE INDEX memories_by_conversation ON memories (conversation_pk) WHERE conversation_pk IS NOT NULL;
CREATE TRIGGER memories_leave_conversation AFTER DELETE ON conversations BEGIN
    UPDATE memories SET conversation_pk = NULL WHERE conversation_pk = OLD.pk;
END;

-- The terms of facts, as `search_index` has those of messages. Written with the fact itself.
CREATE VIRTUAL TABLE memory_index USING fts5 (terms, content = '', detail = none, tokenize = 'ascii');
INSERT INTO memory_index (memory_index, rank) VALUES ('secure-delete', 1);

-- What memory did for a turn under a session key. `recorded` says whether later recalls may find what the turn says.
-- `sources` has the ids of the conversations and facts that the block quotes, separated by spaces.
CREATE TABLE recalls (
    turn_pk         INTEGER PRIMARY KEY,
    conversation_pk INTEGER NOT NULL,
    status          TEXT    NOT NULL CHECK (status = 'recalled' OR status = 'nothing' OR status = 'late'
                            OR status = 'failed' OR status = 'off'),
    recorded        INTEGER NOT NULL CHECK (recorded = 0 OR recorded = 1),
    block           TEXT,
    sources         TEXT,
    CHECK ((block IS NULL) = (sources IS NULL))
) STRICT;
CREATE INDEX recalls_with_block ON recalls (conversation_pk) WHERE block IS NOT NULL;
CREATE TRIGGER recalls_go_with_turn AFTER DELETE ON turns BEGIN
    DELETE FROM recalls WHERE turn_pk = OLD.pk;
END;

-- A message's terms now name the session key of its conversation, so that a recall reads no other key's entries. The
-- index is filled again from the beginning, behind the turns.
DROP TRIGGER search_forgets_message;
DROP TRIGGER search_rereads_message;
DROP TABLE search_index;
CREATE VIRTUAL TABLE search_index USING fts5 (terms, content = '', detail = none, tokenize = 'ascii');
INSERT INTO search_index (search_index, rank) VALUES ('secure-delete', 1);
UPDATE search_state SET through = 0, owner = 0, until = 0;
DELETE FROM search_forget;
DELETE FROM search_again;
INSERT INTO search_again SELECT -pk FROM conversations WHERE title IS NOT NULL AND title_is_excerpt = 0;
-- The key that the index has of the row. Titles have none.
ALTER TABLE search_forget ADD COLUMN session_key TEXT;

CREATE TRIGGER search_forgets_message AFTER DELETE ON messages WHEN OLD.pk <= (SELECT through FROM search_state) BEGIN
    INSERT INTO search_forget (key, said, tenant_pk, conversation_pk, session_key)
        SELECT OLD.pk, OLD.payload, s.tenant_pk, s.conversation_pk, c.session_key
        FROM sessions s JOIN conversations c ON c.pk = s.conversation_pk
        WHERE s.pk = OLD.session_pk AND OLD.compaction_pk IS NULL
        AND NOT EXISTS (SELECT 1 FROM search_again WHERE key = OLD.pk);
    DELETE FROM search_again WHERE key = OLD.pk;
    UPDATE search_state SET through = (SELECT coalesce(max(pk), 0) FROM messages)
        WHERE through > (SELECT coalesce(max(pk), 0) FROM messages);
END;

CREATE TRIGGER search_rereads_message AFTER UPDATE OF payload ON messages
WHEN OLD.pk <= (SELECT through FROM search_state) BEGIN
    INSERT INTO search_forget (key, said, tenant_pk, conversation_pk, session_key)
        SELECT OLD.pk, OLD.payload, s.tenant_pk, s.conversation_pk, c.session_key
        FROM sessions s JOIN conversations c ON c.pk = s.conversation_pk
        WHERE s.pk = OLD.session_pk AND OLD.compaction_pk IS NULL
        AND NOT EXISTS (SELECT 1 FROM search_again WHERE key = OLD.pk);
    INSERT OR IGNORE INTO search_again VALUES (OLD.pk);
END;

-- A conversation gets its key later, or loses it: its messages are indexed again.
CREATE TRIGGER search_rereads_conversation AFTER UPDATE OF session_key ON conversations
WHEN NEW.session_key IS NOT OLD.session_key BEGIN
    INSERT INTO search_forget (key, said, tenant_pk, conversation_pk, session_key)
        SELECT m.pk, m.payload, s.tenant_pk, s.conversation_pk, OLD.session_key
        FROM sessions s JOIN messages m ON m.session_pk = s.pk
        WHERE s.conversation_pk = OLD.pk AND m.compaction_pk IS NULL AND m.pk <= (SELECT through FROM search_state)
        AND NOT EXISTS (SELECT 1 FROM search_again WHERE key = m.pk);
    INSERT OR IGNORE INTO search_again
        SELECT m.pk FROM sessions s JOIN messages m ON m.session_pk = s.pk
        WHERE s.conversation_pk = OLD.pk AND m.compaction_pk IS NULL AND m.pk <= (SELECT through FROM search_state);
END;

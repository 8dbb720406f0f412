-- Words that many messages have. Of a message whose key is above `since`, the index has such a word but not its parts.
CREATE TABLE search_common (
    word  TEXT    PRIMARY KEY,
    since INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Grows with every change of `search_common`.
ALTER TABLE search_state ADD COLUMN common_changes INTEGER NOT NULL DEFAULT 0;
-- A process of an older version would write the parts of common words, and they would stay when the message is erased.
-- It does not know this name, so it cannot write the index.
ALTER TABLE search_state RENAME COLUMN until TO claimed_until;

-- If the last messages are deleted, the mark goes back also if none of them was indexed. Before, the next message could
-- get a key below the mark, and was never indexed.
DROP TRIGGER search_forgets_message;
CREATE TRIGGER search_forgets_message AFTER DELETE ON messages
WHEN OLD.pk <= (SELECT through FROM search_state)
OR (SELECT through FROM search_state) > (SELECT coalesce(max(pk), 0) FROM messages) BEGIN
    INSERT INTO search_forget (key, said, tenant_pk, conversation_pk, session_key)
        SELECT OLD.pk, OLD.payload, s.tenant_pk, s.conversation_pk, c.session_key
        FROM sessions s JOIN conversations c ON c.pk = s.conversation_pk
        WHERE s.pk = OLD.session_pk AND OLD.compaction_pk IS NULL AND OLD.pk <= (SELECT through FROM search_state)
        AND NOT EXISTS (SELECT 1 FROM search_again WHERE key = OLD.pk);
    DELETE FROM search_again WHERE key = OLD.pk;
    UPDATE search_state SET through = (SELECT coalesce(max(pk), 0) FROM messages)
        WHERE through > (SELECT coalesce(max(pk), 0) FROM messages);
END;
-- Messages that were left out that way.
INSERT OR IGNORE INTO search_again SELECT pk FROM messages
    WHERE compaction_pk IS NULL AND pk <= (SELECT through FROM search_state)
    AND pk NOT IN (SELECT id FROM search_index_docsize);

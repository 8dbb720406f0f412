-- A deleted text leaves the index too. An index with `contentless_delete` keeps the terms of deleted rows until they are merged. This one is
-- told what a row said, and takes its terms out. It is filled again from the beginning, behind the turns.
DROP TRIGGER search_forgets_message;
DROP TRIGGER search_rereads_message;
DROP TRIGGER search_reads_title;
DROP TRIGGER search_rereads_title;
DROP TRIGGER search_forgets_title;
DROP TABLE search_index;
CREATE VIRTUAL TABLE search_index USING fts5 (terms, content = '', detail = none, tokenize = 'ascii');
INSERT INTO search_index (search_index, rank) VALUES ('secure-delete', 1);
UPDATE search_state SET through = 0, owner = 0, until = 0;
DELETE FROM search_again;
INSERT INTO search_again SELECT -pk FROM conversations WHERE title IS NOT NULL AND echoing = 0;

-- What rows said that the index still has and that have gone or changed: the payload of a message, or a title. Emptied within seconds, and
-- before anything else is indexed, because a row's key may be given again.
CREATE TABLE search_forget (
    pk              INTEGER PRIMARY KEY AUTOINCREMENT,
    key             INTEGER NOT NULL,
    said            TEXT NOT NULL,
    tenant_pk       INTEGER NOT NULL,
    conversation_pk INTEGER NOT NULL
) STRICT;

-- A message is in the index if it is not above the mark, is no summary, and is not in `search_again`. The mark never stands above the last
-- message.
CREATE TRIGGER search_forgets_message AFTER DELETE ON messages WHEN OLD.pk <= (SELECT through FROM search_state) BEGIN
    INSERT INTO search_forget (key, said, tenant_pk, conversation_pk)
        SELECT OLD.pk, OLD.payload, tenant_pk, conversation_pk FROM sessions
        WHERE pk = OLD.session_pk AND OLD.compaction_pk IS NULL AND NOT EXISTS (SELECT 1 FROM search_again WHERE key = OLD.pk);
    DELETE FROM search_again WHERE key = OLD.pk;
    UPDATE search_state SET through = (SELECT coalesce(max(pk), 0) FROM messages)
        WHERE through > (SELECT coalesce(max(pk), 0) FROM messages);
END;

CREATE TRIGGER search_rereads_message AFTER UPDATE OF payload ON messages WHEN OLD.pk <= (SELECT through FROM search_state) BEGIN
    INSERT INTO search_forget (key, said, tenant_pk, conversation_pk)
        SELECT OLD.pk, OLD.payload, tenant_pk, conversation_pk FROM sessions
        WHERE pk = OLD.session_pk AND OLD.compaction_pk IS NULL AND NOT EXISTS (SELECT 1 FROM search_again WHERE key = OLD.pk);
    INSERT OR IGNORE INTO search_again VALUES (OLD.pk);
END;

-- A title is in the index if it does not only repeat first words and is not in `search_again`.
CREATE TRIGGER search_reads_title AFTER INSERT ON conversations WHEN NEW.title IS NOT NULL AND NEW.echoing = 0 BEGIN
    INSERT OR IGNORE INTO search_again VALUES (-NEW.pk);
END;

CREATE TRIGGER search_rereads_title AFTER UPDATE OF title, echoing ON conversations
WHEN (NEW.title IS NOT OLD.title OR NEW.echoing <> OLD.echoing) AND NOT (OLD.title IS NULL AND NEW.echoing = 1) BEGIN
    INSERT INTO search_forget (key, said, tenant_pk, conversation_pk)
        SELECT -OLD.pk, OLD.title, OLD.tenant_pk, OLD.pk
        WHERE OLD.title IS NOT NULL AND OLD.echoing = 0 AND NOT EXISTS (SELECT 1 FROM search_again WHERE key = -OLD.pk);
    DELETE FROM search_again WHERE key = -OLD.pk;
    INSERT INTO search_again SELECT -NEW.pk WHERE NEW.title IS NOT NULL AND NEW.echoing = 0;
END;

CREATE TRIGGER search_forgets_title AFTER DELETE ON conversations WHEN OLD.title IS NOT NULL AND OLD.echoing = 0 BEGIN
    INSERT INTO search_forget (key, said, tenant_pk, conversation_pk)
        SELECT -OLD.pk, OLD.title, OLD.tenant_pk, OLD.pk
        WHERE NOT EXISTS (SELECT 1 FROM search_again WHERE key = -OLD.pk);
    DELETE FROM search_again WHERE key = -OLD.pk;
END;

-- How often the search index was written, by any process. It only grows, so a process can tell whether what it has read
-- of the index is still complete. Deleted rows let `through` go down, and a number may be used again.
ALTER TABLE search_state ADD COLUMN writes INTEGER NOT NULL DEFAULT 0;
CREATE TRIGGER search_counts_writes AFTER UPDATE OF through ON search_state BEGIN
    UPDATE search_state SET writes = writes + 1;
END;

-- A message that waits to be indexed again may still be found by its old terms. If it is deleted meanwhile, it adds no
-- row to `search_forget`, which would raise the version of its key.
CREATE TRIGGER memory_version_of_waiting_message BEFORE DELETE ON messages
WHEN EXISTS (SELECT 1 FROM search_again WHERE key = OLD.pk) BEGIN
    UPDATE memory_state SET changes = changes + 1;
    INSERT INTO memory_versions SELECT c.tenant_pk, c.session_key, m.changes
        FROM sessions s JOIN conversations c ON c.pk = s.conversation_pk JOIN memory_state m
        WHERE s.pk = OLD.session_pk AND c.session_key IS NOT NULL
        ON CONFLICT DO UPDATE SET version = excluded.version;
END;

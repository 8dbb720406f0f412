-- The version of what is remembered about a session key. It changes when a fact changes, or when something that was
-- said may be recalled no more. That more was said does not change it. So a process can keep what it has read.
-- A number is never given twice. A key without a row has the version `floor`.
CREATE TABLE memory_state (
    pk      INTEGER PRIMARY KEY CHECK (pk = 1),
    changes INTEGER NOT NULL,
    floor   INTEGER NOT NULL
) STRICT;
INSERT INTO memory_state VALUES (1, 0, 0);

CREATE TABLE memory_versions (
    tenant_pk   INTEGER NOT NULL,
    session_key TEXT    NOT NULL,
    version     INTEGER NOT NULL,
    PRIMARY KEY (tenant_pk, session_key)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER memory_versions_leave_floor AFTER DELETE ON memory_versions BEGIN
    UPDATE memory_state SET changes = changes + 1, floor = changes + 1;
END;

CREATE TRIGGER memory_version_of_new_fact AFTER INSERT ON memories BEGIN
    UPDATE memory_state SET changes = changes + 1;
    INSERT INTO memory_versions SELECT NEW.tenant_pk, NEW.session_key, changes FROM memory_state WHERE true
        ON CONFLICT DO UPDATE SET version = excluded.version;
END;
CREATE TRIGGER memory_version_of_changed_fact AFTER UPDATE ON memories BEGIN
    UPDATE memory_state SET changes = changes + 1;
    INSERT INTO memory_versions SELECT NEW.tenant_pk, NEW.session_key, changes FROM memory_state WHERE true
        ON CONFLICT DO UPDATE SET version = excluded.version;
END;
CREATE TRIGGER memory_version_of_deleted_fact AFTER DELETE ON memories BEGIN
    UPDATE memory_state SET changes = changes + 1;
    INSERT INTO memory_versions SELECT OLD.tenant_pk, OLD.session_key, changes FROM memory_state WHERE true
        ON CONFLICT DO UPDATE SET version = excluded.version;
END;
-- A message that the index has was deleted or changed, or its conversation lost its key.
CREATE TRIGGER memory_version_of_deleted_message AFTER INSERT ON search_forget WHEN NEW.session_key IS NOT NULL BEGIN
    UPDATE memory_state SET changes = changes + 1;
    INSERT INTO memory_versions SELECT NEW.tenant_pk, NEW.session_key, changes FROM memory_state WHERE true
        ON CONFLICT DO UPDATE SET version = excluded.version;
END;
CREATE TRIGGER memory_version_of_conversation AFTER UPDATE OF rewinds, deleted ON conversations
WHEN OLD.session_key IS NOT NULL BEGIN
    UPDATE memory_state SET changes = changes + 1;
    INSERT INTO memory_versions SELECT OLD.tenant_pk, OLD.session_key, changes FROM memory_state WHERE true
        ON CONFLICT DO UPDATE SET version = excluded.version;
END;

-- Turns that have the lease of their conversation, and of which nothing else is written yet: one small row in place of
-- a turn, a message and a changed conversation. The commit of such a turn deletes the row and writes the rest at once.
-- Everything else that could notice the turn writes it out first. docs/adr/0006 says why.
CREATE TABLE admissions (
    conversation_pk INTEGER PRIMARY KEY,
    turn_pk         INTEGER NOT NULL,
    tenant_pk       INTEGER NOT NULL,
    id              BLOB    NOT NULL,
    owner           INTEGER NOT NULL,
    fence           INTEGER NOT NULL,
    api             TEXT    NOT NULL,
    resolution      TEXT    NOT NULL,
    fingerprint     BLOB    NOT NULL,
    sdk_attempt     INTEGER NOT NULL,
    created_at      INTEGER NOT NULL,
    echo            TEXT,
    kept            INTEGER NOT NULL,
    -- The one message that the turn was asked with.
    message_id      BLOB    NOT NULL,
    role            TEXT    NOT NULL,
    status          TEXT    NOT NULL,
    payload         TEXT    NOT NULL,
    extra           TEXT,
    digest          BLOB    NOT NULL,
    calls           TEXT,
    tokens          INTEGER NOT NULL
) STRICT;

-- The number of a turn is taken from `sqlite_sequence` before the turn is written.
INSERT INTO sqlite_sequence (name, seq) SELECT 'turns', 0
WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'turns');

-- A process of an earlier release does not know these rows and could give the lease twice. Its admissions fail on the
-- old name, until it is restarted.
ALTER TABLE turns RENAME COLUMN brought_key TO brings_key;

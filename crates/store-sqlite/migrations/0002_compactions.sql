-- The ledger: every compaction, also those that failed, and every undo.
CREATE TABLE compactions (
    pk                INTEGER PRIMARY KEY,
    tenant_pk         INTEGER NOT NULL REFERENCES tenants (pk),
    conversation_pk   INTEGER NOT NULL REFERENCES conversations (pk),
    id                BLOB    NOT NULL UNIQUE,
    action            TEXT    NOT NULL CHECK (action IN ('compact', 'undo')),
    mode              TEXT    NOT NULL CHECK (mode IN ('split', 'in_place')),
    trigger           TEXT    NOT NULL CHECK (trigger IN ('threshold', 'context_length', 'manual')),
    outcome           TEXT    NOT NULL CHECK (outcome IN ('applied', 'failed', 'undone')),
    session_before_pk INTEGER NOT NULL,
    session_after_pk  INTEGER NOT NULL,
    -- The compaction on which the head stood before this one.
    base_pk           INTEGER,
    first_seq         INTEGER NOT NULL,
    through_seq       INTEGER NOT NULL,
    -- No message after the range lies in an earlier session than this.
    tail_session_pk   INTEGER,
    summary_pk        INTEGER,
    model             TEXT,
    tokens_before     INTEGER NOT NULL,
    tokens_after      INTEGER NOT NULL,
    input_tokens      INTEGER NOT NULL DEFAULT 0,
    output_tokens     INTEGER NOT NULL DEFAULT 0,
    cached_tokens     INTEGER NOT NULL DEFAULT 0,
    reasoning_tokens  INTEGER NOT NULL DEFAULT 0,
    duration_ms       INTEGER NOT NULL DEFAULT 0,
    failure           TEXT,
    undoes_pk         INTEGER,
    undone_by_pk      INTEGER,
    turn_pk           INTEGER,
    created_at        INTEGER NOT NULL
) STRICT;
CREATE INDEX compactions_by_conversation ON compactions (conversation_pk);

-- Messages of a compaction's range that are kept word for word.
CREATE TABLE carried (
    compaction_pk INTEGER NOT NULL REFERENCES compactions (pk),
    seq           INTEGER NOT NULL,
    message_pk    INTEGER NOT NULL,
    PRIMARY KEY (compaction_pk, seq)
) STRICT, WITHOUT ROWID;

-- Messages that every compaction keeps word for word.
CREATE TABLE pins (
    conversation_pk INTEGER NOT NULL REFERENCES conversations (pk),
    seq             INTEGER NOT NULL,
    message_pk      INTEGER NOT NULL,
    PRIMARY KEY (conversation_pk, seq)
) STRICT, WITHOUT ROWID;

-- Of a summary, the compaction that wrote it; it is no turn's. Of what was said, nothing.
ALTER TABLE messages ADD COLUMN compaction_pk INTEGER;

-- What the model server last counted, up to which message.
ALTER TABLE conversations ADD COLUMN counted_seq INTEGER;
ALTER TABLE conversations ADD COLUMN counted_tokens INTEGER;
-- Whether the last compaction was undone.
ALTER TABLE conversations ADD COLUMN held_back INTEGER NOT NULL DEFAULT 0 CHECK (held_back IN (0, 1));

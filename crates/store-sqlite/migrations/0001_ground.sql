CREATE TABLE tenants (
    pk         INTEGER PRIMARY KEY,
    name       TEXT    NOT NULL UNIQUE,
    created_at INTEGER NOT NULL
) STRICT;

CREATE TABLE api_keys (
    id           BLOB    NOT NULL PRIMARY KEY,
    tenant_pk    INTEGER NOT NULL REFERENCES tenants (pk),
    hash         BLOB    NOT NULL UNIQUE,
    hint         TEXT    NOT NULL,
    session_keys TEXT,
    created_at   INTEGER NOT NULL,
    revoked_at   INTEGER
) STRICT;

-- Processes that hold or wait for leases. `name` is also the name of the lock file the process holds.
CREATE TABLE instances (
    pk         INTEGER PRIMARY KEY AUTOINCREMENT,
    name       TEXT    NOT NULL UNIQUE,
    expires_at INTEGER NOT NULL
) STRICT;

-- Columns that name a row of another table are foreign keys only where an index leads back: without one, every deletion of a parent
-- would read all of the child table.
CREATE TABLE conversations (
    pk               INTEGER PRIMARY KEY,
    tenant_pk        INTEGER NOT NULL REFERENCES tenants (pk),
    id               BLOB    NOT NULL UNIQUE,
    head_pk          INTEGER NOT NULL,
    root_pk          INTEGER NOT NULL,
    previous_pk      INTEGER,
    origin_kind      TEXT    NOT NULL CHECK (origin_kind IN ('main', 'auxiliary', 'background', 'branch')),
    session_key      TEXT,
    owner_key        BLOB,
    source           TEXT    NOT NULL,
    title            TEXT,
    cwd              TEXT,
    metadata         TEXT,
    system           TEXT,
    archived         INTEGER NOT NULL DEFAULT 0 CHECK (archived IN (0, 1)),
    version          INTEGER NOT NULL,
    fence            INTEGER NOT NULL,
    running_turn     INTEGER,
    waiting          INTEGER NOT NULL DEFAULT 0,
    -- Whether its first turn was taken back while others waited: the next to start makes it, and it goes with the last of them.
    unmade           INTEGER NOT NULL DEFAULT 0 CHECK (unmade IN (0, 1)),
    next_seq         INTEGER NOT NULL,
    message_count    INTEGER NOT NULL DEFAULT 0,
    turn_count       INTEGER NOT NULL DEFAULT 0,
    input_tokens     INTEGER NOT NULL DEFAULT 0,
    output_tokens    INTEGER NOT NULL DEFAULT 0,
    cached_tokens    INTEGER NOT NULL DEFAULT 0,
    reasoning_tokens INTEGER NOT NULL DEFAULT 0,
    compaction_count INTEGER NOT NULL DEFAULT 0,
    compaction_mode  TEXT CHECK (compaction_mode IN ('split', 'in_place')),
    created_at       INTEGER NOT NULL,
    updated_at       INTEGER NOT NULL,
    ended_at         INTEGER,
    end_reason       TEXT
) STRICT;
CREATE INDEX conversations_by_change ON conversations (tenant_pk, updated_at DESC, pk DESC);

CREATE TABLE sessions (
    pk                 INTEGER PRIMARY KEY,
    tenant_pk          INTEGER NOT NULL REFERENCES tenants (pk),
    conversation_pk    INTEGER NOT NULL REFERENCES conversations (pk) DEFERRABLE INITIALLY DEFERRED,
    id                 TEXT    NOT NULL,
    kind               TEXT    NOT NULL CHECK (kind IN ('main', 'auxiliary', 'background', 'branch', 'continuation')),
    depth              INTEGER NOT NULL,
    -- The parent by name, so that it stays readable when the parent is deleted.
    parent_id          TEXT,
    parent_relation    TEXT CHECK (parent_relation IN ('continuation', 'branch', 'delegate', 'background', 'import')),
    creator_kind       TEXT    NOT NULL CHECK (creator_kind IN
                       ('user', 'api', 'acp', 'cli', 'compression', 'delegate_task', 'branch', 'schedule', 'import')),
    reason             TEXT,
    -- What this session inherits: everything in `base_session_pk` up to `base_seq`, seen through a compaction if there is one.
    base_session_pk    INTEGER,
    base_seq           INTEGER,
    base_compaction_pk INTEGER,
    created_at         INTEGER NOT NULL,
    ended_at           INTEGER,
    end_reason         TEXT,
    CHECK ((parent_id IS NULL) = (parent_relation IS NULL))
) STRICT;
CREATE INDEX sessions_by_conversation ON sessions (conversation_pk);
CREATE INDEX sessions_by_parent ON sessions (parent_id, tenant_pk);

CREATE TABLE aliases (
    tenant_pk       INTEGER NOT NULL REFERENCES tenants (pk),
    namespace       TEXT    NOT NULL CHECK (namespace IN ('session', 'chat_id')),
    alias           TEXT    NOT NULL,
    conversation_pk INTEGER NOT NULL REFERENCES conversations (pk) DEFERRABLE INITIALLY DEFERRED,
    session_pk      INTEGER,
    turn_pk         INTEGER,
    PRIMARY KEY (tenant_pk, namespace, alias)
) STRICT, WITHOUT ROWID;
CREATE INDEX aliases_by_conversation ON aliases (conversation_pk);

CREATE TABLE turns (
    pk               INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant_pk        INTEGER NOT NULL REFERENCES tenants (pk),
    id               BLOB    NOT NULL UNIQUE,
    conversation_pk  INTEGER NOT NULL,
    session_pk       INTEGER NOT NULL,
    api              TEXT    NOT NULL,
    state            TEXT    NOT NULL CHECK (state IN ('queued', 'running', 'completed', 'failed', 'cancelled', 'interrupted')),
    attempt          INTEGER NOT NULL DEFAULT 1,
    fence            INTEGER NOT NULL,
    owner            INTEGER NOT NULL,
    priority         INTEGER NOT NULL DEFAULT 0,
    resolution       TEXT    NOT NULL CHECK (resolution IN ('created', 'head', 'moved', 'branched')),
    rotated          INTEGER NOT NULL DEFAULT 0 CHECK (rotated IN (0, 1)),
    fingerprint      BLOB    NOT NULL,
    retried          INTEGER NOT NULL DEFAULT 0,
    delivered        INTEGER NOT NULL DEFAULT 0 CHECK (delivered IN (0, 1)),
    stop_requested   INTEGER,
    -- Whether the last attempt brought the conversation its session key.
    brought_key      INTEGER NOT NULL DEFAULT 0 CHECK (brought_key IN (0, 1)),
    -- Its messages lie in this range of its session; those it answered with, from `answer_seq` on.
    first_seq        INTEGER,
    answer_seq       INTEGER,
    last_seq         INTEGER,
    model            TEXT,
    finish_reason    TEXT,
    input_tokens     INTEGER,
    output_tokens    INTEGER,
    cached_tokens    INTEGER,
    reasoning_tokens INTEGER,
    failure_code     TEXT,
    failure_message  TEXT,
    upstream_status  INTEGER,
    created_at       INTEGER NOT NULL,
    ended_at         INTEGER
) STRICT;
CREATE INDEX turns_live ON turns (conversation_pk, priority DESC, pk) WHERE state IN ('queued', 'running');
CREATE INDEX turns_unanswered ON turns (conversation_pk, pk) WHERE state IN ('failed', 'cancelled', 'interrupted');
CREATE INDEX turns_undelivered ON turns (fingerprint) WHERE delivered = 0;

CREATE TABLE messages (
    pk         INTEGER PRIMARY KEY,
    session_pk INTEGER NOT NULL REFERENCES sessions (pk),
    seq        INTEGER NOT NULL,
    id         BLOB    NOT NULL,
    turn_pk    INTEGER NOT NULL,
    attempt    INTEGER NOT NULL,
    role       TEXT    NOT NULL CHECK (role IN ('user', 'assistant', 'tool')),
    status     TEXT    NOT NULL CHECK (status IN ('complete', 'partial')),
    payload    TEXT    NOT NULL,
    extra      TEXT,
    digest     BLOB    NOT NULL,
    calls      TEXT,
    tokens     INTEGER NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX messages_by_place ON messages (session_pk, seq);

-- What a running turn has shown so far, kept only until it ends.
CREATE TABLE turn_journal (
    turn_pk INTEGER NOT NULL,
    part    INTEGER NOT NULL,
    text    TEXT    NOT NULL,
    PRIMARY KEY (turn_pk, part)
) STRICT, WITHOUT ROWID;

CREATE TABLE idempotency (
    tenant_pk  INTEGER NOT NULL REFERENCES tenants (pk),
    scope      BLOB    NOT NULL,
    body       BLOB    NOT NULL,
    turn_pk    INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (tenant_pk, scope)
) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_by_turn ON idempotency (turn_pk);
CREATE INDEX idempotency_by_age ON idempotency (created_at);

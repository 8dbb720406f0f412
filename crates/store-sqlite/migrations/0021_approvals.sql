-- Turns that wait for people. Such a turn is running, but belongs to no process: its owner is 0.
CREATE TABLE parked_turns (
    turn_pk   INTEGER PRIMARY KEY,
    -- What the gateway needs to go on with the turn.
    request   TEXT    NOT NULL,
    parked_at INTEGER NOT NULL
) STRICT;

-- The questions of a turn that is parked, or was parked and still runs: whether a call may be made.
CREATE TABLE approvals (
    turn_pk    INTEGER NOT NULL,
    place      INTEGER NOT NULL,
    -- The message that makes the call lies before this place of the conversation.
    before_seq INTEGER NOT NULL,
    call_id    TEXT    NOT NULL,
    server     TEXT    NOT NULL,
    tool       TEXT    NOT NULL,
    asks       INTEGER NOT NULL CHECK (asks = 0 OR asks = 1),
    waits      INTEGER NOT NULL CHECK (waits = 0 OR waits = 1),
    name       TEXT    NOT NULL,
    arguments  TEXT    NOT NULL,
    asked_at   INTEGER NOT NULL,
    -- The answer, and its number among the answers of the turn.
    choice     TEXT    CHECK (choice = 'once' OR choice = 'session' OR choice = 'always' OR choice = 'deny'),
    answered   INTEGER,
    PRIMARY KEY (turn_pk, place),
    CHECK ((choice IS NULL) = (answered IS NULL))
) STRICT, WITHOUT ROWID;
CREATE INDEX approvals_open ON approvals (asked_at) WHERE choice IS NULL;

-- Tools whose calls are made without a question, in one conversation or in the whole tenant.
CREATE TABLE grants (
    tenant_pk       INTEGER NOT NULL REFERENCES tenants (pk),
    conversation_pk INTEGER REFERENCES conversations (pk),
    server          TEXT    NOT NULL,
    tool            TEXT    NOT NULL,
    created_at      INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX grants_by_tool ON grants (tenant_pk, server, tool, coalesce(conversation_pk, 0));
CREATE INDEX grants_by_conversation ON grants (conversation_pk) WHERE conversation_pk IS NOT NULL;

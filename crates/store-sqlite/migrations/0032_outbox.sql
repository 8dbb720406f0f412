-- What an outside memory provider has still to be told. Text is not copied here: a row names a turn.

-- The keys that the provider may know. Each has its own order, its own lease and its own pauses.
CREATE TABLE outbox_scopes (
    pk          INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant_pk   INTEGER NOT NULL,
    -- Empty for the tenant as a whole.
    session_key TEXT    NOT NULL,
    -- When the next row may be delivered: after a pause, or after the lease of `owner`. NULL if nothing waits.
    due_at      INTEGER,
    -- The process that delivers now; 0 if none does.
    owner       INTEGER NOT NULL DEFAULT 0,
    -- Counts the leases. An outcome that is reported under an older one changes nothing.
    claim       INTEGER NOT NULL DEFAULT 0,
    -- How often the first row was tried without success.
    failures    INTEGER NOT NULL DEFAULT 0,
    UNIQUE (tenant_pk, session_key)
) STRICT;
CREATE INDEX outbox_scopes_due ON outbox_scopes (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX outbox_scopes_claimed ON outbox_scopes (owner) WHERE owner <> 0;

CREATE TABLE outbox (
    pk              INTEGER PRIMARY KEY AUTOINCREMENT,
    scope_pk        INTEGER NOT NULL,
    task            TEXT    NOT NULL CHECK (task = 'record' OR task = 'erase_conversation' OR task = 'erase_key'
                            OR task = 'erase_tenant'),
    -- Of `record`: what was said.
    turn_pk         INTEGER,
    conversation_pk INTEGER,
    -- Of `erase_conversation`: the id of a conversation that is not here any more.
    conversation    BLOB,
    -- Of the others: the receipt for which this is pending.
    erasure         BLOB,
    -- Whether an earlier attempt may have reached the provider.
    tried           INTEGER NOT NULL DEFAULT 0 CHECK (tried = 0 OR tried = 1),
    -- Whether the provider cannot do this before the whole key is erased.
    held            INTEGER NOT NULL DEFAULT 0 CHECK (held = 0 OR held = 1),
    created_at      INTEGER NOT NULL,
    CHECK ((task = 'record') = (turn_pk IS NOT NULL)),
    CHECK ((task = 'record') = (conversation_pk IS NOT NULL)),
    CHECK ((task = 'erase_conversation') = (conversation IS NOT NULL))
) STRICT;
CREATE INDEX outbox_by_scope ON outbox (scope_pk, pk);
CREATE INDEX outbox_by_conversation ON outbox (conversation_pk) WHERE conversation_pk IS NOT NULL;
CREATE INDEX outbox_by_erasure ON outbox (erasure) WHERE erasure IS NOT NULL;

-- The conversations of which the provider may know something.
CREATE TABLE outbox_conversations (conversation_pk INTEGER PRIMARY KEY) STRICT;
CREATE TRIGGER outbox_forgets_conversation AFTER DELETE ON conversations BEGIN
    DELETE FROM outbox WHERE conversation_pk = OLD.pk;
    DELETE FROM outbox_conversations WHERE conversation_pk = OLD.pk;
END;

CREATE TABLE outbox_state (
    -- Makes names at the provider differ from those of other stores.
    store_name   TEXT    NOT NULL,
    -- Turns that were given up, because they were too many or the provider refused them.
    dropped      INTEGER NOT NULL DEFAULT 0,
    delivered_at INTEGER,
    failed_at    INTEGER,
    error        TEXT
) STRICT;
INSERT INTO outbox_state (store_name) VALUES (lower(hex(randomblob(8))));

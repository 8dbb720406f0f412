-- How many events a tenant has had, and up to which of them they are no longer kept.
ALTER TABLE tenants ADD COLUMN event_count INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tenants ADD COLUMN events_forgotten INTEGER NOT NULL DEFAULT 0;

-- What happened to conversations, numbered from 1 on for every tenant. A number is never given again.
CREATE TABLE events (
    tenant_pk       INTEGER NOT NULL REFERENCES tenants (pk),
    number          INTEGER NOT NULL,
    kind            TEXT    NOT NULL,
    at              INTEGER NOT NULL,
    -- The conversation while it exists, whose session key says who is told. Of one that is gone, the key it had.
    conversation_pk INTEGER,
    session_key     TEXT,
    data            TEXT    NOT NULL,
    PRIMARY KEY (tenant_pk, number)
) STRICT, WITHOUT ROWID;
CREATE INDEX events_by_conversation ON events (conversation_pk);

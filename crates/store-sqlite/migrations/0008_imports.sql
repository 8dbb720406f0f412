-- Which sessions of another program's file became which of ours.
CREATE TABLE imports (
    tenant_pk       INTEGER NOT NULL REFERENCES tenants (pk),
    -- The file, and the session's id in it.
    file            TEXT    NOT NULL,
    origin          TEXT    NOT NULL,
    conversation_pk INTEGER NOT NULL REFERENCES conversations (pk),
    session_pk      INTEGER NOT NULL,
    -- What was brought, digested, and the conversation's version then: whatever happens to it here raises that.
    content         BLOB    NOT NULL,
    version         INTEGER NOT NULL,
    PRIMARY KEY (tenant_pk, file, origin)
) STRICT, WITHOUT ROWID;
CREATE INDEX imports_by_conversation ON imports (conversation_pk);

-- Receipts of erasures. No row says what was erased.
CREATE TABLE erasures (
    pk             INTEGER PRIMARY KEY AUTOINCREMENT,
    id             BLOB    NOT NULL UNIQUE,
    -- 0 if the whole tenant was erased.
    tenant_pk      INTEGER NOT NULL,
    -- The API key that asked for it.
    asked_by       BLOB,
    created_at     INTEGER NOT NULL,
    -- How much was removed, as JSON.
    removed        TEXT    NOT NULL,
    -- What the second reading found. NULL until then.
    left_over      INTEGER,
    kept           INTEGER,
    -- Rows of `search_forget` up to this key may be of this erasure.
    forget_through INTEGER NOT NULL,
    -- Whether no file has erased text any more.
    scrubbed       INTEGER NOT NULL DEFAULT 0 CHECK (scrubbed = 0 OR scrubbed = 1)
) STRICT;
CREATE INDEX erasures_by_tenant ON erasures (tenant_pk, pk);
CREATE INDEX erasures_pending ON erasures (pk) WHERE scrubbed = 0;

-- The row of an erased tenant stays without its name, so that its key is never given again.
ALTER TABLE tenants ADD COLUMN erased INTEGER NOT NULL DEFAULT 0 CHECK (erased = 0 OR erased = 1);

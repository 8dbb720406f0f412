-- Whether nobody answered in time. Then the question counts as denied.
ALTER TABLE approvals ADD COLUMN expired INTEGER NOT NULL DEFAULT 0 CHECK (expired = 0 OR expired = 1);

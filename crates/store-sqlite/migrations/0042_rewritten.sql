-- A block of recalled text may quote a message that is changed or deleted before the turn of the block ends. So a
-- conversation has the value of `memory_state.changes` after one of its messages was last changed or deleted. 0 if that
-- was never, or before this file.
ALTER TABLE conversations ADD COLUMN rewritten INTEGER NOT NULL DEFAULT 0;

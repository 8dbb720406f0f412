-- Prompt tokens that the model server wrote to its cache; NULL if none, or if it does not say.
ALTER TABLE turns ADD COLUMN cache_write_tokens INTEGER;

-- Whether a model ever answered in it. What a branch inherits counts; items that a client added are no answer.
ALTER TABLE conversations ADD COLUMN answered INTEGER NOT NULL DEFAULT 0 CHECK (answered = 0 OR answered = 1);
UPDATE conversations SET answered = 1
WHERE pk IN (SELECT conversation_pk FROM turns WHERE state = 'completed' AND answer_seq <= last_seq)
    OR root_pk IN (SELECT pk FROM sessions WHERE kind = 'branch' AND base_seq > 0);

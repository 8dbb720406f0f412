-- Prompt tokens that the model server wrote to its cache; NULL if none, or if it does not say.
ALTER TABLE turns ADD COLUMN cache_write_tokens INTEGER;

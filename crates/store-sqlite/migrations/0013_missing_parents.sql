-- Whose session its parent is while that conversation is not here: if it comes back, the two are linked again.
ALTER TABLE sessions ADD COLUMN missing_parent BLOB;
CREATE INDEX sessions_missing_parent ON sessions (missing_parent) WHERE missing_parent IS NOT NULL;
-- Of those that were deleted before, what branches inherit tells whose it was.
UPDATE sessions SET missing_parent = deleted.id FROM sessions base JOIN conversations deleted ON deleted.pk = base.conversation_pk AND deleted.deleted = 1,
    conversations own
WHERE sessions.kind = 'branch' AND sessions.parent_pk IS NULL AND base.pk = sessions.base_session_pk AND base.id = sessions.parent_id
    AND own.pk = sessions.conversation_pk AND own.deleted = 0;

-- The parent's row while the parent exists. A name may be another session's later; a row that goes leaves nothing here.
ALTER TABLE sessions ADD COLUMN parent_pk INTEGER;
UPDATE sessions SET parent_pk = base_session_pk WHERE base_session_pk IN
    (SELECT s.pk FROM sessions s JOIN conversations c ON c.pk = s.conversation_pk WHERE c.deleted = 0)
    AND conversation_pk IN (SELECT pk FROM conversations WHERE deleted = 0);
DROP INDEX sessions_by_parent;
CREATE INDEX sessions_by_parent ON sessions (parent_pk, pk) WHERE parent_pk IS NOT NULL;

-- The conversation that its first session's parent lies in, while that exists.
ALTER TABLE conversations ADD COLUMN parent_pk INTEGER;
UPDATE conversations SET parent_pk = (SELECT p.conversation_pk FROM sessions r JOIN sessions p ON p.pk = r.parent_pk WHERE r.pk = root_pk)
    WHERE origin_kind <> 'main' AND deleted = 0;

-- Lists. Every kind is a range of its own, so that no page reads through what it does not show. What changes with every turn is in one index,
-- and in others only if the conversation is put away, has gone on in another session, has a session key or a parent.
DROP INDEX conversations_by_change;
CREATE INDEX conversations_by_change ON conversations (tenant_pk, origin_kind, updated_at, pk) WHERE deleted = 0 AND archived = 0;
CREATE INDEX conversations_put_away ON conversations (tenant_pk, origin_kind, updated_at, pk) WHERE deleted = 0 AND archived = 1;
CREATE INDEX conversations_gone_on ON conversations (tenant_pk, origin_kind, updated_at, pk) WHERE deleted = 0 AND previous_pk IS NOT NULL;
CREATE INDEX conversations_by_age ON conversations (tenant_pk, origin_kind, created_at, pk) WHERE deleted = 0;
CREATE INDEX conversations_by_key ON conversations (tenant_pk, session_key, updated_at, pk) WHERE session_key IS NOT NULL;
CREATE INDEX conversations_by_parent ON conversations (parent_pk, updated_at, pk) WHERE parent_pk IS NOT NULL;

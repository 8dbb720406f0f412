-- Whether it was deleted, and stays only as far as branches inherit of it: found by no name, in no list.
ALTER TABLE conversations ADD COLUMN deleted INTEGER NOT NULL DEFAULT 0 CHECK (deleted IN (0, 1));

-- Which branches begin in a session, and where.
CREATE INDEX sessions_by_base ON sessions (base_session_pk, base_seq) WHERE kind = 'branch';

-- Turns that no message leads to: those that wait, and those of which nothing is left.
CREATE INDEX turns_of_nothing ON turns (conversation_pk) WHERE first_seq IS NULL;

-- How often something was taken out of what was said.
ALTER TABLE conversations ADD COLUMN rewrites INTEGER NOT NULL DEFAULT 0;

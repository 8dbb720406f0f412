-- Conversations under a session key that a model reads for facts when they are finished. Rows are added with turns
-- while `wanted` is 1.
CREATE TABLE readings (
    conversation_pk INTEGER PRIMARY KEY,
    -- The last place that was read.
    through         INTEGER NOT NULL DEFAULT 0,
    -- The last turn that is to be read. `waiting` is 0 if it was.
    last_turn       INTEGER NOT NULL,
    waiting         INTEGER NOT NULL DEFAULT 1 CHECK (waiting = 0 OR waiting = 1),
    -- No process reads it before this moment: the conversation may go on, a process reads it, or a reading failed.
    not_before      INTEGER NOT NULL,
    -- Counts the processes that began to read it. The result of an earlier one is not taken.
    claim           INTEGER NOT NULL DEFAULT 0,
    -- The process that reads it.
    owner           INTEGER,
    failures        INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX readings_due ON readings (not_before) WHERE waiting = 1;
CREATE INDEX readings_claimed ON readings (owner) WHERE owner IS NOT NULL;

CREATE TABLE reading_state (
    pk     INTEGER PRIMARY KEY CHECK (pk = 1),
    wanted INTEGER NOT NULL CHECK (wanted = 0 OR wanted = 1)
) STRICT;
INSERT INTO reading_state VALUES (1, 0);

CREATE TRIGGER readings_go_with_conversation AFTER DELETE ON conversations BEGIN
    DELETE FROM readings WHERE conversation_pk = OLD.pk;
END;
-- A conversation that was ended is finished at once.
CREATE TRIGGER readings_of_ended AFTER UPDATE OF ended_at ON conversations WHEN NEW.ended_at IS NOT NULL BEGIN
    UPDATE readings SET not_before = 0 WHERE conversation_pk = NEW.pk AND waiting = 1 AND failures = 0;
END;

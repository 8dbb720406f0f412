-- What a turn brings whose id was given out while it waited: until it begins, or for ever if it never does.
CREATE TABLE waiting_messages (
    turn_pk INTEGER NOT NULL,
    place   INTEGER NOT NULL,
    id      BLOB    NOT NULL,
    role    TEXT    NOT NULL,
    status  TEXT    NOT NULL,
    payload TEXT    NOT NULL,
    extra   TEXT,
    digest  BLOB    NOT NULL,
    calls   TEXT,
    tokens  INTEGER NOT NULL,
    PRIMARY KEY (turn_pk, place)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER waiting_messages_go_with_their_turn AFTER DELETE ON turns
BEGIN
    DELETE FROM waiting_messages WHERE turn_pk = OLD.pk;
END;

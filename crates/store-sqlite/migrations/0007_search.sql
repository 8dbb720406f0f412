-- What messages and titles are found by: terms that the program makes of them. A row's number is the message's key, or, less than zero, the key of the
-- conversation whose title it is. Written behind the turns, never inside them.
CREATE VIRTUAL TABLE search_index USING fts5 (terms, content = '', contentless_delete = 1, detail = none, tokenize = 'ascii');

-- Every message up to `through` is indexed, but for those in `search_again`. Who last wrote to the index, and until when the others leave it to them.
CREATE TABLE search_state (
    pk      INTEGER PRIMARY KEY CHECK (pk = 1),
    through INTEGER NOT NULL,
    owner   INTEGER NOT NULL,
    until   INTEGER NOT NULL
) STRICT;
INSERT INTO search_state VALUES (1, 0, 0, 0);

-- What has changed since it was indexed, numbered as in the index.
CREATE TABLE search_again (key INTEGER PRIMARY KEY) STRICT;
INSERT INTO search_again SELECT -pk FROM conversations WHERE title IS NOT NULL;

-- A message that goes leaves the index with it. Its key may be given again, so the mark never stands above the last message.
CREATE TRIGGER search_forgets_message AFTER DELETE ON messages WHEN OLD.pk <= (SELECT through FROM search_state) BEGIN
    DELETE FROM search_index WHERE rowid = OLD.pk;
    DELETE FROM search_again WHERE key = OLD.pk;
    UPDATE search_state SET through = (SELECT coalesce(max(pk), 0) FROM messages)
        WHERE through > (SELECT coalesce(max(pk), 0) FROM messages);
END;

CREATE TRIGGER search_rereads_message AFTER UPDATE OF payload ON messages WHEN OLD.pk <= (SELECT through FROM search_state) BEGIN
    DELETE FROM search_index WHERE rowid = OLD.pk;
    INSERT OR IGNORE INTO search_again VALUES (OLD.pk);
END;

CREATE TRIGGER search_reads_title AFTER INSERT ON conversations WHEN NEW.title IS NOT NULL BEGIN
    INSERT OR IGNORE INTO search_again VALUES (-NEW.pk);
END;

CREATE TRIGGER search_rereads_title AFTER UPDATE OF title ON conversations WHEN NEW.title IS NOT OLD.title BEGIN
    DELETE FROM search_index WHERE rowid = -OLD.pk;
    DELETE FROM search_again WHERE key = -OLD.pk;
    INSERT INTO search_again SELECT -NEW.pk WHERE NEW.title IS NOT NULL;
END;

CREATE TRIGGER search_forgets_title AFTER DELETE ON conversations WHEN OLD.title IS NOT NULL BEGIN
    DELETE FROM search_index WHERE rowid = -OLD.pk;
    DELETE FROM search_again WHERE key = -OLD.pk;
END;

-- The words of facts. `scope` stands for a tenant and a session key, and is made of a digest. A row is written with its
-- fact. The facts that there are get their rows after this file has run.
CREATE TABLE memory_words (
    scope     INTEGER NOT NULL,
    word      TEXT    NOT NULL,
    memory_pk INTEGER NOT NULL,
    PRIMARY KEY (scope, word, memory_pk)
) STRICT, WITHOUT ROWID;
DROP TABLE memory_index;

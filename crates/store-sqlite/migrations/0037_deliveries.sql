-- Whether an answer was delivered is no longer written into the row of its turn, which costs as much as a message. Each
-- process says in its own row which of its turns were delivered: all up to this number, but not those in the list.
ALTER TABLE instances ADD COLUMN delivered_through INTEGER NOT NULL DEFAULT 0;
-- Numbers of turns, in rising order, 8 bytes each, the lowest byte first.
ALTER TABLE instances ADD COLUMN undelivered BLOB;

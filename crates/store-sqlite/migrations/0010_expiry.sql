-- Up to which turn responses were looked at for their age. Those up to there are forgotten, or never were kept.
CREATE TABLE expiry (
    through INTEGER NOT NULL
) STRICT;
INSERT INTO expiry (through) VALUES (0);

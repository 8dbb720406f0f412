-- What an API key may not do: write, be used after a time, ask more often than this, run more turns at once than this.
-- `rate` is a number and a period, such as '60/min'.
ALTER TABLE api_keys ADD COLUMN read_only INTEGER NOT NULL DEFAULT 0 CHECK (read_only = 0 OR read_only = 1);
ALTER TABLE api_keys ADD COLUMN expires_at INTEGER;
ALTER TABLE api_keys ADD COLUMN rate TEXT;
ALTER TABLE api_keys ADD COLUMN max_turns INTEGER;

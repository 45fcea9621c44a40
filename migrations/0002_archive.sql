-- The archive: the record of truth of what was captured and read.
--
-- Every row ends in row_hash, XXH3-128 over the table's name and all other columns, because SQLite
-- has no page checksums and a damaged text is still a well-formed text. Rows of records and
-- messages are never updated. A conversation's row carries the sums over its records and
-- messages; a commit's row carries the digest of what it touched and the head of the chain.
--
-- Schema 1 had BLAKE3 there, of 32 bytes. Its rows are read and put into an archive of this schema
-- anew: a row's hash can't be changed without the sums and commits that cover it.

-- Facts fixed when the generation is made; the commit chain begins with their digest.
CREATE TABLE meta (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  value TEXT NOT NULL,
  row_hash BLOB NOT NULL CHECK (length(row_hash) = 16)
) STRICT;

-- One row a captured file: how far it was read and what became of its bytes. The counts and byte
-- sums are of the current epoch, a new one of which begins when a file was rewritten, except
-- skip_count and skips_sum, which cover all epochs. captured_hash is the content of the capture that
-- was read last: a ledger that begins anew may use its number again.
CREATE TABLE sources (
  id INTEGER PRIMARY KEY,
  source_key BLOB NOT NULL UNIQUE,
  source_id TEXT NOT NULL,
  provider TEXT NOT NULL,
  path BLOB NOT NULL,
  main_session TEXT,
  epoch INTEGER NOT NULL,
  parsed_seq INTEGER NOT NULL,
  captured_len INTEGER NOT NULL,
  next_offset INTEGER NOT NULL,
  next_line INTEGER NOT NULL,
  state BLOB NOT NULL,
  length INTEGER NOT NULL,
  message_records INTEGER NOT NULL,
  message_record_bytes INTEGER NOT NULL,
  known_records INTEGER NOT NULL,
  known_bytes INTEGER NOT NULL,
  unknown_records INTEGER NOT NULL,
  unknown_bytes INTEGER NOT NULL,
  duplicate_records INTEGER NOT NULL,
  duplicate_bytes INTEGER NOT NULL,
  skipped_bytes INTEGER NOT NULL,
  separator_bytes INTEGER NOT NULL,
  tail_offset INTEGER,
  tail_len INTEGER,
  tail_line INTEGER,
  message_count INTEGER NOT NULL,
  skip_count INTEGER NOT NULL,
  skips_sum BLOB NOT NULL,
  captured_hash BLOB NOT NULL,
  row_hash BLOB NOT NULL CHECK (length(row_hash) = 16)
) STRICT;

-- One row a conversation or linked branch of one. record_count counts its coverage keys (record
-- hash and occurrence), row_count its rows in records, position_count the keys that a source must
-- hold to be level with it, guest_count the keys that only files of other sessions hold.
CREATE TABLE conversations (
  id INTEGER PRIMARY KEY,
  public_id TEXT NOT NULL UNIQUE,
  source_id TEXT NOT NULL,
  provider TEXT NOT NULL,
  native_id TEXT NOT NULL,
  branch_of INTEGER REFERENCES conversations(id),
  branch_at BLOB,
  branch_hash BLOB,
  title TEXT,
  workspace TEXT,
  parent_session TEXT,
  harness_version TEXT,
  started_ms INTEGER,
  ended_ms INTEGER,
  revision INTEGER NOT NULL,
  record_count INTEGER NOT NULL,
  row_count INTEGER NOT NULL,
  position_count INTEGER NOT NULL,
  guest_count INTEGER NOT NULL,
  version_count INTEGER NOT NULL,
  message_count INTEGER NOT NULL,
  coverage_sum BLOB NOT NULL,
  rows_sum BLOB NOT NULL,
  row_hash BLOB NOT NULL CHECK (length(row_hash) = 16)
) STRICT;
CREATE INDEX conversations_native ON conversations(native_id);

-- One row a raw record of a source, the copies included. counted is 1 in the first row of a
-- conversation with this hash and occurrence. A row with duplicate_of has no messages: the row it
-- names has them. repeats_offset names a record of the same source that said the same.
CREATE TABLE records (
  id INTEGER PRIMARY KEY,
  conversation INTEGER NOT NULL REFERENCES conversations(id),
  source INTEGER NOT NULL REFERENCES sources(id),
  epoch INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  offset INTEGER NOT NULL,
  len INTEGER NOT NULL,
  line INTEGER NOT NULL,
  hash BLOB NOT NULL,
  occurrence INTEGER NOT NULL,
  counted INTEGER NOT NULL,
  disposition TEXT NOT NULL,
  duplicate_of INTEGER,
  repeats_offset INTEGER,
  supersedes INTEGER,
  recovery TEXT,
  record_type TEXT NOT NULL,
  native_id TEXT,
  native_parent TEXT,
  time_ms INTEGER,
  parser_version INTEGER NOT NULL,
  row_hash BLOB NOT NULL CHECK (length(row_hash) = 16)
) STRICT;
CREATE INDEX records_hash ON records(conversation, hash);
CREATE INDEX records_native ON records(conversation, native_id) WHERE native_id IS NOT NULL;
CREATE INDEX records_supersedes ON records(supersedes) WHERE supersedes IS NOT NULL;

-- What people read. id is the record's id times 2^24 plus the part's number, so that the messages
-- of a record are a range of ids and need no index.
CREATE TABLE messages (
  id INTEGER PRIMARY KEY,
  conversation INTEGER NOT NULL,
  role TEXT NOT NULL,
  kind TEXT NOT NULL,
  text TEXT NOT NULL,
  tool_name TEXT,
  call_id TEXT,
  model TEXT,
  is_error INTEGER,
  row_hash BLOB NOT NULL CHECK (length(row_hash) = 16)
) STRICT;

-- Bytes that hold no record.
CREATE TABLE skips (
  id INTEGER PRIMARY KEY,
  source INTEGER NOT NULL REFERENCES sources(id),
  epoch INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  offset INTEGER NOT NULL,
  len INTEGER NOT NULL,
  line INTEGER NOT NULL,
  reason TEXT NOT NULL,
  row_hash BLOB NOT NULL CHECK (length(row_hash) = 16)
) STRICT;
CREATE INDEX skips_source ON skips(source);

-- The chain: head = BLAKE3(prev_head, number, body); body covers the rows of the two tables below.
CREATE TABLE commits (
  id INTEGER PRIMARY KEY,
  prev_head BLOB NOT NULL,
  body BLOB NOT NULL,
  head BLOB NOT NULL,
  at_ms INTEGER NOT NULL,
  row_hash BLOB NOT NULL CHECK (length(row_hash) = 16)
) STRICT;

-- The captures that a commit read, and the hash of the source's row after it.
CREATE TABLE commit_captures (
  id INTEGER PRIMARY KEY,
  commit_number INTEGER NOT NULL,
  source INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  source_hash BLOB NOT NULL,
  row_hash BLOB NOT NULL CHECK (length(row_hash) = 16)
) STRICT;
CREATE INDEX commit_captures_of ON commit_captures(commit_number);

-- The conversations that a commit touched and their state after it: the range of record ids it
-- added, and how many positions the source then held.
CREATE TABLE commit_conversations (
  id INTEGER PRIMARY KEY,
  commit_number INTEGER NOT NULL,
  conversation INTEGER NOT NULL,
  source INTEGER NOT NULL,
  first_record INTEGER NOT NULL,
  last_record INTEGER NOT NULL,
  held INTEGER NOT NULL,
  revision INTEGER NOT NULL,
  record_count INTEGER NOT NULL,
  coverage_sum BLOB NOT NULL,
  rows_sum BLOB NOT NULL,
  conversation_hash BLOB NOT NULL,
  row_hash BLOB NOT NULL CHECK (length(row_hash) = 16)
) STRICT;
CREATE INDEX commit_conversations_of ON commit_conversations(commit_number);
CREATE INDEX commit_conversations_by ON commit_conversations(conversation, commit_number);

-- A row for each session with an id, computed from `event_facts` and `sessions`, in projects whose questions need it.
-- The leader of the facts fills them, one UTC day at a time; only rows of days in `session_fact_days` are read. Lost or
-- damaged rows do no harm, because the days are forgotten when ClickHouse starts.
CREATE TABLE IF NOT EXISTS session_facts
(
    project_id  LowCardinality(String),
    -- everything that the rows depend on besides the facts; a day with another definition is filled again
    definition  UInt64,
    -- the UTC day of the start
    day         Date32,
    -- the statement that wrote the row; greater ones supersede it, see session_fact_days
    fill        UInt64,
    -- the hash of `session_id`, as `event_facts.session`
    key         UInt64 CODEC(ZSTD(1)),
    -- epoch ms
    start       Float64 CODEC(ZSTD(1)),
    until       Float64 CODEC(ZSTD(1)),
    session_id  String CODEC(ZSTD(1)),
    -- the order of sessions that start at the same time
    place       UInt64 CODEC(ZSTD(1)),
    events      UInt32 CODEC(ZSTD(1)),
    pages       UInt32 CODEC(ZSTD(1)),
    -- the user of its last event; that of the call, if it has no events
    distinct_id String CODEC(ZSTD(1)),
    -- the hash of `distinct_id`
    user        UInt64 CODEC(ZSTD(1)),
    -- the hash of the user of the call; 0 without one
    caller      UInt64 CODEC(ZSTD(1)),
    browser         LowCardinality(String),
    browser_version LowCardinality(String),
    os              LowCardinality(String),
    os_version      LowCardinality(String),
    device          LowCardinality(String),
    country         LowCardinality(String),
    region          LowCardinality(String),
    city            LowCardinality(String),
    language        LowCardinality(String),
    bot             UInt8,
    -- fields of its first and last pages, as JSON; empty without a value
    entry_host      LowCardinality(String),
    entry_path      LowCardinality(String),
    entry_referrer  LowCardinality(String),
    entry_source    LowCardinality(String),
    entry_medium    LowCardinality(String),
    entry_campaign  LowCardinality(String),
    entry_term      LowCardinality(String),
    entry_content   LowCardinality(String),
    entry_channel   LowCardinality(String),
    exit_host       LowCardinality(String),
    exit_path       LowCardinality(String),
    -- the names of its events, each once
    names           Array(LowCardinality(String)),
    -- It is longer than a day, or has too many names. Questions group its events instead, so the other columns are empty
    -- except for `key`, and there is a row for each of its days.
    is_irregular    UInt8
)
ENGINE = MergeTree
-- Removing superseded rows rewrites only the parts of their month.
PARTITION BY toYYYYMM(day)
ORDER BY (project_id, definition, day, fill)
-- Nothing here needs to survive a crash, so nothing is flushed, and ClickHouse starts however much of it is damaged.
SETTINGS max_suspicious_broken_parts = 1000000, max_suspicious_broken_parts_bytes = 1000000000000000,
    finished_mutations_to_keep = 1;

-- The days with valid rows in `session_facts`: those of the greatest `fill`, unless its `step` is 0. They cover all
-- facts of steps up to `step` and all rows of `sessions` with versions up to `calls`. In memory only: when ClickHouse
-- starts, it ignores damaged and missing parts, and all days are forgotten.
CREATE TABLE IF NOT EXISTS session_fact_days
(
    project_id LowCardinality(String),
    definition UInt64,
    day        Date32,
    fill       UInt64,
    step       UInt32,
    calls      UInt64,
    noted_at   DateTime64(3) DEFAULT now64(3)
)
ENGINE = Memory;

-- The projects whose questions need session facts, and when they last did.
CREATE TABLE IF NOT EXISTS session_facts_asked
(
    project_id LowCardinality(String),
    asked_at   DateTime64(3) DEFAULT now64(3)
)
ENGINE = Memory;

-- The ledger: what happened to pods and nodes, what schedulers decided, and what a replay needs.
--
-- `change` and `ledger_chunk` are partitioned by the day of recording (`seen`, `first_at`, in UTC); the writer makes
-- the partitions (change_20261122) and drops those past retention; a row without one goes to the default.

CREATE TABLE change (
    seq bigint GENERATED ALWAYS AS IDENTITY,
    seen bigint NOT NULL,
    at bigint NOT NULL,
    source text NOT NULL,
    object text NOT NULL,
    event text NOT NULL,
    uid text NOT NULL,
    namespace text NOT NULL,
    name text NOT NULL,
    node text NOT NULL,
    scheduler text NOT NULL,
    version bigint NOT NULL,
    reason text NOT NULL,
    message text NOT NULL,
    extra jsonb
) PARTITION BY RANGE (seen);
CREATE TABLE change_default PARTITION OF change DEFAULT;
COMMENT ON TABLE change_default IS 'Changes of days that have no partition of their own.';
CREATE INDEX change_seq ON change (seq);
CREATE INDEX change_at ON change USING brin (at);
CREATE INDEX change_name ON change (name, namespace) WHERE name <> '';
COMMENT ON TABLE change IS 'Append-only: one row per thing that happened or was decided.';

CREATE TABLE pod_life (
    uid text PRIMARY KEY,
    namespace text NOT NULL,
    name text NOT NULL,
    version bigint NOT NULL,
    scheduler text NOT NULL,
    owner_kind text NOT NULL,
    owner_name text NOT NULL,
    owner_uid text NOT NULL,
    "group" text NOT NULL,
    node text NOT NULL,
    phase text NOT NULL,
    reason text NOT NULL,
    exit_code integer NOT NULL,
    restarts integer NOT NULL,
    priority bigint NOT NULL,
    requests jsonb NOT NULL,
    labels jsonb NOT NULL,
    walltime bigint NOT NULL,
    created bigint NOT NULL,
    queued bigint NOT NULL,
    scheduled bigint NOT NULL,
    bound bigint NOT NULL,
    started bigint NOT NULL,
    ready bigint NOT NULL,
    finished bigint NOT NULL,
    deleting bigint NOT NULL,
    deleted bigint NOT NULL,
    lost boolean NOT NULL,
    first_seen bigint NOT NULL,
    last_seen bigint NOT NULL,
    source text NOT NULL,
    told jsonb NOT NULL
) WITH (fillfactor = 70);
CREATE INDEX pod_life_open ON pod_life (uid) WHERE deleted = 0;
CREATE INDEX pod_life_bound ON pod_life (bound) WHERE bound > 0;
CREATE INDEX pod_life_name ON pod_life (name, namespace);
CREATE INDEX pod_life_last ON pod_life (last_seen);
COMMENT ON TABLE pod_life IS 'One row per pod, whole: model/record.py PodLife says what each time means.';

CREATE TABLE node_life (
    uid text NOT NULL,
    since bigint NOT NULL,
    name text NOT NULL,
    version bigint NOT NULL,
    capacity jsonb NOT NULL,
    allocatable jsonb NOT NULL,
    labels jsonb NOT NULL,
    taints text[] NOT NULL,
    unschedulable boolean NOT NULL,
    ready boolean NOT NULL,
    conditions jsonb NOT NULL,
    until bigint NOT NULL,
    lost boolean NOT NULL,
    told jsonb NOT NULL,
    PRIMARY KEY (uid, since)
);
CREATE INDEX node_life_open ON node_life (uid) WHERE until = 0;
COMMENT ON TABLE node_life IS 'A node as it was from since to until (0 = still so).';

CREATE TABLE watch_mark (
    kind text PRIMARY KEY,
    version bigint NOT NULL,
    written_at bigint NOT NULL
);
COMMENT ON TABLE watch_mark IS 'Up to which version a kind is in the ledger: where a recorder goes on.';

CREATE TABLE ledger_segment (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    opened_at bigint NOT NULL,
    why text NOT NULL CHECK (why IN ('start', 'takeover', 'gap', 'hour')),
    engine text NOT NULL,
    settings_hash text NOT NULL,
    settings jsonb NOT NULL,
    epoch bigint NOT NULL,
    holder text NOT NULL,
    checkpoint bytea,
    closed_at bigint NOT NULL DEFAULT 0
);
COMMENT ON TABLE ledger_segment IS 'What a replay begins with: an empty engine (checkpoint NULL) or a whole state.';

CREATE TABLE ledger_chunk (
    segment bigint NOT NULL,
    seq bigint NOT NULL,
    first_at bigint NOT NULL,
    last_at bigint NOT NULL,
    batches integer NOT NULL,
    events integer NOT NULL,
    body bytea NOT NULL
) PARTITION BY RANGE (first_at);
CREATE TABLE ledger_chunk_default PARTITION OF ledger_chunk DEFAULT;
COMMENT ON TABLE ledger_chunk_default IS 'Chunks of days that have no partition of their own.';
CREATE INDEX ledger_chunk_place ON ledger_chunk (segment, seq);
COMMENT ON TABLE ledger_chunk IS 'Batches as the engine learned them, compressed; specs by content hash.';

CREATE TABLE ledger_spec (
    hash bytea PRIMARY KEY,
    body bytea NOT NULL,
    last_used bigint NOT NULL
);
COMMENT ON TABLE ledger_spec IS 'What many facts share (shapes, wishes), once by content hash.';

CREATE TABLE ledger_writer (
    name text PRIMARY KEY,
    number bigint NOT NULL,
    written_at bigint NOT NULL
);
COMMENT ON TABLE ledger_writer IS 'The last transaction of each writing process: settles a commit whose answer got lost.';

CREATE TABLE ledger_recorder (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    turn bigint NOT NULL,
    writer text NOT NULL,
    since bigint NOT NULL
);
INSERT INTO ledger_recorder (turn, writer, since) VALUES (0, '', 0);
COMMENT ON TABLE ledger_recorder IS 'One row: which recorder may write what its watches see; one that comes later wins.';

-- One day's partition, with what was put into the default for want of it. Made aside and attached, so that nobody
-- who writes has to wait; whoever waits for a reader gives up soon, because others would wait behind it.
CREATE FUNCTION ledger_partition(parent text, at bigint) RETURNS boolean LANGUAGE plpgsql
SET search_path = fairlead SET lock_timeout = '2s' AS $$
DECLARE
    first bigint := at - at % 86400000;
    part text := parent || '_' || to_char(to_timestamp(first / 1000) AT TIME ZONE 'UTC', 'YYYYMMDD');
    key text := CASE parent WHEN 'change' THEN 'seen' ELSE 'first_at' END;
    span text := format('%1$I >= %2$s AND %1$I < %3$s', key, first, first + 86400000);
BEGIN
    PERFORM pg_advisory_xact_lock(7021788102204);
    IF to_regclass(part) IS NOT NULL THEN
        RETURN false;
    END IF;
    EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING DEFAULTS, CHECK (%s))', part, parent, span);
    EXECUTE format('COMMENT ON TABLE %I IS %L', part, 'One day of ' || parent || '.');
    EXECUTE format('LOCK TABLE %I IN ACCESS EXCLUSIVE MODE', parent || '_default');
    EXECUTE format('WITH late AS (DELETE FROM %I WHERE %s RETURNING *) INSERT INTO %I SELECT * FROM late',
                   parent || '_default', span, part);
    EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%s) TO (%s)',
                   parent, part, first, first + 86400000);
    RETURN true;
END $$;
COMMENT ON FUNCTION ledger_partition IS 'Makes the partition of the day that holds `at`; false when it is there.';

CREATE FUNCTION ledger_forget(parent text, before bigint) RETURNS text LANGUAGE plpgsql
SET search_path = fairlead SET lock_timeout = '2s' AS $$
DECLARE
    part text;
BEGIN
    PERFORM pg_advisory_xact_lock(7021788102204);
    SELECT c.relname INTO part FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = to_regclass(parent) AND c.relname ~ '_[0-9]{8}$'
      AND extract(epoch FROM to_date(right(c.relname, 8), 'YYYYMMDD')) * 1000 + 86400000 <= before
    ORDER BY c.relname LIMIT 1;
    IF part IS NOT NULL THEN
        EXECUTE format('DROP TABLE %I', part);
    END IF;
    RETURN part;
END $$;
COMMENT ON FUNCTION ledger_forget IS 'Drops the oldest partition that ends before that time; its name, or NULL.';

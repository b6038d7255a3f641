-- Statements of `store.ledger`. Changes travel by COPY, everything else as one JSON parameter per table.

-- name: copy_changes
COPY change (object, event, at, seen, source, uid, namespace, name, node, scheduler, version, reason, message, extra)
FROM STDIN (NULL E'\x02')

-- name: save_pods
-- Also with a lower version: after a restored backup the cluster's begin anew. Order is kept by whose turn it is.
INSERT INTO pod_life
SELECT * FROM json_populate_recordset(NULL::pod_life, %(pods)s::json)
ON CONFLICT (uid) DO UPDATE SET
    namespace = excluded.namespace, name = excluded.name, version = excluded.version,
    scheduler = excluded.scheduler, owner_kind = excluded.owner_kind, owner_name = excluded.owner_name,
    owner_uid = excluded.owner_uid, "group" = excluded."group", node = excluded.node, phase = excluded.phase,
    reason = excluded.reason, exit_code = excluded.exit_code, restarts = excluded.restarts,
    priority = excluded.priority, requests = excluded.requests, labels = excluded.labels,
    walltime = excluded.walltime, created = excluded.created, queued = excluded.queued,
    scheduled = excluded.scheduled, bound = excluded.bound, started = excluded.started, ready = excluded.ready,
    finished = excluded.finished, deleting = excluded.deleting, deleted = excluded.deleted,
    lost = excluded.lost, first_seen = excluded.first_seen, last_seen = excluded.last_seen,
    source = excluded.source, told = excluded.told

-- name: save_nodes
INSERT INTO node_life
SELECT * FROM json_populate_recordset(NULL::node_life, %(nodes)s::json)
ON CONFLICT (uid, since) DO UPDATE SET
    name = excluded.name, version = excluded.version, capacity = excluded.capacity,
    allocatable = excluded.allocatable, labels = excluded.labels, taints = excluded.taints,
    unschedulable = excluded.unschedulable, ready = excluded.ready, conditions = excluded.conditions,
    until = excluded.until, lost = excluded.lost, told = excluded.told

-- name: save_marks
INSERT INTO watch_mark
SELECT * FROM json_populate_recordset(NULL::watch_mark, %(marks)s::json)
ON CONFLICT (kind) DO UPDATE SET version = excluded.version, written_at = excluded.written_at

-- name: load_pods
SELECT row_to_json(p)::text FROM pod_life p WHERE p.deleted = 0 AND p.source = 'watch'

-- name: load_nodes
SELECT row_to_json(n)::text FROM node_life n WHERE n.until = 0 ORDER BY n.since

-- name: load_marks
SELECT kind, version FROM watch_mark

-- name: count_transaction
INSERT INTO ledger_writer (name, number, written_at) VALUES (%(me)s, %(number)s, %(now)s)
ON CONFLICT (name) DO UPDATE SET number = excluded.number, written_at = excluded.written_at
WHERE ledger_writer.number < excluded.number
RETURNING number

-- name: try_lock_recorder
SELECT pg_try_advisory_lock(7021788102203)

-- name: recorder_turn
SELECT turn FROM ledger_recorder

-- name: hold_recorder_turn
SELECT turn FROM ledger_recorder FOR SHARE

-- name: take_recorder_turn
UPDATE ledger_recorder SET turn = turn + 1, writer = %(me)s, since = %(now)s RETURNING turn

-- name: open_transactions
-- A snapshot knows only up to what has ended; later ones that are open show by their locks (32 bits of the number).
SELECT oldest, greatest(top, max(top + 1 + (
           transactionid::text::bigint - top % 4294967296 + 6442450944) % 4294967296 - 2147483648))
FROM pg_current_snapshot() AS s
CROSS JOIN LATERAL (SELECT pg_snapshot_xmin(s)::text::bigint AS oldest, pg_snapshot_xmax(s)::text::bigint AS top) AS t
LEFT JOIN pg_locks ON locktype = 'transactionid' AND granted GROUP BY oldest, top

-- name: make_partition
SELECT ledger_partition(%(parent)s, %(at)s)

-- name: drop_partition
SELECT ledger_forget(%(parent)s, %(before)s)

-- name: forget_changes
DELETE FROM change_default
WHERE ctid = ANY(ARRAY(SELECT ctid FROM change_default WHERE seen < %(before)s LIMIT %(most)s))

-- name: forget_chunks
DELETE FROM ledger_chunk_default
WHERE ctid = ANY(ARRAY(SELECT ctid FROM ledger_chunk_default WHERE last_at < %(before)s LIMIT %(most)s))

-- name: forget_pods
DELETE FROM pod_life
WHERE uid = ANY(ARRAY(SELECT uid FROM pod_life
                      WHERE last_seen < %(before)s AND deleted < %(before)s AND finished < %(before)s
                        AND (deleted > 0 OR source <> 'watch')
                      LIMIT %(most)s))

-- name: forget_nodes
DELETE FROM node_life
WHERE ctid = ANY(ARRAY(SELECT ctid FROM node_life
                       WHERE until > 0 AND until < %(before)s
                         AND coalesce((told ->> 'imported')::bigint, 0) < %(before)s LIMIT %(most)s))

-- name: forget_imports
DELETE FROM watch_mark WHERE starts_with(kind, 'import:') AND written_at < %(before)s - 86400000

-- name: forget_segments
DELETE FROM ledger_segment
WHERE id = ANY(ARRAY(SELECT s.id FROM ledger_segment s
                     WHERE s.opened_at < %(before)s AND s.id < (SELECT max(id) FROM ledger_segment)
                       AND NOT EXISTS (SELECT 1 FROM ledger_chunk c WHERE c.segment = s.id)
                     LIMIT %(most)s))

-- name: forget_specs
DELETE FROM ledger_spec
WHERE hash = ANY(ARRAY(SELECT hash FROM ledger_spec
                       WHERE last_used < %(before)s - 2 * 86400000::bigint -- a chunk may be younger, and stays a day
                       LIMIT %(most)s))

-- name: forget_writers
DELETE FROM ledger_writer
WHERE name = ANY(ARRAY(SELECT name FROM ledger_writer
                       WHERE written_at < %(before)s AND name <> %(me)s LIMIT %(most)s))

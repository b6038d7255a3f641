-- All statements of the store, by name. Rows travel as one JSON parameter: a batch is one statement whatever
-- its size. Column order of restore_groups, list_groups and find_groups is that of store/rows.py.
-- A literal % is doubled in statements that take values, and only there.

-- name: database_exists
SELECT 1 FROM pg_database WHERE datname = %(name)s

-- name: create_database
CREATE DATABASE fairlead

-- name: set_up_session
SELECT set_config('search_path', 'fairlead', false), set_config('TimeZone', 'UTC', false),
       set_config('tcp_keepalives_idle', '5', false), set_config('tcp_keepalives_interval', '2', false),
       set_config('tcp_keepalives_count', '3', false)

-- name: create_schema
CREATE SCHEMA IF NOT EXISTS fairlead

-- name: create_schema_version
CREATE TABLE IF NOT EXISTS fairlead.schema_version (
    version integer PRIMARY KEY,
    name text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
)

-- name: has_schema
SELECT to_regclass('fairlead.schema_version') IS NOT NULL

-- name: schema_version
SELECT coalesce(max(version), 0) FROM fairlead.schema_version

-- name: add_schema_version
INSERT INTO fairlead.schema_version (version, name) VALUES (%(version)s, %(name)s)

-- name: lock_migration
SELECT pg_advisory_xact_lock(7021788102201)

-- name: try_lock_writer
SELECT pg_try_advisory_lock(7021788102202)

-- name: writer_of_lock
SELECT coalesce(string_agg(format('%s, process %s', coalesce(host(a.client_addr), 'this machine'), a.pid), '; '), '')
FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND (l.classid::bigint << 32) + l.objid::bigint = 7021788102202

-- name: end_own_leftovers
SELECT pg_terminate_backend(pid, 2000) FROM pg_stat_activity
WHERE application_name = %(me)s AND datname = current_database() AND usename = current_user
  AND pid <> pg_backend_pid()

-- name: end_writer
SELECT pg_terminate_backend(pid, 5000)
FROM (SELECT DISTINCT l.pid FROM pg_locks l
      WHERE l.granted AND l.pid <> pg_backend_pid()
        AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND ((l.locktype = 'advisory' AND l.objsubid = 1
              AND (l.classid::bigint << 32) + l.objid::bigint = 7021788102202)
          OR (l.locktype = 'relation' AND l.relation = to_regclass('fairlead.leader')
              AND l.mode = 'RowExclusiveLock'))) writers

-- name: take_leadership
UPDATE leader SET epoch = epoch + 1, holder = %(holder)s, since = %(now)s RETURNING epoch

-- name: epoch
SELECT epoch FROM leader

-- name: begin
BEGIN

-- name: commit
COMMIT

-- name: fence
SELECT fence(%(epoch)s::bigint, %(now)s::bigint)

-- name: plans_recorded
SELECT id FROM plan_record WHERE id = ANY(%(ids)s::text[])

-- name: record_plans
WITH fresh AS (
    INSERT INTO plan_record (id, epoch, at)
    SELECT id, epoch, at FROM json_populate_recordset(NULL::plan_record, %(plans)s::json)
    ON CONFLICT (id) DO NOTHING
    RETURNING id
)
INSERT INTO grant_record (id, plan, "group", epoch, at, growth, pods, nodes)
SELECT g.id, g.plan, g."group", g.epoch, g.at, g.growth, g.pods, g.nodes
FROM json_populate_recordset(NULL::grant_record, %(grants)s::json) g
JOIN fresh ON fresh.id = g.plan
ON CONFLICT (id) DO NOTHING

-- name: save_groups
INSERT INTO group_record
SELECT * FROM json_populate_recordset(NULL::group_record, %(groups)s::json)
ON CONFLICT (id) DO UPDATE SET
    key = excluded.key, incarnation = excluded.incarnation, namespace = excluded.namespace, name = excluded.name,
    seq = excluded.seq, first_seen = excluded.first_seen, source = excluded.source, size = excluded.size,
    seen = excluded.seen, priority = excluded.priority, queue = excluded.queue, duration = excluded.duration,
    begin = excluded.begin, phase = excluded.phase, outcome = excluded.outcome, why = excluded.why,
    text = excluded.text, broken = excluded.broken, nodes = excluded.nodes, complete_at = excluded.complete_at,
    granted_at = excluded.granted_at, bound_at = excluded.bound_at, started_at = excluded.started_at,
    ended_at = excluded.ended_at, promised = excluded.promised, promised_last = excluded.promised_last,
    planned_at = excluded.planned_at, recorded_at = excluded.recorded_at
WHERE group_record IS DISTINCT FROM excluded

-- name: replace_reservations
WITH wanted AS (
    SELECT * FROM json_populate_recordset(NULL::reservation_record, %(reservations)s::json)
), gone AS (
    DELETE FROM reservation_record WHERE "group" NOT IN (SELECT "group" FROM wanted)
)
INSERT INTO reservation_record SELECT * FROM wanted
ON CONFLICT ("group") DO UPDATE SET
    start = excluded.start, nodes = excluded.nodes, why = excluded.why, text = excluded.text

-- name: settle_grants
UPDATE grant_record SET state = 'settled' WHERE state = 'open' AND id = ANY(%(grants)s::text[])

-- name: restore_groups
SELECT id, key, incarnation, namespace, name, seq, first_seen, source, size, seen, priority, queue, duration, begin,
       phase, outcome, why, text, broken, nodes, complete_at, granted_at, bound_at, started_at, ended_at,
       promised, promised_last, planned_at, recorded_at
FROM group_record g
WHERE phase <> 'ended' OR outcome = 'rejected'
   OR EXISTS (SELECT 1 FROM grant_record r WHERE r."group" = g.id AND r.state = 'open')
   OR id IN (SELECT DISTINCT ON (key) id FROM group_record WHERE phase = 'ended' AND key LIKE 'label:%'
             ORDER BY key, incarnation DESC)
ORDER BY seq, first_seen, id

-- name: restore_grants
SELECT r.id, r.plan, r."group", r.epoch, r.at, r.pods, r.nodes, r.growth
FROM grant_record r LEFT JOIN group_record g ON g.id = r."group"
WHERE r.state = 'open'
ORDER BY g.seq NULLS LAST, r.at, r.id

-- name: drop_stale_reservations
DELETE FROM reservation_record r
WHERE NOT EXISTS (SELECT 1 FROM group_record g WHERE g.id = r."group" AND g.phase IN ('held', 'queued'))

-- name: restore_reservations
SELECT "group", start, nodes, why, text FROM reservation_record ORDER BY start, "group"

-- name: forget_groups
DELETE FROM group_record g
WHERE g.phase = 'ended' AND g.ended_at < %(before)s
  AND NOT EXISTS (SELECT 1 FROM grant_record r WHERE r."group" = g.id AND r.state = 'open')

-- name: forget_plans
DELETE FROM plan_record p
WHERE p.at < %(before)s
  AND NOT EXISTS (SELECT 1 FROM grant_record r LEFT JOIN group_record g ON g.id = r."group"
                  WHERE r.plan = p.id AND (r.state = 'open' OR g.id IS NOT NULL))

-- name: list_groups
SELECT id, key, incarnation, namespace, name, seq, first_seen, source, size, seen, priority, queue, duration, begin,
       phase, outcome, why, text, broken, nodes, complete_at, granted_at, bound_at, started_at, ended_at,
       promised, promised_last, planned_at, recorded_at
FROM group_record
WHERE %(ended)s OR phase <> 'ended'
ORDER BY array_position(ARRAY['running', 'starting', 'queued', 'held', 'ended'], phase),
         CASE WHEN phase = 'ended' THEN -ended_at END, priority DESC, seq, id
LIMIT %(limit)s

-- name: find_groups
SELECT id, key, incarnation, namespace, name, seq, first_seen, source, size, seen, priority, queue, duration, begin,
       phase, outcome, why, text, broken, nodes, complete_at, granted_at, bound_at, started_at, ended_at,
       promised, promised_last, planned_at, recorded_at
FROM group_record
WHERE id = %(name)s OR name = %(name)s OR (namespace = %(namespace)s AND name = %(rest)s)
ORDER BY phase = 'ended', seq DESC, incarnation DESC, id

-- name: as_of
SELECT written_at FROM leader

-- name: allocations_of
SELECT pod, node FROM allocations WHERE group_id = %(group)s ORDER BY pod

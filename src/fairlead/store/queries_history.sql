-- What `store.history` asks of the ledger. Column order is that of the structs in model/history.py and of
-- NodeLife. Every filter is one line that an empty value turns off.

-- name: at_once
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY

-- name: history_pods
SELECT p.uid, p.namespace, p.name, p.scheduler, p.owner_kind, p.owner_name, p."group", p.node, p.phase,
       coalesce(how_ended(p.finished, p.deleted, p.lost, p.phase), ''), p.reason, p.exit_code,
       coalesce(b.since, 0), coalesce(span_until(b.since, p.finished, p.deleted), 0),
       p.created, p.queued, p.scheduled, p.bound, p.started, p.ready, p.finished, p.deleted, p.requests, p.labels
FROM pod_life p
CROSS JOIN LATERAL (SELECT span_since(p.node, p.bound, p.started, p.scheduled, p.first_seen) AS since) b
WHERE (%(until)s::bigint = 0 OR coalesce(nullif(p.created, 0), p.first_seen) < %(until)s)
  AND (%(since)s::bigint = 0 OR p.finished = 0 AND p.deleted = 0
       OR least(nullif(p.finished, 0), nullif(p.deleted, 0)) > %(since)s)
  AND (NOT %(open)s OR p.finished = 0 AND p.deleted = 0)
  AND (NOT %(placed)s OR b.since IS NOT NULL)
  AND (%(namespace)s = '' OR p.namespace = %(namespace)s)
  AND (%(name)s = '' OR p.name = %(name)s)
  AND (%(scheduler)s = '' OR p.scheduler = %(scheduler)s)
  AND (%(node)s = '' OR p.node = %(node)s)
  AND (%(group)s = '' OR p."group" = %(group)s)
  AND (%(owner_kind)s = '' OR lower(p.owner_kind) = lower(%(owner_kind)s))
  AND (%(owner)s = '' OR p.owner_name = %(owner)s)
  AND p.labels @> %(labels)s::jsonb
ORDER BY coalesce(b.since, 9223372036854775807), coalesce(nullif(p.queued, 0), p.created), p.namespace, p.name, p.uid

-- name: history_nodes
-- A state ends where the next of that name begins. Where the watch and an imported log both tell of a node, the watch
-- counts: what a log has begins and ends nothing of it (as in the view node_capacity).
WITH watched AS (
    SELECT name, min(since) AS first, CASE WHEN bool_or(until = 0) THEN 9223372036854775807 ELSE max(until) END AS last
    FROM node_life WHERE NOT told ? 'imported' GROUP BY name
)
SELECT * FROM (
    SELECT n.uid, n.name, n.since, n.version, n.capacity, n.allocatable, n.labels, n.taints, n.unschedulable, n.ready,
           n.conditions,
           coalesce(least(nullif(n.until, 0), lead(n.since) OVER (PARTITION BY n.name, n.told ? 'imported'
                                                                  ORDER BY n.since, n.uid),
                          CASE WHEN n.told ? 'imported' AND w.last > n.since THEN greatest(w.first, n.since) END),
                    0) AS until, n.lost
    FROM node_life n LEFT JOIN watched w ON w.name = n.name
    WHERE %(node)s = '' OR n.name = %(node)s
) states
WHERE (%(until)s::bigint = 0 OR since < %(until)s) AND (%(since)s::bigint = 0 OR until = 0 OR until > %(since)s)
  AND (until = 0 OR until > since)
ORDER BY name, since, uid

-- name: history_changes
SELECT seq, at, seen, source, object, event, uid, namespace, name, node, scheduler, version, reason, message,
       coalesce(extra::text, '')
FROM change
WHERE seq > %(after)s AND (%(since)s::bigint = 0 OR seen >= %(since)s) AND (%(until)s::bigint = 0 OR seen < %(until)s)
  AND (%(object)s = '' OR lower(object) = lower(%(object)s))
  AND (%(namespace)s = '' OR namespace = %(namespace)s)
  AND (%(name)s = '' OR name = %(name)s)
  AND (%(node)s = '' OR node = %(node)s OR object = 'Node' AND name = %(node)s)
  AND (%(scheduler)s = '' OR scheduler = %(scheduler)s)
ORDER BY seq

-- name: history_last
SELECT coalesce(max(seq), 0) FROM change

-- name: history_gaps
-- A watch tells the versions between which it was blind: then it is from the last that it had told before. A fact
-- that could not be understood (Mistake) is no stretch of time, and what a door has lost is no pod or node.
SELECT * FROM (
    SELECT CASE WHEN g.version = 0 THEN coalesce((g.extra ->> 'from')::bigint, g.at)
           ELSE coalesce((SELECT c.seen FROM change c WHERE c.seq < g.seq AND c.source IN ('watch', 'events')
                          ORDER BY c.seq DESC LIMIT 1), g.at) END AS begin, g.seen
    FROM change g
    WHERE g.object = 'Recorder' AND g.event = 'Gap' AND g.reason <> 'Mistake' AND g.extra ->> 'kind' IN ('Pod', 'Node')
) gaps
WHERE (%(until)s::bigint = 0 OR begin < %(until)s) AND seen > %(since)s
ORDER BY 1, 2

-- name: history_views
SELECT c.relname, coalesce(obj_description(c.oid, 'pg_class'), ''), a.attname,
       format_type(a.atttypid, a.atttypmod), coalesce(col_description(c.oid, a.attnum), '')
FROM pg_class c
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
WHERE c.relkind = 'v' AND c.relnamespace = 'fairlead'::regnamespace
ORDER BY c.relname, a.attnum

-- name: history_recorded
SELECT coalesce(max(written_at), 0) FROM watch_mark WHERE NOT starts_with(kind, 'import:')

-- What `store.recorded` asks of the ledger to make a workload. Columns of pods are the fields of PodLife.

-- name: recorded_pods
SELECT uid, namespace, name, version, scheduler, owner_kind, owner_name, owner_uid, "group", node, phase, reason,
       exit_code, restarts, priority, requests, labels, walltime, created, queued, scheduled, bound, started, ready,
       finished, deleting, deleted, lost, first_seen, last_seen, source
FROM pod_life
WHERE created < %(until)s AND (finished = 0 AND deleted = 0 OR greatest(finished, deleted) > %(since)s)
ORDER BY created, first_seen, uid

-- name: recorded_nodes
SELECT uid, name, since, version, capacity, allocatable, labels, taints, unschedulable, ready, conditions, until, lost
FROM node_life
WHERE since < %(until)s AND (until = 0 OR until > %(since)s)
  AND (NOT told ? 'imported' -- the watch knows better than an imported log
       OR name NOT IN (SELECT name FROM node_life WHERE NOT told ? 'imported'
                       AND since < %(until)s AND (until = 0 OR until > %(since)s)))
ORDER BY since, name, uid

-- name: recorded_groups
SELECT id, key, incarnation, namespace, name, seq, first_seen, source, size, seen, priority, queue, duration, begin,
       phase, outcome, why, text, broken, nodes, complete_at, granted_at, bound_at, started_at, ended_at,
       promised, promised_last, planned_at, recorded_at
FROM group_record
WHERE first_seen < %(until)s AND (ended_at = 0 OR ended_at > %(since)s)
ORDER BY seq, id

-- name: recorded_settings
SELECT settings::text FROM ledger_segment WHERE opened_at < %(until)s ORDER BY id DESC LIMIT 1

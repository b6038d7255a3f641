-- Where the watch and an imported log both tell of a node, the watch counts: a log that was imported beside a recorder
-- ended what the recorder knew of the nodes.

CREATE OR REPLACE VIEW node_capacity AS
WITH watched AS (
    SELECT name, min(since) AS first, CASE WHEN bool_or(until = 0) THEN 9223372036854775807 ELSE max(until) END AS last
    FROM node_life WHERE NOT told ? 'imported' GROUP BY name
), states AS (
    SELECT n.*,
           least(nullif(n.until, 0), lead(n.since) OVER (PARTITION BY n.name, n.told ? 'imported'
                                                         ORDER BY n.since, n.uid),
                 CASE WHEN n.told ? 'imported' AND w.last > n.since THEN greatest(w.first, n.since) END) AS ends
    FROM node_life n LEFT JOIN watched w ON w.name = n.name
)
SELECT name AS node, uid, at_time(since) AS since, at_time(ends) AS until,
       coalesce((capacity ->> 'cpu')::numeric, 0) / 1000 AS capacity_cpu,
       coalesce((capacity ->> 'memory')::numeric, 0) AS capacity_memory, gpus(capacity) AS capacity_gpu,
       coalesce((allocatable ->> 'cpu')::numeric, 0) / 1000 AS cpu,
       coalesce((allocatable ->> 'memory')::numeric, 0) AS memory, gpus(allocatable) AS gpu,
       coalesce((allocatable ->> 'pods')::numeric, 0) AS pods, ready, unschedulable, conditions, taints, labels,
       capacity, allocatable, lost
FROM states
WHERE ends IS NULL OR ends > since;

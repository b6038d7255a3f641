-- Views of the ledger: what people and programs may ask with SQL of their own. Every column has its comment.
-- Amounts: cpu in cores, memory in bytes, gpu in devices. Times are NULL where they are not known (yet).

-- Gaps are few among very many rows, and each question about occupancy asks for them.
CREATE INDEX change_gap ON change (at) WHERE object = 'Recorder';

CREATE FUNCTION gpus(amounts jsonb) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
$$ SELECT coalesce(sum(value::numeric), 0)::bigint FROM jsonb_each_text(amounts)
   WHERE key = 'gpu' OR key LIKE '%/gpu' $$;
COMMENT ON FUNCTION gpus IS 'All GPUs among amounts by resource name: nvidia.com/gpu, amd.com/gpu and the like.';

-- A pod is on its node from here on: bound, or, where nobody saw that, the next best that is known.
CREATE FUNCTION span_since(node text, bound bigint, started bigint, scheduled bigint, first_seen bigint)
RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
$$ SELECT CASE WHEN node = '' THEN NULL
               ELSE coalesce(nullif(bound, 0), nullif(started, 0), nullif(scheduled, 0), first_seen) END $$;
COMMENT ON FUNCTION span_since IS 'From when a pod holds its node (milliseconds), NULL without a node.';

-- Kubernetes gives ends in whole seconds, so one may seem to lie before a start that is known exactly.
CREATE FUNCTION span_until(since bigint, finished bigint, deleted bigint)
RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
$$ SELECT CASE WHEN finished > 0 OR deleted > 0
               THEN greatest(since, least(nullif(finished, 0), nullif(deleted, 0))) END $$;
COMMENT ON FUNCTION span_until IS 'Until when a pod holds its node (milliseconds), NULL while it does.';

CREATE FUNCTION how_ended(finished bigint, deleted bigint, lost boolean, phase text)
RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
$$ SELECT CASE WHEN finished > 0 AND (deleted = 0 OR finished <= deleted)
                    THEN CASE phase WHEN 'Succeeded' THEN 'succeeded' WHEN 'Failed' THEN 'failed'
                                    ELSE 'finished' END
               WHEN deleted > 0 AND lost THEN 'lost'
               WHEN deleted > 0 THEN 'deleted' END $$;
COMMENT ON FUNCTION how_ended IS 'How a pod ended in one word, NULL while it has not.';

CREATE VIEW pods AS
SELECT uid, namespace, name, scheduler, nullif(node, '') AS node, phase, nullif(reason, '') AS reason,
       how_ended(finished, deleted, lost, phase) AS ended,
       nullif(exit_code, -1) AS exit_code, restarts, priority,
       nullif(owner_kind, '') AS owner_kind, nullif(owner_name, '') AS owner_name,
       nullif(owner_uid, '') AS owner_uid, nullif("group", '') AS group_name,
       coalesce((requests ->> 'cpu')::numeric, 0) / 1000 AS cpu,
       coalesce((requests ->> 'memory')::numeric, 0) AS memory, gpus(requests) AS gpu, requests, labels,
       CASE WHEN walltime > 0 THEN walltime * interval '1 millisecond' END AS walltime,
       at_time(created) AS created, at_time(queued) AS queued, at_time(scheduled) AS scheduled,
       at_time(bound) AS bound, at_time(started) AS started, at_time(ready) AS ready,
       at_time(finished) AS finished, at_time(deleting) AS deleting, at_time(deleted) AS deleted, lost,
       at_time(first_seen) AS first_seen, at_time(last_seen) AS last_seen, source
FROM pod_life;
COMMENT ON VIEW pods IS 'One row per pod that was ever seen, of any scheduler; those that have not ended too.';
COMMENT ON COLUMN pods.uid IS 'Names come again, uids do not.';
COMMENT ON COLUMN pods.namespace IS 'Its namespace.';
COMMENT ON COLUMN pods.name IS 'Its name.';
COMMENT ON COLUMN pods.scheduler IS 'spec.schedulerName: whose pod it is.';
COMMENT ON COLUMN pods.node IS 'Where it is or was last; NULL: nowhere yet.';
COMMENT ON COLUMN pods.phase IS 'Pending, Running, Succeeded, Failed or Unknown, as last seen.';
COMMENT ON COLUMN pods.reason IS 'Why it is in that phase, in Kubernetes'' word: Evicted, OOMKilled …';
COMMENT ON COLUMN pods.ended IS
    'succeeded, failed, finished (an end that does not say how), deleted (before it ended), lost (found to be '
    'gone, when and how nobody saw); NULL: it has not ended.';
COMMENT ON COLUMN pods.exit_code IS 'The first of its containers'' that is not 0, else 0; NULL: none has ended.';
COMMENT ON COLUMN pods.restarts IS 'Of all its containers.';
COMMENT ON COLUMN pods.priority IS 'The number of its priority class.';
COMMENT ON COLUMN pods.owner_kind IS 'Its controller: Job, ReplicaSet …; NULL for a bare pod.';
COMMENT ON COLUMN pods.owner_name IS 'The controller''s name.';
COMMENT ON COLUMN pods.owner_uid IS 'The controller''s uid.';
COMMENT ON COLUMN pods.group_name IS 'The group (gang) it says it belongs to.';
COMMENT ON COLUMN pods.cpu IS 'Requested, in cores.';
COMMENT ON COLUMN pods.memory IS 'Requested, in bytes.';
COMMENT ON COLUMN pods.gpu IS 'Requested GPUs of all makes.';
COMMENT ON COLUMN pods.requests IS 'All that it requests by resource; cpu in milli-cores.';
COMMENT ON COLUMN pods.labels IS 'As last seen.';
COMMENT ON COLUMN pods.walltime IS 'What it may run, if it says so.';
COMMENT ON COLUMN pods.created IS 'creationTimestamp; whole seconds.';
COMMENT ON COLUMN pods.queued IS 'When it could be scheduled: created, and no gate held it back.';
COMMENT ON COLUMN pods.scheduled IS 'When a scheduler had chosen its node, by the scheduler''s word if there is one.';
COMMENT ON COLUMN pods.bound IS 'When it was first seen with its node.';
COMMENT ON COLUMN pods.started IS 'When its first container ran; whole seconds.';
COMMENT ON COLUMN pods.ready IS 'When it was Ready for the first time; whole seconds.';
COMMENT ON COLUMN pods.finished IS 'When its last container ended; whole seconds.';
COMMENT ON COLUMN pods.deleting IS 'When its deletion was asked for.';
COMMENT ON COLUMN pods.deleted IS 'When it was gone, or was found to be gone (see lost).';
COMMENT ON COLUMN pods.lost IS 'It vanished while nobody watched: deleted is when that was noticed.';
COMMENT ON COLUMN pods.first_seen IS 'When it was first seen.';
COMMENT ON COLUMN pods.last_seen IS 'When something about it last changed.';
COMMENT ON COLUMN pods.source IS 'Who told of it: watch, sniffer, import …';

CREATE VIEW pod_node_intervals AS
SELECT s.uid, s.namespace, s.name, s.node, at_time(s.since) AS since,
       CASE s.since WHEN s.bound THEN 'bound' WHEN s.started THEN 'started' WHEN s.scheduled THEN 'scheduled'
                    ELSE 'first_seen' END AS since_is,
       at_time(s.until) AS until, how_ended(s.finished, s.deleted, s.lost, s.phase) AS ended,
       coalesce(at_time(s.until), now()) - at_time(s.since) AS length,
       s.scheduler, nullif(s.owner_kind, '') AS owner_kind, nullif(s.owner_name, '') AS owner_name,
       nullif(s."group", '') AS group_name, coalesce((s.requests ->> 'cpu')::numeric, 0) / 1000 AS cpu,
       coalesce((s.requests ->> 'memory')::numeric, 0) AS memory, gpus(s.requests) AS gpu, s.labels
FROM (SELECT p.*, b.since, span_until(b.since, p.finished, p.deleted) AS until
      FROM pod_life p
      CROSS JOIN LATERAL (SELECT span_since(p.node, p.bound, p.started, p.scheduled, p.first_seen) AS since) b
      WHERE p.node <> '') s;
COMMENT ON VIEW pod_node_intervals IS
    'Which pod held which node, from when to when. A pod that holds it still has until NULL, and is never left out. '
    'At a moment T: WHERE since <= T AND (until IS NULL OR until > T).';
COMMENT ON COLUMN pod_node_intervals.uid IS 'The pod''s uid.';
COMMENT ON COLUMN pod_node_intervals.namespace IS 'The pod''s namespace.';
COMMENT ON COLUMN pod_node_intervals.name IS 'The pod''s name.';
COMMENT ON COLUMN pod_node_intervals.node IS 'The node''s name.';
COMMENT ON COLUMN pod_node_intervals.since IS 'When the pod was bound, or the best that is known: see since_is.';
COMMENT ON COLUMN pod_node_intervals.since_is IS
    'What since is: bound; else, where nobody saw that, started, scheduled or first_seen.';
COMMENT ON COLUMN pod_node_intervals.until IS
    'When the pod ended or was gone, whichever came first, but not before since; NULL: it is still there.';
COMMENT ON COLUMN pod_node_intervals.ended IS 'How, as in pods; NULL while it is open.';
COMMENT ON COLUMN pod_node_intervals.length IS 'From since to until, or to now.';
COMMENT ON COLUMN pod_node_intervals.scheduler IS 'spec.schedulerName.';
COMMENT ON COLUMN pod_node_intervals.owner_kind IS 'Its controller: Job, ReplicaSet …';
COMMENT ON COLUMN pod_node_intervals.owner_name IS 'The controller''s name.';
COMMENT ON COLUMN pod_node_intervals.group_name IS 'The group (gang) it says it belongs to.';
COMMENT ON COLUMN pod_node_intervals.cpu IS 'Requested, in cores.';
COMMENT ON COLUMN pod_node_intervals.memory IS 'Requested, in bytes.';
COMMENT ON COLUMN pod_node_intervals.gpu IS 'Requested GPUs.';
COMMENT ON COLUMN pod_node_intervals.labels IS 'The pod''s labels as last seen.';

CREATE VIEW node_capacity AS
SELECT name AS node, uid, at_time(since) AS since,
       at_time(least(nullif(until, 0), lead(since) OVER (PARTITION BY name ORDER BY since, uid))) AS until,
       coalesce((capacity ->> 'cpu')::numeric, 0) / 1000 AS capacity_cpu,
       coalesce((capacity ->> 'memory')::numeric, 0) AS capacity_memory, gpus(capacity) AS capacity_gpu,
       coalesce((allocatable ->> 'cpu')::numeric, 0) / 1000 AS cpu,
       coalesce((allocatable ->> 'memory')::numeric, 0) AS memory, gpus(allocatable) AS gpu,
       coalesce((allocatable ->> 'pods')::numeric, 0) AS pods, ready, unschedulable, conditions, taints, labels,
       capacity, allocatable, lost
FROM node_life;
COMMENT ON VIEW node_capacity IS
    'What each node had, from when to when: a new row where capacity, labels, taints, readiness or cordon changed.';
COMMENT ON COLUMN node_capacity.node IS 'The node''s name.';
COMMENT ON COLUMN node_capacity.uid IS 'The node''s uid: one that joins again under its old name has another.';
COMMENT ON COLUMN node_capacity.since IS 'From when it was so.';
COMMENT ON COLUMN node_capacity.until IS 'Until when; NULL: it is still so.';
COMMENT ON COLUMN node_capacity.capacity_cpu IS 'All cores of the machine.';
COMMENT ON COLUMN node_capacity.capacity_memory IS 'All memory of the machine, in bytes.';
COMMENT ON COLUMN node_capacity.capacity_gpu IS 'All GPUs of the machine.';
COMMENT ON COLUMN node_capacity.cpu IS 'Cores that pods may have (allocatable).';
COMMENT ON COLUMN node_capacity.memory IS 'Memory that pods may have (allocatable), in bytes.';
COMMENT ON COLUMN node_capacity.gpu IS 'GPUs that pods may have (allocatable).';
COMMENT ON COLUMN node_capacity.pods IS 'How many pods it may have; 0: not known.';
COMMENT ON COLUMN node_capacity.ready IS 'Its condition Ready was True.';
COMMENT ON COLUMN node_capacity.unschedulable IS 'It was cordoned.';
COMMENT ON COLUMN node_capacity.conditions IS 'Conditions that were not as they should be: reason by type.';
COMMENT ON COLUMN node_capacity.taints IS 'Each key=value:effect.';
COMMENT ON COLUMN node_capacity.labels IS 'Its labels.';
COMMENT ON COLUMN node_capacity.capacity IS 'Capacity by resource; cpu in milli-cores.';
COMMENT ON COLUMN node_capacity.allocatable IS 'Allocatable by resource; cpu in milli-cores.';
COMMENT ON COLUMN node_capacity.lost IS 'It vanished while nobody watched: until is when that was noticed.';

CREATE VIEW latencies AS
SELECT uid, namespace, name, node, scheduler, owner_kind, owner_name, group_name, labels, queued,
       scheduled - queued AS queue, bound - scheduled AS bind, started - bound AS start, ready - started AS ready,
       finished - started AS run, started - created AS total,
       CASE WHEN ended IS NOT NULL THEN 'ended' WHEN started IS NOT NULL THEN 'run' WHEN bound IS NOT NULL THEN 'start'
            WHEN scheduled IS NOT NULL THEN 'bind' WHEN queued IS NOT NULL THEN 'queue' ELSE 'held' END AS stage,
       ended
FROM pods;
COMMENT ON VIEW latencies IS
    'How long each pod took from stage to stage; NULL for a stage that it has not passed. Kubernetes keeps whole '
    'seconds of some times, so a stage may seem up to a second shorter than it was, also below zero.';
COMMENT ON COLUMN latencies.uid IS 'The pod''s uid.';
COMMENT ON COLUMN latencies.namespace IS 'The pod''s namespace.';
COMMENT ON COLUMN latencies.name IS 'The pod''s name.';
COMMENT ON COLUMN latencies.node IS 'Its node.';
COMMENT ON COLUMN latencies.scheduler IS 'spec.schedulerName.';
COMMENT ON COLUMN latencies.owner_kind IS 'Its controller: Job, ReplicaSet …';
COMMENT ON COLUMN latencies.owner_name IS 'The controller''s name.';
COMMENT ON COLUMN latencies.group_name IS 'The group (gang) it says it belongs to.';
COMMENT ON COLUMN latencies.labels IS 'The pod''s labels.';
COMMENT ON COLUMN latencies.queued IS 'When it could be scheduled.';
COMMENT ON COLUMN latencies.queue IS 'From queued to scheduled: the wait for a node.';
COMMENT ON COLUMN latencies.bind IS 'From scheduled to bound.';
COMMENT ON COLUMN latencies.start IS 'From bound to its first container running: image, volumes, sandbox.';
COMMENT ON COLUMN latencies.ready IS 'From its first container to Ready.';
COMMENT ON COLUMN latencies.run IS 'From its first container to the end of its last.';
COMMENT ON COLUMN latencies.total IS 'From its creation to its first container.';
COMMENT ON COLUMN latencies.stage IS 'The stage it is in now: held, queue, bind, start, run or ended.';
COMMENT ON COLUMN latencies.ended IS 'How it ended, as in pods; NULL: it has not.';

CREATE VIEW changes AS
SELECT seq, at_time(at) AS at, at_time(seen) AS seen, source, object, event, nullif(namespace, '') AS namespace,
       nullif(name, '') AS name, nullif(node, '') AS node, nullif(scheduler, '') AS scheduler,
       nullif(reason, '') AS reason, nullif(message, '') AS message, nullif(uid, '') AS uid,
       nullif(version, 0) AS version, extra
FROM change;
COMMENT ON VIEW changes IS
    'One row per thing that happened or was decided, for as long as retention keeps it. Without ORDER BY the rows '
    'come in no order: ORDER BY seq is the order in which they were written.';
COMMENT ON COLUMN changes.seq IS 'The order of writing.';
COMMENT ON COLUMN changes.at IS 'When it happened, by whoever says so; whole seconds where Kubernetes does.';
COMMENT ON COLUMN changes.seen IS 'When it was learned.';
COMMENT ON COLUMN changes.source IS
    'Who told it: watch, events, extender, plugin, sniffer, import, fairlead, or recorder (about itself).';
COMMENT ON COLUMN changes.object IS 'Pod, Node or another kind; Group for a decision of Fairlead; Recorder for a gap.';
COMMENT ON COLUMN changes.event IS 'What happened, in the source''s word: Created, Bound, ContainerFinished, Filter …';
COMMENT ON COLUMN changes.namespace IS 'Of the object.';
COMMENT ON COLUMN changes.name IS 'Of the object.';
COMMENT ON COLUMN changes.node IS 'The node it is about, if there is one.';
COMMENT ON COLUMN changes.scheduler IS 'The scheduler it is about.';
COMMENT ON COLUMN changes.reason IS 'One word for why.';
COMMENT ON COLUMN changes.message IS 'The same in a sentence.';
COMMENT ON COLUMN changes.uid IS 'Of the object.';
COMMENT ON COLUMN changes.version IS 'The resourceVersion it was seen in.';
COMMENT ON COLUMN changes.extra IS 'What has no column of its own: container, exitCode, candidates …';

CREATE VIEW decisions AS
SELECT seq, at, seen, source, scheduler, object, namespace, name, event, node, reason, message, uid, extra
FROM changes
WHERE object = 'Group' OR source IN ('fairlead', 'extender', 'plugin')
   OR (source IN ('sniffer', 'import') AND extra ->> 'endpoint' IN ('schedulePod', 'bindingCycle'))
   OR (source = 'events' AND object = 'Pod' AND event IN ('Scheduled', 'FailedScheduling', 'Preempted'));
COMMENT ON VIEW decisions IS
    'What schedulers decided, of all changes: Fairlead''s groups, kube-scheduler''s asking of the extender and the '
    'plugin, the sniffer''s schedulePod and bindingCycle, and the Events Scheduled, FailedScheduling and Preempted.';
COMMENT ON COLUMN decisions.seq IS 'The order of writing.';
COMMENT ON COLUMN decisions.at IS 'When it was decided.';
COMMENT ON COLUMN decisions.seen IS 'When it was learned.';
COMMENT ON COLUMN decisions.source IS 'Who told it.';
COMMENT ON COLUMN decisions.scheduler IS 'Who decided, if that is known.';
COMMENT ON COLUMN decisions.object IS 'Group or Pod.';
COMMENT ON COLUMN decisions.namespace IS 'Of the group or pod.';
COMMENT ON COLUMN decisions.name IS 'Of the group or pod.';
COMMENT ON COLUMN decisions.event IS 'Which decision or step: Planned, Waiting, Filter, Bind, FailedScheduling …';
COMMENT ON COLUMN decisions.node IS 'The chosen node, where there is one.';
COMMENT ON COLUMN decisions.reason IS 'One word for why.';
COMMENT ON COLUMN decisions.message IS 'The same in a sentence.';
COMMENT ON COLUMN decisions.uid IS 'Of the group or pod.';
COMMENT ON COLUMN decisions.extra IS 'Plan, nodes, candidates, scores: what the source tells.';

-- Tables and views of Fairlead, in their own schema. The runner (store/schema.py) has created the schema
-- and set search_path to it; each file is one transaction.
--
-- Times in tables are milliseconds since 1970 as bigint, 0 where there is none yet; views show timestamptz
-- and NULL. Tables are Fairlead's own and change with it; the views are what people and programs may rely on.

CREATE FUNCTION at_time(ms bigint) RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE AS
$$ SELECT CASE WHEN ms > 0 THEN timestamptz 'epoch' + least(ms, 253402300799999) * interval '1 millisecond' END $$;

CREATE TABLE leader (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    epoch bigint NOT NULL,
    holder text NOT NULL,
    since bigint NOT NULL,
    written_at bigint NOT NULL
) WITH (fillfactor = 50);
COMMENT ON TABLE leader IS 'One row: the epoch of the scheduler that may write, and when it last did.';
INSERT INTO leader (epoch, holder, since, written_at) VALUES (0, '', 0, 0);

-- Called first in every writing transaction. An error here undoes the whole transaction in the same round trip.
CREATE FUNCTION fence(expected bigint, now_ms bigint) RETURNS void LANGUAGE plpgsql SET search_path FROM CURRENT AS
$$
BEGIN
    UPDATE leader SET written_at = greatest(written_at, now_ms) WHERE epoch = expected;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'fenced by epoch %', (SELECT epoch FROM leader) USING ERRCODE = 'FL001';
    END IF;
END
$$;

CREATE TABLE group_record (
    id text PRIMARY KEY,
    key text NOT NULL,
    incarnation bigint NOT NULL,
    namespace text NOT NULL,
    name text NOT NULL,
    seq bigint NOT NULL,
    first_seen bigint NOT NULL,
    source text NOT NULL,
    size bigint NOT NULL,
    seen bigint NOT NULL,
    priority bigint NOT NULL,
    queue text NOT NULL,
    duration bigint NOT NULL,
    begin bigint NOT NULL,
    phase text NOT NULL CHECK (phase IN ('held', 'queued', 'starting', 'running', 'ended')),
    outcome text NOT NULL,
    why text NOT NULL,
    text text NOT NULL,
    broken text NOT NULL,
    nodes text[] NOT NULL,
    complete_at bigint NOT NULL,
    granted_at bigint NOT NULL,
    bound_at bigint NOT NULL,
    started_at bigint NOT NULL,
    ended_at bigint NOT NULL
) WITH (fillfactor = 80);
COMMENT ON TABLE group_record IS 'One row per group, written whole. Keys only: pod specs stay with Kubernetes.';
CREATE INDEX group_record_live ON group_record (seq, id) WHERE phase <> 'ended';
CREATE INDEX group_record_label ON group_record (key, incarnation DESC) WHERE phase = 'ended' AND key LIKE 'label:%';
CREATE INDEX group_record_name ON group_record (name, namespace);
CREATE INDEX group_record_ended ON group_record (ended_at) WHERE phase = 'ended';

CREATE TABLE plan_record (
    id text PRIMARY KEY,
    epoch bigint NOT NULL,
    at bigint NOT NULL
);
COMMENT ON TABLE plan_record IS 'Plans whose grants are durable: settles a commit whose answer got lost.';
CREATE INDEX plan_record_at ON plan_record (at);

CREATE TABLE grant_record (
    id text PRIMARY KEY,
    plan text NOT NULL REFERENCES plan_record (id) ON DELETE CASCADE,
    "group" text NOT NULL,
    epoch bigint NOT NULL,
    at bigint NOT NULL,
    growth boolean NOT NULL,
    pods text[] NOT NULL,
    nodes text[] NOT NULL,
    state text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'settled')),
    CHECK (cardinality(pods) = cardinality(nodes))
);
COMMENT ON TABLE grant_record IS 'Intents: these pods shall be bound to these nodes. Open until settled.';
CREATE INDEX grant_record_open ON grant_record (id) WHERE state = 'open';
CREATE INDEX grant_record_group ON grant_record ("group");
CREATE INDEX grant_record_plan ON grant_record (plan);

CREATE TABLE reservation_record (
    "group" text PRIMARY KEY,
    start bigint NOT NULL,
    nodes text[] NOT NULL,
    why text NOT NULL,
    text text NOT NULL
);
COMMENT ON TABLE reservation_record IS 'Promised starts of the last recorded plan; replaced as a whole.';

CREATE VIEW groups AS
SELECT id, namespace, name, source, seq, size, seen, priority, queue, phase, outcome, why, text, broken, nodes,
       CASE WHEN duration > 0 THEN duration * interval '1 millisecond' END AS duration,
       at_time(begin) AS begin, at_time(first_seen) AS first_seen, at_time(complete_at) AS complete_at,
       at_time(granted_at) AS granted_at, at_time(bound_at) AS bound_at, at_time(started_at) AS started_at,
       at_time(ended_at) AS ended_at,
       coalesce(at_time(granted_at), at_time(ended_at), now()) - at_time(first_seen) AS waited
FROM group_record;
COMMENT ON VIEW groups IS 'Every group Fairlead knows, ended ones until retention.';
COMMENT ON COLUMN groups.seq IS 'First-seen sequence: the order of arrival, kept over restarts.';
COMMENT ON COLUMN groups.waited IS 'From the first sight of the earliest member to the grant (or the end, or now).';
COMMENT ON COLUMN groups.why IS 'One word of a closed vocabulary; text says it in a sentence.';
COMMENT ON COLUMN groups.duration IS 'Walltime; NULL is unlimited.';

CREATE VIEW queue AS
SELECT CASE WHEN phase = 'queued' THEN
           row_number() OVER (PARTITION BY phase ORDER BY priority DESC, seq, id)
       END AS position,
       queue, namespace, name, size, seen, priority, seq, phase, why, text, first_seen, waited, begin, duration, id
FROM groups
WHERE phase IN ('held', 'queued');
COMMENT ON VIEW queue IS 'Groups that wait. Without ORDER BY the rows come in no order: ORDER BY position.';
COMMENT ON COLUMN queue.position IS
    'Place by (priority DESC, seq, id), over all queues as the scheduler orders them; NULL while held.';

CREATE VIEW allocations AS
SELECT DISTINCT ON (p.pod) g.namespace, g.name, p.pod, p.node, g.phase, r.state, r.growth,
       at_time(r.at) AS granted_at, at_time(g.started_at) AS started_at,
       CASE WHEN g.started_at > 0 AND g.duration > 0 THEN at_time(g.started_at + g.duration) END AS until,
       r.id AS grant_id, g.id AS group_id
FROM grant_record r
JOIN group_record g ON g.id = r."group" AND g.phase <> 'ended'
CROSS JOIN LATERAL unnest(r.pods, r.nodes) AS p (pod, node)
WHERE r.state = 'open' OR g.phase IN ('starting', 'running')
ORDER BY p.pod, r.at DESC, r.id DESC;
COMMENT ON VIEW allocations IS
    'One row per pod placed by Fairlead whose group has not ended: the latest grant of each pod. What was granted; '
    'a pod that was replaced since is still shown, and where a pod really is, Kubernetes says.';
COMMENT ON COLUMN allocations.pod IS 'The pod''s uid.';
COMMENT ON COLUMN allocations.state IS 'open: not every bind of the grant is confirmed yet; settled: all resolved.';
COMMENT ON COLUMN allocations.until IS 'Start plus walltime; NULL when unlimited or not all members run yet.';

CREATE VIEW reservations AS
SELECT r."group" AS group_id, g.namespace, g.name, at_time(r.start) AS start, r.nodes, r.why, r.text,
       g.name AS group_name, g.seq AS flux_id
FROM reservation_record r
JOIN group_record g ON g.id = r."group";
COMMENT ON VIEW reservations IS
    'Promised starts. The node names are advisory. group_name and flux_id are the two columns of fluxnetes.';

CREATE VIEW pods_provisional AS
SELECT NULL::text AS podspec, namespace, name,
       CASE WHEN duration > 0 THEN least(ceil(duration / 1000.0), 2147483647)::integer END AS duration,
       at_time(first_seen) AS created_at, name AS group_name
FROM group_record
WHERE phase = 'held';
COMMENT ON VIEW pods_provisional IS
    'fluxnetes'' columns. One row per group (not per pod) that still assembles, is suspended or before its begin '
    'time: Fairlead stores keys only, so name is the group''s name and podspec is always NULL.';
COMMENT ON COLUMN pods_provisional.duration IS 'Walltime in seconds; NULL is unlimited.';

CREATE VIEW groups_provisional AS
SELECT NULL::text AS podspec, namespace,
       CASE WHEN duration > 0 THEN least(ceil(duration / 1000.0), 2147483647)::integer END AS duration,
       at_time(first_seen) AS created_at, name AS group_name, size AS group_size, seen AS current_size
FROM group_record
WHERE phase = 'held';
COMMENT ON VIEW groups_provisional IS 'fluxnetes'' columns: groups that still assemble. podspec is always NULL.';

CREATE VIEW pending_queue AS
SELECT name AS group_name, namespace, size AS group_size,
       CASE WHEN phase IN ('starting', 'running') THEN seq END AS flux_id
FROM group_record
WHERE phase IN ('queued', 'starting', 'running');
COMMENT ON VIEW pending_queue IS
    'fluxnetes'' columns: complete groups until they end. Unlike there, an ended group''s row goes away.';
COMMENT ON COLUMN pending_queue.flux_id IS
    'NULL while the group waits, then its first-seen sequence (there is no Fluxion job id; bigint, not integer).';

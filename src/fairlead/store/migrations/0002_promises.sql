-- What a group was promised stays with it, so that the forecast can be judged after the start; and the views
-- of waiting groups show the start that is promised now.

ALTER TABLE group_record
    ADD COLUMN promised bigint NOT NULL DEFAULT 0,
    ADD COLUMN promised_last bigint NOT NULL DEFAULT 0;

CREATE OR REPLACE VIEW groups AS
SELECT id, namespace, name, source, seq, size, seen, priority, queue, phase, outcome, why, text, broken, nodes,
       CASE WHEN duration > 0 THEN duration * interval '1 millisecond' END AS duration,
       at_time(begin) AS begin, at_time(first_seen) AS first_seen, at_time(complete_at) AS complete_at,
       at_time(granted_at) AS granted_at, at_time(bound_at) AS bound_at, at_time(started_at) AS started_at,
       at_time(ended_at) AS ended_at,
       coalesce(at_time(granted_at), at_time(ended_at), now()) - at_time(first_seen) AS waited,
       at_time(promised) AS promised, at_time(promised_last) AS promised_last,
       CASE WHEN granted_at > 0 AND promised > 0 THEN (granted_at - promised) * interval '1 millisecond' END
           AS late,
       CASE WHEN granted_at > 0 AND promised_last > 0
           THEN (granted_at - promised_last) * interval '1 millisecond' END AS late_last
FROM group_record;
COMMENT ON COLUMN groups.promised IS 'The first start that the group was promised; NULL if it never was.';
COMMENT ON COLUMN groups.promised_last IS 'The promise that stood when it was granted its start.';
COMMENT ON COLUMN groups.late IS
    'How much later than first promised it was granted its start; negative: earlier. NULL: never promised.';
COMMENT ON COLUMN groups.late_last IS 'The same against the last promise.';

CREATE OR REPLACE VIEW queue AS
SELECT CASE WHEN g.phase = 'queued' THEN
           row_number() OVER (PARTITION BY g.phase ORDER BY g.priority DESC, g.seq, g.id)
       END AS position,
       g.queue, g.namespace, g.name, g.size, g.seen, g.priority, g.seq, g.phase, g.why, g.text, g.first_seen,
       g.waited, g.begin, g.duration, g.id, at_time(r.start) AS estimate
FROM groups g
LEFT JOIN reservation_record r ON r."group" = g.id
WHERE g.phase IN ('held', 'queued');
COMMENT ON COLUMN queue.estimate IS 'The start that is promised now; NULL if none is.';

-- Each stage of a start has its time: when the plan that grants it was begun, and when the grant was durable.

ALTER TABLE group_record
    ADD COLUMN planned_at bigint NOT NULL DEFAULT 0,
    ADD COLUMN recorded_at bigint NOT NULL DEFAULT 0;

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
           THEN (granted_at - promised_last) * interval '1 millisecond' END AS late_last,
       at_time(planned_at) AS planned_at, at_time(recorded_at) AS recorded_at
FROM group_record;
COMMENT ON COLUMN groups.planned_at IS 'When the plan that grants its start was begun; it was accepted at granted_at.';
COMMENT ON COLUMN groups.recorded_at IS 'When the scheduler knew that the grant is durable; no bind goes out before.';

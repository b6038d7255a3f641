-- The ledger's replay level, written and read by `store.segments` and `store.segments_read`.

-- name: open_segment
WITH old AS (
    SELECT id FROM ledger_segment WHERE holder = %(holder)s AND opened_at = %(at)s AND why = %(why)s
), new AS (
    INSERT INTO ledger_segment (opened_at, why, engine, settings_hash, settings, epoch, holder, checkpoint)
    SELECT %(at)s, %(why)s, %(engine)s, %(hash)s, %(settings)s::jsonb, %(epoch)s, %(holder)s, %(checkpoint)s
    WHERE NOT EXISTS (SELECT 1 FROM old)
    RETURNING id
)
SELECT id FROM old UNION ALL SELECT id FROM new

-- name: close_segment
UPDATE ledger_segment SET closed_at = %(at)s WHERE id = %(segment)s

-- name: segment_epoch
UPDATE ledger_segment SET epoch = %(epoch)s WHERE id = %(segment)s AND epoch <> %(epoch)s

-- name: put_spec
INSERT INTO ledger_spec (hash, body, last_used) VALUES (%(hash)s, %(body)s, %(used)s)
ON CONFLICT (hash) DO UPDATE SET last_used = greatest(ledger_spec.last_used, excluded.last_used)

-- name: put_chunk
INSERT INTO ledger_chunk (segment, seq, first_at, last_at, batches, events, body)
SELECT %(segment)s, %(seq)s, %(first)s, %(last)s, %(batches)s, %(events)s, %(body)s
WHERE NOT EXISTS (SELECT 1 FROM ledger_chunk WHERE segment = %(segment)s AND seq = %(seq)s)

-- name: segments_between
SELECT s.id, s.opened_at, s.why, s.engine, s.settings, s.epoch, s.holder, s.checkpoint IS NOT NULL, s.closed_at,
       c.chunks, c.first_seq, c.last_seq, c.last_at, c.batches
FROM ledger_segment s
CROSS JOIN LATERAL (
    SELECT count(*) AS chunks, coalesce(min(seq), 0) AS first_seq, coalesce(max(seq), -1) AS last_seq,
           coalesce(max(last_at), s.opened_at) AS last_at, coalesce(sum(batches), 0) AS batches
    FROM ledger_chunk WHERE segment = s.id
) c
WHERE s.opened_at <= %(until)s AND c.last_at >= %(since)s
ORDER BY s.opened_at, s.id

-- name: segment_checkpoint
SELECT checkpoint FROM ledger_segment WHERE id = %(segment)s

-- name: segment_chunks
SELECT seq, first_at, last_at, body FROM ledger_chunk
WHERE segment = %(segment)s AND seq >= %(seq)s AND first_at <= %(until)s
ORDER BY seq LIMIT %(limit)s

-- name: specs_by_hash
SELECT hash, body FROM ledger_spec WHERE hash = ANY(%(hashes)s)

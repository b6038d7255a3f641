-- Statements of `store.ledger_import`.

-- name: try_lock_import
SELECT pg_try_advisory_lock(7021788102205)

-- name: import_marks
SELECT kind, version FROM watch_mark WHERE starts_with(kind, 'import:')

-- What had ended before the chassis was told so of every end, and not of deletions alone.
INSERT INTO ended_aggregates (aggregate, at)
SELECT id::text, updated FROM retired WHERE phase IN ('Completed', 'Failed', 'Deleted')
ON CONFLICT DO NOTHING;

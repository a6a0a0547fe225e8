-- The agent's dead-man's deadline comes with its heartbeats (0 until the next one); the profile, an array, said only
-- whether there is one, at its 7th place.
UPDATE clusters SET body = (
    jsonb_set(
        body::jsonb || '{"dead_man": 0}',
        '{profile}',
        CASE jsonb_typeof(body::jsonb -> 'profile')
            WHEN 'array' THEN (body::jsonb -> 'profile') - 6
            ELSE body::jsonb -> 'profile'
        END
    )
)::text;

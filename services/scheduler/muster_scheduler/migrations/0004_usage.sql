-- What projects have used lately in node pools, fading; written when what they hold there changes.

CREATE TABLE usage (
    project text NOT NULL,
    pool    text NOT NULL,
    body    text NOT NULL,                          -- JSON: the fading average, and until when it is settled
    PRIMARY KEY (project, pool)
);

-- Departments are queues over projects: their quotas bind too.

CREATE TABLE departments (
    name text PRIMARY KEY,
    body text NOT NULL                              -- JSON: version, quotas per node pool, rules, node types, rank
);

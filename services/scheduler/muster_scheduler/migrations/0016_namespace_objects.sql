-- Claims and ConfigMaps of projects' namespaces in each cluster: a workload goes where what it mounts is.
CREATE TABLE namespace_objects (
    cluster   text NOT NULL,
    namespace text NOT NULL,
    body      text NOT NULL,                        -- JSON: names, and whether there are more
    PRIMARY KEY (cluster, namespace)
);

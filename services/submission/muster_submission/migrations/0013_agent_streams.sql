-- Which instance of submission has the stream of each cluster's agent. Logs come over it, whichever instance is asked.
CREATE TABLE agent_streams (
    cluster text PRIMARY KEY,
    stream uuid NOT NULL,
    instance text NOT NULL,
    address text NOT NULL, -- of the instance's gRPC, for other instances; empty where they cannot reach it
    since timestamptz NOT NULL
);

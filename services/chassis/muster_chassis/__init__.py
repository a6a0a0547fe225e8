"""All I/O that the services share: Kafka, PostgreSQL, gRPC, settings, logs, metrics and traces."""

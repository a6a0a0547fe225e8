"""The real things behind the ports: local processes, Kafka, gRPC, the state folder."""

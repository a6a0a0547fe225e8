"""The real things behind the ports: PostgreSQL, the change feed, the other services' gRPC, the connected agents."""

"""Fair shares: how what there is of one resource is divided among queues. Pure integers; nothing here knows a node."""

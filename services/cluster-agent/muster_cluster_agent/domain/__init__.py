"""What should happen to replicas, as functions over values. Pure: no clock, no I/O, no protobuf."""

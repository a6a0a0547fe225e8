"""The scheduler's deterministic state machine. Pure: no clock, no randomness, no I/O, no protobuf."""

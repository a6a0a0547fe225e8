"""What submission decides, as functions over values: no clock, no randomness, no I/O, no protobuf."""

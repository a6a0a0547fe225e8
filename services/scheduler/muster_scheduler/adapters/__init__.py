"""The implementations of the scheduler's ports."""

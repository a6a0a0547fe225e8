"""The real things behind the scheduler's ports."""

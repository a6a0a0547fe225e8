"""The real things behind policy's ports."""

"""The real things behind telemetry's ports."""

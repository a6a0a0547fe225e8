"""Numbered SQL of telemetry's schema."""

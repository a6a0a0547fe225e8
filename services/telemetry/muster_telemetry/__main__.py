"""Starts telemetry: `python -m muster_telemetry`, settings from the environment."""

from __future__ import annotations

from muster_chassis.runtime import run
from muster_telemetry.app import NAME, compose
from muster_telemetry.settings import TelemetrySettings

if __name__ == "__main__":
    run(NAME, TelemetrySettings, compose)

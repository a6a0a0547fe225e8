"""What the environment tells telemetry, beside what every service reads."""

from __future__ import annotations

from pydantic import Field

from muster_chassis.settings import InternalSettings


class TelemetrySettings(InternalSettings):
    """How often accounts are told."""

    announce_seconds: float = Field(
        default=1.0, gt=0, le=300, description="How long a changed account waits before it is told to the others."
    )

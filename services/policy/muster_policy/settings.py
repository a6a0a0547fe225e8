"""What the environment tells policy, beside what every service reads."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from muster_chassis.settings import InternalSettings


class PolicySettings(InternalSettings):
    """Nothing of its own; a setting of earlier releases is known, so that an upgrade rules nothing silently."""

    policy_file: Path | None = Field(
        default=None,
        description="Gone: policies stand in the database. Where its file holds rules, policy does not start.",
    )

"""What the environment tells policy, beside what every service reads."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from muster_chassis.settings import InternalSettings


class PolicySettings(InternalSettings):
    """The one document that is in force."""

    policy_file: Path | None = Field(
        default=None, description="The policy document; read again when it changes. Without it nothing is ruled."
    )

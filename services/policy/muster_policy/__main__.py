"""Starts policy: `python -m muster_policy`, settings from the environment."""

from __future__ import annotations

from muster_chassis.runtime import run
from muster_policy.app import NAME, compose
from muster_policy.settings import PolicySettings

if __name__ == "__main__":
    run(NAME, PolicySettings, compose)

"""`python -m muster_scheduler`: one candidate for leading, with settings from the environment."""

from __future__ import annotations

from muster_chassis.runtime import run
from muster_scheduler.app import NAME, compose
from muster_scheduler.settings import SchedulerSettings

if __name__ == "__main__":
    run(NAME, SchedulerSettings, compose)

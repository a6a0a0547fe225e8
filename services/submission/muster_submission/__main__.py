"""Starts submission: `python -m muster_submission`, settings from the environment."""

from __future__ import annotations

import gc

from muster_chassis.runtime import Runtime, run
from muster_submission.app import compose
from muster_submission.app_parts import NAME
from muster_submission.settings import SubmissionSettings


async def _compose(runtime: Runtime, settings: SubmissionSettings) -> None:
    await compose(runtime, settings)
    # What the process begins with stays: looking through it again would hold up whoever waits for an answer.
    gc.collect()
    gc.freeze()


def main() -> None:
    """Runs until SIGTERM."""
    run(NAME, SubmissionSettings, _compose)


if __name__ == "__main__":
    main()

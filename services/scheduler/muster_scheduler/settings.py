"""The scheduler's settings: what every service has, and what is the scheduler's own."""

from __future__ import annotations

from importlib.metadata import version

from pydantic import Field

from muster_chassis.key_files import SecretFile
from muster_chassis.settings import InternalSettings
from muster_kernel.quantities import MILLI
from muster_scheduler.domain.asked.limits import Limits
from muster_scheduler.domain.asked.workloads import SECOND


class SchedulerSettings(InternalSettings):
    """Everything from the environment (`MUSTER_*`)."""

    assignments_key_file: SecretFile = Field(
        description="The private key (Ed25519, PEM, mode 0600) that signs assignments; the trust file lists it."
    )
    stale_seconds: float = Field(
        default=30.0, gt=0, description="A cluster whose last observation is older gets nothing new, in seconds."
    )
    silent_seconds: float = Field(
        default=50.0, gt=0, description="A cluster whose last observation is older is Unknown, in seconds."
    )
    grace_seconds: int = Field(
        default=30, ge=0, le=300, description="Between SIGTERM and SIGKILL when a replica is taken down, in seconds."
    )
    minimum_run_seconds: float = Field(
        default=0.0, ge=0, description="Preemptible work runs this long before it may have to leave, in seconds."
    )
    grow_after_seconds: float = Field(
        default=30.0, ge=0, description="Elastic gangs grow after so long without waiting work in the pool, in seconds."
    )
    below_minimum_seconds: float = Field(
        default=60.0, gt=0, description="A gang that lacks replicas for so long gives up the others, in seconds."
    )
    usage_weight: float = Field(
        default=0.0,
        ge=0,
        le=1000,
        description="How much past use counts in fair shares: 0 not at all, 1 as weights do.",
    )
    usage_half_life_seconds: float = Field(
        default=86_400.0, ge=60, description="In this time past use loses half of what it counts, in seconds."
    )
    reserves: bool = Field(
        default=True, description="Whether nodes are kept for the first workload of a pool that waits for room."
    )
    cycle_visits: int = Field(
        default=20_000, ge=100, description="Tests of nodes in one cycle, a refusal as 400; then the next one goes on."
    )

    def limits(self) -> Limits:
        """What of these the domain lives by."""
        return Limits(
            stale_after=_micros(self.stale_seconds),
            silent_after=_micros(self.silent_seconds),
            grace=self.grace_seconds,
            minimum_run=_micros(self.minimum_run_seconds),
            usage_weight=round(self.usage_weight * MILLI),
            usage_half_life=_micros(self.usage_half_life_seconds),
            reserves=self.reserves,
            grow_after=_micros(self.grow_after_seconds),
            below_minimum=_micros(self.below_minimum_seconds),
            version=version("muster-scheduler"),
        )


def _micros(seconds: float) -> int:
    return int(seconds * SECOND)

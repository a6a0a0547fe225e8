"""A cluster as the scheduler knows it: what it can do, who speaks for it, and how fresh its word is.

Changed through the world's journal by reports; read by eligibility. `fresh` is our own time at which the agent last
made an observation that we had not seen: an agent's clock may be an hour off, so the two clocks are never subtracted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from muster_kernel.reasons import Unsupported
from muster_scheduler.domain.asked.requests import Kind, Shape
from muster_scheduler.domain.fleet.nodes import Mig

STRANGERS: Final = 8  # instances that are remembered a cluster though it is bound to another


class Profile(NamedTuple):
    """What a cluster can do. What it does not support is a counted reason, never an attempt."""

    backend: str = "local"
    anonymous: bool = False
    portions: bool = True
    memory_requests: bool = True
    memory_isolation: bool = False
    mig: Mig = Mig.NONE
    ends_replicas_itself: bool = False
    ignored_fields: tuple[str, ...] = ()
    refused_fields: tuple[str, ...] = ()
    service_types: tuple[str, ...] = ()
    request_gateway: bool = False
    confinement: str = ""  # as its agent puts it; only shown


class Standing(Enum):
    """How a cluster stands in the eyes of the scheduler."""

    REGISTERED = "registered"
    READY = "ready"
    STALE = "stale"
    UNKNOWN = "unknown"


@dataclass(slots=True, eq=False)
class Cluster:
    """One registered cluster."""

    id: str
    instance: str = ""  # the agent instance to which it is bound; empty: to the first that reports
    profile: Profile | None = None
    start: int = 0  # of the agent, as last reported
    observed: int = 0
    inventory_sequence: int = 0
    full_needed: bool = True  # deltas wait for a full inventory
    fresh: int = 0
    silent: bool = False
    lost_timeout: int = 0  # seconds; 0: never given up by time alone
    # Other instances that reported, and when; not in the books, since those that live report again in seconds.
    strangers: dict[str, int] = field(default_factory=dict)

    def notice(self, instance: str, now: int) -> None:
        """Remembers that an instance reported that does not speak for the cluster: it is one that may be adopted."""
        self.strangers.pop(instance, None)
        self.strangers[instance] = now
        while len(self.strangers) > STRANGERS:
            del self.strangers[next(iter(self.strangers))]

    def alive(self, now: int, silent_after: int) -> bool:
        """Whether the agent that speaks for it has been heard lately; times in microseconds."""
        return bool(self.instance) and not self.silent and now - self.fresh <= silent_after

    def standing(self, now: int, stale_after: int) -> Standing:
        """How it stands now; `stale_after` in microseconds."""
        if not self.instance or self.profile is None:
            return Standing.REGISTERED
        if self.silent:
            return Standing.UNKNOWN
        return Standing.READY if now - self.fresh <= stale_after else Standing.STALE


def refused(profile: Profile, shape: Shape, fields: frozenset[str]) -> Unsupported | None:
    """What keeps a cluster with this profile from running the shape of a spec that sets `fields`; None: nothing."""
    if not fields.isdisjoint(profile.refused_fields):
        return Unsupported.FIELDS
    match shape.kind:
        case Kind.PORTION if not profile.portions or profile.anonymous:
            return Unsupported.PORTIONS
        case Kind.MEMORY if not profile.memory_requests or profile.anonymous:
            return Unsupported.DEVICE_MEMORY
        case Kind.SLICE if profile.mig is Mig.NONE:
            return Unsupported.SLICES
    return None

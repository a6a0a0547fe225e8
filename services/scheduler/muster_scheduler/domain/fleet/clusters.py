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
from muster_scheduler.domain.fleet.objects import Objects, lacking
from muster_scheduler.domain.fleet.snapshots import HeldParts, IncomingInventory, missing

STRANGERS: Final = 8  # instances that are remembered a cluster though it is bound to another
# Seconds between an agent's dead-man's deadline and the return of its devices: supervisors look at it once a second and
# need some time to end what they hold, and the clocks of two machines drift apart.
DEAD_MAN_MARGIN: Final = 60


class Profile(NamedTuple):
    """What a cluster can do. What it does not support is a counted reason, never an attempt."""

    backend: str = "local"
    anonymous: bool = False
    portions: bool = True
    memory_requests: bool = True
    memory_isolation: bool = False
    mig: Mig = Mig.NONE
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


class Orphan(NamedTuple):
    """An assignment that an agent holds and no row knows. seen: the list of held assignments that named it last."""

    since: int
    generation: int
    attempt: int
    seen: tuple[int, int]


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
    unreachable: bool = False  # its agent lives and sees nothing; not persisted: each heartbeat says it
    version: str = ""  # of its agent's software; not persisted either
    unfit: str = ""  # why that version keeps new work off it, for people; empty: it does not
    lost_timeout: int = 0  # seconds, the operator's opt-in; 0: never given up by time alone
    dead_man: int = 0  # seconds, as the agent reported it last; 0: not every replica ends by itself
    incoming: IncomingInventory | None = None  # a full inventory of which parts are missing
    held: HeldParts | None = None  # a list of held assignments of which parts are missing
    left: bool = False  # an operator has taken it out of the fleet
    names_objects: bool = False  # its agent names the claims and ConfigMaps of projects; else anything may be there
    objects: dict[str, Objects] = field(default_factory=dict)  # by namespace
    behind_since: int = 0  # since when what is reported of its nodes cannot be applied; 0: nothing is lost
    # Other instances that reported, and when; not persisted: those that live report again within seconds.
    strangers: dict[str, int] = field(default_factory=dict)

    def notice(self, instance: str, now: int) -> None:
        """Remembers that an instance reported that does not speak for the cluster: it is one that may be adopted."""
        self.strangers.pop(instance, None)
        self.strangers[instance] = now
        while len(self.strangers) > STRANGERS:
            del self.strangers[next(iter(self.strangers))]

    @property
    def released_after(self) -> int:
        """Seconds of silence after which its replicas count as gone; 0: never.

        The agent's deadline may have grown since the opt-in, so the larger of the two counts.
        """
        if not self.lost_timeout or not self.dead_man:
            return 0
        return max(self.lost_timeout, self.dead_man) + DEAD_MAN_MARGIN

    def lacks(self, now: int, patience: int) -> str:
        """What has been missing of its reports for longer than `patience`, for people; empty: nothing. Microseconds."""
        if self.behind_since and now - self.behind_since > patience:
            if self.incoming is None:
                return "an inventory was lost or did not match its digest: its nodes count as they were before it"
            parts = missing(self.incoming.id.total, self.incoming.parts)
            return f"inventory {self.incoming.id.sequence} lacks its parts {parts}: the last whole one counts"
        if self.held is not None and now - self.held.since > patience:
            return f"the list of its held assignments lacks its parts {missing(self.held.total, self.held.taken)}"
        return ""

    def alive(self, now: int, silent_after: int) -> bool:
        """Whether the agent that speaks for it has been heard lately; times in microseconds."""
        return bool(self.instance) and not self.silent and now - self.fresh <= silent_after

    def missing_of(self, mounted: tuple[str, ...]) -> list[str]:
        """Which of these objects, as `namespace/kind/name`, are not in this cluster."""
        return lacking(mounted, self.objects) if mounted and self.names_objects else []

    def standing(self, now: int, stale_after: int) -> Standing:
        """How it stands now; `stale_after` in microseconds."""
        if not self.instance or self.profile is None:
            return Standing.REGISTERED
        if self.silent:
            return Standing.UNKNOWN
        fresh = now - self.fresh <= stale_after and not self.unreachable and not self.unfit
        return Standing.READY if fresh else Standing.STALE


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

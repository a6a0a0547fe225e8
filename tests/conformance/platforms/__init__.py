"""What the agent's back end acts on, as cases see it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import ClassVar, Final

from muster.fleet.v1 import fleet_pb2

NODES: Final = 96
"""Nodes of a stage: n-0 and n-1 are shared by its cases, each of the others is one case's."""


class Capability(StrEnum):
    """What a platform can play; a case names what it needs."""

    CONTAINERS = "images, namespaces and objects of an API server"
    ADMISSION = "an admission that denies or changes"
    CARDS = "devices that are told apart"
    DEVICE_CLAIMS = "devices that a driver lists and claims hold"
    HAMI = "devices that HAMi shares"
    KAI = "devices that KAI-Scheduler gives"
    FROZEN_NODES = "nodes that fall silent and come back with what ran"
    REBOOTS = "nodes that start again"
    SHARED_FOLDER = "a folder that outlives a run without a volume"
    SIGNALS = "programs that answer signals"
    OWN_SIGNALS = "programs that end by a signal of their own, as the first process of a container does not"
    OUTPUT = "the last lines of a program"
    LAYOUTS = "nodes whose MIG layout a mig-manager changes"
    API_FAULTS = "calls of the API server that fail, or whose answers are lost"
    OWN_CLUSTER = "a cluster that no other case uses"
    PARTITIONS = "an agent that is cut off from its API server"


class Platform(ABC):
    """One back end's world.

    gone: the evidence by which a replica that has ended is GONE. spoken_for: a node whose kubelet says what a case
    wants, where any is played. cpu_milli: of node n-0.
    """

    name: ClassVar[str]
    capabilities: ClassVar[frozenset[Capability]]
    gone: ClassVar[str]
    spoken_for: ClassVar[str] = "n-0"
    cpu_milli: ClassVar[int] = 64_000

    @abstractmethod
    def cluster_file(self, cluster: str) -> str:
        """The text of the agent's cluster file."""

    @abstractmethod
    async def finish(self, workload: str, replica: str, code: int) -> None:
        """A replica that runs WAITS ends with a code."""

    @abstractmethod
    async def settled(self, workload: str, replica: str) -> None:
        """Waits until POLITE or STUBBORN listens."""

    @abstractmethod
    async def starts(self, workload: str, replica: str) -> int:
        """How often a replica's command was started."""

    @abstractmethod
    async def environment(self, workload: str, replica: str) -> Mapping[str, str]:
        """The environment of a replica that runs TELLS."""

    @abstractmethod
    async def devices(self, workload: str, replica: str) -> int:
        """How many devices a replica that runs TELLS was given."""

    @abstractmethod
    async def left(self, workload: str) -> Sequence[str]:
        """What is there of a workload beside its data."""

    @property
    def complaints(self) -> Sequence[str]:
        """What the platform itself saw and must not be, such as two incarnations of a replica at the same time."""
        return ()

    @abstractmethod
    async def silence(self, node: str) -> None:
        """A node answers no more; what runs on it may go on."""

    @abstractmethod
    async def wake(self, node: str) -> None:
        """A silent node is back, with what ran on it."""

    @abstractmethod
    async def reboot(self, node: str) -> None:
        """A node starts again: nothing of what ran on it is left."""

    @abstractmethod
    async def retire(self, node: str) -> None:
        """An operator takes a node out of service."""

    @abstractmethod
    async def cordon(self, node: str) -> None:
        """An operator closes a node to new work."""

    @abstractmethod
    def device(self, run: fleet_pb2.ReplicaRun, slot: int) -> fleet_pb2.ReplicaRun:
        """The run, with one whole device for each of its replicas. slot: which one, where they are told apart."""

"""The nodes that come closest to holding a replica, and what each of them lacks now.

Called by explain.py for what waits for room: counts say how many nodes lack something, this says which lack least.
Holds: a node with what it is said to lack would hold the replica; nothing is changed; at most `_NAMED` nodes.
"""

from __future__ import annotations

from heapq import nsmallest
from typing import Final, NamedTuple

from muster_kernel.quantities import GPU, UNITS_PER_MILLI, format_bytes, format_milli_cpu
from muster_kernel.reasons import Constraint
from muster_scheduler.domain.answers.told_nodes import Looked
from muster_scheduler.domain.answers.wording import gpus, named_amount
from muster_scheduler.domain.asked.requests import Kind, Shape
from muster_scheduler.domain.fleet.nodes import Device, Mode, Node
from muster_scheduler.domain.placement.trial import emptied

_NAMED: Final = 3
_SHORT: Final = frozenset(
    {
        Constraint.NO_IDLE_GPU,
        Constraint.TOO_FEW_GPUS,
        Constraint.NO_PORTION,
        Constraint.NO_DEVICE_MEMORY,
        Constraint.CPU,
        Constraint.MEMORY,
        Constraint.RESOURCE,
        Constraint.REPLICAS_FULL,
    }
)


class Lack(NamedTuple):
    """What a node lacks for one replica, in 1/7,000 GPU, bytes of one GPU, milli-CPU, bytes, and of named resources.

    replicas: 1 if its limit of pods allows no more.
    """

    gpu: int = 0
    device_memory: int = 0
    cpu: int = 0
    memory: int = 0
    extra: tuple[tuple[str, int], ...] = ()
    replicas: int = 0

    def in_words(self) -> str:
        """It, for a person: `1 GPU and 4 CPU`."""
        parts = [gpus(self.gpu)] if self.gpu else []
        parts += [f"{format_bytes(self.device_memory)} of GPU memory"] if self.device_memory else []
        parts += [f"{format_milli_cpu(self.cpu)} CPU"] if self.cpu else []
        parts += [f"{format_bytes(self.memory)} of memory"] if self.memory else []
        parts += [named_amount(*each) for each in self.extra]
        parts += ["a place for 1 more pod"] if self.replicas else []
        return f"{', '.join(parts[:-1])} and {parts[-1]}" if len(parts) > 1 else "".join(parts)


def nearest(looked: Looked) -> tuple[str, ...]:
    """The nodes that lack least of what one replica needs, each as `n3 lacks 1 GPU`.

    Where not even an idle node holds it, that is what they lack when they are idle.
    """
    several = len({node.cluster for node, _ in looked.nodes}) > 1
    near = [node for node, constraint in looked.nodes if constraint in _SHORT]
    short = ((lack_of(emptied(node) if looked.never else node, looked.shape), node) for node in near)
    found = nsmallest(_NAMED, ((lack, node) for lack, node in short if lack is not None), key=_by_lack)
    return tuple(f"{_name(node, several=several)} lacks {lack.in_words()}" for lack, node in found)


def _by_lack(found: tuple[Lack, Node]) -> tuple[int, Lack, tuple[str, str]]:
    lack, node = found
    return sum(map(bool, lack)), lack, node.key


def _name(node: Node, *, several: bool) -> str:
    return f"{node.name} of {node.cluster}" if several else node.name


def lack_of(node: Node, shape: Shape) -> Lack | None:
    """What the node would have to have free beside what it has; None where that is not so easily said."""
    missing = ((name, amount - max(0, node.free_extra(name))) for name, amount in shape.extra)
    host = Lack(
        cpu=max(0, shape.cpu - max(0, node.free_cpu)),
        memory=max(0, shape.memory - max(0, node.free_memory)),
        extra=tuple((name, amount) for name, amount in missing if amount > 0),
        replicas=max(0, 1 - node.free_replicas),
    )
    match shape.kind:
        case Kind.NONE:
            lack = host
        case Kind.WHOLE:
            lack = host._replace(gpu=GPU * max(0, shape.devices - node.idle))
        case Kind.PORTION if shape.devices == 1:
            lack = host._replace(gpu=_portion(node, shape) * UNITS_PER_MILLI)
        case Kind.MEMORY if shape.devices == 1:
            lack = host._replace(device_memory=_bytes(node, shape))
        case _:
            return None
    return lack if any(lack) else None


def _portion(node: Node, shape: Shape) -> int:
    """Milli-GPU that the emptiest card which can be shared lacks."""
    free = [10 * device.share_free if device.mode is Mode.SHARED else 1000 for device in _open_cards(node)]
    return max(0, shape.milli - max(free, default=0))


def _bytes(node: Node, shape: Shape) -> int:
    """Bytes that the card with most left which can be shared lacks."""
    return max(0, shape.bytes - max((device.free_bytes for device in _open_cards(node)), default=0))


def _open_cards(node: Node) -> list[Device]:
    return [device for device in node.devices if device.mode in {Mode.IDLE, Mode.SHARED} and not device.mig]

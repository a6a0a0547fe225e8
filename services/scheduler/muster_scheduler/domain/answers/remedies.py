"""What would let start what fits into no idle pool: to ask for less, or larger nodes.

Called by explain.py when the reason is one that no wait ends. What is said of asking for less has been tried, on the
idle pool and on the pool as it is now; the state is as it was afterwards.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from muster_kernel.mig import CARDS
from muster_kernel.quantities import GPU, format_bytes, format_milli_cpu
from muster_scheduler.domain.answers.wording import gpus, named_amount, shape_in_words
from muster_scheduler.domain.asked.requests import Kind, Role, Shape, charge_of
from muster_scheduler.domain.asked.workloads import Request, Workload
from muster_scheduler.domain.books.capacity import Trial
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.fleet.eligibility import types_of_node
from muster_scheduler.domain.fleet.nodes import Node
from muster_scheduler.domain.placement.gang import wish_of
from muster_scheduler.domain.placement.place import Budget, able, clusters_for, place_gang
from muster_scheduler.domain.placement.trial import try_out

_TYPES: Final = 3


def short_role(world: World, workload: Workload, request: Request) -> Role | None:
    """The role of which no idle node holds a single replica, in any pool that the request may use."""
    tried = _trials(world, workload, request, request.roles)
    if not tried or any(trial is None or trial.fits or trial.short is None for trial in tried):
        return None
    return tried[0].short if tried[0] else None


def what_would_fit(world: World, workload: Workload, request: Request) -> list[str]:
    """The changes with which it would start: less asked for, then larger nodes.

    "and there was room" is added where the smaller one would not only fit, but has to wait as well.
    """
    short = short_role(world, workload, request)
    if short is None:
        found = _fewer(world, workload, request)
        return [_told(world, workload, request, *found)] if found else []
    if short.shape.kind is Kind.SLICE and all(card.profile(short.shape.profile) is None for card in CARDS.values()):
        return [_profiles_there(world, request)]  # and so no node that joined would help
    smaller = [each for each in _less(world, workload, request, short) if _fits(world, workload, request, each[0])]
    told = [_told(world, workload, request, *each) for each in smaller]
    if not told and short.shape.kind is Kind.SLICE and any(d.mig for n in _nodes_of(world, request) for d in n.devices):
        told.append(_profiles_there(world, request))
    return [*told, *(f"{_nodes_for(short)} joined node pool {pool}" for pool in request.pools[:1])]


def _profiles_there(world: World, request: Request) -> str:
    """That no card has such a profile, and which those of its pools have."""
    cards = {device.model: device.card for node in _nodes_of(world, request) for device in node.devices if device.mig}
    known = [f"{model} has {', '.join(card.profiles)}" for model, card in sorted(cards.items()) if card]
    return ": ".join(["it asked for a MIG profile that a GPU has", *(["; ".join(known)] if known else [])])


def _nodes_of(world: World, request: Request) -> Iterator[Node]:
    """The nodes of the pools that it asks for."""
    places = ((cluster, pool) for pool in request.pools for cluster in world.inventory.clusters_with(pool))
    return (node for at in places if (capacity := world.inventory.capacity(*at)) for node in capacity.nodes)


def looser(world: World, workload: Workload, request: Request) -> list[str]:
    """That it only wished to be close together, where it could start then; or that nodes had the label it speaks of."""
    wish = wish_of(request)
    if not wish.required:
        return []
    wished = wish._replace(required="", preferred=wish.preferred or wish.required)
    loose = request._replace(terms=request.terms._replace(together=None, topology=wished))
    other = replace(workload, request=loose)
    told = [f"it preferred one {wish.required} instead of requiring it"]
    if not any(wish.required in dict(node.labels) for node in _nodes_of(world, request)):
        told.append(
            f"nodes of node pool {loose.pools[0]} had the label {wish.required}, one value for all that it needs"
        )
    if any(has_room(world, other, loose, loose.roles, pool) for pool in loose.pools):
        return told
    return [f"{each}, and there was room" for each in told] if _fits(world, other, loose, loose.roles) else []


def other_types(world: World, workload: Workload, request: Request) -> list[str]:
    """The node types of its pools of which one would do for it, those of most nodes first."""
    there = Counter(each for node in _nodes_of(world, request) for each in types_of_node(node))
    found: list[str] = []
    for each in sorted(there, key=lambda name: (-there[name], name))[:_TYPES]:
        other = request._replace(terms=request.terms._replace(node_type=each))
        asking = replace(workload, request=other)
        if _fits(world, asking, other, other.roles):
            found.append(_told(world, asking, other, other.roles, f"it asked for node type {each}"))
    return found


def other_pools(world: World, workload: Workload, request: Request) -> list[str]:
    """The node pools of which one would do for it, where there is none of those that it asks for."""
    there = sorted({node.pool for node in world.inventory.nodes.values()})
    asked = [(f"it asked for node pool {each}", request._replace(pools=(each,))) for each in there]
    return _that_fit(world, workload, asked)


def other_clusters(world: World, workload: Workload, request: Request) -> list[str]:
    """The clusters of which one would do for it, where none that it may use has its node pools."""
    there = [each for each in sorted(world.clusters) if each not in request.clusters]
    asked = [(f"it might use cluster {each}", request._replace(clusters=(each,))) for each in there]
    return _that_fit(world, workload, asked)


def _that_fit(world: World, workload: Workload, asked: list[tuple[str, Request]]) -> list[str]:
    """What to say of the first few of these requests that would fit."""
    found: list[str] = []
    for text, other in asked:
        asking = replace(workload, request=other)
        if len(found) < _TYPES and _fits(world, asking, other, other.roles):
            found.append(_told(world, asking, other, other.roles, text))
    return found


def has_room(world: World, workload: Workload, request: Request, roles: tuple[Role, ...], pool: str) -> bool:
    """Whether the gang could be placed in the pool this moment, quotas aside."""
    mark = world.journal.mark()
    fits = any(
        place_gang(world, workload, roles, cluster, pool, Budget()) is not None
        for cluster in clusters_for(world, workload, request, pool)
    )
    world.journal.rollback(mark)
    return fits


def _told(world: World, workload: Workload, request: Request, roles: tuple[Role, ...], text: str) -> str:
    room = any(has_room(world, workload, request, roles, pool) for pool in request.pools)
    return text if room else f"{text}, and there was room"


def _trials(world: World, workload: Workload, request: Request, roles: tuple[Role, ...]) -> list[Trial | None]:
    return [
        try_out(world, workload, roles, cluster, pool)
        for pool in request.pools
        for cluster in world.inventory.clusters_with(pool)
        if able(request, world.clusters.get(cluster))
    ]


def _fits(world: World, workload: Workload, request: Request, roles: tuple[Role, ...]) -> bool:
    return any(trial is not None and trial.fits for trial in _trials(world, workload, request, roles))


def _less(world: World, workload: Workload, request: Request, short: Role) -> list[tuple[tuple[Role, ...], str]]:
    """The request with no more of one thing than a node has, each with how to say it."""
    shape = short.shape
    tried = [trial for trial in _trials(world, workload, request, request.roles) if trial and trial.short == short]
    devices = max(trial.devices for trial in tried)
    cpu, memory = (min(shape.cpu, max(t.cpu for t in tried)), min(shape.memory, max(t.memory for t in tried)))
    found: list[tuple[tuple[Role, ...], str]] = []
    if 0 < devices < shape.devices:
        amount = gpus(devices * GPU)
        found.append(
            (_with(request, short, shape._replace(devices=devices)), f"it asked for at most {amount} on one node")
        )
    if (cpu, memory) != (shape.cpu, shape.memory):
        most = [f"{format_milli_cpu(cpu)} CPU"] if cpu < shape.cpu else []
        most += [f"{format_bytes(memory)} of memory"] if memory < shape.memory else []
        text = f"it asked for at most {' and '.join(most)} on one node"
        found.append((_with(request, short, shape._replace(cpu=cpu, memory=memory)), text))
    largest = max((device.memory for node in _nodes_of(world, request) for device in node.devices), default=0)
    if shape.kind is Kind.MEMORY and 0 < largest < shape.bytes:
        text = f"it asked for at most {format_bytes(largest)} of GPU memory"
        found.append((_with(request, short, shape._replace(bytes=largest)), text))
    return [*found, *_less_named(world, request, short)]


def _less_named(world: World, request: Request, short: Role) -> Iterator[tuple[tuple[Role, ...], str]]:
    """The request with no more of each named resource than a node has."""
    asked = dict(short.shape.extra)
    most = {name: max((node.extra.get(name, 0) for node in _nodes_of(world, request)), default=0) for name in asked}
    lacking = [name for name in asked if most[name] < asked[name]]
    if lacking:
        less = tuple((name, least) for name in asked if (least := min(asked[name], most[name])))
        named = [f"at most {named_amount(name, most[name])}" if most[name] else f"no {name}" for name in lacking]
        yield _with(request, short, short.shape._replace(extra=less)), f"it asked for {' and '.join(named)} on one node"


def _with(request: Request, short: Role, shape: Shape) -> tuple[Role, ...]:
    less = short._replace(shape=shape, charge=charge_of(shape))
    return tuple(less if role == short else role for role in request.roles)


def _fewer(world: World, workload: Workload, request: Request) -> tuple[tuple[Role, ...], str] | None:
    """A gang of one role with as many replicas as idle nodes hold. Halving, since a gang may be large."""
    if len(request.roles) != 1:
        return None
    (role,) = request.roles
    held, above = 0, role.size
    while above - held > 1:
        middle = (held + above) // 2
        if _fits(world, workload, request, (role._replace(size=middle),)):
            held = middle
        else:
            above = middle
    if not held:
        return None  # not even one finds what it asks for: fewer are no help
    return (role._replace(size=held),), f"it had at most {held} {'replica' if held == 1 else 'replicas'}"


def _nodes_for(role: Role) -> str:
    shape = role.shape
    asked = (
        (shape.cpu, f"{format_milli_cpu(shape.cpu)} CPU"),
        (shape.memory, f"{format_bytes(shape.memory)} of memory"),
    )
    parts = [text for amount, text in asked if amount]
    if shape.kind is Kind.WHOLE:
        parts.append(gpus(shape.devices * GPU))
    elif shape.kind is not Kind.NONE:
        words = shape_in_words(shape._replace(devices=1))
        parts.append(f"room for {words}" if shape.devices == 1 else f"{shape.devices} devices with room for {words}")
    parts += [named_amount(name, amount) for name, amount in shape.extra]
    each = f"{', '.join(parts[:-1])} and {parts[-1]}" if len(parts) > 1 else "".join(parts)
    if role.size == 1:
        return f"a node with {each}" if each else "a node"
    return f"{role.size} nodes, each with {each}," if each else f"{role.size} nodes"

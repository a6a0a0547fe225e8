"""What would let start what fits into no idle pool: to ask for less, or larger nodes.

Called by explain.py when the reason is one that no wait ends. What is said of asking for less has been tried, on the
idle pool and on the pool as it is now; the state is as it was afterwards.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

from muster_kernel.mig import CARDS
from muster_kernel.quantities import GPU, format_bytes, format_milli_cpu
from muster_scheduler.domain.answers.allowances import allowances, allowed_beside
from muster_scheduler.domain.answers.trying import asking, barred, fits_idle, has_room, trials
from muster_scheduler.domain.answers.viewing import Viewer
from muster_scheduler.domain.answers.wording import gpus, named_amount, shape_in_words
from muster_scheduler.domain.asked.requests import Kind, Role, Shape, charge_of
from muster_scheduler.domain.asked.terms import Wish
from muster_scheduler.domain.asked.workloads import Request, Workload
from muster_scheduler.domain.books.idle_trial import Trial
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.fleet.eligibility import types_of_node
from muster_scheduler.domain.fleet.nodes import Node
from muster_scheduler.domain.fleet.objects import in_words
from muster_scheduler.domain.placement.gang import wish_of

_TYPES: Final = 3
_CLUSTERS: Final = 3


def short_role(world: World, workload: Workload, request: Request) -> Role | None:
    """The role of which no idle node holds a single replica, in any pool that the request may use."""
    tried = _trials(world, workload, request)
    if not tried or any(trial is None or trial.fits or trial.short is None for trial in tried):
        return None
    return tried[0].short if tried[0] else None


def what_would_fit(world: World, workload: Workload, request: Request, viewer: Viewer) -> list[str]:
    """The changes with which it would start: less asked for, then larger nodes.

    What else has to be so then (a quota, room) is said in the same line.
    """
    short = short_role(world, workload, request)
    if short is None:
        return _fewer(world, workload, request, viewer)
    if short.shape.kind is Kind.SLICE and all(card.profile(short.shape.profile) is None for card in CARDS.values()):
        return [_profiles_there(world, request)]  # and so no node that joined would help
    told = [
        line
        for roles, text in _less(world, workload, request, short)
        for line in line_for(world, workload, request._replace(roles=roles), text, viewer)
    ]
    if not told and short.shape.kind is Kind.SLICE and any(d.mig for n in nodes_of(world, request) for d in n.devices):
        told.append(_profiles_there(world, request))
    return [*told, *_joined(world, workload, request, short, viewer)]


def _joined(world: World, workload: Workload, request: Request, short: Role, viewer: Viewer) -> Iterator[str]:
    """That nodes which are large enough joined its first pool, and what would have to be allowed beside."""
    for pool in request.pools[:1]:
        text = f"{_nodes_for(short, wish_of(request))} joined node pool {pool}"
        if barred(world, workload, request, pool) is None:
            yield text
            continue
        allowed = allowed_beside(world, workload, request, pool, viewer)
        if allowed:
            yield f"{text} and {allowed}"


def _profiles_there(world: World, request: Request) -> str:
    """That no card has such a profile, and which those of its pools have."""
    cards = {device.model: device.card for node in nodes_of(world, request) for device in node.devices if device.mig}
    known = [f"{model} has {', '.join(card.profiles)}" for model, card in sorted(cards.items()) if card]
    return ": ".join(["it asked for a MIG profile that a GPU has", *(["; ".join(known)] if known else [])])


def nodes_of(world: World, request: Request) -> Iterator[Node]:
    """The nodes of the pools that it asks for."""
    places = ((cluster, pool) for pool in request.pools for cluster in world.inventory.clusters_with(pool))
    return (node for at in places if (capacity := world.inventory.capacity(*at)) for node in capacity.nodes)


def looser(world: World, workload: Workload, request: Request, viewer: Viewer) -> list[str]:
    """That it only wished to be close together, where it could start then; or that nodes had the label it speaks of."""
    wish = wish_of(request)
    if not wish.required:
        return []
    wished = wish._replace(required="", preferred=wish.preferred or wish.required)
    loose = request._replace(terms=request.terms._replace(together=None, topology=wished))
    told = line_for(world, workload, loose, f"it preferred one {wish.required} instead of requiring it", viewer)
    if not any(wish.required in dict(node.labels) for node in nodes_of(world, request)):
        text = f"nodes of node pool {loose.pools[0]} had the label {wish.required}, one value for all that it needs"
        told += line_for(world, workload, loose, text, viewer)
    return told


def closer(world: World, workload: Workload, request: Request, viewer: Viewer) -> list[str]:
    """That it only wished to stand apart, where it could start then."""
    apart = request.terms.topology.apart
    if apart is None:
        return []
    wished = request.terms.topology._replace(apart=apart._replace(required=False))
    text = f"it preferred to stand apart by {apart.key} instead of requiring it"
    return line_for(world, workload, request._replace(terms=request.terms._replace(topology=wished)), text, viewer)


def other_types(world: World, workload: Workload, request: Request, viewer: Viewer) -> list[str]:
    """The node types of its pools of which one would do for it, those of most nodes first."""
    there = Counter(each for node in nodes_of(world, request) for each in types_of_node(node))
    found: list[str] = []
    for each in sorted(there, key=lambda name: (-there[name], name))[:_TYPES]:
        other = request._replace(terms=request.terms._replace(node_type=each))
        found += line_for(world, workload, other, f"it asked for node type {each}", viewer)
    return found


def other_pools(world: World, workload: Workload, request: Request, viewer: Viewer) -> list[str]:
    """The node pools of which one would do for it, where there is none of those that it asks for."""
    there = sorted({node.pool for node in world.inventory.nodes.values()})
    asked = [(f"it asked for node pool {each}", request._replace(pools=(each,))) for each in there]
    return _that_fit(world, workload, asked, viewer)


def other_clusters(world: World, workload: Workload, request: Request, viewer: Viewer) -> list[str]:
    """The clusters of which one would do for it, where none that it may use has its node pools."""
    there = [each for each in sorted(world.clusters) if each not in request.clusters]
    asked = [(f"it might use cluster {each}", request._replace(clusters=(each,))) for each in there]
    return _that_fit(world, workload, asked, viewer)


def _that_fit(world: World, workload: Workload, asked: list[tuple[str, Request]], viewer: Viewer) -> list[str]:
    """What to say of the first few of these requests that would fit."""
    found: list[str] = []
    for text, other in asked:
        if len(found) < _TYPES:
            found += line_for(world, workload, other, text, viewer)
    return found


def with_objects(world: World, workload: Workload, request: Request, viewer: Viewer) -> list[str]:
    """The clusters in which it would start if what it mounts were there, each with what it lacks."""
    found: list[str] = []
    for cluster in sorted({each for pool in request.pools for each in world.inventory.clusters_with(pool)}):
        known = world.clusters.get(cluster)
        lacks = known.missing_of(request.mounts) if known is not None else []
        if lacks and request.may_use(cluster):
            there = request._replace(mounts=(), clusters=(cluster,))
            found += line_for(world, workload, there, f"cluster {cluster} had {in_words(lacks)}", viewer)
    return found[:_CLUSTERS]


def line_for(world: World, workload: Workload, other: Request, text: str, viewer: Viewer) -> list[str]:
    """The line for another request, with what has to be so beside it; none where it would not start even then."""
    changed, waiting = asking(workload, other), ""
    for pool in other.pools:
        if not fits_idle(world, changed, other, pool):
            continue
        if barred(world, changed, other, pool) is not None:
            allowed = allowances(world, changed, other, pool, viewer)
            waiting = waiting or (f"{text} and {allowed}" if allowed else "")
        elif has_room(world, changed, other, pool):
            return [text]
        else:
            waiting = f"{text}, and there was room"
    return [waiting] if waiting else []


def _trials(world: World, workload: Workload, request: Request) -> list[Trial | None]:
    return [trial for pool in request.pools for trial in trials(world, workload, request, pool)]


def _starts(world: World, workload: Workload, request: Request, *, quotas: bool) -> bool:
    """Whether idle nodes hold it in one of its pools. quotas: and none of them is in the way there."""
    changed = asking(workload, request)
    return any(
        fits_idle(world, changed, request, pool)
        for pool in request.pools
        if not quotas or barred(world, changed, request, pool) is None
    )


def _less(world: World, workload: Workload, request: Request, short: Role) -> list[tuple[tuple[Role, ...], str]]:
    """The request with no more of one thing than a node has, each with how to say it."""
    shape = short.shape
    tried = [trial for trial in _trials(world, workload, request) if trial and trial.short == short]
    # Nodes with enough of one thing may have too little of another: what they have beside is what could be asked for.
    devices = max(trial.beside.devices for trial in tried) or max(trial.devices for trial in tried)
    enough = any(trial.devices >= shape.devices for trial in tried)
    cpu = min(shape.cpu, max(t.beside.cpu if enough else t.cpu for t in tried))
    memory = min(shape.memory, max(t.beside.memory if enough else t.memory for t in tried))
    found: list[tuple[tuple[Role, ...], str]] = []
    if 0 < devices < shape.devices:
        most = _most(
            world, workload, request, lambda size: _with(request, short, shape._replace(devices=size)), devices
        )
        if most:
            text = f"it asked for at most {gpus(most * GPU)} on one node"
            found.append((_with(request, short, shape._replace(devices=most)), text))
    if (cpu, memory) != (shape.cpu, shape.memory):
        least = [f"{format_milli_cpu(cpu)} CPU"] if cpu < shape.cpu else []
        least += [f"{format_bytes(memory)} of memory"] if memory < shape.memory else []
        text = f"it asked for at most {' and '.join(least)} on one node"
        found.append((_with(request, short, shape._replace(cpu=cpu, memory=memory)), text))
    slices = [trial.largest_slice for trial in tried if trial.largest_slice is not None]
    cards = (device.memory for node in nodes_of(world, request) for device in node.devices)
    largest = max(slices or cards, default=0)
    if shape.kind is Kind.MEMORY and 0 < largest < shape.bytes:
        text = f"it asked for at most {format_bytes(largest)} of GPU memory"
        found.append((_with(request, short, shape._replace(bytes=largest)), text))
    return [*found, *_less_named(world, request, short)]


def _less_named(world: World, request: Request, short: Role) -> Iterator[tuple[tuple[Role, ...], str]]:
    """The request with no more of each named resource than a node has."""
    asked = dict(short.shape.extra)
    most = {name: max((node.extra.get(name, 0) for node in nodes_of(world, request)), default=0) for name in asked}
    lacking = [name for name in asked if most[name] < asked[name]]
    if lacking:
        less = tuple((name, least) for name in asked if (least := min(asked[name], most[name])))
        named = [f"at most {named_amount(name, most[name])}" if most[name] else f"no {name}" for name in lacking]
        where = " on one node" if any(map(most.get, lacking)) else ""
        yield _with(request, short, short.shape._replace(extra=less)), f"it asked for {' and '.join(named)}{where}"


def _with(request: Request, short: Role, shape: Shape) -> tuple[Role, ...]:
    less = short._replace(shape=shape, charge=charge_of(shape))
    return tuple(less if role == short else role for role in request.roles)


def _fewer(world: World, workload: Workload, request: Request, viewer: Viewer) -> list[str]:
    """A gang with as many replicas of its largest role as idle nodes and quotas allow, in whole groups."""
    largest = max(request.roles, key=lambda role: role.size, default=None)
    if largest is None or any(role.name == largest.name for role in request.roles if role is not largest):
        return []
    wish = request.terms.topology
    step = wish.group_size if wish.group and largest.size >= wish.group_size > 0 else 1

    def sized(steps: int) -> tuple[Role, ...]:
        return tuple(role._replace(size=steps * step) if role is largest else role for role in request.roles)

    held = step * _most(world, workload, request, sized, (largest.size - 1) // step)
    if not held:
        return []  # not even one finds what it asks for: fewer are no help
    named = f" of {largest.name}" if len(request.roles) > 1 else ""
    text = f"it had at most {held} {'replica' if held == 1 else 'replicas'}{named}"
    return line_for(world, workload, request._replace(roles=sized(held // step)), text, viewer)


def _most(
    world: World, workload: Workload, request: Request, sized: Callable[[int], tuple[Role, ...]], most: int
) -> int:
    """Up to how much of something idle nodes hold it where no quota is in the way; else with quotas aside; 0: nothing.

    sized: the roles that ask for so much of it. Halving, since a gang may be large.
    """
    for quotas in (True, False):
        held, above = 0, most + 1
        while above - held > 1:
            middle = (held + above) // 2
            if _starts(world, workload, request._replace(roles=sized(middle)), quotas=quotas):
                held = middle
            else:
                above = middle
        if held:
            return held
    return 0


def _nodes_for(role: Role, wish: Wish) -> str:
    """Nodes that would hold the role, with the labels by which it is to be close together."""
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
    parts += [f"the same value of the label {wish.required}"] if wish.required else []
    parts += [f"the label {wish.group}"] if wish.group and wish.group != wish.required else []
    each = f"{', '.join(parts[:-1])} and {parts[-1]}" if len(parts) > 1 else "".join(parts)
    if role.size == 1:
        return f"a node with {each}" if each else "a node"
    return f"{role.size} nodes, each with {each}," if each else f"{role.size} nodes"

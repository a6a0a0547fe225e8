"""The standing of every node pool, made from the books and kept: where nothing changed, or little, little is done.

Asked by turning/turns.py once a cycle and pool, by whoever chooses for whom nodes are kept, and by people. A thousand
queues cost ten milliseconds when they are made; afterwards only levels of which a queue wants something else.
Holds: what is kept is what would be made anew, since it is held against the books each time that it is asked for; so
neither an abort nor a rebuild has to know of it. What a queue wants is what it holds and what waits of it in this pool,
without what could never run there; rounding units are 1 GPU, 1 CPU and 1 GiB; clusters that are silent do not count.
"""

from __future__ import annotations

from muster_scheduler.domain.asked.quotas import DEFAULT_WEIGHT, EMPTY, NOTHING, Account, Amount, Line
from muster_scheduler.domain.books.standing import STEPS, Kept, Queue, Standing, differing
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.shares.decay import part_of
from muster_scheduler.domain.shares.tree import TOP, Branch, Division, Shares


def standing_of(world: World, pool: str) -> Standing:
    """How the queues of a pool stand now."""
    if world.limits.usage_weight:
        return _made(world, pool).standing  # past use fades with the time: nothing that stands still can be kept
    kept = world.standings.get(pool)
    if kept is None or not _follow(world, kept):
        kept = world.standings[pool] = _made(world, pool)
    return kept.standing


def _made(world: World, pool: str) -> Kept:
    queues, departments, projects = _queues(world, pool)
    total, k, books = supply(world, pool), world.limits.usage_weight, world.queues
    if k:
        queues = _with_usage(world, pool, queues, total.gpu)
    bare = Standing(pool, total, queues, departments, projects, ())
    accounts, demands = bare.accounts(books), _demands(world, bare)
    wanted = [NOTHING] * len(departments)
    wanted += map(_wanted, accounts[len(departments) :], demands)
    divisions = tuple(_division(queues, wanted, at, total[at], k) for at in range(len(STEPS)))
    standing = bare.followed(_shares(divisions), [])
    others = [(name, pool) for name in books.projects if name not in projects]
    return Kept(standing, dict(books.projects), dict(books.departments), divisions, others, accounts, demands)


def _wanted(account: Account | None, demand: Amount | None) -> Amount:
    return (account or EMPTY).held.plus(demand or NOTHING)


def _demands(world: World, standing: Standing) -> list[Amount | None]:
    return list(map(world.waiting.demand.get, standing.keys[len(standing.departments) :]))


def _follow(world: World, kept: Kept) -> bool:
    """Brings it up to date. Whether that was possible: not where other queues take part, or the pool has changed."""
    books, standing = world.queues, kept.standing
    if kept.projects != books.projects or kept.departments != books.departments:
        return False
    if any(map(books.accounts.get, kept.others)) or any(map(world.waiting.demand.get, kept.others)):
        return False
    if supply(world, standing.pool) != standing.total:
        return False
    # Read through the table, where a batch finds them then.
    accounts, demands = standing.refreshed(books).accounts.copy(), _demands(world, standing)
    inner = len(standing.departments)
    moved = {*differing(accounts, kept.accounts), *(inner + row for row in differing(demands, kept.demands))}
    kept.accounts, kept.demands = accounts, demands
    if any(row >= inner and not _takes_part(world, standing.queues[row].name, standing.pool) for row in moved):
        return False
    if moved:
        kept.standing = _moved(kept, sorted(moved))
    return True


def _moved(kept: Kept, rows: list[int]) -> Standing:
    """The standing after these rows came to hold, or to want, something else."""
    standing, inner = kept.standing, len(kept.standing.departments)
    wanted = {row: _wanted(kept.accounts[row], kept.demands[row - inner]) for row in rows if row >= inner}
    felt: set[int] = set()
    for at, division in enumerate(kept.divisions):
        if division is not None:
            felt |= division.want({row: asked[at] for row, asked in wanted.items()})
    return standing.followed(_shares(kept.divisions), sorted(felt)) if felt else standing


def _shares(divisions: tuple[Division | None, ...]) -> Shares:
    return tuple(None if division is None else tuple(division.shares) for division in divisions)


def supply(world: World, pool: str) -> Amount:
    """What the nodes of a pool have for Muster, over all clusters that are not silent."""
    total = NOTHING
    for cluster in world.inventory.clusters_with(pool):
        known, capacity = world.clusters.get(cluster), world.inventory.capacity(cluster, pool)
        if known is not None and not known.silent and capacity is not None:
            total = total.plus(capacity.supply)
    return total


def _queues(world: World, pool: str) -> tuple[tuple[Queue, ...], dict[str, int], dict[str, int]]:
    books = world.queues
    named = sorted(name for name in books.projects if _takes_part(world, name, pool))
    above = {name: books.projects[name].department for name in named}
    rows: dict[str, int] = {}
    found: list[Queue] = []
    for name in sorted(set(above.values()) & set(books.departments)):
        rows[name] = len(found)
        found.append(Queue(name, TOP, books.departments[name].quotas.get(pool), books.departments[name].rank))
    projects: dict[str, int] = {}
    for name in named:
        projects[name] = len(found)
        parent = rows.get(above[name], TOP)
        found.append(Queue(name, parent, books.quota(name, pool), books.projects[name].rank))
    return tuple(found), rows, projects


def _with_usage(world: World, pool: str, queues: tuple[Queue, ...], total: int) -> tuple[Queue, ...]:
    """What projects used lately, and what their departments did: the sum of theirs."""
    half_life = world.limits.usage_half_life
    parents = {queue.parent for queue in queues}
    used = [
        0 if row in parents else world.queues.used(queue.name, pool, world.now, half_life)
        for row, queue in enumerate(queues)
    ]
    for row, queue in enumerate(queues):
        if queue.parent != TOP:
            used[queue.parent] += used[row]
    return tuple(queue._replace(usage=part_of(level, total)) for queue, level in zip(queues, used, strict=True))


def _takes_part(world: World, project: str, pool: str) -> bool:
    key = (project, pool)
    return pool in world.queues.projects[project].quotas or key in world.queues.accounts or key in world.waiting.demand


def _division(queues: tuple[Queue, ...], wanted: list[Amount], resource: int, total: int, k: int) -> Division | None:
    lines = [queue.quota.line(resource) if queue.quota else None for queue in queues]
    if all(line is None or line.deserved is None for line in lines):
        return None
    asked = [each[resource] for each in wanted]
    tree = [_branch(*each) for each in zip(queues, lines, asked, strict=True)]
    return Division(total, tree, STEPS[resource], k if resource == 0 else 0)


def _branch(queue: Queue, line: Line | None, wanted: int) -> Branch:
    if line is None:
        return Branch(queue.name, queue.parent, None, None, DEFAULT_WEIGHT, queue.rank, wanted, queue.usage)
    deserved = line.deserved or 0
    return Branch(queue.name, queue.parent, deserved, line.most, line.weight, queue.rank, wanted, queue.usage)

"""`resources` of projects and departments in 2.18: an entry for each node pool, with GPUs, CPU and memory.

Called by the routes of projects and departments. A quota is the fleet's: a pool's id names its cluster and its name,
and whichever id of a name is written, the quota of that name changes. Holds: two entries of one name are refused; what
is written can be read again to the same quotas.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from muster.tenancy.v1.tenancy_pb2 import NodePool, PoolQuota
from muster_kernel.quantities import MILLI
from muster_submission.domain.fleet import DEFAULT_POOL
from muster_submission.rest import amounts
from muster_submission.rest.members import Findings, join

NO_POOL: Final = "0"
"""The id of a pool that a quota names and no cluster has."""
_ENTRY: Final = ("nodePool", "gpu", "cpu", "memory")
_SHARE: Final = ("deserved", "limit", "overQuotaWeight")
_DEFAULT_WEIGHT: Final = MILLI
Share = Mapping[str, Any]
Read = Callable[[Any], int]


class Pools:
    """The node pools of the fleet, by number and by name."""

    def __init__(self, pools: Iterable[NodePool], home: str = "") -> None:
        """home: the cluster whose ids are shown where it has the pool."""
        self._by_id: dict[str, NodePool] = {}
        self._shown: dict[str, str] = {}
        for pool in pools:
            self._by_id[str(pool.id)] = pool
            if pool.name not in self._shown or pool.cluster == home:
                self._shown[pool.name] = str(pool.id)

    def id_of(self, name: str) -> str:
        """The id under which a pool is shown."""
        return self._shown.get(name, NO_POOL)

    def name_of(self, number: str) -> str | None:
        """The name of the pool with that id."""
        pool = self._by_id.get(number)
        return pool.name if pool else None


def read(value: Any, path: str, pools: Pools, found: Findings) -> list[PoolQuota]:
    """The quotas in `resources`."""
    quotas = [
        _read_entry(one, join(path, str(at)), pools, found, None) for at, one in enumerate(_listed(value, path, found))
    ]
    _once_each(quotas, path, found)
    return quotas


def patch(value: Any, path: str, pools: Pools, known: Sequence[PoolQuota], found: Findings) -> list[PoolQuota]:
    """The quotas after a PATCH: pools that it does not name stay, and so do members that it leaves out."""
    before = {quota.node_pool: quota for quota in known}
    changed = [
        _read_entry(one, join(path, str(at)), pools, found, before)
        for at, one in enumerate(_listed(value, path, found))
    ]
    _once_each(changed, path, found)
    after = {**before, **{quota.node_pool: quota for quota in changed}}
    return list(after.values())


def write(quotas: Iterable[PoolQuota], pools: Pools) -> list[dict[str, Any]]:
    """`resources` of the quotas."""
    return [_write_entry(quota, pools) for quota in quotas]


def _listed(value: Any, path: str, found: Findings) -> list[Any]:
    if value is None:
        found.add(path, "is missing: an array with an entry for each node pool; empty for no quota")
    return found.array(value, path)


def _once_each(quotas: Sequence[PoolQuota], path: str, found: Findings) -> None:
    names = [quota.node_pool for quota in quotas]
    for name in sorted({name for name in names if names.count(name) > 1}):
        found.add(
            path,
            f"node pool {name} has {names.count(name)} entries: its quota is one for the whole fleet, whichever of its "
            "ids is named; leave one",
        )


def _read_entry(
    value: Any, path: str, pools: Pools, found: Findings, before: Mapping[str, PoolQuota] | None
) -> PoolQuota:
    entry = found.object(value, path, _ENTRY)
    name = _read_pool(entry.get("nodePool"), join(path, "nodePool"), pools, found)
    quota = PoolQuota(node_pool=name, over_quota_weight_milli=_DEFAULT_WEIGHT)
    if before is not None and name in before:
        quota.CopyFrom(before[name])
    if entry.get("gpu") is not None:
        _read_gpu(entry["gpu"], join(path, "gpu"), quota, found, whole=before is None)
    elif before is None and entry:
        found.add(join(path, "gpu"), "is missing: an object with `deserved`, a number of GPUs")
    if entry.get("cpu") is not None:
        _read_cpu(entry["cpu"], join(path, "cpu"), quota, found)
    if entry.get("memory") is not None:
        _read_memory(entry["memory"], join(path, "memory"), quota, found)
    return quota


def _read_pool(value: Any, path: str, pools: Pools, found: Findings) -> str:
    if value is None:
        return DEFAULT_POOL
    given = found.object(value, path, ("id", "name"))
    number, name = given.get("id"), found.text(given.get("name"), join(path, "name"))
    if isinstance(number, int) and not isinstance(number, bool):
        number = str(number)
    number = found.text(number, join(path, "id"))
    if not number or number == NO_POOL:
        if not name:
            found.add(path, "names no node pool: give its id, or its name")
        return name or DEFAULT_POOL
    known = pools.name_of(number)
    if known is None:
        found.add(join(path, "id"), f"no node pool has the id {number[:40]!r}; GET /api/v1/node-pools lists them")
        return name or DEFAULT_POOL
    if name and name != known:
        found.add(join(path, "name"), f"{name!r} is not the name of node pool {number}, which is {known!r}")
    return known


def _read_gpu(value: Any, path: str, quota: PoolQuota, found: Findings, *, whole: bool) -> None:
    share = found.object(value, path, _SHARE)
    if share.get("deserved") is not None:
        quota.gpu_deserved = found.number(share["deserved"], join(path, "deserved"), amounts.gpu_units) or 0
    elif whole:
        found.add(join(path, "deserved"), "is missing: a number of GPUs, 0 for none")
    _read_amount(share, "limit", path, quota, "gpu_limit", amounts.gpu_units, found)
    if share.get("overQuotaWeight") is not None:
        weight = found.number(share["overQuotaWeight"], join(path, "overQuotaWeight"), amounts.weight_milli)
        quota.over_quota_weight_milli = weight or 0


def _read_cpu(value: Any, path: str, quota: PoolQuota, found: Findings) -> None:
    share = found.object(value, path, _SHARE)
    _read_amount(share, "deserved", path, quota, "cpu_milli_deserved", amounts.cpu_milli, found)
    _read_amount(share, "limit", path, quota, "cpu_milli_limit", amounts.cpu_milli, found)
    _read_weight(share, path, quota, "cpu_over_quota_weight_milli", found)


def _read_memory(value: Any, path: str, quota: PoolQuota, found: Findings) -> None:
    share = found.object(value, path, (*_SHARE, "units"))
    units = share.get("units")
    if not isinstance(units, str) or units not in amounts.UNITS:
        found.add(join(path, "units"), f"expected one of {', '.join(amounts.UNITS)}")
        return

    def in_bytes(amount: Any) -> int:
        return amounts.memory_bytes(amount, units)

    _read_amount(share, "deserved", path, quota, "memory_bytes_deserved", in_bytes, found)
    _read_amount(share, "limit", path, quota, "memory_bytes_limit", in_bytes, found)
    _read_weight(share, path, quota, "memory_over_quota_weight_milli", found)


def _read_amount(
    share: Share, member: str, path: str, quota: PoolQuota, field: str, read: Read, found: Findings
) -> None:
    if member not in share:
        return
    if amounts.unlimited(share[member]):
        quota.ClearField(field)  # type: ignore[arg-type]  # one of the message's fields
        return
    amount = found.number(share[member], join(path, member), read)
    if amount is not None:
        setattr(quota, field, amount)


def _read_weight(share: Share, path: str, quota: PoolQuota, field: str, found: Findings) -> None:
    if share.get("overQuotaWeight") is not None:
        weight = found.number(share["overQuotaWeight"], join(path, "overQuotaWeight"), amounts.weight_milli)
        setattr(quota, field, weight or 0)


def _write_entry(quota: PoolQuota, pools: Pools) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "nodePool": {"id": pools.id_of(quota.node_pool), "name": quota.node_pool},
        "gpu": {
            "deserved": amounts.gpus(quota.gpu_deserved),
            "limit": amounts.gpus(quota.gpu_limit) if quota.HasField("gpu_limit") else None,
            "overQuotaWeight": amounts.weight(quota.over_quota_weight_milli),
        },
        "cpu": {
            "deserved": quota.cpu_milli_deserved if quota.HasField("cpu_milli_deserved") else None,
            "limit": quota.cpu_milli_limit if quota.HasField("cpu_milli_limit") else None,
        },
        "memory": _write_memory(quota),
    }
    if quota.HasField("cpu_over_quota_weight_milli"):
        entry["cpu"]["overQuotaWeight"] = amounts.weight(quota.cpu_over_quota_weight_milli)
    if quota.HasField("memory_over_quota_weight_milli"):
        entry["memory"]["overQuotaWeight"] = amounts.weight(quota.memory_over_quota_weight_milli)
    return entry


def _write_memory(quota: PoolQuota) -> dict[str, Any]:
    given = {
        name: getattr(quota, field)
        for name, field in (("deserved", "memory_bytes_deserved"), ("limit", "memory_bytes_limit"))
        if quota.HasField(field)  # type: ignore[arg-type]  # one of the message's fields
    }
    units = amounts.best_units(given.values())
    written = {name: amounts.in_units(given[name], units) if name in given else None for name in ("deserved", "limit")}
    return {**written, "units": units}

"""What a workload would have at a place if its users said nothing there: what `canEdit` and its like compare with.

Called by the rules, and only where a value is not the policy's default already: it lays all layers together once more,
for all items of a field at once.
Holds: what the language or a policy gives by itself is not a change when users repeat it, so that an effective spec is
admitted again; a field that another name stands for is left out with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final

from muster_language import Row, WorkloadSpec
from muster_language.labels import label_of
from muster_language.merging.overlay import itemized
from muster_language.merging.roles import complete_master
from muster_policy_engine.judging.layering import Submission, layered, settle

_STANDS_FOR: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "priority_class": ("preemptible", "non_preemptible"),
        "uid_gid_source": ("run_as_user",),
        "ports.service_type": ("service_type",),
        "volumes.mount_propagation": ("mount_propagation",),
    }
)
"""Fields and members of items, and the fields from which the language derives them."""
_ITEMS_OF: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType({"nfs": ("nfs", "volumes")})
"""Itemized fields, and those whose items the language moves into them."""
_MEMBERS_OF: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType({"server": ("server", "nfs_server")})


_Clear = Callable[[Any], None]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A submission, from which one place at a time can be left out: a field, or a member in all items.

    known: what was asked for before. A workload may have a thousand items, and each would lay all layers anew.
    """

    submission: Submission
    known: dict[tuple[str, str, bool], WorkloadSpec] = field(default_factory=dict)

    def role(self, row: Row, member: Row | None, *, master: bool) -> WorkloadSpec:
        """The side of the workload as it would be without the field, or without the member of the object."""

        def clear(role: Any) -> None:
            if member is None:
                role.ClearField(row.name)
            elif role.HasField(row.name):
                getattr(role, row.name).ClearField(member.name)
            for name in _STANDS_FOR.get(row.name, ()):
                role.ClearField(name)

        return self._side((row.name, member.name if member is not None else "", master), clear)

    def member(self, row: Row, member: Row, label: str, *, master: bool) -> Any:
        """The item as it would be if the users' items lacked the member; None: there would be none of that label."""

        def clear(role: Any) -> None:
            for item in _items(role, row):
                item.label = label_of(item)  # a label that comes from the member stays what it is
                for name in _MEMBERS_OF.get(member.name, (member.name,)):
                    if name in item.DESCRIPTOR.fields_by_name:
                        item.ClearField(name)
            for name in _STANDS_FOR.get(f"{row.name}.{member.name}", ()):
                role.ClearField(name)

        return _item(self._side((row.name, member.name, master), clear), row, label)

    def item(self, row: Row, label: str, *, master: bool) -> Any:
        """The item of that label as it would be if the users gave no items; None: there would be none."""

        def clear(role: Any) -> None:
            for name in _ITEMS_OF.get(row.name, (row.name,)):
                role.ClearField(name)

        return _item(self._side((row.name, "", master), clear), row, label)

    def _side(self, asked: tuple[str, str, bool], clear: _Clear) -> WorkloadSpec:
        """The workers or the master. Both lose the place: what a master leaves unsaid it has from the workers."""
        if asked not in self.known:
            own, base = _without(self.submission.own, clear), self.submission.base
            less = replace(self.submission, own=own, base=_without(base, clear) if base is not None else None)
            merged = layered(less)
            settle(merged, less)
            whole = complete_master(merged.spec) if asked[-1] else None
            self.known[asked] = whole if whole is not None else merged.spec
        return self.known[asked]


def _without(spec: WorkloadSpec, clear: _Clear) -> WorkloadSpec:
    less = WorkloadSpec()
    less.CopyFrom(spec)
    if less.HasField("master_spec"):
        _drop_repeated(less)
        clear(less.master_spec)
    clear(less)
    return less


def _drop_repeated(spec: Any) -> None:
    """Takes out the items that a master repeats from the workers: it has them anyway, as an effective spec shows."""
    for name in itemized():
        theirs = {label_of(each): each for each in getattr(spec, name)}
        own = getattr(spec.master_spec, name)
        for index in [at for at, each in enumerate(own) if theirs.get(label_of(each)) == each][::-1]:
            del own[index]


def _items(role: Any, row: Row) -> Iterator[Any]:
    for name in _ITEMS_OF.get(row.name, (row.name,)):
        yield from getattr(role, name)


def _item(spec: Any, row: Row, label: str) -> Any:
    return next((each for each in getattr(spec, row.name) if each.label == label), None)

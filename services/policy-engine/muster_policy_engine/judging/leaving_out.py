"""What a workload would have at a place if its users said nothing there: what `canEdit` and its like compare with.

Called by the rules, and only where a value is not the policy's default already: it lays all layers together once more.
Holds: what the language or a policy gives by itself is never a change, also where a layer repeats it, so that an
effective spec is admitted again; a field that another name stands for is left out with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final

from muster_language import Row, WorkloadSpec
from muster_language.labels import label_of
from muster_language.merging.overlay import itemized
from muster_language.merging.roles import complete_master
from muster_policy_engine.judging.layering import Submission, layered, settle
from muster_policy_engine.judging.rewritten import (
    MEMBERS_OF,
    STANDS_FOR,
    labelled,
    labels_that_move,
    spelled_out,
)

_Clear = Callable[[Any], None]
_Asked = tuple[str, ...]
_OTHERS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType({"nfs": ("volumes",), "volumes": ("nfs",)})
"""Fields between which the language moves items."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A submission, from which one place at a time can be left out: fields, or a member in all items.

    known: what was asked for before. A workload may have a thousand items, and each would lay all layers anew.
    master, in all questions: whether the place is one of the master.
    """

    submission: Submission
    known: dict[tuple[_Asked, bool], WorkloadSpec] = field(default_factory=dict)

    @property
    def moving(self) -> frozenset[str]:
        """The labels of the volumes that the language moves to another field, from any layer."""
        own, base, composed = self.submission.own, self.submission.base, self.submission.composed
        given = [own, *([base] if base is not None else [])]
        return labels_that_move([*given, *([composed.baseline] if composed is not None else [])])

    def role(self, row: Row, member: Row | None, *, master: bool) -> WorkloadSpec:
        """The side of the workload as it would be without the field, or without the member of the object."""

        def clear(role: Any) -> None:
            if member is None:
                role.ClearField(row.name)
            elif role.HasField(row.name):
                getattr(role, row.name).ClearField(member.name)
            _clear_names(role, row.name)

        return self._side((row.name, member.name if member is not None else ""), clear, master=master)

    def fields(self, names: Iterable[str], *, master: bool) -> WorkloadSpec:
        """The side of the workload as it would be without any of the fields."""
        every = tuple(names)

        def clear(role: Any) -> None:
            for name in every:
                role.ClearField(name)
                _clear_names(role, name)

        return self._side(("fields", *every), clear, master=master)

    def member(self, row: Row, member: Row, label: str, *, master: bool) -> Any:
        """The item as it would be if the users' items lacked the member; None: there would be none of that label."""
        moving = self.moving

        def clear(role: Any) -> None:
            for item in _items(role, row, moving):
                item.label = label_of(item)  # a label that comes from the member stays what it is
                for name in MEMBERS_OF.get(member.name, (member.name,)):
                    if name in item.DESCRIPTOR.fields_by_name:
                        item.ClearField(name)
            _clear_names(role, f"{row.name}.{member.name}")

        return _item(self._side((row.name, "items", member.name), clear, master=master), row, label, moving)

    def item(self, row: Row, label: str, member: Row | None = None, *, master: bool) -> Any:
        """The item of that label as it would be if the users gave no items; None: there would be none.

        member: the users are to say nothing for it either that stands for it in all items.
        """
        moving = self.moving
        spread = f"{row.name}.{member.name}" if member is not None else ""

        def clear(role: Any) -> None:
            role.ClearField(row.name)
            for name in _OTHERS.get(row.name, ()):
                items = getattr(role, name)
                for at in [at for at, each in enumerate(items) if label_of(each) in moving][::-1]:
                    del items[at]
            _clear_names(role, spread)

        return _item(self._side((row.name, "none", spread), clear, master=master), row, label, moving)

    def _side(self, asked: _Asked, clear: _Clear, *, master: bool) -> WorkloadSpec:
        """The workers or the master. Both lose the place: what a master leaves unsaid it has from the workers."""
        if (asked, master) not in self.known:
            own, base = _without(self.submission.own, clear), self.submission.base
            less = replace(self.submission, own=own, base=_without(base, clear) if base is not None else None)
            merged = layered(less)
            settle(merged, less)
            spec = spelled_out(merged.spec)
            whole = complete_master(spec) if master else None
            self.known[asked, master] = whole if whole is not None else spec
        return self.known[asked, master]


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


def _clear_names(role: Any, path: str) -> None:
    for name in STANDS_FOR.get(path, ()):
        role.ClearField(name)


def _items(role: Any, row: Row, moving: frozenset[str]) -> Iterator[Any]:
    """The items of a row, those that the language moves to or from another field among them."""
    yield from getattr(role, row.name)
    for name in _OTHERS.get(row.name, ()):
        yield from (each for each in getattr(role, name) if label_of(each) in moving)


def _item(spec: Any, row: Row, label: str, moving: frozenset[str]) -> Any:
    _, item = labelled(spec, row, moving).get(label, ("", None))
    return item

"""A v1 policy into a v2 one, with what v2 cannot say.

Called by `muster policies convert`. Where v2 has no such rule the converted policy has the nearest one, and the loss
says what is different.
Holds: where nothing is lost both policies give the same verdicts; the converted policy can be written and read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any, Final

from muster.workload.v1 import storage_pb2, workload_pb2
from muster_kernel.quantities import MILLI
from muster_language import Kind, Row
from muster_policy_engine.documents.rules import WORDS
from muster_policy_engine.documents.v1_fields import NFS_SERVER, fields
from muster_policy_engine.places import Place, Side, places
from muster_policy_engine.policy import Body, Bound, Default, Dialect, Level, Policy, Ruled, Rules

_WHO_CHANGES: Final = frozenset({"can_edit", "can_add", "locked", "kept", "fixed"})
_VOLUMES: Final = "volumes"
_PROPAGATION: Final = {
    True: storage_pb2.MOUNT_PROPAGATION_HOST_TO_CONTAINER,
    False: storage_pb2.MOUNT_PROPAGATION_NONE,
}
_ONE: Final = Bound(Decimal(1), "1")


@dataclass(frozen=True, slots=True)
class Remark:
    """Something about a conversion, such as what v2 cannot say.

    path: in the v1 document, such as `spec.gpu`; empty: the document as a whole.
    """

    path: str
    message: str

    def __str__(self) -> str:
        """`spec.ports: ..`."""
        return f"{self.path}: {self.message}" if self.path else self.message


@dataclass(frozen=True, slots=True)
class Converted:
    """The v2 policy. lost: what it does not say as the v1 policy did; notes: what became of the rest, to look at."""

    policy: Policy
    lost: tuple[Remark, ...]
    notes: tuple[Remark, ...] = ()


def convert(policy: Policy) -> Converted:
    """The v2 policy of a v1 one. A v2 policy is its own conversion."""
    if policy.dialect is Dialect.V2:
        return Converted(policy, ())
    converter = _Converter(policy)
    body = Body(tuple(converter.defaults()), converter.rules())
    lost = tuple(dict.fromkeys(converter.lost))
    notes = tuple(dict.fromkeys(converter.notes))
    return Converted(replace(policy, body=body, dialect=Dialect.V2), lost, notes)


class _Converter:
    """Converts one policy and remembers what is lost."""

    def __init__(self, policy: Policy) -> None:
        self._body = policy.body
        self._places = places(policy.kind)
        self._gang = policy.kind is Kind.DISTRIBUTED
        self._kind = policy.kind
        self.lost: list[Remark] = []
        self.notes: list[Remark] = []
        if policy.scope.level is Level.PROJECT:
            self._lose(None, "in v1 it replaced the policy of all projects; in v2 that policy holds as well")

    def _lose(self, place: Place | None, message: str) -> None:
        self.lost.append(Remark("" if place is None else _written(place), message))

    def _note(self, place: Place, message: str) -> None:
        self.notes.append(Remark(_written(place), message))

    def defaults(self) -> Iterator[Default]:
        """The defaults of v2."""
        found = (made for each in self._body.defaults for made in self._default(each))
        once = {(each.place.path, each.label): each for each in found}
        blocked = {path for path, ruled in self.rules().items() if ruled.rules.blocked}
        # Those of a field one after the other, so that the text of the policy has each field once.
        order = list(dict.fromkeys((each.place.side, each.place.row.name) for each in once.values()))
        ordered = sorted(once.values(), key=lambda each: order.index((each.place.side, each.place.row.name)))
        return iter([each for each in ordered if each.place.path not in blocked])

    def _default(self, given: Default) -> Iterator[Default]:
        if given.place.instances:
            yield from self._item(given)
            return
        path, value = given.place.path, given.value
        becomes = self._becomes(given)
        if becomes is not None:
            path, value = becomes
        place = self._worker(path, given.place.side)
        if place is None or not place.defaultable:
            self._lose(given.place, "v2 takes no default for this field: the default is left out")
        elif value is not None:
            yield Default(place, value)

    def _becomes(self, given: Default) -> tuple[str, Any] | None:
        """The path and the value of a default whose field is YAML's alone."""
        side, name = given.place.side, given.place.row.name
        if given.place.member is not None:
            return None
        match name:
            case "service_type":
                self._lose(given.place, "v2 gives it to each port, above what a workload says for all")
                return f"{side}ports.attributes.serviceType", given.value
            case "mount_propagation":
                self._lose(given.place, "v2 gives it to each host path, above what a workload says for all")
                return f"{side}storage.hostPath.attributes.mountPropagation", _PROPAGATION[given.value]
            case "run_as_user":
                self._lose(given.place, "v2 names the source of the ids; ids that a workload gives need custom")
                return f"{side}security.uidGidSource", self._source(side, run_as_user=given.value)
            case _:
                return None

    def _source(self, side: Side, *, run_as_user: bool) -> int:
        if not run_as_user:
            return workload_pb2.UID_GID_SOURCE_FROM_THE_IMAGE
        ids = {"run_as_uid", "run_as_gid"}
        own = any(each.place.row.name in ids and each.place.side is side for each in self._body.defaults)
        return workload_pb2.UID_GID_SOURCE_CUSTOM if own else workload_pb2.UID_GID_SOURCE_FROM_IDP_TOKEN

    def _item(self, given: Default) -> Iterator[Default]:
        path, members = given.place.path, given.members
        if _is_remote(given):
            self._lose(given.place, f"{given.label} becomes an item of storage.nfs: workloads change it there")
            path = f"{given.place.side}storage.nfs.instances"
        place = self._worker(path, given.place.side)
        if place is None:
            self._lose(given.place, f"v2 has no such items: {given.label} is left out")
            return
        said: list[tuple[Row | None, Any]] = []
        for member, value in members:
            target = _same_member(place.row, member)
            if member is None or (target is not None and target.rest):
                said.append((target, value))
            else:
                self._lose(given.place, f"v2 cannot say {member.yaml} of {given.label}")
        yield Default(place, label=given.label, members=tuple(said))

    def _worker(self, path: str, side: Side) -> Place | None:
        """The place of v2 for a path of v1: what `spec` says of a gang is its workers'."""
        return self._places.get(f"{Side.WORKER}{path}" if self._gang and side is Side.ALL else path)

    def rules(self) -> dict[str, Ruled]:
        """The rules of v2 by path."""
        found: dict[str, Ruled] = {}
        for ruled in self._body.rules.values():
            for path, rules in self._ruled(ruled):
                self._put(found, ruled, path, rules)
        return found

    def _put(self, found: dict[str, Ruled], ruled: Ruled, path: str, rules: Rules) -> None:
        targets = [path] if ruled.place.side or not self._gang else self._sides(ruled, path)
        known = [self._places[each] for each in targets if each in self._places]
        if not known:
            self._lose(ruled.place, f"v2 has no rules for this field of {self._kind.word} workloads: they are left out")
        for place in known:
            taken = self._taken(ruled, place, rules)
            before = found.get(place.path)
            if before is not None and taken.said and not (before.rules.blocked or taken.blocked):
                clash = set(before.rules.said) & set(taken.said)
                if clash:
                    self._lose(
                        ruled.place, f"v2 has one rule for {place.path}, and another field of v1 gave it already"
                    )
                added: dict[str, Any] = {name: getattr(taken, name) for name in taken.said if name not in clash}
                taken = replace(before.rules, **added)
            elif before is not None and before.rules.blocked:
                continue
            if taken.said:
                found[place.path] = Ruled(place, taken)

    def _sides(self, ruled: Ruled, path: str) -> list[str]:
        """The paths of a rule of `spec`: the workers', and the master's unless masterSpec rules the field itself."""
        master = f"{Side.MASTER}{path}"
        if f"{Side.MASTER}{ruled.place.path}" in self._body.rules:
            message = "spec and masterSpec both rule what a master says: v2 has masterSpec's rules there"
            self._lose(ruled.place, message)
            return [f"{Side.WORKER}{path}"]
        if master in self._places and _WHO_CHANGES & set(ruled.rules.said):
            self._lose(ruled.place, "v2 compares what a master says with master defaults, not with the workers'")
        return [f"{Side.WORKER}{path}", master]

    def _taken(self, ruled: Ruled, place: Place, rules: Rules) -> Rules:
        """The rules that the place of v2 takes."""
        if place.side is Side.MASTER and ruled.place.side is Side.ALL and not ruled.place.itemized:
            rules = replace(rules, required=None)  # what a master leaves unsaid it has from the workers
        if rules.kept or rules.fixed:
            for word, labels in (("canRemove", rules.kept), ("canEdit", rules.fixed)):
                if labels:
                    which = "item" if len(labels) == 1 else "items"
                    self._lose(
                        ruled.place, f"{word}: false alone of {which} {', '.join(labels)}: v2 locks them altogether"
                    )
            locked = (*(rules.locked or ()), *(rules.kept or ()), *(rules.fixed or ()))
            rules = replace(rules, locked=locked, kept=None, fixed=None)
        if place.instances and rules.required is not None:
            if rules.required:
                self._lose(ruled.place, "required: v2 cannot ask for at least one item")
            rules = replace(rules, required=None)
        names = {WORDS[word] for word in WORDS if word in place.rules}
        for name in rules.said:
            if name not in names:
                self._lose(ruled.place, f"v2 has no rule {_word(name)} for {place.path}")
        return replace(rules, **{name: None for name in rules.said if name not in names})

    def _ruled(self, ruled: Ruled) -> Iterator[tuple[str, Rules]]:
        """The paths and rules that a rule of v1 becomes, before sides."""
        place, rules = ruled.place, ruled.rules
        side = place.side
        match place.path.removeprefix(side):
            case "gpu":
                yield from self._gpu(place, rules)
            case "serviceType":
                yield f"{side}ports.attributes.serviceType", rules
            case "mountPropagation":
                self._lose(place, "v2 judges each host path, not what a workload says for all")
                yield f"{side}storage.hostPath.attributes.mountPropagation", rules
            case "runAsUser":
                self._lose(place, "v2 judges the source of the ids: custom and fromIdpToken are two values")
                yield f"{side}security.uidGidSource", rules
            case "preemptible":
                self._lose(place, "v2 judges the field alone: a priorityClass that makes it preemptible passes")
                yield place.path, rules
            case _ if place.member is not None and place.member.name == NFS_SERVER:
                yield from self._nfs_server(place, rules)
            case _ if place.instances and place.row.name == _VOLUMES:
                yield from self._volumes(place, rules)
            case _:
                yield place.path, rules

    def _volumes(self, place: Place, rules: Rules) -> Iterator[tuple[str, Rules]]:
        """Labels of default volumes of an NFS server go with them to `nfs`."""
        defaults = (each for each in self._body.defaults if each.place.path == place.path)
        remote = {each.label for each in defaults if _is_remote(each)}
        moved: dict[str, Any] = {}
        left: dict[str, Any] = {}
        for name in ("locked", "kept", "fixed"):
            labels = getattr(rules, name) or ()
            moved[name] = tuple(each for each in labels if each in remote) or None
            left[name] = tuple(each for each in labels if each not in remote) or None
        yield place.path, replace(rules, **left)
        if any(moved.values()):
            yield f"{place.side}storage.nfs.instances", Rules(**moved)

    def _nfs_server(self, place: Place, rules: Rules) -> Iterator[tuple[str, Rules]]:
        """A required server refuses all host paths: v2 blocks them. Its other rules are those of NFS volumes."""
        if rules.required:
            instances = f"{place.side}storage.hostPath.instances"
            if any(each.place.path == instances and not _is_remote(each) for each in self._body.defaults):
                self._lose(place, "v2 blocks host paths: the default volumes are left out")
            yield instances, Rules(blocked=True)
        others = replace(rules, required=None)
        if others.said:
            yield f"{place.side}storage.nfs.attributes.server", others

    def _gpu(self, place: Place, rules: Rules) -> Iterator[tuple[str, Rules]]:
        """Bounds on devices times portion become bounds on each: a share is of one device alone."""
        side, low, high = place.side, rules.minimum, rules.maximum
        self._note(place, "becomes compute.gpuDevicesRequest and compute.gpuPortionRequest")
        if high is not None:
            milli = int(Decimal(high.amount) * MILLI)
            self._note(place, f"max is per worker: for all replicas together use totals.gpuMilli <= {milli}")
        for message in _lost_of_gpu(rules):
            self._lose(place, message)
        low = low if low is not None and low.amount > 0 else None
        devices = Rules(
            can_edit=rules.can_edit,
            minimum=None if low is None else _rounded(low, ROUND_CEILING),
            maximum=None if high is None else _rounded(high, ROUND_CEILING if high.amount < 1 else ROUND_FLOOR),
        )
        portion = Rules(
            can_edit=rules.can_edit,
            minimum=None if low is None else min(low, _ONE, key=lambda each: each.amount),
            maximum=high if high is not None and high.amount < 1 else None,
        )
        yield f"{side}compute.gpuDevicesRequest", devices
        yield f"{side}compute.gpuPortionRequest", portion
        if rules.required:
            yield f"{side}compute.gpuRequestType", Rules(required=True)


def _lost_of_gpu(rules: Rules) -> Iterator[str]:
    """What rules for devices and for the portion, each alone, do not say."""
    low, high = rules.minimum, rules.maximum
    if low is not None and low.amount > 1:
        yield f"min {low.text}: v2 admits a single device where no number is given"
    if high is not None and high.amount < 1:
        yield f"max {high.text}: v2 admits a whole device by gpuDevices, gpuMemory and migProfile"
    if rules.step is not None:
        yield f"step {rules.step.text} is left out"
    if rules.can_edit is False:
        yield "canEdit: v2 compares devices and portion, each alone: one device and a portion of 1 are different"
    if rules.required and (low is None or low.amount <= 0):
        yield "required: v2 refuses gpu 0 as well"


def _is_remote(given: Default) -> bool:
    """Whether a default volume is one of an NFS server."""
    return any(member is not None and member.name == NFS_SERVER for member, _ in given.members)


def _written(place: Place) -> str:
    """Where a v1 document says it: `spec.gpu`, `spec.ports.itemRules.container`, `masterSpec.image`."""
    word = place.path.removeprefix(place.side)
    if "." in word or word not in fields(min(place.kinds), place.side):
        inside = "" if place.member is None else f".itemRules.{place.member.yaml}"
        word = f"{place.row.yaml}{inside if place.itemized else ''}"
    return f"{'masterSpec' if place.side is Side.MASTER else 'spec'}.{word}"


def _same_member(row: Row, member: Row | None) -> Row | None:
    """The member of that row for one of `volumes` that moved to `nfs`; else the member itself."""
    if member is None or member in row.inside:
        return member
    name = "server" if member.name == NFS_SERVER else member.name
    return next((each for each in row.inside if each.name == name), None)


def _word(name: str) -> str:
    return next((word for word, member in WORDS.items() if member == name), name)


def _rounded(bound: Bound, rounding: str) -> Bound:
    amount = Decimal(bound.amount).to_integral_value(rounding=rounding)
    return Bound(amount, f"{amount:f}")

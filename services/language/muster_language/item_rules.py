"""What an item needs and contradicts within itself, once a policy's attributes have filled it: volumes, tolerations.

Called for the workers' spec and for the completed spec of a master. Mandatory members that a policy can
give for every item are judged here and not in the layer.
Holds: a field without items costs one look.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any, Final

from muster.workload.v1 import placement_pb2
from muster_language import value_types as of
from muster_language.catalogue import Row, catalogue
from muster_language.issues import Found, Issue, missing, wrong
from muster_language.labels import members_of
from muster_language.overlay import given
from muster_language.spec import WorkloadSpec

_MARK: Final = "SECRET:"
_REFERENCE: Final = re.compile(r"SECRET:[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?,[-._A-Za-z0-9]{1,253}")

Rule = Callable[[Any, str], Found]
"""An item and its path -> what stands against it."""


def items(spec: WorkloadSpec) -> Found:
    """Every item of every field."""
    for row, mandatory, rule in _looked_at():
        for item in getattr(spec, row.name):
            for member in mandatory:
                if not given(member, item):
                    name, path = member.yaml or member.path, f"{row.path}.{item.label}.{member.path}"
                    yield missing(path, f"{name} is missing", f"{row.yaml or row.path} needs {name}")
            if rule is not None:
                yield from rule(item, f"{row.path}.{item.label}")
    for variable in spec.environment:
        if variable.value.startswith(_MARK) and not _REFERENCE.fullmatch(variable.value):
            yield _no_reference(f"environmentVariables.{variable.label}.value")
    if spec.ports:
        yield from _external_ports(spec)


@cache
def _looked_at() -> tuple[tuple[Row, tuple[Row, ...], Rule | None], ...]:
    rows = [row for row in catalogue().rows if row.type == of.ITEMIZED]
    every = (
        (row, tuple(one for one in members_of(row) if one.mandatory and one.policy), _RULES.get(row.name))
        for row in rows
    )
    return tuple(each for each in every if each[1] or each[2])


def _claim(item: Any, path: str) -> Found:
    if item.existing_pvc and not item.claim_name:
        yield missing(f"{path}.claimName", "an existing claim has a name", "claimName")
    if not item.existing_pvc and not item.size:
        yield missing(f"{path}.claimInfo.size", "a new claim needs a size", "size, or existingPvc: true")


def _toleration(item: Any, path: str) -> Found:
    exists = item.operator == placement_pb2.TOLERATION_OPERATOR_EXISTS
    if exists and item.value:
        yield wrong(f"{path}.value", item.value, "no value, or operator Equal", "Exists looks at the key alone")
    if not exists and item.operator and not item.key:
        yield missing(f"{path}.key", "Equal compares a key with a value", "key, or operator Exists")


def _no_reference(path: str) -> Issue:
    """`SECRET:name,key` names a secret; the plain word SECRET is a text like any other."""
    allowed = "SECRET:name,key with the name of a secret and a key in it"
    return wrong(path, _MARK, allowed, "the text begins like the reference to a secret, but is none")


def _checkout(item: Any, path: str) -> Found:
    if item.branch and item.revision:
        yield wrong(f"{path}.branch", item.branch, "one of them", "branch and revision both say what to check out")
    if item.password and not (item.username or item.secret_name):
        yield missing(f"{path}.username", "a password needs a username", "username, or secretName")


def _bucket(item: Any, path: str) -> Found:
    if bool(item.access_key_id) != bool(item.secret_key):
        lacking = "secret" if item.access_key_id else "key"
        yield missing(f"{path}.{lacking}", "an access key has two halves", "key and secret")


_RULES: Final[dict[str, Rule]] = {
    "pvcs": _claim,
    "tolerations": _toleration,
    "git_sync": _checkout,
    "s3": _bucket,
}


def _external_ports(spec: WorkloadSpec) -> Found:
    taken: dict[int, str] = {}
    for port in spec.ports:
        number = port.external
        if number and number in taken:
            said = f"the port {taken[number]} has the external port {number} as well"
            yield wrong(f"ports.{port.label}.external", number, "a number of its own", said)
        taken.setdefault(number, port.label)


def affinity(spec: WorkloadSpec) -> Found:
    """How replicas stand together is said only where they should, and by what."""
    for name, path in (
        ("pod_affinity_scheduling_rule", "podAffinity.type"),
        ("pod_affinity_topology", "podAffinity.key"),
    ):
        has = spec.HasField(name)  # type: ignore[arg-type]
        if has and not spec.pod_affinity:
            yield wrong(path, "", "podAffinity: true beside it", "it is used only with podAffinity")
        elif spec.pod_affinity and not has:
            yield missing(
                path, "podAffinity needs its rule and its topology", "podAffinitySchedulingRule and podAffinityTopology"
            )

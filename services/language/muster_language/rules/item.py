"""What an item needs and contradicts within itself, once a policy's attributes have filled it: volumes, tolerations.

Called by `items` for the effective spec, once an item that is not a tombstone.
Holds: a rule only looks at its own item; a member that is mandatory by its row is not its matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from muster.workload.v1 import placement_pb2
from muster_kernel.quantities import parse_count


class Fault(NamedTuple):
    """What is wrong with a member, by its proto name."""

    member: str
    message: str
    allowed: str


Rule = Callable[[Any], Iterator[Fault]]


def _claim(item: Any) -> Iterator[Fault]:
    if item.existing_pvc and not item.claim_name:
        yield Fault("claim_name", "an existing claim has a name", "claimName")
    if not item.existing_pvc and not item.size:
        yield Fault("size", "a new claim needs a size", "size, or existingPvc: true")


def _toleration(item: Any) -> Iterator[Fault]:
    exists = item.operator == placement_pb2.TOLERATION_OPERATOR_EXISTS
    if exists and item.value:
        yield Fault("value", "Exists looks at the key alone", "no value, or operator Equal")
    if not exists and item.operator and not item.key:
        yield Fault("key", "Equal compares a key with a value", "key, or operator Exists")


def _checkout(item: Any) -> Iterator[Fault]:
    if item.password and not (item.username or item.secret_name):
        yield Fault("username", "a password needs a username", "username, or secretName")


def _bucket(item: Any) -> Iterator[Fault]:
    if bool(item.access_key_id) != bool(item.secret_key):
        lacking = "secret_key" if item.access_key_id else "access_key_id"
        yield Fault(lacking, "an access key has two halves", "key and secret")


def _resource(item: Any) -> Iterator[Fault]:
    try:
        amount = parse_count(item.quantity or "0")
    except ValueError as error:
        yield Fault("quantity", str(error), "a quantity such as 1 or 2Gi")
    else:
        if not amount:
            yield Fault("quantity", "a request of nothing can never be meant", "a quantity above 0, or leave it out")


FAULTS: Final[dict[str, Rule]] = {
    "pvcs": _claim,
    "tolerations": _toleration,
    "extended_resources": _resource,
    "git_sync": _checkout,
    "s3": _bucket,
}
"""The rules by the proto name of the field."""

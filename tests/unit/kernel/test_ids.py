"""Ids and names: made from arguments alone, refused where they could collide or not be legal."""

from __future__ import annotations

import base64
import hashlib
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster_kernel import ids

WORKLOAD = "018f0000-0000-7000-8000-000000000001"


def test_uuid7_carries_its_time_and_is_a_real_uuid() -> None:
    made = ids.uuid7(1_700_000_000_123, bytes(range(10)))
    parsed = uuid.UUID(made)
    assert parsed.version == 7
    assert parsed.variant == uuid.RFC_4122
    assert parsed.int >> 80 == 1_700_000_000_123
    assert ids.is_uuid(made)


@given(st.uuids(), st.text(st.characters(exclude_categories=["Cs"]), max_size=60))
def test_uuid5_is_the_standards(namespace: uuid.UUID, name: str) -> None:
    assert ids.uuid5(str(namespace), name) == str(uuid.uuid5(namespace, name))


def test_uuid7_sorts_by_time() -> None:
    assert ids.uuid7(1, b"\xff" * 10) < ids.uuid7(2, bytes(10))


@pytest.mark.parametrize(("milliseconds", "random"), [(-1, bytes(10)), (1 << 48, bytes(10)), (0, bytes(9))])
def test_uuid7_refuses_what_does_not_fit(milliseconds: int, random: bytes) -> None:
    with pytest.raises(ValueError, match="UUIDv7"):
        ids.uuid7(milliseconds, random)


@pytest.mark.parametrize("text", ["", "x", WORKLOAD.upper().replace("0", "A"), WORKLOAD + "0", WORKLOAD + "\n"])
def test_uuids_are_canonical(text: str) -> None:
    assert not ids.is_uuid(text)


def test_base_name_is_the_rule() -> None:
    head = hashlib.sha256(WORKLOAD.encode()).digest()
    assert ids.digest(WORKLOAD) == base64.b32encode(head).decode()[:20].lower()
    name = ids.base_name(WORKLOAD, 2, 3)
    assert name.startswith("w-")
    assert name.endswith("-g2-a3")
    assert len(name) == 2 + 20 + len("-g2-a3")
    assert len(head) == 32
    assert ids.replica_name(WORKLOAD, 2, 3, "worker", 4, 1) == f"{name}-worker-4-r1"


def test_names_fit_kubernetes() -> None:
    assert len(ids.replica_name(WORKLOAD, 999, 9999, "launcher", 99999, 999)) <= ids.NAME_LIMIT
    with pytest.raises(ValueError, match="at most 63"):
        ids.replica_name(WORKLOAD, 10**12, 10**12, "launcher", 99999, 999)


@pytest.mark.parametrize(("generation", "attempt"), [(-1, 0), (0, -1)])
def test_base_name_counts_upwards(generation: int, attempt: int) -> None:
    with pytest.raises(ValueError, match="count upwards"):
        ids.base_name(WORKLOAD, generation, attempt)


def test_replica_name_counts_upwards() -> None:
    with pytest.raises(ValueError, match="count upwards"):
        ids.replica_name(WORKLOAD, 0, 0, "worker", -1, 0)


@pytest.mark.parametrize("text", ["", "A", "1a", "a-", "a_b", "a" * 64])
def test_illegal_names(text: str) -> None:
    with pytest.raises(ValueError, match="name"):
        ids.check_name(text)

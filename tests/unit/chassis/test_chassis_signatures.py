"""Signatures of assignment records: what is covered, who may sign, and how fast it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from muster_chassis.key_files import PrivateKey, TrustFile, read_private
from muster_chassis.signatures import KEY, SIGNATURE, BadSignature, RecordSigner, RecordVerifier, signed_text
from muster_stack import identities
from muster_stack.layout import Layout

Headers = tuple[tuple[str, bytes], ...]
TOMBSTONE: Headers = (("ce_source", b"scheduler"), ("epoch", b"3"), ("generation", b"1"), ("grace", b"30"))


@dataclass(frozen=True)
class Record:
    """A record as it is on the topic."""

    topic: str = "muster.clusters.north.assignments"
    key: bytes = b"w-1"
    value: bytes | None = b"assignment"
    headers: Headers = (("ce_source", b"scheduler"),)

    def signed(self, signer: RecordSigner) -> Record:
        more = signer.headers(self.topic, self.key, self.value, self.headers)
        return replace(self, headers=(*self.headers, *more))


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    made = Layout(tmp_path)
    identities.ensure(made)
    return made


def signer(layout: Layout, path: Path | None = None) -> RecordSigner:
    return RecordSigner(PrivateKey(path or identities.assignments_key(layout), read_private))


def refusal(layout: Layout, record: Record) -> str:
    """Why a record is refused; empty: it is genuine."""
    try:
        RecordVerifier(TrustFile(identities.trust(layout))).verify(
            record.topic, record.key, record.value, dict(record.headers)
        )
    except BadSignature as error:
        return str(error)
    return ""


@pytest.mark.parametrize("record", [Record(), Record(value=b""), Record(value=None, headers=TOMBSTONE)])
def test_what_the_scheduler_signed_is_genuine(layout: Layout, record: Record) -> None:
    assert refusal(layout, record.signed(signer(layout))) == ""


def _header(name: str, value: bytes) -> Callable[[Record], Record]:
    return lambda record: replace(record, headers=(*((n, v) for n, v in record.headers if n != name), (name, value)))


@pytest.mark.parametrize(
    ("forge", "said"),
    [
        (lambda record: replace(record, topic="muster.clusters.south.assignments"), "does not fit"),
        (lambda record: replace(record, key=b"w-2"), "does not fit"),
        (lambda record: replace(record, value=b"other"), "does not fit"),
        (lambda record: replace(record, value=None), "does not fit"),
        (_header(SIGNATURE, b"\x00" * 64), "does not fit"),
        (_header(SIGNATURE, b""), "does not fit"),
        (_header(KEY, b"\xff" * 100), "does not list"),
        (lambda record: replace(record, headers=record.headers[:1]), "it is not signed"),
    ],
)
def test_a_changed_record_is_refused(layout: Layout, forge: Callable[[Record], Record], said: str) -> None:
    assert said in refusal(layout, forge(Record().signed(signer(layout))))


@pytest.mark.parametrize("name", ["epoch", "generation", "attempt", "grace", "reason"])
def test_a_tombstone_with_another_header_is_refused(layout: Layout, name: str) -> None:
    genuine = Record(value=None, headers=TOMBSTONE).signed(signer(layout))
    assert "does not fit" in refusal(layout, _header(name, b"9")(genuine))


def test_a_key_of_another_kind_or_of_nobody_signs_nothing(layout: Layout, tmp_path: Path) -> None:
    for_calls = signer(layout, identities.service_key(layout, "scheduler"))
    assert "does not list" in refusal(layout, Record().signed(for_calls))
    own = tmp_path / "own.key"
    identities.write_private(own, Ed25519PrivateKey.generate())
    assert "does not list" in refusal(layout, Record().signed(signer(layout, own)))


@given(st.lists(st.binary(max_size=6), min_size=3, max_size=3), st.lists(st.binary(max_size=6), min_size=3, max_size=3))
def test_two_records_never_have_the_same_signed_text(one: list[bytes], other: list[bytes]) -> None:
    texts = [signed_text(parts[0].hex(), parts[1], parts[2], {}) for parts in (one, other)]
    assert (texts[0] == texts[1]) == (one == other)

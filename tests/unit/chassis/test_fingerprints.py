"""Requests are told apart by digests that say nothing to who has no key, and that outlive a rotation."""

from __future__ import annotations

import hashlib

from muster_chassis.fingerprints import Fingerprints

OLD, NEW = b"o" * 32, b"n" * 32
CONTENT = b"password: hunter2"


def test_a_digest_under_a_key_is_not_one_that_can_be_guessed() -> None:
    kept = Fingerprints(lambda: (OLD,)).of(CONTENT)
    assert len(kept) == len(hashlib.sha256().digest())
    assert kept != hashlib.sha256(CONTENT).digest()
    assert kept != Fingerprints(lambda: (NEW,)).of(CONTENT)


def test_a_digest_is_recognised_while_its_key_is_there() -> None:
    keys = [OLD]
    prints = Fingerprints(lambda: keys)
    kept = prints.of(CONTENT)
    assert prints.same(kept, CONTENT)
    assert not prints.same(kept, CONTENT + b"!")
    keys.insert(0, NEW)
    assert prints.same(kept, CONTENT)
    assert prints.of(CONTENT) != kept
    keys.remove(OLD)
    assert not prints.same(kept, CONTENT)


def test_without_keys_contents_are_told_apart_all_the_same() -> None:
    prints = Fingerprints()
    assert prints.same(prints.of(CONTENT), CONTENT)
    assert not prints.same(prints.of(CONTENT), b"")

"""New keys on a live stack: at no moment does a process sign with a key that another does not trust."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster_chassis.key_files import PrivateKey, Purpose, TrustFile, read_private
from muster_chassis.signatures import BadSignature, RecordSigner, RecordVerifier
from muster_stack import identities, rotation, sealing_keys
from muster_stack.errors import StackError
from muster_stack.identities import SERVICES, SIGNING
from muster_stack.layout import Layout
from muster_submission.adapters.vault import read_keys


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    made = Layout(tmp_path)
    identities.ensure(made)
    sealing_keys.ensure(made.sealing_keys)
    return made


def trusted(layout: Layout, service: str, purpose: Purpose) -> set[str]:
    return set(TrustFile(identities.trust(layout)).of(service, purpose))


def test_every_service_has_a_new_key_and_the_old_ones_go_last(layout: Layout) -> None:
    before = {one.service: identities.current(layout, one) for one in SERVICES}
    between: list[bool] = []

    def pause(_seconds: float) -> None:
        for one in SERVICES:
            both = {before[one.service], identities.current(layout, one)}
            between.append(trusted(layout, one.service, Purpose.CALLS) == both and len(both) == 2)

    made = rotation.rotate(layout, SERVICES, pause)
    assert between == [True] * len(SERVICES)
    for one, kid in zip(SERVICES, made, strict=True):
        assert trusted(layout, one.service, Purpose.CALLS) == {kid}
    assert trusted(layout, "scheduler", Purpose.ASSIGNMENTS) == {identities.current(layout, SIGNING)}


def test_records_of_the_key_before_count_until_the_next_rotation(layout: Layout) -> None:
    key = PrivateKey(identities.assignments_key(layout), read_private)
    headers = dict(RecordSigner(key).headers("t", b"k", b"v", ()))

    def rotated() -> RecordVerifier:
        rotation.rotate(layout, [SIGNING], lambda _: None)
        return RecordVerifier(TrustFile(identities.trust(layout)))

    rotated().verify("t", b"k", b"v", headers)
    with pytest.raises(BadSignature):
        rotated().verify("t", b"k", b"v", headers)


def test_a_rotation_that_was_cut_short_is_finished_by_the_next(layout: Layout) -> None:
    old = identities.current(layout, SIGNING)

    def killed(_seconds: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rotation.rotate(layout, [SIGNING], killed)
    half = identities.current(layout, SIGNING)
    identities.ensure(layout)
    assert trusted(layout, "scheduler", Purpose.ASSIGNMENTS) == {old, half}
    (new,) = rotation.rotate(layout, [SIGNING], lambda _: None)
    assert trusted(layout, "scheduler", Purpose.ASSIGNMENTS) == {half, new}


def test_a_new_sealing_key_comes_first_and_the_old_ones_still_open(layout: Layout) -> None:
    before = read_keys(layout.sealing_keys)
    kid = sealing_keys.rotate(layout.sealing_keys)
    after = read_keys(layout.sealing_keys)
    assert after.current == kid
    assert set(after.by_id) == {kid, *before.by_id}
    assert layout.sealing_keys.stat().st_mode & 0o077 == 0


def test_the_list_names_every_key_and_shows_no_secret(layout: Layout) -> None:
    rotation.rotate(layout, [SIGNING], lambda _: None)
    found = rotation.list_keys(layout)
    kinds = [(one.kind, one.holder, one.state) for one in found]
    assert kinds.count(("service", "policy", "signs")) == 1
    assert kinds.count(("signing", "scheduler", "signs")) == 1
    assert kinds.count(("signing", "scheduler", "verifies")) == 1
    assert kinds.count(("sealing", "submission", "seals")) == 1


def test_a_folder_without_a_stack_is_named(tmp_path: Path) -> None:
    empty = Layout(tmp_path / "empty")
    for work in (lambda: rotation.list_keys(empty), lambda: rotation.rotate(empty, SERVICES)):
        with pytest.raises(StackError, match="no stack was started there"):
            work()
    with pytest.raises(StackError, match="cannot be read"):
        sealing_keys.rotate(empty.sealing_keys)


def test_two_rotations_at_once_are_refused(layout: Layout) -> None:
    def again(_seconds: float) -> None:
        with pytest.raises(StackError, match="another rotation is under way"):
            rotation.rotate(layout, SERVICES)

    assert len(rotation.rotate(layout, SERVICES, again)) == len(SERVICES)

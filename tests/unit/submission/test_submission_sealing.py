"""Credentials on their way in: sealed, kept, copied and refused; and the keys that they are sealed with."""

from __future__ import annotations

import base64
import os
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.options.v1 import options_pb2
from muster.tenancy.v1.tenancy_pb2 import Project
from muster.workload.v1 import workload_pb2 as wl
from muster_chassis.unit import Unit
from muster_kernel.sealed import SEALED
from muster_language.sensitive import MASK, places
from muster_submission.adapters.vault import BadKeys, Vault, read_keys
from muster_submission.domain.names import Given
from muster_submission.domain.secrets import Sealed, SecretRef, forged, nothing_kept, read_ref
from muster_submission.errors import DraftRefused, NoSealingKey
from muster_submission.handlers.drafts import Checked, Refusal
from muster_submission.handlers.sealing import Rotation, Sealing
from muster_submission.ports import Base

IDS = [f"0192d3c4-0000-7000-8000-00000000000{number}" for number in range(5)]


def unit() -> Unit:
    return Unit(cast("Any", None), datetime(2026, 1, 1, tzinfo=UTC), "tests")


class Books:
    """SecretBooks in memory."""

    def __init__(self) -> None:
        self.rows: dict[SecretRef, Sealed] = {}
        self.specs: dict[str, bytes] = {}

    async def keep(self, _: Unit, sealed: Sequence[Sealed]) -> None:
        for one in sealed:
            assert one.ref not in self.rows
            self.rows[one.ref] = one

    async def find(self, _: Unit, refs: Sequence[SecretRef]) -> dict[SecretRef, Sealed]:
        return {ref: self.rows[ref] for ref in refs if ref in self.rows}

    async def keep_only(self, _: Unit, holder: str, refs: Sequence[SecretRef]) -> None:
        self.rows = {ref: one for ref, one in self.rows.items() if one.holder != holder or ref in refs}

    async def spec_of(self, _: Unit, workload_id: str) -> bytes | None:
        return self.specs.get(workload_id)

    async def old(self, _: Unit, current: str, at_most: int) -> list[Sealed]:
        return [one for one in self.rows.values() if one.key != current][:at_most]

    async def renew(self, _: Unit, sealed: Sequence[Sealed]) -> None:
        self.rows |= {one.ref: one for one in sealed}


def line(name: str) -> str:
    return f"{name} {base64.b64encode(os.urandom(32)).decode()}\n"


def put_before(keys: Path, name: str) -> None:
    keys.write_text(line(name) + keys.read_text())


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    path = tmp_path / "keys"
    path.write_text(f"# ours\n\n{line('k1')}")
    return path


@pytest.fixture
def vault(keys: Path) -> Vault:
    return Vault(keys)


def spec(password: str = "", token: str = "", **more: Any) -> wl.WorkloadSpec:
    made = wl.WorkloadSpec(kind=options_pb2.KIND_WORKSPACE, command="true", **more)
    if token:
        made.notebook_token = token
    if password:
        made.git_sync.add(label="code", path="/code", password=password)
    return made


def draft(given_spec: wl.WorkloadSpec, base: Base | None = None) -> Checked:
    return Checked(Project(name="p"), given_spec, Given("n"), wl.ORIGIN_GRPC, "", base)


def base(given_spec: wl.WorkloadSpec, holder: str = IDS[4]) -> Base:
    return Base(holder, 1, "base", "p", given_spec)


def opened(vault: Vault, books: Books, given_spec: wl.WorkloadSpec) -> list[str]:
    return [vault.open(books.rows[cast("SecretRef", read_ref(place.text))]) for place in places(given_spec)]


async def made(sealing: Sealing, ids: Sequence[str], *drafts: Checked) -> list[Checked | Refusal]:
    new = await sealing.new(unit(), ids, drafts)
    await sealing.keep(unit(), new.sealed, set(ids))
    return list(new.drafts)


async def test_literals_become_references_and_nothing_else_changes(vault: Vault) -> None:
    books = Books()
    sealing = Sealing(vault, books)
    given_draft = draft(spec("pass", "tok", image="x"))
    plain = draft(spec())
    one, two = await made(sealing, IDS[:2], given_draft, plain)
    assert isinstance(one, Checked)
    assert two == plain
    assert sorted(opened(vault, books, one.spec)) == ["pass", "tok"]
    assert {row.holder for row in books.rows.values()} == {IDS[0]}
    assert given_draft.spec.notebook_token == "tok", "the request itself stays as it came"
    for place in places(one.spec):
        place.put("pass" if place.name == "password" else "tok")
    assert one.spec == given_draft.spec
    alone = draft(spec())
    assert (await sealing.new(unit(), IDS[:1], [alone])).drafts == [alone]
    referred = draft(spec("SECRET:vault,key"))
    assert await made(sealing, IDS[1:2], referred) == [referred]


async def test_what_is_not_made_leaves_nothing(vault: Vault) -> None:
    books = Books()
    sealing = Sealing(vault, books)
    new = await sealing.new(unit(), IDS[:2], [draft(spec("a")), draft(spec("b"))])
    await sealing.keep(unit(), new.sealed, {IDS[1]})
    assert [vault.open(one) for one in books.rows.values()] == ["b"]
    await sealing.keep(unit(), new.sealed[:1], set())
    assert len(books.rows) == 1


async def test_a_mask_is_nothing_new_and_keeps_what_is_stored(vault: Vault) -> None:
    books = Books()
    sealing = Sealing(vault, books)
    (refused,) = await made(sealing, IDS[:1], draft(spec(MASK)))
    assert isinstance(refused, Refusal)
    assert [one.path for one in refused.problems] == ["spec.git_sync.code.password"]
    (stored,) = await made(sealing, IDS[:1], draft(spec("pass", "tok")))
    assert isinstance(stored, Checked)
    books.specs[IDS[0]] = stored.spec.SerializeToString()
    same = await sealing.against(unit(), IDS[0], draft(spec("pass", MASK)))
    assert {place.text for place in places(same.spec)} == {MASK}
    assert (await sealing.change(unit(), IDS[0], same)).spec == stored.spec
    other = await sealing.against(unit(), IDS[0], draft(spec("new", MASK)))
    assert {place.text for place in places(other.spec)} == {MASK, "new"}
    changed = await sealing.change(unit(), IDS[0], other)
    assert sorted(opened(vault, books, changed.spec)) == ["new", "tok"]
    versions = {place.name: cast("SecretRef", read_ref(place.text)).version for place in places(changed.spec)}
    assert versions == {"password": 2, "notebook_token": 1}
    with pytest.raises(DraftRefused):
        await sealing.against(unit(), IDS[1], draft(spec(MASK)))
    plain = draft(spec())
    assert await sealing.against(unit(), IDS[0], plain) is plain
    assert await sealing.change(unit(), IDS[0], plain) is plain


async def test_a_template_keeps_its_own_and_workloads_get_copies(vault: Vault) -> None:
    books = Books()
    sealing = Sealing(vault, books)
    first = await sealing.template(unit(), None, base(spec("one", "tok")))
    assert sorted(opened(vault, books, first.spec)) == ["one", "tok"]
    heir, again = await made(sealing, IDS[:2], draft(spec(), first), draft(spec("own"), first))
    assert isinstance(heir, Checked)
    assert isinstance(again, Checked)
    assert heir.base is not None
    assert again.base is not None
    assert opened(vault, books, again.spec) == ["own"]
    for one, holder in ((heir.base, IDS[0]), (again.base, IDS[1])):
        assert sorted(opened(vault, books, one.spec)) == ["one", "tok"]
        refs = [cast("SecretRef", read_ref(place.text)) for place in places(one.spec)]
        assert {books.rows[ref].holder for ref in refs} == {holder}
    second = await sealing.template(unit(), first, base(spec("two", MASK), holder=IDS[3]))
    assert second.template_id == first.template_id
    assert sorted(opened(vault, books, second.spec)) == ["tok", "two"]
    assert sorted(opened(vault, books, heir.base.spec)) == ["one", "tok"], "the copies do not go with the template"
    with pytest.raises(DraftRefused):
        await sealing.template(unit(), None, base(spec(MASK)))
    same = await sealing.template(unit(), second, base(spec("two", "tok")))
    assert same.spec == second.spec, "the same credentials are no change"
    emptied = await sealing.template(unit(), second, base(spec()))
    assert emptied.template_id == first.template_id
    assert {row.holder for row in books.rows.values()} == {IDS[0], IDS[1]}
    await sealing.template(unit(), None, base(spec("gone"), holder=IDS[3]))
    await sealing.forget(unit(), IDS[3])
    assert {row.holder for row in books.rows.values()} == {IDS[0], IDS[1]}
    plain = base(spec())
    assert await sealing.template(unit(), None, plain) is plain
    changed = await sealing.change(unit(), IDS[0], replace(heir, base=heir.base))
    assert changed.base is not None
    assert sorted(opened(vault, books, changed.base.spec)) == ["one", "tok"]


async def test_a_rotation_seals_anew_and_skips_what_no_key_opens(vault: Vault, keys: Path) -> None:
    books = Books()
    (one,) = await made(Sealing(vault, books), IDS[:1], draft(spec("pass")))
    assert isinstance(one, Checked)
    lost = Sealed(SecretRef(IDS[1], 1), IDS[2], "gone", b"n" * 12, b"c" * 20)
    books.rows[lost.ref] = lost
    put_before(keys, "k2")
    assert vault.renew()
    assert not vault.renew()
    assert not await Rotation(vault, books).turn(unit())
    assert {row.key for row in books.rows.values()} == {"k2", "gone"}
    assert opened(vault, books, one.spec) == ["pass"]
    with pytest.raises(NoSealingKey, match="'gone', which is not there"):
        vault.open(lost)


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_what_is_sealed_opens_for_its_holder_alone(tmp_path_factory: pytest.TempPathFactory, value: str) -> None:
    path = tmp_path_factory.mktemp("keys") / "keys"
    path.write_text(line("k"))
    vault = Vault(path)
    sealed = vault.seal(SecretRef(IDS[0], 1), IDS[1], value)
    assert vault.open(sealed) == value
    for moved in (
        replace(sealed, holder=IDS[2]),
        replace(sealed, ref=SecretRef(IDS[0], 2)),
        replace(sealed, nonce=bytes(12)),
        replace(sealed, cipher=sealed.cipher[:-1] + bytes([sealed.cipher[-1] ^ 1])),
    ):
        with pytest.raises(NoSealingKey, match="does not open"):
            vault.open(moved)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no key in it"),
        ("# only a remark", "no key in it"),
        ("k1", "expected an id"),
        (f"{'k' * 65} AAAA", "expected an id"),
        ("k1 !!!", "no base64"),
        ("k1 AAAA", "the key has 3 bytes"),
        (line("k") * 2, "stands there twice"),
        ("k\xe9 AAAA", "not ASCII"),
    ],
    ids=["nothing", "a-remark", "no-material", "a-long-id", "no-base64", "too-short", "twice", "no-ascii"],
)
def test_keys_that_cannot_be_used_say_why_and_never_what(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "keys"
    path.write_text(text)
    with pytest.raises(BadKeys, match=why) as refused:
        read_keys(path)
    assert text.split()[-1:] != [str(refused.value).split()[-1]]
    with pytest.raises(BadKeys):
        Vault(tmp_path / "missing")


def test_digests_of_requests_have_keys_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text(line("k2") + line("k1"))
    vault = Vault(path)
    both = vault.request_keys()
    raw = [base64.b64decode(each.split()[1]) for each in path.read_text().splitlines()]
    assert (len(both), len(set(both) | set(raw)), {len(key) for key in both}) == (2, 4, {32})
    assert Vault(path).request_keys() == both


def test_without_keys_nothing_is_sealed() -> None:
    vault = Vault(None)
    assert (vault.current, vault.renew(), vault.request_keys()) == ("", False, ())
    with pytest.raises(NoSealingKey, match="MUSTER_SECRET_KEYS_FILE"):
        vault.seal(SecretRef(IDS[0], 1), IDS[1], "x")


def test_a_file_of_keys_that_goes_is_said(vault: Vault, keys: Path) -> None:
    keys.unlink()
    with pytest.raises(BadKeys, match="No such file"):
        vault.renew()
    assert vault.current == "k1"


def test_references_are_read_as_they_are_written() -> None:
    ref = SecretRef(IDS[0], 7)
    assert read_ref(ref.text) == ref
    for text in (
        "",
        "x",
        f"{SEALED}x:1",
        f"{SEALED}{IDS[0]}",
        f"{SEALED}{IDS[0]}:x",
        f"{IDS[0]}:1",
        f"{SEALED}{IDS[0]}:²",
    ):
        assert read_ref(text) is None
    assert "only Muster writes" in forged(ref.text)
    assert forged("literal") == nothing_kept("literal") == ""
    assert "there is none yet" in nothing_kept(MASK)

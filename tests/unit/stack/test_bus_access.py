"""Identities of Kafka are private files, and the broker gets them in Kafka's own formats."""

from __future__ import annotations

import base64
import hashlib
import hmac
import stat
import struct
from pathlib import Path

import pytest

from muster_chassis.acls import of_agent
from muster_stack.bus import scram
from muster_stack.bus.access import Access, rules_of
from muster_stack.bus.checkpoint import access_batch, crc32c
from muster_stack.bus.identities import Identities, Identity, IdentityError, client_options
from muster_stack.bus.scram import Login, NotAuthentic
from muster_stack.kafka import KafkaServer, Runtime
from muster_stack.keeper import probes


@pytest.fixture
def identities(tmp_path: Path) -> Identities:
    made = Identities(tmp_path / "credentials" / "kafka")
    made.ensure(["policy", "admin"])
    return made


def test_only_the_owner_reads_an_identity_and_it_stays_the_same(identities: Identities) -> None:
    before = identities.all()
    identities.ensure(["policy", "admin"])
    assert identities.all() == before
    assert stat.S_IMODE(identities.folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(identities.folder.parent.stat().st_mode) == 0o700
    for path in identities.folder.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_service_keeps_its_user_and_the_stack_gets_a_new_one(identities: Identities) -> None:
    assert identities.of("policy").user == identities.fresh("policy").user == "policy"
    assert identities.of("admin").user != identities.fresh("admin").user
    assert identities.of("policy").password != identities.fresh("policy").password


def test_a_file_that_others_can_read_is_refused(identities: Identities) -> None:
    identities.file("policy").chmod(0o644)
    with pytest.raises(IdentityError, match="can be read by others: chmod 600"):
        identities.of("policy")


@pytest.mark.parametrize("name", ["", "a b", "../policy", "A", "x" * 81, "a,n=b"])
def test_a_name_that_is_no_user_is_refused(identities: Identities, name: str) -> None:
    with pytest.raises(IdentityError, match="cannot be a user of Kafka"):
        identities.file(name)


def test_a_strange_file_among_the_identities_is_named(identities: Identities) -> None:
    identities.put("console", Identity("console", "x"))
    with pytest.raises(IdentityError, match="'console' is not an identity of this stack"):
        Access(identities).rules()


def test_a_password_is_proven_both_ways() -> None:
    """A server made by hand from RFC 5802 takes the proof, and its signature is checked."""
    login, kept = Login("policy", "swordfish"), scram.verifier("swordfish")
    bare = login.first().decode().removeprefix("n,,")
    nonce = bare.partition("r=")[2] + "server"
    answer = f"r={nonce},s={base64.b64encode(kept.salt).decode()},i={scram.ITERATIONS}"
    final = login.final(answer.encode()).decode()
    without, _, proof = final.partition(",p=")
    signed = f"{bare},{answer},{without}".encode()
    signature = hmac.digest(kept.stored_key, signed, "sha512")
    key = bytes(a ^ b for a, b in zip(base64.b64decode(proof), signature, strict=True))
    assert hashlib.sha512(key).digest() == kept.stored_key
    login.check(b"v=" + base64.b64encode(hmac.digest(kept.server_key, signed, "sha512")))
    with pytest.raises(NotAuthentic, match="does not prove"):
        login.check(b"v=" + base64.b64encode(bytes(64)))


@pytest.mark.parametrize("answer", [b"", b"r=x", b"\xff", b"r=other,s=AAAA,i=4096", b"e=unknown-user"])
def test_an_answer_that_is_no_scram_is_refused(answer: bytes) -> None:
    with pytest.raises(NotAuthentic):
        Login("policy", "swordfish").final(answer)


def test_a_broker_may_not_ask_for_endless_work() -> None:
    login = Login("policy", "swordfish")
    nonce = login.first().decode().partition("r=")[2]
    with pytest.raises(NotAuthentic):
        login.final(f"r={nonce}x,s=AAAA,i=99999999".encode())


def test_the_checksum_is_crc_32c() -> None:
    assert crc32c(b"123456789") == 0xE3069283  # the check value of its definition


def test_a_batch_says_its_length_and_count_and_holds_no_password() -> None:
    batch = access_batch([Identity("policy", "swordfish")], of_agent("north"))
    offset, length = struct.unpack_from(">qi", batch)
    assert (offset, length) == (1000, len(batch) - 12)
    assert struct.unpack_from(">I", batch, 17)[0] == crc32c(batch[21:])
    assert struct.unpack_from(">i", batch, 57)[0] == 1 + len(of_agent("north"))
    assert b"swordfish" not in batch
    assert b"User:agent-north" in batch


def test_each_kind_of_identity_has_its_rules() -> None:
    assert rules_of("agent-north") == of_agent("north")
    assert [rule.name for rule in rules_of("producer-etl")] == ["muster.triggers"]
    assert not rules_of("admin")
    assert rules_of("policy")


def test_a_log_knows_the_identities_that_were_noted(identities: Identities, tmp_path: Path) -> None:
    access = Access(identities)
    access.ensure()
    assert not access.is_known_to(tmp_path)
    access.note(tmp_path)
    assert access.is_known_to(tmp_path)
    identities.put("admin", identities.fresh("admin"))
    assert not access.is_known_to(tmp_path)
    assert client_options("k:1", identities.of("policy"))["sasl_mechanism"] == "SCRAM-SHA-512"


def test_what_was_not_given_out_cannot_be_revoked(identities: Identities) -> None:
    access = Access(identities, ["north"])
    access.ensure()
    access.grant_producer("muster.triggers", "etl")
    with pytest.raises(ValueError, match=r"'agent-north' cannot be revoked; .* are: producer-etl"):
        access.revoke("agent-north")
    access.revoke("producer-etl")
    with pytest.raises(ValueError, match="are: none"):
        access.revoke("producer-etl")
    with pytest.raises(ValueError, match=r"no topic 'x'; programs outside may write muster\.triggers"):
        access.grant_producer("x", "etl")


async def test_a_probe_without_its_identity_says_so_and_does_not_fail(tmp_path: Path) -> None:
    access = Access(Identities(tmp_path / "identities"))
    access.ensure()
    access.identities.file("admin").unlink()
    runtime = Runtime(())
    server = KafkaServer(
        tmp_path / "kafka", port=1, controller_port=2, log=tmp_path / "log", runtime=runtime, access=access
    )
    why = await probes.of_kafka(server)()
    assert why is not None
    assert "admin cannot be read" in why
    assert "muster up" in why


def test_a_missing_folder_of_identities_is_named(tmp_path: Path) -> None:
    with pytest.raises(IdentityError, match="nowhere cannot be read"):
        Identities(tmp_path / "nowhere").all()

"""Key files: secrets that others can read stop a service; a change is followed; damage keeps what was read before."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from pydantic import ValidationError

from muster_chassis.key_files import (
    KeyFileError,
    PrivateKey,
    Purpose,
    TrustFile,
    check_secret,
    key_id,
    read_private,
    read_trust,
)
from muster_chassis.settings import InternalSettings
from muster_stack import identities
from muster_stack.layout import Layout


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    made = Layout(tmp_path)
    identities.ensure(made)
    return made


def test_what_the_stack_writes_is_what_services_read(layout: Layout) -> None:
    trust = TrustFile(identities.trust(layout))
    for identity in identities.ALL:
        key = read_private(identity.path(layout))
        assert key.kid == identities.current(layout, identity)
        found = trust.find(identity.service, Purpose(identity.purpose), key.kid)
        assert found is not None
        assert key_id(found) == key.kid
    assert trust.find("submission", Purpose.ASSIGNMENTS, None) is None
    assert trust.find("policy", Purpose.CALLS, identities.current(layout, identities.SERVICES[0])) is None


def test_the_files_are_their_owners_alone(layout: Layout) -> None:
    assert layout.identities.stat().st_mode & 0o077 == 0
    assert all(path.stat().st_mode & 0o077 == 0 for path in layout.identities.iterdir())


def test_keys_stay_and_a_removed_one_is_made_again(layout: Layout) -> None:
    before = [identities.current(layout, one) for one in identities.ALL]
    identities.service_key(layout, "policy").unlink()
    identities.ensure(layout)
    after = [identities.current(layout, one) for one in identities.ALL]
    assert [a == b for a, b in zip(before, after, strict=True)] == [True, False, True, True, True]


@pytest.mark.parametrize(
    ("mode", "said"), [(0o644, "run `chmod 600"), (0o660, "run `chmod 600"), (0o602, "run `chmod 600")]
)
def test_a_secret_that_others_can_read_is_refused_by_name(layout: Layout, mode: int, said: str) -> None:
    path = identities.assignments_key(layout)
    path.chmod(mode)
    with pytest.raises(KeyFileError, match=said) as refused:
        check_secret(path)
    assert str(path) in str(refused.value)


def test_what_is_missing_or_no_key_is_refused_by_name(layout: Layout, tmp_path: Path) -> None:
    path = identities.assignments_key(layout)
    path.write_text("rubbish")
    for wrong, said in ((tmp_path / "gone", "No such file"), (tmp_path, "not a regular file")):
        with pytest.raises(KeyFileError, match=said):
            check_secret(wrong)
    with pytest.raises(KeyFileError, match="holds no private key"):
        read_private(path)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"keys": 1}',
        '{"keys": [1]}',
        '{"keys": [{"kty": "oct"}]}',
        '{"keys": [{"kty": "OKP", "crv": "Ed25519", "service": "policy", "for": "all"}]}',
        '{"keys": [{"kty": "OKP", "crv": "Ed25519", "service": "policy", "for": "calls", "x": "AA"}]}',
    ],
)
def test_a_damaged_trust_file_is_refused(layout: Layout, text: str) -> None:
    path = identities.trust(layout)
    path.write_text(text)
    with pytest.raises(KeyFileError, match=str(path)):
        read_trust(path)


def test_a_trust_file_that_others_can_write_stops_the_service(layout: Layout) -> None:
    identities.trust(layout).chmod(0o622)
    given: dict[str, Any] = {
        "instance": "policy-0",
        "kafka_bootstrap": "127.0.0.1:1",
        "kafka_security": "plaintext",
        "metrics_listen": "127.0.0.1:1",
        "grpc_listen": "127.0.0.1:1",
        "database_url": "postgresql://",
        "database_schema": "policy",
    }
    with pytest.raises(ValidationError, match="others can write it"):
        InternalSettings(**given, trust_file=identities.trust(layout))
    identities.trust(layout).chmod(0o600)
    assert InternalSettings(**given, trust_file=identities.trust(layout)).trust_file == identities.trust(layout)


def test_a_change_is_followed_and_damage_keeps_what_was_read(layout: Layout) -> None:
    now = [0.0]
    key = PrivateKey(identities.assignments_key(layout), read_private, lambda: now[0])
    trust = TrustFile(identities.trust(layout), lambda: now[0])
    first = key.get()
    fresh = Ed25519PrivateKey.generate()
    listed = [*identities.listed_keys(layout), identities.member_of(identities.SIGNING, fresh)]
    identities.write_trust(layout, listed)
    identities.write_private(identities.assignments_key(layout), fresh)
    assert key.get() == first
    # An unknown key is looked up at once: it may have been added within the last second.
    assert trust.find("scheduler", Purpose.ASSIGNMENTS, identities.key_id(fresh)) is not None
    now[0] += 1.1
    assert key.get().kid == identities.key_id(fresh)
    identities.assignments_key(layout).write_text("damaged")
    identities.trust(layout).write_text(json.dumps({"keys": "damaged"}))
    now[0] += 1.1
    assert key.get().kid == identities.key_id(fresh)
    assert trust.find("scheduler", Purpose.ASSIGNMENTS, first.kid) is not None

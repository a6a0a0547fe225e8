"""A process logs in to Kafka with a password that only its owner can read, or it does not start."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from muster_chassis.broker import Broker, CredentialError, Security
from muster_chassis.settings import Settings


def _file(folder: Path, content: str = "swordfish\n", mode: int = 0o600) -> Path:
    path = folder / "policy"
    path.write_text(content)
    path.chmod(mode)
    return path


def _settings(**more: object) -> Settings:
    given: dict[str, object] = {"instance": "p", "kafka_bootstrap": "k:1", "metrics_listen": "127.0.0.1:0"} | more
    return Settings(**given)  # type: ignore[arg-type]  # the values of each test


def test_the_password_is_read_again_for_each_client(tmp_path: Path) -> None:
    path = _file(tmp_path)
    broker = _settings(kafka_security="sasl_plaintext", kafka_user="policy", kafka_password_file=path).broker
    assert broker.options()["sasl_plain_password"] == "swordfish"
    before = broker.mark()
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    _file(fresh, "tuna\n").replace(path)
    assert broker.options()["sasl_plain_password"] == "tuna"
    assert broker.mark() != before
    assert broker.options()["security_protocol"] == "SASL_PLAINTEXT"


def test_without_authentication_nothing_is_sent() -> None:
    assert Broker("k:1").options() == {"bootstrap_servers": "k:1"}


def test_authentication_is_the_default_and_its_absence_is_explicit() -> None:
    with pytest.raises(ValidationError, match=r"sasl_ssl needs MUSTER_KAFKA_USER .* MUSTER_KAFKA_SECURITY=plaintext"):
        _settings()
    assert not _settings(kafka_security="plaintext").broker.authenticated


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o620])
def test_a_file_that_others_can_read_stops_the_start(tmp_path: Path, mode: int) -> None:
    path = _file(tmp_path, mode=mode)
    with pytest.raises(ValidationError, match=rf"{path} .* can be read by others \(mode 0{mode:o}\): chmod 600 {path}"):
        _settings(kafka_security="sasl_plaintext", kafka_user="policy", kafka_password_file=path)


def test_a_missing_file_is_named_with_the_remedy(tmp_path: Path) -> None:
    path = tmp_path / "gone"
    with pytest.raises(ValidationError, match=f"{path} of Kafka cannot be read .* `muster up` makes it"):
        _settings(kafka_security="sasl_plaintext", kafka_user="policy", kafka_password_file=path)


@pytest.mark.parametrize("content", ["", "\n", "one\ntwo\n", "x" * 5000])
def test_a_file_without_one_password_is_refused(tmp_path: Path, content: str) -> None:
    with pytest.raises(CredentialError, match="one line with a password is expected"):
        Broker("k:1", Security.SASL_PLAINTEXT, "policy", _file(tmp_path, content)).options()


def test_certificates_that_cannot_be_used_stop_the_start(tmp_path: Path) -> None:
    given = {"kafka_security": "sasl_ssl", "kafka_user": "policy", "kafka_password_file": _file(tmp_path)}
    ca = tmp_path / "ca.pem"
    ca.write_text("not a certificate")
    with pytest.raises(ValidationError, match="MUSTER_KAFKA_CA="):
        _settings(**given, kafka_ca=ca)


def test_a_file_that_went_away_is_trouble_that_passes(tmp_path: Path) -> None:
    path = _file(tmp_path)
    broker = Broker("k:1", Security.SASL_PLAINTEXT, "policy", path)
    path.unlink()
    assert broker.mark() == (0, 0)
    with pytest.raises(OSError, match="cannot be read"):
        broker.options()

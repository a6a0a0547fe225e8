"""Settings: what is missing or wrong stops the process with the variable's name."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from muster_chassis.settings import ServiceSettings

_GOOD = {
    "MUSTER_INSTANCE": "policy-0",
    "MUSTER_KAFKA_BOOTSTRAP": "127.0.0.1:9092",
    "MUSTER_KAFKA_SECURITY": "plaintext",
    "MUSTER_METRICS_LISTEN": "127.0.0.1:9100",
    "MUSTER_GRPC_LISTEN": "127.0.0.1:7070",
    "MUSTER_DATABASE_URL": "postgresql://policy:secret@/muster?host=/run/pg",
    "MUSTER_DATABASE_SCHEMA": "policy",
    "MUSTER_AUTH": "off",
}


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in _GOOD.items():
        monkeypatch.setenv(name, value)


def test_the_environment_is_read() -> None:
    settings = ServiceSettings()
    assert settings.instance == "policy-0"
    assert "secret" not in repr(settings)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MUSTER_METRICS_LISTEN", "9100"),
        ("MUSTER_GRPC_LISTEN", "localhost:99999"),
        ("MUSTER_DATABASE_SCHEMA", 'x"; DROP SCHEMA'),
        ("MUSTER_AUTH", "maybe"),
        ("MUSTER_AUTH", "jwt"),
        ("MUSTER_INSTANCE", ""),
    ],
)
def test_what_cannot_work_is_refused(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ValidationError):
        ServiceSettings()

"""The identities of services in tests: keys and a trust file as a stack makes them, once a run.

Called by whatever starts a service, and by tests that call one as submission does.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import grpc

from muster_chassis.key_files import PrivateKey, TrustFile, read_private
from muster_chassis.rpc import ServiceIdentity, ServiceName
from muster_chassis.signatures import RecordSigner, RecordVerifier
from muster_stack import identities
from muster_stack.layout import Layout

_KEPT: list[tempfile.TemporaryDirectory[str]] = []  # until the run ends


@cache
def layout() -> Layout:
    """The folder with the keys."""
    folder = tempfile.TemporaryDirectory(prefix="muster-identities-")
    _KEPT.append(folder)
    made = Layout(Path(folder.name))
    identities.ensure(made)
    return made


def trust_file() -> Path:
    """The trust file."""
    return identities.trust(layout())


def service_key(service: str = ServiceName.SUBMISSION) -> Path:
    """The private key of a service."""
    return identities.service_key(layout(), service)


def assignments_key() -> Path:
    """The private key that signs assignments."""
    return identities.assignments_key(layout())


@cache
def signer() -> RecordSigner:
    """Signs records as the scheduler does."""
    return RecordSigner(PrivateKey(assignments_key(), read_private))


@cache
def verifier() -> RecordVerifier:
    """Verifies records as agents do."""
    return RecordVerifier(TrustFile(trust_file()))


def signed(topic: str, key: str, value: bytes | None, headers: Sequence[tuple[str, bytes]]) -> list[tuple[str, bytes]]:
    """The headers of a record with its signature."""
    return [*headers, *signer().headers(topic, key.encode(), value, headers)]


def environment() -> dict[str, str]:
    """What the stack tells every service about keys."""
    return {
        "MUSTER_TRUST_FILE": str(trust_file()),
        "MUSTER_SERVICE_KEY_FILE": str(service_key()),
        "MUSTER_ASSIGNMENTS_KEY_FILE": str(assignments_key()),
    }


def identity(service: ServiceName = ServiceName.SUBMISSION) -> ServiceIdentity:
    """The identity of a service."""
    return ServiceIdentity(service, PrivateKey(service_key(service), read_private))


def calling(audience: str) -> list[tuple[str, str]]:
    """The metadata with which submission calls the service of that name."""
    return identity().metadata(audience)


class _Showing(grpc.aio.UnaryUnaryClientInterceptor):  # type: ignore[misc,unused-ignore]
    """Adds an identity to every call."""

    def __init__(self, shown: ServiceIdentity, audience: str) -> None:
        self._shown = shown
        self._audience = audience

    async def intercept_unary_unary(self, continuation: Any, details: Any, request: Any) -> Any:
        given = [*(details.metadata or ()), *self._shown.metadata(self._audience)]
        return await continuation(details._replace(metadata=grpc.aio.Metadata(*given)), request)


def channel_to(audience: ServiceName, address: str, service: ServiceName = ServiceName.SUBMISSION) -> grpc.aio.Channel:
    """A channel to the service `audience`, with calls as those of `service`."""
    return grpc.aio.insecure_channel(address, interceptors=[_Showing(identity(service), audience)])

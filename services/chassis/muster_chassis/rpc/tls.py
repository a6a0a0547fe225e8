"""TLS on gRPC: the certificate that a server shows, and channels to a server that has one.

Opened by composition roots. Replaced files count for new connections within a second, without a restart; a replaced
file that cannot be used is logged and what was read before stays.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any, Final, Protocol

import grpc
from prometheus_client import Gauge

from muster_chassis import logs
from muster_chassis.certificates import ServerCertificate, read_pair
from muster_chassis.key_files import KeyFileError, Watched, read_bytes
from muster_chassis.settings import Address, on_loopback
from muster_kernel import tls

_log = logs.get(__name__)
_LONGEST: Final = 500  # characters of an error
EXPIRES = Gauge(
    "muster_tls_certificate_expires_seconds",
    "When the certificate that gRPC shows expires, in seconds since 1970.",
    ["file"],
)


class ServedByTls(Protocol):
    """Settings of a server that can show a certificate."""

    @property
    def grpc_listen(self) -> Address:
        """Where it listens."""
        ...

    @property
    def tls_certificate_file(self) -> Path | None:
        """Its certificate."""
        ...

    @property
    def tls_key_file(self) -> Path | None:
        """Its key."""
        ...


class ServerTls:
    """The certificate of a server, followed."""

    def __init__(self, certificate: Path, key: Path, clock: Callable[[], float] = monotonic) -> None:
        """Raises KeyFileError where the files cannot be used now."""
        self._pair = Watched(certificate, lambda path: read_pair(path, key), clock, also=(key,))
        self._shown = self._pair.get()
        EXPIRES.labels(str(certificate)).set(self._shown.expires.timestamp())

    def credentials(self) -> grpc.ServerCredentials:
        """What a port is opened with."""
        fetch: Any = self._fetch  # grpc's stubs leave out None
        return grpc.dynamic_ssl_server_credentials(_configuration(self._shown), fetch)

    def _fetch(self) -> grpc.ServerCertificateConfiguration | None:
        """Called by gRPC for each new connection; None: as before."""
        found = self._pair.get()
        if found is self._shown:
            return None
        self._shown = found
        EXPIRES.labels(str(self._pair.path)).set(found.expires.timestamp())
        return _configuration(found)


def server_tls(settings: ServedByTls) -> ServerTls | None:
    """The certificate that settings name; None, and a warning beyond the loopback, where gRPC is plain."""
    if settings.tls_certificate_file is not None and settings.tls_key_file is not None:
        return ServerTls(settings.tls_certificate_file, settings.tls_key_file)
    if not on_loopback(settings.grpc_listen):
        _log.warning(
            "gRPC is plain beyond the loopback: tokens and credentials can be read on the network; set "
            "MUSTER_TLS_CERTIFICATE_FILE and MUSTER_TLS_KEY_FILE",
            listen=settings.grpc_listen,
        )
    return None


def _configuration(pair: ServerCertificate) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration([(pair.key, pair.chain)])


@dataclass(frozen=True, slots=True)
class Target:
    """A gRPC server and how it is reached.

    address: HOST:PORT, or those of several instances, separated by commas; the next one is used where one is silent.
    secured: by TLS; ca: the authorities (PEM), else those of the system.
    """

    address: str
    secured: bool = False
    ca: Path | None = None

    def warn(self) -> None:
        """Logs a warning where calls go beyond the loopback in clear."""
        if not self.secured and not on_loopback(self.address):
            _log.warning(
                "submission is reached in clear beyond the loopback: credentials can be read on the network; set "
                "MUSTER_SUBMISSION_CA_FILE, or MUSTER_SUBMISSION_TLS=true",
                address=self.address,
            )

    def channel(self, options: Sequence[tuple[str, Any]] = ()) -> grpc.aio.Channel:
        """A new channel; the file of authorities is read each time. Raises KeyFileError."""
        # gRPC's own form for several addresses.
        where = f"ipv4:{self.address}" if "," in self.address else self.address
        if not self.secured:
            return grpc.aio.insecure_channel(where, options=options)
        roots = read_authorities(self.ca) if self.ca is not None else _system_roots()
        return grpc.aio.secure_channel(where, grpc.ssl_channel_credentials(roots), options=options)

    def explain(self, error: Exception) -> str:
        """What an error of a call means, with what TLS has to do with it first."""
        details = (error.details() or error.code().name) if isinstance(error, grpc.aio.AioRpcError) else str(error)
        meaning = tls.explain(
            details,
            secured=self.secured,
            with_tls="set MUSTER_SUBMISSION_CA_FILE, or MUSTER_SUBMISSION_TLS=true",
            without_tls="unset MUSTER_SUBMISSION_CA_FILE and MUSTER_SUBMISSION_TLS",
            authority="name the authority's certificate with MUSTER_SUBMISSION_CA_FILE",
        )
        return (f"{meaning}: {details}" if meaning else details)[:_LONGEST]


def read_authorities(path: Path) -> bytes:
    """The certificates in a file, of which one is valid now. Raises KeyFileError."""
    found = read_bytes(path, largest=4 << 20)
    try:
        tls.check_authorities(found, str(path), time.time())
    except tls.AuthorityError as error:
        raise KeyFileError(str(error)) from None
    return found


def _system_roots() -> bytes | None:
    """The system's authorities; None, which means those that come with gRPC, where the system has no such file."""
    bundle = ssl.get_default_verify_paths().cafile
    return Path(bundle).read_bytes() if bundle else None

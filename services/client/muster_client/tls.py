"""TLS to the control plane: whether it is asked for, whose certificates count, and what a failure means.

Called by the SDK's constructor and by calls.py. Holds: an address that asks for TLS is never dialled without it.
"""

from __future__ import annotations

import os
import ssl
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import grpc

from muster_client.errors import InvalidInput
from muster_kernel import tls

CA_VARIABLE: Final = "MUSTER_SERVER_CA"
SCHEME: Final = "https://"


def named(address: str) -> str:
    """An address that a person gave, with https:// before it where MUSTER_SERVER_CA asks for TLS.

    Raises InvalidInput for another scheme of the web.
    """
    if address.startswith("http://"):
        plain = address.removeprefix("http://").rstrip("/")
        raise InvalidInput(f"{address} is not an address of gRPC: give {plain}, or {SCHEME}{plain} for TLS")
    if address.startswith(SCHEME):
        return address.rstrip("/")
    return SCHEME + address if os.environ.get(CA_VARIABLE) else address


def open_channel(server: str, options: Sequence[tuple[str, Any]]) -> grpc.aio.Channel:
    """A channel to HOST:PORT, or by TLS to https://HOST:PORT. Raises InvalidInput for unusable authorities."""
    if not server.startswith(SCHEME):
        return grpc.aio.insecure_channel(server, options=options)
    credentials = grpc.ssl_channel_credentials(_authorities())
    return grpc.aio.secure_channel(server.removeprefix(SCHEME), credentials, options=options)


def own_authorities() -> str:
    """Return the PEM certificates of MUSTER_SERVER_CA; empty if it is not set. Raises InvalidInput."""
    found = _authorities() if os.environ.get(CA_VARIABLE) else None
    return (found or b"").decode()


def _authorities() -> bytes | None:
    """Those in MUSTER_SERVER_CA, else the system's; None means those that come with gRPC."""
    given = os.environ.get(CA_VARIABLE)
    if not given:
        bundle = ssl.get_default_verify_paths().cafile
        return Path(bundle).read_bytes() if bundle else None
    try:
        found = Path(given).read_bytes()
        tls.check_authorities(found, f"{CA_VARIABLE}={given}", time.time())
    except OSError as error:
        raise InvalidInput(
            f"{CA_VARIABLE}={given} cannot be read ({error.strerror or error}): name the file with the authority's "
            "certificate"
        ) from None
    except tls.AuthorityError as error:
        raise InvalidInput(str(error)) from None
    return found


def explain(server: str, details: str) -> str:
    """What TLS has to do with a connection that failed; empty: nothing."""
    address = server.removeprefix(SCHEME)
    return tls.explain(
        details,
        secured=server.startswith(SCHEME),
        with_tls=f"name it as {SCHEME}{address}, or its authority's certificate with {CA_VARIABLE}",
        without_tls=f"name it as {address} and unset {CA_VARIABLE}",
        authority=f"name the authority's certificate with {CA_VARIABLE}",
    )

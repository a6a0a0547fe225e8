"""TLS for clients: whether a file of authorities can be used, and what a failed connection means.

Called by the SDK and by agents. Pure: the bytes of the file and the time are given.
"""

from __future__ import annotations

import ssl
from datetime import UTC, datetime
from typing import Any, Final

_VERIFY: Final = "CERTIFICATE_VERIFY_FAILED"
_CLOSED: Final = ("Socket closed", "Connection reset")


class AuthorityError(ValueError):
    """A file of authorities that cannot be used. The message names the file and the remedy."""


def check_authorities(pem: bytes, where: str, now: float) -> None:
    """Refuse authorities of which none is valid. now: seconds since 1970. Raises AuthorityError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(cadata=pem.decode("ascii", "ignore"))  # bundles have comments in any script
    except (ssl.SSLError, ValueError):
        raise AuthorityError(
            f"{where} holds no certificate (PEM): name the file with the certificate of the authority that signed the "
            "server's"
        ) from None
    found = context.get_ca_certs()  # without a server's own certificate that is trusted as it is
    if found and not any(_valid(certificate, now) for certificate in found):
        first, today = found[0], f"{datetime.fromtimestamp(now, UTC):%b %d %H:%M:%S %Y} GMT"
        raise AuthorityError(
            f"{where}: the authority's certificate is valid from {first['notBefore']} to {first['notAfter']}, and it "
            f"is {today}: replace the file with the current certificate"
        )


def _valid(certificate: dict[str, Any], now: float) -> bool:
    seconds = ssl.cert_time_to_seconds
    return seconds(certificate["notBefore"]) <= now <= seconds(certificate["notAfter"])


def explain(details: str, *, secured: bool, with_tls: str, without_tls: str, authority: str) -> str:
    """Say what gRPC's text about a broken connection means for TLS; empty where TLS is not the reason.

    with_tls, without_tls: how to ask for a connection of that kind. authority: how to name a trusted authority.
    """
    if not secured:
        if any(sign in details for sign in _CLOSED):
            return f"the server closed the plain connection before it answered; if it serves TLS, {with_tls}"
        return ""
    if "WRONG_VERSION_NUMBER" in details:
        return f"the server does not serve TLS; {without_tls}, or give the server a certificate"
    if "Hostname Verification" in details:
        return "the server's certificate is for other names than this address; use one of its names"
    if _VERIFY in details and "expired" in details:
        return "the server's certificate, or that of its authority, has expired; renew it on the server"
    if _VERIFY in details and "not yet valid" in details:
        return "the server's certificate is not yet valid; compare the clocks of both machines"
    if _VERIFY in details:
        return f"no trusted authority signed the server's certificate; {authority}"
    return "the TLS handshake failed" if "handshake" in details.lower() else ""

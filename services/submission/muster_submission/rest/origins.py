"""Requests that a browser was made to send: refused before anything of them is read.

Called by the edge for each request. A page of any origin can make a browser send requests to an address on its own
machine; without a token to ask for (the open stack), nothing else would keep them out.
Holds: `Host` names this service, which a name that was bound to our address a moment ago (DNS rebinding) does not; an
`Origin` is the very address that the request was sent to; a body of a write has a media type that no form and no
simple request can have, so that a browser asks first, and is refused: no answer ever allows another origin.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final
from urllib.parse import urlsplit

from starlette.requests import Request

from muster_chassis import metrics
from muster_chassis.errors import ServiceError
from muster_submission.rest.errors import ForeignHost, ForeignOrigin, WrongMediaType

READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
MEDIA_TYPES: Final = (
    "application/json",
    "application/yaml",
    "application/x-yaml",
    "application/merge-patch+json",
    "application/json-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)
"""What bodies are written in. None of them is `text/plain`, a form or multipart, which need no preflight."""
_LOOPBACK: Final = frozenset({"localhost", "localhost.localdomain", "ip6-localhost"})
_HOST: Final = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::([0-9]{1,5}))?")
_SHOWN: Final = 80
_OURS: Final = frozenset({"", "none", "same-origin"})


FOREIGN: Final = metrics.counter(
    "muster_rest_foreign_total",
    unit="requests",
    meaning="HTTP requests refused for their Host, Origin or content-type.",
    action="FOREIGN_HOST: add a proxy's name to MUSTER_PUBLIC_HOSTS; otherwise a page tried to use a browser.",
    labels=("reason",),
)


class Origins:
    """Which hosts this service is called by."""

    def __init__(self, public_hosts: Collection[str] = ()) -> None:
        """public_hosts: HOST or HOST:PORT under which clients reach it besides the loopback and its own address."""
        self._public = frozenset(host.lower() for host in public_hosts)

    def check(self, request: Request) -> None:
        """Raises ForeignHost, ForeignOrigin and WrongMediaType, counted."""
        try:
            self._check(request)
        except ServiceError as error:
            FOREIGN.labels(error.error_reason).inc()
            raise

    def _check(self, request: Request) -> None:
        host = self._host(request)
        self._origin(request, host)
        if request.method not in READING:
            _media_type(request)

    def _host(self, request: Request) -> str:
        given = request.headers.getlist("host")
        host = given[0].strip().lower() if len(given) == 1 else ""
        if not host or not self._known(host, request.scope.get("server")):
            raise ForeignHost(", ".join(given)[:_SHOWN])
        return host

    def _known(self, host: str, server: tuple[str, int | None] | None) -> bool:
        if host in self._public:
            return True
        name, port = _split(host)
        if name in self._public or name in _LOOPBACK or name.endswith(".localhost"):
            return True
        address = _address(name)
        if address is None:
            return False
        # The address at which this very connection arrived: a page at that address has that origin.
        return address.is_loopback or (server is not None and address == _address(server[0]) and port == server[1])

    def _origin(self, request: Request, host: str) -> None:
        given = request.headers.getlist("origin")
        if any(not self._same(one, host) for one in given):
            raise ForeignOrigin(", ".join(given)[:_SHOWN])
        site = request.headers.get("sec-fetch-site", "")
        if request.method not in READING and site not in _OURS:
            raise ForeignOrigin(f"a page that is {site[:_SHOWN]}")

    def _same(self, origin: str, host: str) -> bool:
        try:
            parts = urlsplit(origin.strip().lower())
        except ValueError:
            return False
        if parts.scheme not in ("http", "https") or parts.path or parts.query or parts.fragment:
            return False
        return parts.netloc == host or parts.netloc in self._public


def _media_type(request: Request) -> None:
    told = request.headers.get("content-length", "0").strip()
    if told in ("", "0") and "transfer-encoding" not in request.headers and "content-type" not in request.headers:
        return
    given = request.headers.getlist("content-type")
    media = given[0].partition(";")[0].strip().lower() if len(given) == 1 else ""
    if media not in MEDIA_TYPES:
        raise WrongMediaType(", ".join(given)[:_SHOWN], MEDIA_TYPES)


def _split(host: str) -> tuple[str, int]:
    """The name and the port of a Host; port 80 where it says none, no name where it is no Host."""
    found = _HOST.fullmatch(host)
    return (found[1].strip("[]"), int(found[2] or 80)) if found else ("", -1)


def _address(name: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(name.partition("%")[0])
    except ValueError:
        return None

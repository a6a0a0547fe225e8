"""With whose word calls are made: a token that was given, or one that an application's secret is exchanged for.

Called before each call. Holds: a secret goes to the control plane that its file belongs to and to no other; a token is
used until a minute before its end, kept beside the secret's file under the same mode, so that a hundred commands in a
row are not a hundred logins.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Final

import grpc

from muster.api.v1 import access_pb2, access_pb2_grpc
from muster_client.errors import InvalidInput, Unauthenticated, error_of

_MARGIN: Final = 60.0  # seconds before its end from which on a token counts as over
_DEADLINE: Final = 10.0


class Login:
    """The metadata of calls. application: the file with an application's id and secret, where no token is given."""

    def __init__(self, channel: grpc.aio.Channel, token: str | None, application: Path | None = None) -> None:
        self._channel = channel
        self._application = None if token else application
        self._token = token or ""
        self._ends = float("inf")

    async def metadata(self) -> grpc.aio.Metadata:
        """What a call carries.

        Raises InvalidInput for an unusable file, Unauthenticated for a token that no header can carry, and the errors
        of a refused login.
        """
        if self._application is not None and (not self._token or time.time() > self._ends - _MARGIN):
            self._token, self._ends = _kept(self._application) or await self._exchanged(self._application)
        if not (self._token.isascii() and self._token.isprintable()):  # gRPC's own error would be no MusterError
            raise Unauthenticated(
                "the token is none: it has characters that are not printable ASCII, such as a line's end or a letter "
                "with an accent; give it as it was issued, with --token or MUSTER_TOKEN"
            )
        return grpc.aio.Metadata(*([("authorization", f"Bearer {self._token}")] if self._token else []))

    def forget(self) -> bool:
        """Drops a token that was refused. Returns whether another one can be had: its secret may be a new one."""
        if self._application is None or not self._token:
            return False
        self._token = ""
        _cache(self._application).unlink(missing_ok=True)
        return True

    async def _exchanged(self, application: Path) -> tuple[str, float]:
        client, secret = read_application(application)
        stub = access_pb2_grpc.TokenServiceStub(self._channel)
        request = access_pb2.IssueTokenRequest(application=client, secret=secret)
        try:
            answer = await stub.IssueToken(request, timeout=_DEADLINE)
        except grpc.aio.AioRpcError as problem:
            raise error_of(problem) from None
        ends = time.time() + answer.expires_in
        _keep(application, answer.access_token, ends)
        return answer.access_token, ends


def read_application(path: Path) -> tuple[str, str]:
    """The id and the secret of an application. Raises InvalidInput."""
    try:
        found = json.loads(path.read_text())
        return str(found["id"]), str(found["secret"])
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise InvalidInput(f"{path} holds no application with id and secret: {problem}") from None


def _cache(application: Path) -> Path:
    return application.with_suffix(".token")


def _kept(application: Path) -> tuple[str, float] | None:
    """The token of an earlier command, while it counts and is of the secret that the file has now."""
    cache = _cache(application)
    try:
        if cache.stat().st_mtime_ns < application.stat().st_mtime_ns or cache.lstat().st_uid != os.geteuid():
            return None
        found = json.loads(cache.read_text())
        token, ends = str(found["token"]), float(found["ends"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return (token, ends) if time.time() <= ends - _MARGIN else None


def _keep(application: Path, token: str, ends: float) -> None:
    """Keeps a token for the next command. Where nothing can be written, that one logs in anew."""
    cache = _cache(application)
    fresh = cache.with_name(f"{cache.name}.{os.getpid()}")
    try:
        # The folder may be one in which others can write: a file that is there already would be theirs to read.
        handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(handle, "w") as file:
            json.dump({"token": token, "ends": ends}, file)
        fresh.replace(cache)
    except OSError:
        fresh.unlink(missing_ok=True)

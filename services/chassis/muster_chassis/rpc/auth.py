"""Tokens: a JWT against one key, with everything that can be checked checked.

Called by the interceptor for each call. The algorithm comes from our list and the kind of key, never from the token
alone, so that a public key cannot be passed off as an HMAC secret.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import jwt

from muster_chassis.errors import Unauthenticated
from muster_chassis.rpc.caller import LOCAL, Caller
from muster_chassis.settings import AuthMode, RpcSettings

_PUBLIC: Final = ["EdDSA", "ES256", "RS256"]
_SECRET: Final = ["HS256"]
_SHORTEST_SECRET: Final = 32  # bytes; a shorter HMAC key can be guessed from one token
_LEEWAY: Final = 30.0  # seconds by which clocks may differ


Authenticator = Callable[[str | None], Caller]
"""Says who calls, from the metadata `authorization`. Raises Unauthenticated."""


def everyone_is_local(_authorization: str | None) -> Caller:
    """Authentication switched off: the embedded stack on the loopback."""
    return LOCAL


class TokenAuthenticator:
    """Verifies signature, issuer, audience and expiry."""

    def __init__(self, key: bytes, issuer: str, audience: str) -> None:
        self._key = key
        self._algorithms = _PUBLIC if b"-----BEGIN" in key else _SECRET
        if self._algorithms is _SECRET and len(key) < _SHORTEST_SECRET:
            raise ValueError(f"the key of HS256 has {len(key)} bytes; at least {_SHORTEST_SECRET} are needed")
        if b"PRIVATE KEY" in key:
            raise ValueError("MUSTER_AUTH_KEY_FILE holds a private key; a service only needs the public one")
        self._issuer = issuer
        self._audience = audience

    def __call__(self, authorization: str | None) -> Caller:
        """The token's subject and groups."""
        scheme, _, token = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not token:
            raise Unauthenticated("this call needs the metadata 'authorization: Bearer TOKEN'; set MUSTER_TOKEN")
        try:
            claims = jwt.decode(
                token.strip(),
                self._key,
                algorithms=self._algorithms,
                issuer=self._issuer,
                audience=self._audience,
                leeway=_LEEWAY,
                options={"require": ["exp", "iss", "aud", "sub"]},
            )
        except jwt.PyJWTError as error:
            raise Unauthenticated(f"the token is not accepted: {error}") from error
        return Caller(str(claims["sub"]), _groups(claims.get("groups")), self._issuer)


def authenticator(settings: RpcSettings) -> Authenticator:
    """What the settings ask for. Raises ValueError and OSError for a key that cannot be used."""
    if settings.auth is AuthMode.OFF:
        return everyone_is_local
    path = Path(settings.auth_key_file or "")
    return TokenAuthenticator(path.read_bytes().strip(), settings.auth_issuer or "", settings.auth_audience or "")


def _groups(claim: Any) -> tuple[str, ...]:
    return tuple(str(group) for group in claim) if isinstance(claim, list) else ()

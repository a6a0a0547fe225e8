"""Tokens of our own for applications: an hour of access, a day in which it can be renewed.

Called by handlers/applications.py. Holds: a token says which version of the secret it was made with, so that a new
secret ends it; the encoded claims hold neither `-` nor `_`, since a client in wide use reads them with the other
alphabet of base64. Both follow only from the characters `>`, `?`, `~` and from those beyond ASCII.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Final

import jwt

from muster_chassis.errors import Unauthenticated
from muster_chassis.rpc import CREDENTIAL, Caller, Issuer, TokenAuthenticator
from muster_kernel.ids import is_uuid
from muster_submission.adapters.signing import ALGORITHM, PostgresSigning
from muster_submission.domain.refreshing import LIFETIME, RefreshToken

ACCESS: Final = timedelta(hours=1)
AUDIENCE: Final = "muster"
_RENEWING: Final = "muster/renew"
_ID: Final = "jti"


class Tokens:
    """Makes tokens, and knows its own again."""

    def __init__(self, issuer: str, signing: PostgresSigning) -> None:
        """Raises ValueError for an issuer that some clients could not read."""
        if not issuer.isascii() or set(issuer) & set("~?>"):
            raise ValueError(f"issuer {issuer!r}: plain ASCII without ~, ? and > is needed")
        self._issuer = issuer
        self._signing = signing
        self.issuer = Issuer(issuer, AUDIENCE, (ALGORITHM,), signing, applications=True)
        """Whose access tokens count."""
        self._renewals = TokenAuthenticator([Issuer(issuer, _RENEWING, (ALGORITHM,), signing, applications=True)])

    async def access(self, application: str, credential: int, now: datetime) -> str:
        """A token with which an application may call."""
        return await self._make(application, credential, AUDIENCE, now, ACCESS)

    async def refresh(self, application: str, credential: int, token: RefreshToken) -> str:
        """A token that can only be exchanged for another one. The same argument gives the same claims."""
        more = {_ID: token.id}
        return await self._make(application, credential, _RENEWING, token.made_at, LIFETIME, more)

    async def read_refresh(self, token: str) -> tuple[Caller, str]:
        """The application that a refresh token is for, and the token's id. Raises Unauthenticated."""
        who = await self._renewals(f"Bearer {token}")
        found = jwt.decode(token, options={"verify_signature": False}).get(_ID)  # verified by the line above
        if not isinstance(found, str) or not is_uuid(found):
            raise Unauthenticated("the refresh token has no id: log in with the application's secret")
        return who, found

    async def _make(
        self,
        application: str,
        credential: int,
        audience: str,
        now: datetime,
        lifetime: timedelta,
        more: Mapping[str, str] = MappingProxyType({}),
    ) -> str:
        keys = await self._signing.keys()
        if not keys:
            raise Unauthenticated("there is no key to sign tokens with yet: repeat the call", retry_after=1.0)
        claims = {
            "iss": self._issuer,
            "aud": audience,
            "sub": application,
            "iat": int(now.timestamp()),
            "exp": int((now + lifetime).timestamp()),
            CREDENTIAL: credential,
            **more,
        }
        return jwt.encode(claims, keys[0].private, algorithm=ALGORITHM, headers={"kid": keys[0].kid})

"""The keys that sign applications' tokens, in PostgreSQL: the newest signs, the one before it still verifies.

Called by adapters/tokens.py and by whoever verifies a token or publishes the keys. Holds: all instances sign and verify
with the same keys, since they follow the version of access (adapters/access.py); a key lives 30 days as the newest one,
so the one before is older than any token that it signed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

import asyncpg
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

from muster_chassis import identity
from muster_chassis.unit import Unit

ALGORITHM: Final = "ES256"
RENEWED_AFTER: Final = timedelta(days=30)
_KEPT: Final = 2
_READ: Final = "SELECT kid::text AS kid, private FROM signing_keys ORDER BY made_at DESC, kid DESC"
_NEWEST: Final = "SELECT max(made_at) FROM signing_keys"
_ADD: Final = "INSERT INTO signing_keys (kid, private, made_at) VALUES ($1, $2, $3)"
_DROP: Final = f"""
DELETE FROM signing_keys WHERE kid NOT IN (SELECT kid FROM signing_keys ORDER BY made_at DESC, kid DESC LIMIT {_KEPT})
"""  # noqa: S608 - constants only


@dataclass(frozen=True, slots=True)
class SigningKey:
    """One key pair and its id."""

    kid: str
    private: ec.EllipticCurvePrivateKey

    @property
    def jwk(self) -> dict[str, Any]:
        """Its public half, as JWKS has it."""
        shown: dict[str, Any] = ECAlgorithm.to_jwk(self.private.public_key(), as_dict=True)
        return {**shown, "kid": self.kid, "use": "sig", "alg": ALGORITHM}


class PostgresSigning:
    """The keys, followed. version: that of access, which every new key raises."""

    def __init__(self, pool: asyncpg.Pool, version: Callable[[], Awaitable[int]]) -> None:
        self._pool = pool
        self._version = version
        self._at = -1
        self._keys: tuple[SigningKey, ...] = ()

    async def keys(self) -> tuple[SigningKey, ...]:
        """The keys, the newest first."""
        version = await self._version()
        if version != self._at:
            self._keys = tuple(_key(row) for row in await self._pool.fetch(_READ))
            self._at = version
        return self._keys

    async def find(self, kid: str | None) -> ec.EllipticCurvePublicKey | None:
        """The public key of that id, for those who verify."""
        return next((key.private.public_key() for key in await self.keys() if key.kid == kid), None)

    async def renew(self, unit: Unit) -> bool:
        """Makes a new key where there is none, or where the newest is old; drops what verifies nothing any more."""
        await unit.connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || '.keys', 0))")
        newest = await unit.connection.fetchval(_NEWEST)
        if newest is not None and unit.now - newest < RENEWED_AFTER:
            return False
        private = ec.generate_private_key(ec.SECP256R1()).private_bytes(
            serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        await unit.connection.execute(_ADD, identity.event_id(), private, unit.now)
        await unit.connection.execute(_DROP)
        return True


def _key(row: Any) -> SigningKey:
    private = serialization.load_der_private_key(row["private"], None)
    if not isinstance(private, ec.EllipticCurvePrivateKey):
        raise TypeError(f"signing key {row['kid']} is no key of an elliptic curve")
    return SigningKey(row["kid"], private)

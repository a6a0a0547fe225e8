"""Certificates of a server: the files, and whether they can be used now.

Called by settings at the start and by rpc/tls.py when a file is replaced. Holds: a certificate outside its time, or one
that does not belong to the key, is never shown to a client.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

from muster_chassis.key_files import KeyFileError, check_secret, read_bytes

_SMALLEST_RSA: Final = 2048  # bits
_CURVES: Final = (ec.SECP256R1, ec.SECP384R1)  # those that gRPC's TLS offers


@dataclass(frozen=True, slots=True)
class ServerCertificate:
    """A chain of certificates (the server's own first) with its private key, both PEM, and when it expires."""

    chain: bytes
    key: bytes
    expires: datetime


def read_pair(certificate: Path, key: Path) -> ServerCertificate:
    """Read a certificate and its key. Raises KeyFileError, which names the file, what was found and the remedy."""
    chain, secret = read_bytes(certificate), read_bytes(check_secret(key))
    own = _first(chain, certificate)
    private = _private(secret, key)
    _check_time(own, certificate)
    if _public(own.public_key()) != _public(private.public_key()):
        raise KeyFileError(
            f"{key} is not the key of the certificate in {certificate} (for {own.subject.rfc4514_string()}): name the "
            "key that the certificate was made for; the server's own certificate has to be the first in its file"
        )
    return ServerCertificate(chain, secret, own.not_valid_after_utc)


def names_of(chain: bytes) -> list[str]:
    """The names (DNS first, then addresses) that the first certificate of a chain (PEM) is for; raises KeyFileError."""
    own = x509.load_pem_x509_certificates(chain)[0]
    try:
        names = own.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        names = x509.SubjectAlternativeName([])
    found = [*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress))]
    if not found:
        raise KeyFileError(f"the certificate for {own.subject.rfc4514_string()} names no server (subjectAltName)")
    return found


def _first(chain: bytes, path: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificates(chain)[0]
    except (ValueError, IndexError):
        raise KeyFileError(f"{path} holds no certificate (PEM): name the file with the server's certificate") from None


def _private(secret: bytes, path: Path) -> PrivateKeyTypes:
    try:
        key = serialization.load_pem_private_key(secret, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise KeyFileError(f"{path} holds no private key (PEM, without a passphrase): name the server's key") from None
    strong_rsa = isinstance(key, rsa.RSAPrivateKey) and key.key_size >= _SMALLEST_RSA
    if not strong_rsa and not (isinstance(key, ec.EllipticCurvePrivateKey) and isinstance(key.curve, _CURVES)):
        raise KeyFileError(
            f"{path} holds a key of a kind that TLS does not take here: make one of EC P-256, EC P-384, or RSA with at "
            f"least {_SMALLEST_RSA} bits"
        )
    return key


def _check_time(own: x509.Certificate, path: Path) -> None:
    now = datetime.now(UTC)
    if now > own.not_valid_after_utc:
        raise KeyFileError(
            f"{path} holds a certificate that expired at {own.not_valid_after_utc:%Y-%m-%dT%H:%MZ}: renew it"
        )
    if now < own.not_valid_before_utc:
        raise KeyFileError(
            f"{path} holds a certificate that is valid from {own.not_valid_before_utc:%Y-%m-%dT%H:%MZ} on, and it is "
            f"{now:%Y-%m-%dT%H:%MZ}: check the clock of this machine, or name a certificate that is valid now"
        )


def _public(key: object) -> bytes:
    encode = getattr(key, "public_bytes")  # noqa: B009 - some kinds of key in a certificate have no such method
    return bytes(encode(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo))

"""Certificates for tests: authorities, and what they sign for the loopback."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_HASH = hashes.SHA256()


class Files(NamedTuple):
    """A server's certificate and key."""

    certificate: Path
    key: Path


def _named(subject: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)])


def _builder(subject: str, issuer: str, public: Any, days: tuple[int, int]) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return x509.CertificateBuilder(
        _named(issuer),
        _named(subject),
        public,
        x509.random_serial_number(),
        now + timedelta(days=days[0]),
        now + timedelta(days=days[1]),
    )


@dataclass(frozen=True, slots=True)
class Authority:
    """An authority of its own; `file` has its certificate."""

    name: str
    key: ec.EllipticCurvePrivateKey
    file: Path

    def issue(self, folder: Path, days: tuple[int, int] = (-1, 1), host: str = "127.0.0.1", key: Any = None) -> Files:
        """Writes a certificate for a host, valid between two days from now, and its key, over those before."""
        private = key or ec.generate_private_key(ec.SECP256R1())
        names = x509.SubjectAlternativeName([x509.IPAddress(ip_address(host))])
        made = _builder("server", self.name, private.public_key(), days).add_extension(names, critical=False)
        files = Files(folder / "server.crt", folder / "server.key")
        folder.mkdir(exist_ok=True)
        files.certificate.write_bytes(made.sign(self.key, _HASH).public_bytes(serialization.Encoding.PEM))
        files.key.touch(0o600)
        files.key.write_bytes(
            private.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return files


def authority(file: Path, days: tuple[int, int] = (-1, 1)) -> Authority:
    """Makes an authority, valid between two days from now, and writes its certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    made = _builder(file.stem, file.stem, key.public_key(), days)
    made = made.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    file.write_bytes(made.sign(key, _HASH).public_bytes(serialization.Encoding.PEM))
    return Authority(file.stem, key, file)

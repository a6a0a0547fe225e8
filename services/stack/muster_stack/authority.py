"""A stack's own authority, and the certificate that it signs for submission's gRPC.

Called by `muster keys certificate` and `muster keys rotate ca`. Holds: private keys have mode 0600 in a folder of mode
0700; clients can trust a new authority before anything is signed with it. Submission reads the pair in the way that
muster_chassis/certificates.py says, which this room must not import; a test holds the two together.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from muster_stack.errors import StackError
from muster_stack.identities import write_whole
from muster_stack.layout import Layout
from muster_stack.rotation import ListedKey, locked

_AUTHORITY_DAYS: Final = 3650
_SERVER_DAYS: Final = 397  # the longest that clients commonly accept
_SKEW: Final = timedelta(minutes=5)  # for clients whose clock is behind
_MOST_HOSTS: Final = 50
_DNS: Final = re.compile(r"(\*\.)?[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*")
_LONGEST_DNS: Final = 253
_SHOWN: Final = 16  # hex digits of a certificate's SHA-256 that name it, as many as a key's id has


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate that was made: its files, the names in it, and its last day."""

    certificate: Path
    key: Path
    authority: Path
    hosts: tuple[str, ...]
    expires: datetime


def authority_file(layout: Layout) -> Path:
    """What clients trust: the current authority, then the one before it."""
    return layout.tls / "authority.crt"


def issue(layout: Layout, hosts: Sequence[str]) -> Issued:
    """Makes a certificate for these hosts, else for those of the certificate before; an authority too, the first time.

    Raises StackError for a host that cannot be meant, and for damaged files.
    """
    _check(hosts)
    layout.tls.mkdir(mode=0o700, parents=True, exist_ok=True)
    with locked(layout.tls):
        if not authority_file(layout).exists():
            _renew(layout, [])
        certificate, key = layout.tls / "server.crt", layout.tls / "server.key"
        names = tuple(hosts) or _hosts_of(certificate)
        signing, authority = _current(layout)
        private = ec.generate_private_key(ec.SECP256R1())
        made = _server(names, private, authority).sign(signing, hashes.SHA256())
        write_whole(key, _pem(private))
        write_whole(certificate, made.public_bytes(serialization.Encoding.PEM).decode())
    return Issued(certificate, key, authority_file(layout), names, made.not_valid_after_utc)


def rotate(layout: Layout) -> Path:
    """Gives the stack a new authority; the one before stays trusted until the next rotation.

    The server's certificate stays as it is, so that clients can learn of the new authority first. Raises StackError.
    """
    if not authority_file(layout).exists():
        raise StackError(f"{layout.root} has no authority: `muster keys certificate HOST` makes one")
    with locked(layout.tls):
        _, before = _current(layout)
        _renew(layout, [before])
    return authority_file(layout)


def list_keys(layout: Layout, now: datetime | None = None) -> list[ListedKey]:
    """The authority, the one before it, and submission's certificate; empty where there are none. Raises StackError."""
    if not authority_file(layout).exists():
        return []
    now = now or datetime.now(UTC)
    _, signing = _current(layout)
    trusted = x509.load_pem_x509_certificates(authority_file(layout).read_bytes())
    found = [_listed("ca", "clients", one, "signs" if one == signing else "verifies", now) for one in trusted]
    certificate = layout.tls / "server.crt"
    if certificate.exists():
        hosts = ", ".join(_hosts_of(certificate))
        served = x509.load_pem_x509_certificate(certificate.read_bytes())
        found.append(_listed("certificate", hosts, served, "serves", now))
    return found


def _listed(kind: str, holder: str, found: x509.Certificate, state: str, now: datetime) -> ListedKey:
    kid = found.fingerprint(hashes.SHA256()).hex()[:_SHOWN]
    begins, ends = found.not_valid_before_utc + _SKEW, found.not_valid_after_utc
    return ListedKey(kind, holder, kid, _moment(begins), state if now < ends else "expired", _moment(ends))


def _moment(of: datetime) -> str:
    return f"{of:%Y-%m-%dT%H:%M:%SZ}"


def _renew(layout: Layout, before: Sequence[x509.Certificate]) -> None:
    private = ec.generate_private_key(ec.SECP256R1())
    now = datetime.now(UTC)
    serial = x509.random_serial_number()
    # A name of its own each time: clients that know two authorities find the right one by it.
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"Muster {now:%Y-%m-%d} {serial:x}"[:40])])
    builder = x509.CertificateBuilder(name, name, private.public_key(), serial)
    made = (
        builder.not_valid_before(now - _SKEW)
        .not_valid_after(now + timedelta(days=_AUTHORITY_DAYS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(private.public_key()), critical=False)
        .sign(private, hashes.SHA256())
    )
    # Trusted first: a rotation that is cut short here leaves the key before, whose certificate is still in the file.
    bundle = b"".join(one.public_bytes(serialization.Encoding.PEM) for one in [made, *before])
    write_whole(authority_file(layout), bundle.decode())
    write_whole(layout.tls / "authority.key", _pem(private))


def _server(
    hosts: Sequence[str], private: ec.EllipticCurvePrivateKey, authority: x509.Certificate
) -> x509.CertificateBuilder:
    now, public = datetime.now(UTC), private.public_key()
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "muster")])
    expires = min(now + timedelta(days=_SERVER_DAYS), authority.not_valid_after_utc)
    builder = x509.CertificateBuilder(authority.subject, subject, public, x509.random_serial_number())
    signer = authority.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    return (
        builder.not_valid_before(now - _SKEW)
        .not_valid_after(expires)
        .add_extension(x509.SubjectAlternativeName([_name(host) for host in hosts]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(signer), critical=False)
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _check(hosts: Sequence[str]) -> None:
    if len(hosts) > _MOST_HOSTS:
        raise StackError(f"{len(hosts)} hosts were given; a certificate has at most {_MOST_HOSTS}")
    for host in hosts:
        _name(host)


def _name(host: str) -> x509.GeneralName:
    """How a certificate names a host. Raises StackError."""
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        if len(host) > _LONGEST_DNS or not _DNS.fullmatch(host):
            raise StackError(
                f"{host!r} is not a host: give a name such as muster.example.org, or an address such as 10.0.0.7, "
                "without a port"
            ) from None
        return x509.DNSName(host)


def _hosts_of(certificate: Path) -> tuple[str, ...]:
    """The hosts in the certificate before. Raises StackError where there is none."""
    try:
        found = x509.load_pem_x509_certificate(certificate.read_bytes())
        names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (OSError, ValueError, x509.ExtensionNotFound):
        raise StackError(
            "no host was given, and there is no certificate to renew: name the hosts by which clients reach submission"
        ) from None
    return tuple(str(one.value) for one in names)


def _current(layout: Layout) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    """The key that signs now and its certificate. Raises StackError."""
    key, bundle = layout.tls / "authority.key", authority_file(layout)
    try:
        private = serialization.load_pem_private_key(key.read_bytes(), None)
        listed = x509.load_pem_x509_certificates(bundle.read_bytes())
    except (OSError, ValueError, TypeError) as error:
        raise StackError(
            f"the authority in {layout.tls} cannot be read ({error}): restore the folder, or remove it for a new one"
        ) from None
    if isinstance(private, ec.EllipticCurvePrivateKey):
        for one in listed:
            if one.public_key() == private.public_key():
                return private, one
    raise StackError(f"{key} is not the key of {bundle}: restore the folder {layout.tls}, or remove it for a new one")


def _pem(private: ec.EllipticCurvePrivateKey) -> str:
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return private.private_bytes(encoding, form, serialization.NoEncryption()).decode()

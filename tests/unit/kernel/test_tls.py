"""Files of authorities that cannot be used, and what failed connections mean."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from muster_kernel.tls import AuthorityError, check_authorities, explain
from tests.support.certificates import authority


def test_one_valid_authority_in_a_bundle_is_enough(tmp_path: Path) -> None:
    old, now = authority(tmp_path / "old.crt", days=(-2, -1)).file.read_bytes(), time.time()
    new = authority(tmp_path / "new.crt").file.read_bytes()
    check_authorities("# Überschrift\n".encode() + old + new, "f", now)
    with pytest.raises(AuthorityError, match=r"^f: the authority's certificate is valid from .* and it is .* GMT"):
        check_authorities(old, "f", now)


@pytest.mark.parametrize(
    "pem", [b"", b"text", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", b"\xff"]
)
def test_what_is_not_a_certificate_is_refused(pem: bytes) -> None:
    with pytest.raises(AuthorityError, match="f holds no certificate"):
        check_authorities(pem, "f", 0)


@pytest.mark.parametrize(
    ("details", "secured", "said"),
    [
        ("Socket closed", False, "if it serves TLS, ask"),
        ("Connection refused", False, ""),
        ("Connection refused", True, ""),
        ("SSL: WRONG_VERSION_NUMBER", True, "the server does not serve TLS; unask"),
        ("CERTIFICATE_VERIFY_FAILED: certificate has expired", True, "has expired"),
        ("CERTIFICATE_VERIFY_FAILED: certificate is not yet valid", True, "not yet valid"),
        ("Handshake read failed (Socket closed)", True, "the TLS handshake failed"),
    ],
)
def test_a_failed_connection_says_what_tls_has_to_do_with_it(details: str, secured: bool, said: str) -> None:
    found = explain(details, secured=secured, with_tls="ask", without_tls="unask", authority="name it")
    assert said in found
    assert bool(found) == bool(said)

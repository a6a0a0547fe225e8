"""A real Kubernetes API server with an etcd of its own, for a module of tests; `make testbed` builds both.

Holds: it listens on this machine only, keeps nothing, and is gone with the module, whatever happened in between.
"""

from __future__ import annotations

import ssl
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.support.processes import free_port
from tests.support.waiting import eventually_now

PROGRAMS: Final = Path(__file__).parents[2] / ".tools" / "testbed"
MISSING: Final = "no Kubernetes API server here: `make testbed` builds one (it needs Go, and minutes the first time)"
TOKEN: Final = "of-this-test-only"
_PATIENCE: Final = 60.0  # seconds
_RANGE: Final = "10.0.0.0/24"


def built() -> bool:
    """Whether the programs are there."""
    return all((PROGRAMS / name).exists() for name in ("etcd", "kube-apiserver"))


@dataclass(frozen=True, slots=True)
class Cluster:
    """Where the API server is; `http` calls it as somebody who may do everything."""

    url: str
    http: httpx.Client

    def kubectl(self) -> list[str]:
        """The words in front of a kubectl command."""
        return ["kubectl", "--server", self.url, "--insecure-skip-tls-verify", "--token", TOKEN]

    def post(self, path: str, body: Any, **query: str) -> httpx.Response:
        """One POST."""
        return self.http.post(path, json=body, params=query)


@contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    """Runs etcd and the API server in a folder until the block ends."""
    with ExitStack() as stack:
        store = f"http://127.0.0.1:{free_port()}"
        stack.enter_context(_running(_etcd(folder, store), folder / "etcd.log"))
        port = free_port()
        stack.enter_context(_running(_server(folder, store, port), folder / "server.log"))
        url = f"https://127.0.0.1:{port}"
        plain = ssl.create_default_context()
        plain.check_hostname, plain.verify_mode = False, ssl.CERT_NONE
        head = {"Authorization": f"Bearer {TOKEN}"}
        http = stack.enter_context(httpx.Client(base_url=url, verify=plain, headers=head, timeout=_PATIENCE))
        _wait(http, folder / "server.log")
        yield Cluster(url, http)


def _etcd(folder: Path, store: str) -> list[str]:
    peer = f"http://127.0.0.1:{free_port()}"
    words = {
        "data-dir": folder / "etcd",
        "listen-client-urls": store,
        "advertise-client-urls": store,
        "listen-peer-urls": peer,
        "initial-advertise-peer-urls": peer,
        "initial-cluster": f"default={peer}",
    }
    return [str(PROGRAMS / "etcd"), "--unsafe-no-fsync", *(f"--{name}={value}" for name, value in words.items())]


def _server(folder: Path, store: str, port: int) -> list[str]:
    key, tokens = folder / "service.key", folder / "tokens.csv"
    key.write_bytes(_private_key())
    tokens.write_text(f"{TOKEN},tester,1,system:masters\n", encoding="utf-8")
    words = {
        "etcd-servers": store,
        "bind-address": "127.0.0.1",
        "secure-port": port,
        "cert-dir": folder / "certificates",
        "token-auth-file": tokens,
        "authorization-mode": "AlwaysAllow",
        "disable-admission-plugins": "ServiceAccount",
        "service-account-issuer": "https://kubernetes.default.svc",
        "service-account-key-file": key,
        "service-account-signing-key-file": key,
        "service-cluster-ip-range": _RANGE,
    }
    return [str(PROGRAMS / "kube-apiserver"), *(f"--{name}={value}" for name, value in words.items())]


def _private_key() -> bytes:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )


@contextmanager
def _running(command: list[str], log: Path) -> Iterator[None]:
    with log.open("wb") as file, subprocess.Popen(command, stdout=file, stderr=file) as process:
        try:
            yield
        finally:
            process.kill()


def _wait(http: httpx.Client, log: Path) -> None:
    def state() -> str:
        try:
            return http.get("/readyz").text
        except httpx.TransportError as error:
            return repr(error)

    try:
        eventually_now(state, lambda said: said == "ok", within=_PATIENCE, every=0.1)
    except TimeoutError as error:
        raise AssertionError(f"{error}\n{log.read_text(encoding='utf-8')[-2000:]}") from None

"""A real Kubernetes API server with an etcd of its own, for a module of tests; `make testbed` builds both.

Holds: it listens on this machine only, keeps nothing, and is gone with the module, whatever happened in between.
"""

from __future__ import annotations

import ssl
import subprocess
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import aiohttp
import httpx
import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.support.processes import free_port
from tests.support.waiting import eventually_now

PROGRAMS: Final = Path(__file__).parents[2] / ".tools" / "testbed"
KUBECTL: Final = PROGRAMS / "kubectl"
SCHEDULER: Final = PROGRAMS / "kube-scheduler"
MISSING: Final = "no Kubernetes API server here: `make testbed` builds one (it needs Go, and minutes the first time)"
TOKEN: Final = "of-this-test-only"
_PATIENCE: Final = 60.0  # seconds
_RANGE: Final = "10.0.0.0/24"


def built() -> bool:
    """Whether the programs are there."""
    return all((PROGRAMS / name).exists() for name in ("etcd", "kube-apiserver"))


class Program:
    """A program that writes to a log. It may be ended, and started again with the same words."""

    def __init__(self, command: list[str], log: Path) -> None:
        self._command = command
        self._log = log
        self._process = self._started()

    def _started(self) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as file:
            return subprocess.Popen(self._command, stdout=file, stderr=file)

    @property
    def pid(self) -> int:
        """The process that runs now, or ran last."""
        return self._process.pid

    def kill(self) -> None:
        """End it at once, and wait until it is gone."""
        self._process.kill()
        self._process.wait()

    def start(self) -> None:
        """Start it if it does not run."""
        if self._process.poll() is not None:
            self._process = self._started()

    def send(self, number: int) -> None:
        """Send it a signal; nothing happens if it has ended."""
        self._process.send_signal(number)


@dataclass(frozen=True, slots=True)
class Cluster:
    """Where the API server is; `http` calls it as an administrator.

    etcd: calls its store. agent: the token that an agent calls it with. programs: what it is made of, by name.
    """

    url: str
    http: httpx.Client
    etcd: httpx.Client
    agent: str = TOKEN
    programs: Mapping[str, Program] = field(default_factory=dict)

    def kubeconfig(self) -> str:
        """A kubeconfig of the agent's token."""
        return kubeconfig_of(self.url, self.agent)

    def count(self, resource: str, namespace: str) -> int:
        """How many objects of a resource a namespace has, by one cheap question to etcd."""
        first = f"/registry/{resource}/{namespace}/".encode()
        last = first[:-1] + bytes([first[-1] + 1])
        asked = {"key": b64encode(first).decode(), "range_end": b64encode(last).decode(), "count_only": True}
        answer = self.etcd.post("/v3/kv/range", json=asked)
        return int(answer.raise_for_status().json().get("count", 0))

    def until_ready(self) -> None:
        """Wait until the API server answers. Raises TimeoutError."""

        def state() -> str:
            try:
                return self.http.get("/readyz").text
            except httpx.TransportError as error:
                return repr(error)

        eventually_now(state, lambda said: said == "ok", within=_PATIENCE, every=0.1)

    def kubectl(self) -> list[str]:
        """The words in front of a kubectl command."""
        return [str(KUBECTL), "--server", self.url, "--insecure-skip-tls-verify", "--token", TOKEN]

    def post(self, path: str, body: Any, **query: str) -> httpx.Response:
        """One POST."""
        return self.http.post(path, json=body, params=query)

    def apply(self, objects: Iterable[Any]) -> None:
        """Makes objects, or replaces those that are there, in their order."""
        for body in objects:
            collection = self.collection(body)
            name = body["metadata"]["name"]
            answer = self.http.patch(
                f"{collection}/{name}",
                json=body,
                params={"fieldManager": "tests", "force": "true"},
                headers={"Content-Type": "application/apply-patch+yaml"},
            )
            assert answer.status_code in {200, 201}, answer.text

    def collection(self, body: Any) -> str:
        """The path of the collection that an object belongs to, as the API server's discovery has it."""
        api = body["apiVersion"]
        root = f"/apis/{api}" if "/" in api else f"/api/{api}"
        resources = self.http.get(root).json()["resources"]
        found = next(one for one in resources if one["kind"] == body["kind"] and "/" not in one["name"])
        inside = f"/namespaces/{body['metadata']['namespace']}" if found["namespaced"] else ""
        return f"{root}{inside}/{found['name']}"

    def groups(self) -> list[str]:
        """The paths of all groups of the API in all their versions."""
        groups = self.http.get("/apis").json()["groups"]
        return ["/api/v1", *(f"/apis/{version['groupVersion']}" for group in groups for version in group["versions"])]

    def labelled(self, selector: str) -> set[str]:
        """Every object of any kind with these labels, as `plural/namespace/name`; those that are being deleted too."""
        found = set()
        for group in self.groups():
            for resource in self.http.get(group).json()["resources"]:
                if "list" not in resource["verbs"] or "/" in resource["name"]:
                    continue
                answer = self.http.get(f"{group}/{resource['name']}", params={"labelSelector": selector})
                for item in answer.raise_for_status().json().get("items", []):
                    metadata = item["metadata"]
                    found.add(f"{resource['name']}/{metadata.get('namespace', '')}/{metadata['name']}")
        return found

    def token(self, namespace: str, account: str) -> str:
        """A token of a ServiceAccount."""
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        answer = self.post(f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token", body)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["status"]["token"])

    def called_by(self, token: str) -> httpx.Client:
        """A client that calls with a token."""
        head = {"Authorization": f"Bearer {token}"}
        return httpx.Client(base_url=self.url, verify=_unchecked(), headers=head, timeout=_PATIENCE)


def kubeconfig_of(url: str, token: str) -> str:
    """A kubeconfig with one context. The certificate of the API server is its own, and is not checked."""
    server = {"server": url, "insecure-skip-tls-verify": url.startswith("https")}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": server}],
        "users": [{"name": "c", "user": {"token": token}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
    }
    return yaml.safe_dump(config)


def session_with(token: str) -> aiohttp.ClientSession:
    """A session for many calls at the same time. The certificate of the API server is its own, and is not checked.

    A line of a watch may have up to 16 MiB.
    """
    headers = {"Authorization": f"Bearer {token}"}
    connector = aiohttp.TCPConnector(limit=0, ssl=False)
    return aiohttp.ClientSession(headers=headers, connector=connector, read_bufsize=1 << 24)


@contextmanager
def cluster(
    folder: Path, *, rbac: bool = False, more: Mapping[str, object] | None = None, address: str = "127.0.0.1"
) -> Iterator[Cluster]:
    """Runs etcd and the API server in a folder until the block ends.

    rbac: accounts have the rights that roles give. more: options of the API server. address: where it listens.
    """
    with ExitStack() as stack:
        store = f"http://127.0.0.1:{free_port()}"
        etcd_program = stack.enter_context(running(_etcd(folder, store), folder / "etcd.log"))
        port = free_port()
        command = _server(folder, store, port, {"bind-address": address, **(more or {})}, rbac=rbac)
        server = stack.enter_context(running(command, folder / "server.log"))
        url = f"https://{address}:{port}"
        head = {"Authorization": f"Bearer {TOKEN}"}
        http = stack.enter_context(httpx.Client(base_url=url, verify=_unchecked(), headers=head, timeout=_PATIENCE))
        etcd = stack.enter_context(httpx.Client(base_url=store, timeout=_PATIENCE))
        found = Cluster(url, http, etcd, programs={"etcd": etcd_program, "kube-apiserver": server})
        try:
            found.until_ready()
        except TimeoutError as error:
            raise AssertionError(f"{error}\n{(folder / 'server.log').read_text()[-2000:]}") from None
        yield found


def _unchecked() -> ssl.SSLContext:
    """The server's certificate is its own, made a moment ago."""
    plain = ssl.create_default_context()
    plain.check_hostname, plain.verify_mode = False, ssl.CERT_NONE
    return plain


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


def _server(folder: Path, store: str, port: int, more: Mapping[str, object], *, rbac: bool) -> list[str]:
    key, tokens = folder / "service.key", folder / "tokens.csv"
    key.write_bytes(_private_key())
    tokens.write_text(f"{TOKEN},tester,1,system:masters\n", encoding="utf-8")
    words = {
        "etcd-servers": store,
        "secure-port": port,
        "cert-dir": folder / "certificates",
        "token-auth-file": tokens,
        "authorization-mode": "RBAC" if rbac else "AlwaysAllow",
        "disable-admission-plugins": "ServiceAccount",
        "service-account-issuer": "https://kubernetes.default.svc",
        "service-account-key-file": key,
        "service-account-signing-key-file": key,
        "service-cluster-ip-range": _RANGE,
        **more,
    }
    return [str(PROGRAMS / "kube-apiserver"), *(f"--{name}={value}" for name, value in words.items())]


@contextmanager
def scheduler(folder: Path, url: str, name: str) -> Iterator[Program]:
    """Runs kube-scheduler for pods that name it until the block ends."""
    kubeconfig, config = folder / "scheduler.kubeconfig", folder / "scheduler.yaml"
    kubeconfig.write_text(kubeconfig_of(url, TOKEN))
    said = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        "leaderElection": {"leaderElect": False},
        "profiles": [{"schedulerName": name}],
    }
    config.write_text(yaml.safe_dump(said))
    command = [str(SCHEDULER), f"--config={config}", "--secure-port=0"]
    with running(command, folder / "scheduler.log") as found:
        yield found


def _private_key() -> bytes:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )


@contextmanager
def running(command: list[str], log: Path) -> Iterator[Program]:
    """A program until the block ends, which kills it."""
    program = Program(command, log)
    try:
        yield program
    finally:
        program.kill()

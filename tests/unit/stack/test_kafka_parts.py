"""The jars are what the lock says, and the probe takes nothing for a broker that is none."""

from __future__ import annotations

import re
import socketserver
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path

import pytest

from muster_stack import jars
from muster_stack.errors import DownloadFailed
from muster_stack.kafka_probe import Broker, probe
from muster_stack.ports import LOOPBACK, free_ports


@contextmanager
def _listening(handler: type[socketserver.BaseRequestHandler]) -> Iterator[int]:
    with socketserver.ThreadingTCPServer((LOOPBACK, 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


def _answering(content: bytes) -> type[socketserver.BaseRequestHandler]:
    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(1000)
            self.request.sendall(content)

    return Handler


def _text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def _metadata(brokers: int, cluster: str, controller: int) -> bytes:
    one = struct.pack(">i", 1) + _text("127.0.0.1") + struct.pack(">i", 9092) + struct.pack(">h", -1)
    body = struct.pack(">iii", 1, 0, brokers) + one * brokers + _text(cluster) + struct.pack(">ii", controller, 0)
    return struct.pack(">i", len(body)) + body


def test_a_broker_that_serves_says_who_it_is() -> None:
    with _listening(_answering(_metadata(1, "abc", 1))) as port:
        assert probe(port) == Broker("abc", 1)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(_metadata(0, "abc", 1), id="no broker has registered yet"),
        pytest.param(_metadata(1, "abc", -1), id="no controller leads"),
        pytest.param(b"", id="closes at once"),
        pytest.param(b"HTTP/1.1 400 Bad Request\r\n\r\n", id="a web server"),
        pytest.param(struct.pack(">i", 1 << 30), id="an answer without end"),
        pytest.param(struct.pack(">i", 6) + b"\0" * 6, id="too short"),
        pytest.param(_metadata(1, "abc", 1)[:30], id="cut off"),
    ],
)
def test_anything_else_is_no_broker(content: bytes) -> None:
    with _listening(_answering(content)) as port:
        assert probe(port, seconds=0.3) is None


def test_nobody_is_no_broker() -> None:
    (port,) = free_ports(1)
    assert probe(port) is None


def test_the_lock_holds_hashes_and_no_address() -> None:
    text = resources.files("muster_stack").joinpath("kafka_jars.lock").read_text()
    assert "://" not in text
    locked = jars.locked()
    assert len({jar.file_name for jar in locked}) == len(locked)
    assert all(re.fullmatch("[0-9a-f]{64}", jar.sha256) and jar.size > 0 for jar in locked)
    names = {f"{jar.group}:{jar.artifact}:{jar.version}" for jar in locked}
    assert names >= set(jars.ROOTS)


def test_a_damaged_jar_is_not_the_locked_one(tmp_path: Path) -> None:
    content = b"jar"
    jar = jars.Jar("g", "a", "1", "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b", 6)
    path = tmp_path / jar.file_name
    assert not jar.is_at(path)
    path.write_bytes(content)
    assert not jar.is_at(path)
    path.write_bytes(b"secret")
    assert jar.is_at(path)
    path.write_bytes(b"Secret")
    assert not jar.is_at(path)


class _WrongJar(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        path = self.rfile.readline().split()[1]
        while self.rfile.readline().strip():
            pass
        found = path.endswith(b".jar")
        body = b"not the jar" if found else b""
        status = b"200 OK" if found else b"404 Not Found"
        self.wfile.write(
            b"HTTP/1.1 %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s" % (status, len(body), body)
        )


def test_a_jar_with_another_hash_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jar = jars.Jar("org.example", "thing", "1.0", "0" * 64, 11)
    with _listening(_WrongJar) as port:
        settings = tmp_path / ".config" / "jgo.conf"
        settings.parent.mkdir()
        settings.write_text(f"[repositories]\ncentral = http://{LOOPBACK}:{port}\n")
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
        with pytest.raises(DownloadFailed, match=r"org\.example:thing:1\.0 .* its SHA-256 is .* the lock has 0{64}"):
            jars._download(jar, tmp_path / "scratch")

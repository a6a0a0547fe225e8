"""A connection to a Kafka broker by hand: requests out, answers in, a login by SCRAM where an identity is given.

Called by kafka_probe.py and admin.py. The layouts are those of Kafka's protocol guide; every version used here is
answered by Kafka 2.7 to 4.x.
"""

from __future__ import annotations

import socket
import struct
from types import TracebackType
from typing import Final, Self

from muster_stack.bus.identities import Identity
from muster_stack.bus.scram import MECHANISM, Login
from muster_stack.ports import LOOPBACK

_HANDSHAKE: Final = 17
_AUTHENTICATE: Final = 36
_ANSWER_LIMIT: Final = 1 << 20  # bytes; what listens there may not be a broker at all
_CLIENT: Final = b"muster-stack"


class LoginRefused(OSError):
    """The broker runs and does not take this identity."""


class Reader:
    """Reads values of Kafka's protocol from an answer. Raises struct.error where it is too short."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0

    def number(self, kind: str) -> int:
        """One number; `kind` as in `struct`, without the byte order."""
        (value,) = struct.unpack_from(f">{kind}", self._content, self._at)
        self._at += struct.calcsize(f">{kind}")
        return int(value)

    def text(self) -> str:
        """A text with a length of two bytes; empty where it is null."""
        length = self.number("h")
        return self._take(max(length, 0)).decode()

    def block(self) -> bytes:
        """Bytes with a length of four bytes."""
        return self._take(max(self.number("i"), 0))

    def length(self) -> int:
        """The length of a compact array, text or block; 0 where it is null."""
        return max(self._variable() - 1, 0)

    def compact_text(self) -> str:
        """A compact text; empty where it is null."""
        return self._take(self.length()).decode()

    def tags(self) -> None:
        """Tagged fields, which are skipped."""
        for _ in range(self._variable()):
            self._variable()
            self._take(self._variable())

    def _variable(self) -> int:
        value = shift = 0
        while True:
            byte = self.number("B")
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:  # noqa: PLR2004 - the last byte of a number of variable length
                return value

    def _take(self, count: int) -> bytes:
        if self._at + count > len(self._content):
            raise struct.error(f"{count} bytes are announced, {len(self._content) - self._at} are left")
        self._at += count
        return self._content[self._at - count : self._at]


def text(value: str) -> bytes:
    """A text with a length of two bytes."""
    content = value.encode()
    return struct.pack(">h", len(content)) + content


def number(value: int) -> bytes:
    """An unsigned number of variable length."""
    out = bytearray()
    while value > 0x7F:  # noqa: PLR2004 - seven bits a byte
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def compact(value: bytes | str) -> bytes:
    """A compact text or block."""
    content = value.encode() if isinstance(value, str) else value
    return number(len(content) + 1) + content


class Connection:
    """One connection, logged in where there is an identity. Raises OSError and struct.error."""

    def __init__(self, port: int, identity: Identity | None, *, seconds: float) -> None:
        self._socket = socket.create_connection((LOOPBACK, port), timeout=seconds)
        try:
            if identity is not None:
                self._log_in(identity)
        except BaseException:
            self._socket.close()
            raise

    def ask(self, api: int, version: int, body: bytes, *, flexible: bool = False) -> Reader:
        """Sends one request and returns its answer, behind the header."""
        header = struct.pack(">hhih", api, version, 1, len(_CLIENT)) + _CLIENT + (b"\0" if flexible else b"")
        self._socket.sendall(struct.pack(">i", len(header) + len(body)) + header + body)
        (length,) = struct.unpack(">i", self._exactly(4))
        if not 0 < length <= _ANSWER_LIMIT:
            raise OSError(f"an answer of {length} bytes is no Kafka answer")
        answer = Reader(self._exactly(length))
        answer.number("i")  # correlation
        if flexible:
            answer.tags()
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def _log_in(self, identity: Identity) -> None:
        answer = self.ask(_HANDSHAKE, 1, text(MECHANISM))
        if code := answer.number("h"):
            raise LoginRefused(f"the broker does not offer {MECHANISM} (error {code})")
        login = Login(identity.user, identity.password)
        login.check(self._token(login.final(self._token(login.first()))))

    def _token(self, token: bytes) -> bytes:
        answer = self.ask(_AUTHENTICATE, 0, struct.pack(">i", len(token)) + token)
        code, why = answer.number("h"), answer.text()
        if code:
            raise LoginRefused(why or f"error {code}")
        return answer.block()

    def _exactly(self, count: int) -> bytes:
        received = b""
        while len(received) < count:
            chunk = self._socket.recv(count - len(received))
            if not chunk:
                raise OSError("the broker closed the connection")
            received += chunk
        return received

"""Users and access rules in the first records of a new Kafka, before any client can connect.

Kafka begins an empty metadata log with the records of `bootstrap.checkpoint`, which its own tool writes with the
features of the version. A batch behind them adds users and rules, which costs no second start of Java, as the tool's
`--add-scram` does, and puts no password into a command line. The layouts are those of the record batch (magic 2) and of
UserScramCredentialRecord and AccessControlEntryRecord in Kafka's metadata module.
"""

from __future__ import annotations

import struct
import time
import uuid
from collections.abc import Iterable, Sequence
from typing import Final

from muster_chassis.acls import Acl
from muster_stack.bus import scram
from muster_stack.bus.admin import PRINCIPAL
from muster_stack.bus.identities import Identity
from muster_stack.bus.wire import compact, number

_FRAME: Final = 1
_USER_RECORD, _ACL_RECORD = 11, 18
_ALLOW: Final = 3
_OFFSET: Final = 1000  # behind those of the features
_MAGIC: Final = 2
_NONE: Final = -1
_CASTAGNOLI: Final = 0x82F63B78  # reversed polynomial of CRC-32C


def access_batch(identities: Iterable[Identity], rules: Iterable[Acl]) -> bytes:
    """One record batch that makes these users and rules."""
    return _batch([*map(_user, identities), *map(_acl, rules)])


def _user(identity: Identity) -> bytes:
    kept = scram.verifier(identity.password)
    keys = compact(kept.salt) + compact(kept.stored_key) + compact(kept.server_key)
    head = compact(identity.user) + struct.pack(">b", scram.NUMBER)
    return _framed(_USER_RECORD, head + keys + struct.pack(">i", scram.ITERATIONS))


def _acl(rule: Acl) -> bytes:
    resource = struct.pack(">b", rule.resource) + compact(rule.name) + struct.pack(">b", rule.pattern)
    holder = compact(PRINCIPAL + rule.user) + compact("*")
    return _framed(_ACL_RECORD, uuid.uuid4().bytes + resource + holder + struct.pack(">bb", rule.operation, _ALLOW))


def _framed(kind: int, fields: bytes) -> bytes:
    return number(_FRAME) + number(kind) + number(0) + fields + number(0)  # version 0, no tagged fields


def _batch(values: Sequence[bytes]) -> bytes:
    now = time.time_ns() // 1_000_000
    records = b"".join(_record(index, value) for index, value in enumerate(values))
    head = struct.pack(">hiqqqhii", 0, len(values) - 1, now, now, _NONE, _NONE, _NONE, len(values))
    body = struct.pack(">ib", 0, _MAGIC) + struct.pack(">I", crc32c(head + records)) + head + records
    return struct.pack(">qi", _OFFSET, len(body)) + body


def _record(index: int, value: bytes) -> bytes:
    record = b"\0" + _signed(0) + _signed(index) + _signed(_NONE) + _signed(len(value)) + value + _signed(0)
    return _signed(len(record)) + record


def _signed(value: int) -> bytes:
    return number(value * 2 if value >= 0 else -value * 2 - 1)


def _entry(value: int) -> int:
    for _ in range(8):
        value = (value >> 1) ^ _CASTAGNOLI if value & 1 else value >> 1
    return value


_TABLE: Final = [_entry(value) for value in range(256)]


def crc32c(content: bytes) -> int:
    """The checksum of a record batch."""
    value = 0xFFFFFFFF
    for byte in content:
        value = (value >> 8) ^ _TABLE[(value ^ byte) & 0xFF]
    return value ^ 0xFFFFFFFF

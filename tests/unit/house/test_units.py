"""Nothing slow is awaited while a transaction or a lock is held: no evaluation, no network, no loop without an end."""

from __future__ import annotations

from typing import Final

import pytest

from tests.support.awaiting import Code, of_services
from verbs.paths import ROOT

_CEL: Final = "submission/muster_submission/adapters/expressions.py:CelProcess"
ALLOWED: Final[dict[str, str]] = {
    "chassis/muster_chassis/database.py:Database._answered": "the transaction has ended: its outcome is looked up",
    "chassis/muster_chassis/outbox.py:Relay._publish": "a transaction of Kafka's: sending is what it is for",
    "scheduler/muster_scheduler/adapters/rebuild.py:load": "a snapshot that is only read; the loop gets its turns",
    f"{_CEL}._answer": "this lock gives the child one question at a time; a caller that waits for it holds nothing",
    f"{_CEL}.close": "the same",
}
"""The regions (`file:function`) that may, each with its reason."""


def test_nothing_slow_is_awaited_inside_a_transaction_or_under_a_lock() -> None:
    code = of_services(ROOT / "services")
    found = [str(one) for one in code.findings() if one.path[0] not in ALLOWED]
    assert not found, "move it before the transaction, or out of the lock:\n" + "\n".join(sorted(found))


_FIRING: Final = """
class Runs:
    def __init__(self, expressions: Expressions) -> None:
        self._expressions = expressions

    async def of(self, event):
        return await self._expressions.evaluate(event)

class Firing:
    def __init__(self, runs: Runs, database) -> None:
        self._runs = runs
        self._lock = asyncio.Lock()

    async def take(self, unit: Unit, events):
        for event in events:
            await self._shots(event)

    async def _shots(self, event):
        return await self._runs.of(event)

    async def before(self, events):
        await self._shots(events)
        async with self._database.unit() as unit:
            await unit.connection.execute("SELECT 1")
            unit.after_commit(lambda: self._shots(events))
"""


def _found(text: str) -> list[str]:
    code = Code()
    code.add("firing.py", text)
    return [str(one) for one in code.findings()]


def test_an_evaluation_inside_a_unit_is_found_however_deep() -> None:
    assert _found(_FIRING) == ["firing.py:Firing.take -> Firing._shots -> Runs.of -> Expressions.evaluate"]


@pytest.mark.parametrize(
    ("line", "slow"),
    [
        ("await asyncio.sleep(1)", "asyncio.sleep"),
        ("await owner.ask(1)", "Owner.ask"),
        ("while True: await unit.connection.execute('')", "line 4: a loop without an end"),
    ],
)
@pytest.mark.parametrize("opened", ["self._database.unit()", "connection.transaction()", "self._lock"])
def test_network_sleeps_and_endless_loops_under_locks_are_found(line: str, slow: str, opened: str) -> None:
    text = f"class A:\n  async def a(self, owner: Owner):\n    async with {opened} as unit:\n      {line}\n"
    assert _found(text) == [f"firing.py:A.a -> {slow}"]

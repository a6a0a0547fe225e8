"""After the warm-up nothing is left to compile, and the rehearsal was a real one."""

from __future__ import annotations

from typing import Any

import pytest

from muster_kernel.lifecycle import Phase
from muster_scheduler.domain.deciding import batch, index, rewriting, searching
from muster_scheduler.domain.room import exact, stock
from muster_scheduler.domain.warming import rehearse, rehearse_sets, warm_up
from tests.support.fleets import Fleet, node, portion, request, role, whole

ROOMS = (batch, index, rewriting, searching, stock, exact)


def _compiled() -> dict[str, int]:
    kernels: dict[str, Any] = {f"{m.__name__}.{n}": k for m in ROOMS for n, k in vars(m).items() if callable(k)}
    return {name: len(kernel.signatures) for name, kernel in kernels.items() if hasattr(kernel, "signatures")}


def test_the_rehearsal_places_and_makes_room() -> None:
    world = rehearse().world
    assert world.workloads["w100"].claim is not None
    leaving = [w.id for w in world.workloads.values() if w.phase is Phase.TERMINATING]
    assert leaving
    assert all(world.workloads[f"w{number:03}"].placed for number in range(5))


def test_the_search_of_all_sets_is_rehearsed_too(monkeypatch: pytest.MonkeyPatch) -> None:
    walk, walked = exact.walk, []

    def counted(*given: Any) -> None:
        walked.append(given)
        walk(*given)

    monkeypatch.setattr(exact, "walk", counted)
    warm_up()
    assert walked


def test_the_rehearsal_of_sets_makes_room() -> None:
    assert rehearse_sets().world.workloads["w100"].claim is not None


def test_nothing_is_compiled_after_it() -> None:
    warm_up()
    before = _compiled()
    assert before.get("muster_scheduler.domain.deciding.rewriting.rewrite", 1)  # absent where nothing is compiled
    fleet = Fleet(node("n1", 4), node("n2", 2), quota=2)
    fleet.project("q", {"default": 4})
    fleet.submit(1, request(role(portion(500))))
    for number in (2, 3, 4, 5):
        fleet.submit(number, request(role(whole(1))))
        fleet.run(number)
    fleet.submit(6, request(role(whole(2), 2)), project="q")
    assert fleet.workload(6).claim is not None
    assert _compiled() == before

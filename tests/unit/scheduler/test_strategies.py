"""Strategies that look ahead: the board's choice is the one that plain Python works out, and foresight beats FGD.

The oracle scores every device of every node from the published formula (FGD) or by playing out the futures (foresight),
keeps nothing between two choices and knows no kernel.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster_scheduler.domain.asked.requests import Kind, Shape
from muster_scheduler.domain.compiling import python_of
from muster_scheduler.domain.fleet import columns as layout
from muster_scheduler.domain.fleet.columns import Columns
from muster_scheduler.domain.fleet.taking import Run, take
from muster_scheduler.domain.strategies import board as boards
from muster_scheduler.domain.strategies import outlook as outlooks
from muster_scheduler.domain.strategies import scores, states
from muster_scheduler.domain.strategies.board import Board
from muster_scheduler.domain.strategies.outlook import Outlook, fgd, foresight
from muster_scheduler.domain.strategies.popularity import Asked, Popularity, futures_of, popularity_of, typical_of
from tests.support import openb_trace as trace
from tests.support.openb_bound import bound
from tests.support.openb_run import place_all, shape_of, with_hindsight

Made = Callable[[Popularity], Outlook]
GIB = 1 << 30
CARD = 2 * GIB + 7  # bytes: no whole number of thousandths
CPU_ONLY, SMALL, PORTION, LARGE = (
    Asked(4000, GIB, 0, 0),
    Asked(500, GIB, 1, 190),
    Asked(2000, GIB, 1, 470),
    Asked(1000, GIB, 1, 810),
)
ONE, TWO, HALVES = Asked(3000, 2 * GIB, 1, 1000), Asked(4000, 4 * GIB, 2, 1000), Asked(1000, GIB, 2, 500)
CLASSES = (CPU_ONLY, SMALL, PORTION, LARGE, ONE, TWO, HALVES)
MIX = popularity_of([(asked, (True, asked != LARGE)) for asked in CLASSES], (3, 1, 4, 9, 8, 2, 1))


def fleet(*nodes: tuple[int, int, int]) -> Columns:
    """Nodes of (milli-CPU, devices, node type), with 8 GiB each."""
    made = layout.empty(tuple(f"n{number}" for number in range(len(nodes))))
    for n, (cpu, devices, kind) in enumerate(nodes):
        made.cpu[n], made.memory[n], made.kind[n], made.idle[n], made.open[n] = cpu, 8 * GIB, kind, devices, True
        made.mode[n, :devices], made.milli[n, :devices] = layout.IDLE, 1000
        made.bytes[n, :devices] = made.size[n, :devices] = CARD
    return made


def everywhere(columns: Columns) -> np.ndarray:
    return np.ones(len(columns), np.bool_)


# -- the oracle ------------------------------------------------------------------------------------------------------


def parts(columns: Columns, n: int) -> list[int]:
    """What is free of each device in thousandths: of its compute or of its memory, whichever is less."""
    free: list[int] = columns.milli[n].tolist()
    for slot in range(layout.SLOTS):
        left, size = int(columns.bytes[n, slot]), int(columns.size[n, slot])
        free[slot] = min(free[slot], max(0, left) * 1000 // size) if size else free[slot]
    return free


def fragmented(mix: Popularity, cpu: int, free: list[int], kind: int) -> float:
    """F(n) in GPUs, from section 3 of the paper, over all classes that the mix calls typical."""
    found = 0.0
    for name, share in typical_shares(mix).items():
        asked_cpu, devices, milli, admits = name
        enough = [left for left in free if left >= milli]
        if not devices or not admits[kind] or asked_cpu > cpu or len(enough) < devices:
            found += share * sum(free)
        else:
            found += share * sum(left for left in free if left < milli)
    return found / 1000


def typical_shares(mix: Popularity) -> dict[tuple[int, int, int, tuple[bool, ...]], float]:
    counts: Counter[tuple[int, int, int, tuple[bool, ...]]] = Counter()
    for (cpu, _, devices, milli), number, admits in zip(
        mix.asked.tolist(), mix.counts.tolist(), mix.admits.tolist(), strict=True
    ):
        counts[cpu, devices, milli, tuple(admits)] += number
    total, seen, shares = sum(counts.values()), 0, {}
    for name, number in sorted(counts.items(), key=lambda one: (-one[1], one[0])):
        if seen >= 0.95 * total:
            break
        shares[name] = number
        seen += number
    return {name: number / seen for name, number in shares.items()}


def left_over(mix: Popularity, cpu: int, memory: int, free: list[int], kind: int) -> int:
    """What stays free after the futures, in sum."""
    found = 0
    for future in futures_of(mix, outlooks.FUTURES, outlooks.ARRIVALS).tolist():
        left, room = sorted(free), [cpu, memory]
        for k in future:
            asked = Asked(*mix.asked[k].tolist())
            fitting = [at for at, have in enumerate(left) if have >= asked.milli][: asked.devices]
            if not asked.devices or not mix.admits[k, kind] or len(fitting) < asked.devices:
                continue
            if asked.cpu > room[0] or asked.memory > room[1]:
                continue
            room = [room[0] - asked.cpu, room[1] - asked.memory]
            left = sorted(have - asked.milli * (at in fitting) for at, have in enumerate(left))
        found += sum(left)
    return found


def score(mix: Popularity, columns: Columns, n: int, asked: Asked, slots: tuple[int, ...], made: Made) -> int:
    after = parts(columns, n)
    free = [milli for milli in after if milli]
    for slot in slots:
        after[slot] -= asked.milli
    then = [milli for milli in after if milli]
    cpu, memory, kind = int(columns.cpu[n]), int(columns.memory[n]), int(columns.kind[n])
    if made is fgd:
        gain = fragmented(mix, cpu, free, kind) - fragmented(mix, cpu - asked.cpu, then, kind)
        return math.floor(100 / (1 + math.exp(-gain)) + 1e-9)
    gained = left_over(mix, cpu, memory, free, kind) - left_over(
        mix, cpu - asked.cpu, memory - asked.memory, then, kind
    )
    return gained // (outlooks.GRAIN * outlooks.FUTURES)


def options(columns: Columns, n: int, asked: Asked) -> list[tuple[int, ...]]:
    """The sets of devices that count: each device for one portion, else the tightest."""
    if columns.cpu[n] < asked.cpu or columns.memory[n] < asked.memory:
        return []
    free = parts(columns, n)
    fitting = [slot for slot in range(layout.SLOTS) if asked.devices and free[slot] >= asked.milli]
    if asked.devices == 1 and asked.milli < 1000:
        return [(slot,) for slot in fitting]
    fitting.sort(key=lambda slot: (free[slot], slot))
    return [tuple(fitting[: asked.devices])] if len(fitting) >= asked.devices else []


def best_of_all(mix: Popularity, columns: Columns, asked: Asked, made: Made) -> Run | None:
    found = [
        (-score(mix, columns, n, asked, slots, made), n, slots)
        for n in range(len(columns))
        for slots in options(columns, n, asked)
    ]
    if not found:
        return None
    _, n, slots = min(found)
    return Run(n, 0, 1, sum(1 << slot for slot in slots))


# -- the board -------------------------------------------------------------------------------------------------------

nodes = st.lists(
    st.tuples(st.integers(2, 20).map(lambda cpu: 500 * cpu), st.integers(0, 4), st.integers(0, 1)),
    min_size=1,
    max_size=4,
)


@pytest.mark.parametrize("made", [fgd, foresight])
@given(
    nodes=nodes,
    asked=st.lists(st.sampled_from(CLASSES), max_size=10),
    held=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(1, GIB)), max_size=4),
)
def test_the_board_chooses_what_plain_python_works_out(
    made: Made, nodes: list[tuple[int, int, int]], asked: list[Asked], held: list[tuple[int, int, int]]
) -> None:
    columns = fleet(*nodes)
    for n, slot, amount in held:  # of device memory, which leaves thousandths alone
        if n < len(columns) and columns.mode[n, slot] != layout.ABSENT:
            take(columns, Shape(0, 0, Kind.MEMORY, 1, bytes=amount), Run(n, 0, 1, 1 << slot))
    board = Board(columns, made(MIX), states=8)
    for one in asked:
        run = board.choose(one, everywhere(columns))
        assert run == best_of_all(MIX, columns, one, made)
        if run is not None:
            take(columns, shape_of(one), run)
            board.changed(run.node)


@pytest.mark.parametrize("made", [fgd, foresight])
def test_without_a_compiler_the_same_is_chosen(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = _fill(made)
    for module, names in _KERNELS.items():
        for name in names:
            monkeypatch.setattr(module, name, python_of(getattr(module, name)))
    assert _fill(made) == compiled
    assert len(set(compiled)) > 4


_KERNELS: dict[ModuleType, tuple[str, ...]] = {
    boards: ("best",),
    scores: ("weigh", "consider", "gather", "first_of_its_kind", "tightest", "score_of", "loss_of"),
    states: ("find", "ascending", "loss"),
    outlooks: ("fragments", "stranded", "take_tightest"),
}


def _fill(made: Made) -> list[Run | None]:
    columns = fleet((8000, 2, 0), (9000, 4, 1), (6000, 1, 1), (9000, 3, 0))
    columns.mode[3], columns.milli[3] = layout.ABSENT, 0  # three anonymous devices
    board = Board(columns, made(MIX), states=8)
    runs = []
    for asked in CLASSES * 2:
        runs.append(board.choose(asked, everywhere(columns)))
        if runs[-1] is not None:
            take(columns, shape_of(asked), runs[-1])
            board.changed(runs[-1].node)
    return runs


def test_only_eligible_nodes_are_chosen() -> None:
    columns = fleet((8000, 1, 0), (8000, 1, 0), (8000, 1, 0))
    board = Board(columns, foresight(MIX))
    assert board.choose(ONE, np.array([False, False, True])) == Run(2, 0, 1, 1)
    assert board.choose(ONE, np.zeros(3, np.bool_)) is None


def test_devices_without_names_serve_whole_requests_and_no_portion() -> None:
    columns = fleet((8000, 2, 0))
    columns.mode[0], columns.milli[0] = layout.ABSENT, 0
    board = Board(columns, fgd(MIX))
    assert board.choose(TWO, everywhere(columns)) == Run(0, 0, 1, 0)
    assert board.choose(PORTION, everywhere(columns)) is None
    assert board.choose(CPU_ONLY, everywhere(columns)) == Run(0, 0, 1, 0)


def test_a_board_that_has_seen_too_many_shapes_begins_anew() -> None:
    columns = fleet((900_000, 2, 0))
    board = Board(columns, fgd(MIX))
    asked = [Asked(1000 + number, GIB, 1, 500) for number in range(boards.CLASSES + 8)]
    first = [board.choose(one, everywhere(columns)) for one in asked]
    assert first == [board.choose(one, everywhere(columns)) for one in asked]
    assert set(first) == {Run(0, 0, 1, 1)}


# -- what arrives ----------------------------------------------------------------------------------------------------


def test_a_mix_does_not_depend_on_the_order_of_its_classes() -> None:
    classes, counts = [(asked, (True, asked != LARGE)) for asked in CLASSES], [3, 1, 4, 9, 8, 2, 1]
    again = popularity_of(classes[::-1], counts[::-1])
    assert all(np.array_equal(one, other) for one, other in zip(again, MIX, strict=True))


def test_futures_hold_every_class_as_often_as_it_arrives_and_begin_with_the_largest() -> None:
    drawn = futures_of(MIX, 16, 24)
    sizes = (MIX.asked[:, 2] * MIX.asked[:, 3])[drawn]
    assert (np.diff(sizes, axis=1) <= 0).all()
    expected = 16 * 24 * MIX.counts / MIX.counts.sum()
    assert np.abs(np.bincount(drawn.ravel(), minlength=len(MIX.counts)) - expected).max() <= 2


def test_typical_classes_are_the_commonest_up_to_their_share() -> None:
    typical = typical_of(MIX, percent=50)  # 9 and 8 of 28; the 9 may not use type 1
    assert typical.all == 17
    assert typical.rows.tolist() == [[1000, 1, 810, 9], [3000, 1, 1000, 8], [3000, 1, 1000, 8]]
    assert typical.starts.tolist() == [0, 2, 3]
    assert typical.others.tolist() == [0, 9]


def test_a_mix_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one class"):
        popularity_of([], [])
    with pytest.raises(ValueError, match=r"at least once, not \[0\]"):
        popularity_of([(ONE, (True,))], [0])


def test_a_score_of_fgd_steps_where_the_published_sigmoid_does() -> None:
    outlook = fgd(MIX)
    for gain in range(-60_000, 60_000, 977):
        exact = 100 / (1 + math.exp(-gain / 1000 / 27))  # of the 28 arrivals one is not typical
        assert scores.score_of(outlook, gain) == math.floor(exact)
    assert all(low < high for low, high in pairwise(outlook.bounds.tolist()))


# -- the trace -------------------------------------------------------------------------------------------------------


def test_foresight_fills_more_of_the_production_trace_than_fgd() -> None:
    nodes = trace.read_fleet()
    classes = trace.read_classes("default", nodes)
    order = trace.arrivals(classes, nodes, 42).tolist()
    mix = trace.popularity(classes)
    filled = {made: 100 * place_all(nodes, classes, order, made(mix)).milli / nodes.milli for made in (fgd, foresight)}
    assert filled[fgd] == pytest.approx(95.39, abs=0.3), "published: 95.39"
    assert filled[foresight] > filled[fgd] + 0.3


def test_bound_hindsight_and_schedule_stand_in_their_order() -> None:
    full = trace.read_fleet()
    nodes = full._replace(**{name: getattr(full, name)[:30] for name in ("cpu", "memory", "devices", "model")})
    classes = trace.read_classes("default", nodes)
    order = trace.arrivals(classes, nodes, 1)[:200].tolist()
    outlook = foresight(trace.popularity(classes))
    limit = bound(nodes, classes, dict(Counter(order)))
    online = place_all(nodes, classes, order, outlook).milli
    assert 0 < online <= limit.milli + 1e-6
    assert online <= max(online, with_hindsight(nodes, classes, order, outlook, limit)) <= limit.milli + 1e-6
    assert limit.milli <= nodes.milli + 1e-6


def test_the_bound_is_the_optimum_where_one_can_see_it() -> None:
    one_node = trace.Fleet(np.array([64_000]), np.array([64 * GIB]), np.array([1]), np.array([0]), ("A",))
    classes = [trace.Class(Asked(1000, GIB, 1, milli), (True,), 1) for milli in (600, 500, 400)]
    found = bound(one_node, classes, {0: 1, 1: 2, 2: 1})
    assert found.milli == pytest.approx(1000)
    alone = bound(one_node, classes, {0: 3})
    assert alone.milli == pytest.approx(600), "two of 0.6 never share a GPU"


def test_a_list_without_the_columns_of_the_trace_says_which_are_missing(tmp_path: object) -> None:
    path = f"{tmp_path}/pods.csv"
    with open(path, "w", encoding="utf-8") as file:  # noqa: PTH123 - the trace is named by a string
        file.write("name,cpu_milli\npod,100\n")
    with pytest.raises(ValueError, match="memory_mib"):
        trace.read_classes(path, trace.read_fleet())

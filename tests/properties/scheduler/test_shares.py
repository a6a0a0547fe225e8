"""Laws of fair shares that hold for any queues."""

from __future__ import annotations

from collections.abc import Iterator

import hypothesis.strategies as st
from hypothesis import given

from muster_kernel.quantities import GPU
from muster_scheduler.domain.shares.divide import MILLION, Claimant, divide
from muster_scheduler.domain.shares.tree import TOP, Branch, Division, Share, fair_shares

amounts = st.integers(0, 40 * GPU) | st.integers(0, 40).map(lambda gpus: gpus * GPU)


@st.composite
def levels(draw: st.DrawFn) -> list[Claimant]:
    count = draw(st.integers(0, 8))
    made = st.builds(Claimant, amounts, amounts, st.integers(0, 5), st.integers(0, 2))
    used = draw(st.lists(st.integers(0, MILLION // max(1, count)), min_size=count, max_size=count))
    return [draw(made)._replace(usage=part) for part in used]


@given(amounts, levels(), st.sampled_from((1, 7, GPU)), st.sampled_from((0, 500, 3000)))
def test_one_level(total: int, level: list[Claimant], step: int, k: int) -> None:
    shares, left = divide(total, level, step, k)
    base = [min(one.deserved, one.wanted) for one in level]
    for one, share, least in zip(level, shares, base, strict=True):
        assert least <= share <= one.wanted
        assert one.weight or share == least
    assert sum(shares) + left == max(total, sum(base))
    if k == 0 and left:
        assert all(share == one.wanted for one, share in zip(level, shares, strict=True) if one.weight)


@given(amounts, levels())
def test_more_to_divide_takes_from_nobody_by_more_than_a_step(total: int, level: list[Claimant]) -> None:
    less, more = divide(total, level, 1), divide(total + GPU, level, 1)
    assert all(after >= before - 1 for before, after in zip(less.shares, more.shares, strict=True))


@given(amounts, levels())
def test_a_higher_rank_is_served_first_but_for_what_rounding_leaves(total: int, level: list[Claimant]) -> None:
    shares = divide(total, level, 1).shares
    for rank in {one.rank for one in level}:
        short = [
            1
            for one, share in zip(level, shares, strict=True)
            if one.rank == rank and one.weight and share < one.wanted
        ]
        lower = [s - min(o.deserved, o.wanted) for o, s in zip(level, shares, strict=True) if o.rank < rank]
        assert not short or sum(lower) < len(level)


@st.composite
def trees(draw: st.DrawFn) -> list[Branch]:
    return [
        Branch(
            f"q{at}",
            draw(st.integers(-1, at - 1)),
            draw(st.none() | amounts),
            draw(st.none() | amounts),
            draw(st.integers(0, 3)),
            draw(st.integers(0, 1)),
            draw(amounts),
        )
        for at in range(draw(st.integers(1, 10)))
    ]


def ancestors(tree: list[Branch], index: int) -> Iterator[int]:
    """The queue itself and those above it, from below."""
    while index != TOP:
        yield index
        index = tree[index].parent


def due(tree: list[Branch], shares: list[Share], at: int) -> int:
    """What a queue deserves; where it has no quota of its own, what those below it deserve and can use."""
    own = tree[at].deserved
    below = [i for i, branch in enumerate(tree) if branch.parent == at]
    return sum(min(due(tree, shares, i), shares[i].wanted) for i in below) if own is None else own


@given(amounts, trees())
def test_down_the_tree(total: int, tree: list[Branch]) -> None:
    shares = fair_shares(total, tree, GPU)
    for at, share in enumerate(shares):
        assert min(due(tree, shares, at), share.wanted) <= share.fair <= share.wanted
        assert share.cap == min(total, *(shares[above].fair for above in ancestors(tree, at)))
        below = [i for i, branch in enumerate(tree) if branch.parent == at]
        least = sum(min(due(tree, shares, i), shares[i].wanted) for i in below)
        assert sum(shares[i].fair for i in below) <= max(share.fair, least)


@given(
    amounts,
    trees(),
    st.lists(st.dictionaries(st.integers(0, 9), amounts, max_size=3), max_size=6),
    st.sampled_from((0, 500)),
)
def test_divided_again_where_something_changed(
    total: int, tree: list[Branch], changes: list[dict[int, int]], k: int
) -> None:
    division = Division(total, tree, GPU, k)
    inner = {branch.parent for branch in tree}
    for change in changes:
        requests = {row: asked for row, asked in change.items() if row < len(tree) and row not in inner}
        before = list(division.shares)
        felt = division.want(requests)
        tree = [branch._replace(request=requests.get(row, branch.request)) for row, branch in enumerate(tree)]
        assert division.shares == fair_shares(total, tree, GPU, k)
        assert {row for row, share in enumerate(before) if share != division.shares[row]} <= felt

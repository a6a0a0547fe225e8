"""A charge leaves no trace once it is taken back: what stood at a mark stands again, whatever was charged since."""

from __future__ import annotations

from typing import NamedTuple

import hypothesis.strategies as st
import pytest
from hypothesis import given

from muster_scheduler.domain.asked.quotas import Account, Amount
from muster_scheduler.domain.books.accounts import Owner, Spell
from muster_scheduler.domain.books.queues import Project, Queues
from muster_scheduler.domain.journal import Journal

POOLS = ("a", "b")
HOMES = {"p": "d", "q": "d", "r": ""}  # `r` stands in no department, and nothing is known of `s`


class Charge(NamedTuple):
    """So much in one pool. fresh: as many new workloads of one project together; 0: of one that may hold some."""

    owner: Owner
    pool: str
    amount: Amount
    back: bool
    fresh: int


OWNERS = st.builds(Owner, st.sampled_from("pqrs"), st.sampled_from("uv"), st.sampled_from("xyz"), st.booleans())
AMOUNTS = st.builds(Amount, st.integers(0, 3), st.integers(0, 3), st.integers(0, 3))
CHARGES = st.lists(
    st.builds(Charge, OWNERS, st.sampled_from(POOLS), AMOUNTS, st.booleans(), st.integers(0, 2)), max_size=12
)


def carry_out(books: Queues, charges: list[Charge], held: list[Charge], number: int) -> None:
    """Charges one by one; what is to be given back is the last that its owner was charged for in that pool."""
    for at, charge in enumerate(charges, number):
        owner, pool, amount, back, fresh = charge
        mine = [one for one in held if (one.owner, one.pool) == (owner, pool)]
        if fresh:
            together = Account(Amount(*(fresh * each for each in amount)))
            names = {f"{at}-{each}": Spell(1, amount.gpu) for each in range(fresh)}
            books.charge_many(owner.project, pool, together, {owner.user: names})
        elif not back:
            books.charge(owner, pool, amount)
            held.append(charge)
        elif mine:
            books.charge(owner, pool, mine[-1].amount, -1)
            held.remove(mine[-1])


def standing(books: Queues) -> tuple[object, ...]:
    spells = {key: dict(each) for key, each in books.spells.items()}
    return dict(books.accounts), dict(books.above), spells, dict(books.risen), dict(books.fallen)


@given(CHARGES, CHARGES)
def test_what_stood_at_a_mark_stands_again(before: list[Charge], after: list[Charge]) -> None:
    journal = Journal()
    books, held = Queues(journal), list[Charge]()
    for name, home in HOMES.items():
        books.put(Project(name, home))
    carry_out(books, before, held, 0)
    stood, mark, stirs = standing(books), journal.mark(), [books.stirs(pool) for pool in POOLS]
    carry_out(books, after, held, len(before))
    written = journal.mark() != mark
    journal.rollback(mark)
    assert standing(books) == stood
    assert ([books.stirs(pool) for pool in POOLS] != stirs) == written
    assert all(books.spells.values())


@given(CHARGES)
def test_what_moves_with_its_project_moves_back(charges: list[Charge]) -> None:
    journal = Journal()
    books = Queues(journal)
    for name, home in HOMES.items():
        books.put(Project(name, home))
    carry_out(books, charges, [], 0)
    stood, mark = standing(books), journal.mark()
    books.put(Project("p", "e"))
    books.remove("q")
    for pool in POOLS:
        assert books.department_account("e", pool) == books.account("p", pool)
        assert ("d", pool) not in books.above
    journal.rollback(mark)
    assert standing(books) == stood


def test_accounts_that_do_not_say_what_is_charged_are_told() -> None:
    books, owner = Queues(Journal()), Owner("p", "u", "x", preemptible=True)
    books.put(Project("p"))
    books.charge(owner, "a", Amount(7))
    books.check([(owner, "a", Amount(7))])
    with pytest.raises(AssertionError, match="accounts say"):
        books.check([(owner, "a", Amount(6))])

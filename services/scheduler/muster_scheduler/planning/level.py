"""Queues that share one amount, as a file writes them, and their fair shares by the scheduler's own rules.

Called by the verb `muster fair-share`. A file is one case, or {"cases": [case, ..]}; a case is {"total", "queues"} and,
if wanted, "k"; a queue has a name ("queue"), "deserved", "request", "weight", "priority", "limit", and, if wanted,
"parent" (the name of another queue, whose share it divides with its siblings) and "usage" (its part of the capacity's
past). Amounts are GPUs in steps of 0.001. A case may have a "name" and a "share", which is made anew.
Holds: nothing is rounded on the way in; everything wrong in a file is told at once, with its path; a field that means
nothing is an error, so that no misspelt limit is silently none.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final, NamedTuple

from muster_kernel.quantities import GPU, MILLI
from muster_scheduler.domain.shares.divide import MILLION
from muster_scheduler.domain.shares.tree import TOP, Branch, Share, fair_shares

_LARGEST_AMOUNT: Final = 10_000_000
_LARGEST_WEIGHT: Final = 1_000_000
_LARGEST_K: Final = 1_000
_LARGEST_PRIORITY: Final = 1_000_000
_LONGEST_NAME: Final = 253
MOST_QUEUES: Final = 10_000
MOST_CASES: Final = 10_000
_SHOWN: Final = 60
_OF_CASE: Final = ("name", "total", "k", "queues", "share")
_OF_QUEUE: Final = ("queue", "parent", "priority", "deserved", "request", "weight", "limit", "usage")


class Problem(NamedTuple):
    """What is wrong in a file, and where: `cases.3.queues.1.deserved`."""

    path: str
    text: str


class Case(NamedTuple):
    """One case: a pool's GPUs and the tree of its queues, parents first, in 1/7,000 GPU. k: thousandths."""

    total: int
    k: int
    tree: tuple[Branch, ...]

    def shares(self) -> dict[str, Share]:
        """The share of each queue by name, in 1/7,000 GPU."""
        found = fair_shares(self.total, self.tree, GPU, self.k)
        return {branch.name: share for branch, share in zip(self.tree, found, strict=True)}


@dataclass(slots=True)
class _Reader:
    problems: list[Problem] = field(default_factory=list)

    def wrong(self, path: str, text: str) -> None:
        self.problems.append(Problem(path, text))

    def known(self, where: Mapping[str, Any], path: str, fields: tuple[str, ...]) -> None:
        """Tells every field that means nothing."""
        for key in where:
            if key not in fields:
                self.wrong(f"{path}{key[:_SHOWN]}", f"is no field here: {', '.join(fields)} are")

    def number(self, where: Mapping[str, Any], path: str, key: str, unit: int, most: int, default: int | None) -> int:
        """A number not above `most`, in parts of 1/`unit`."""
        if key not in where and default is not None:
            return default
        given, at = where.get(key), f"{path}{key}"
        if isinstance(given, bool) or not isinstance(given, Fraction):
            self.wrong(at, f"{_shown(given, missing=key not in where)}: a number from 0 to {most} is expected")
        elif not 0 <= given <= most:
            self.wrong(at, f"{_decimal(given)} is out of range: 0 to {most} is allowed")
        elif (given * unit).denominator != 1:
            self.wrong(at, f"{_decimal(given)} is too fine: steps of {_decimal(_step(unit))} are allowed")
        else:
            return int(given * unit)
        return 0

    def name(self, where: Mapping[str, Any], path: str, key: str) -> str:
        given = where.get(key)
        if isinstance(given, str) and 0 < len(given) <= _LONGEST_NAME:
            return given
        missing = key not in where
        self.wrong(f"{path}{key}", f"{_shown(given, missing=missing)}: a name of 1 to {_LONGEST_NAME} characters")
        return ""


def _step(unit: int) -> Fraction:
    """The finest step that a decimal number can take: 1/7,000 GPU is none, and 0.001 GPU is seven of them."""
    return Fraction(1, MILLI if unit == GPU else unit)


def read(document: Any) -> tuple[list[Case], list[Problem]]:
    """The cases of a file that was read with Fraction for every number, or everything that is wrong with it."""
    reader = _Reader()
    if isinstance(document, dict) and "cases" in document:
        given = document["cases"]
        if not isinstance(given, list) or len(given) > MOST_CASES:
            return [], [Problem("cases", f"{_shown(given)}: a list of at most {MOST_CASES} cases is expected")]
        cases = [_case(reader, case, f"cases.{at}.") for at, case in enumerate(given)]
    else:
        cases = [_case(reader, document, "")]
    return ([] if reader.problems else cases), reader.problems


def _case(reader: _Reader, given: Any, path: str) -> Case:
    if not isinstance(given, dict):
        reader.wrong(path.rstrip("."), f'{_shown(given)}: a case is an object with "total" and "queues"')
        return Case(0, 0, ())
    reader.known(given, path, _OF_CASE)
    if "name" in given:
        reader.name(given, path, "name")
    total = reader.number(given, path, "total", GPU, _LARGEST_AMOUNT, None)
    k = reader.number(given, path, "k", MILLI, _LARGEST_K, 0)
    queues = given.get("queues")
    if not isinstance(queues, list) or not 0 < len(queues) <= MOST_QUEUES:
        said = _shown(queues, missing="queues" not in given)
        reader.wrong(f"{path}queues", f"{said}: a list of 1 to {MOST_QUEUES} queues is expected")
        return Case(total, k, ())
    return Case(total, k, _tree(reader, queues, f"{path}queues."))


def _tree(reader: _Reader, queues: list[Any], path: str) -> tuple[Branch, ...]:
    parents = {each["parent"] for each in queues if isinstance(each, dict) and isinstance(each.get("parent"), str)}
    names = {each["queue"] for each in queues if isinstance(each, dict) and isinstance(each.get("queue"), str)}
    read: dict[str, tuple[Branch, str]] = {}
    for at, queue in enumerate(queues):
        if not isinstance(queue, dict):
            reader.wrong(f"{path}{at}", f"{_shown(queue)}: a queue is an object")
            continue
        branch = _queue(reader, queue, f"{path}{at}.", parents)
        above = reader.name(queue, f"{path}{at}.", "parent") if queue.get("parent") is not None else ""
        if branch.name in read:
            reader.wrong(f"{path}{at}.queue", f"{branch.name!r} stands there twice: every queue needs its own name")
        if above and above not in names:
            reader.wrong(f"{path}{at}.parent", f"{above!r} is no queue of this case")
        read[branch.name] = branch, above
    return () if reader.problems else _ordered(reader, read, path)


def _queue(reader: _Reader, given: Mapping[str, Any], path: str, parents: set[str]) -> Branch:
    reader.known(given, path, _OF_QUEUE)
    name = reader.name(given, path, "queue")
    request, deserved = 0, None
    if name not in parents or given.get("deserved") is not None:
        deserved = reader.number(given, path, "deserved", GPU, _LARGEST_AMOUNT, 0)
    if name not in parents:
        request = reader.number(given, path, "request", GPU, _LARGEST_AMOUNT, None)
    elif given.get("request") is not None:
        reader.wrong(f"{path}request", f"{name!r} is a parent: what it wants is what its children want; leave it out")
    return Branch(
        name,
        deserved=deserved,
        limit=_optional(reader, given, path, "limit"),
        weight=reader.number(given, path, "weight", MILLI, _LARGEST_WEIGHT, MILLI),
        rank=reader.number(given, path, "priority", 1, _LARGEST_PRIORITY, 0),
        request=request,
        usage=reader.number(given, path, "usage", MILLION, 1, 0),
    )


def _optional(reader: _Reader, given: Mapping[str, Any], path: str, key: str) -> int | None:
    return None if given.get(key) is None else reader.number(given, path, key, GPU, _LARGEST_AMOUNT, None)


def _ordered(reader: _Reader, read: Mapping[str, tuple[Branch, str]], path: str) -> tuple[Branch, ...]:
    """Level by level, each as written: parents first, and ties between equal queues go to the first of the file."""
    place = {name: number for number, name in enumerate(read)}
    below: dict[str, list[str]] = {}
    for name, (_, above) in read.items():
        below.setdefault(above, []).append(name)
    at: dict[str, int] = {"": TOP}
    tree: list[Branch] = []
    level = below.get("", [])
    while level:
        for name in level:
            branch, above = read[name]
            at[name] = len(tree)
            tree.append(branch._replace(parent=at[above]))
        level = sorted((child for name in level for child in below.get(name, ())), key=place.__getitem__)
    if left := sorted(read.keys() - at.keys())[:5]:
        reader.wrong(path.rstrip("."), f"{', '.join(left)}: each stands below the other, in a circle")
        return ()
    return tuple(tree)


def in_gpus(units: int) -> int | float:
    """An amount as JSON writes it: whole where it is, else the decimal nearest to it."""
    return units // GPU if units % GPU == 0 else units / GPU


def answered(document: dict[str, Any], cases: list[Case]) -> dict[str, Any]:
    """The document with the "share" of each queue in each case, in its own form."""
    if "cases" in document:
        return {"cases": [_answer(given, case) for given, case in zip(document["cases"], cases, strict=True)]}
    return _answer(document, cases[0])


def _answer(given: dict[str, Any], case: Case) -> dict[str, Any]:
    known: dict[str, Any] = {key: _plain(given[key]) for key in ("name", "total", "k") if key in given}
    queues = [{key: _plain(value) for key, value in queue.items()} for queue in given["queues"]]
    return {**known, "queues": queues, "share": {name: in_gpus(one.fair) for name, one in case.shares().items()}}


def _plain(value: Any) -> Any:
    if isinstance(value, Fraction):
        return int(value) if value.denominator == 1 else float(value)
    return value


def _decimal(number: Fraction) -> str:
    return str(int(number)) if number.denominator == 1 else f"{float(number):g}"


def _shown(given: Any, *, missing: bool = False) -> str:
    if missing:
        return "is missing"
    if isinstance(given, Fraction):
        return _decimal(given)
    if isinstance(given, list | dict):
        return f"{'a list' if isinstance(given, list) else 'an object'} of {len(given)}"
    text = json.dumps(given, ensure_ascii=False)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}.."


def lines(problems: list[Problem], source: str, most: int = 20) -> Iterator[str]:
    """The problems for a person, `file: path: what`, at most so many."""
    for problem in problems[:most]:
        where = f"{source}: {problem.path}" if problem.path else source
        yield f"{where}: {problem.text}"
    if len(problems) > most:
        yield f"{source}: and {len(problems) - most} more"

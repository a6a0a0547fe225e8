"""What pods ask for and nodes have, counted as the scheduler counts it: the API's quantities as whole numbers. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

Json = Mapping[str, Any]
_MILLI: Final = 1000
_UNCOUNTED: Final = frozenset({"ephemeral-storage", "storage", "pods"})
_QUANTITY: Final = re.compile(r"([+-]?[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE]([+-]?[0-9]+)|([numkMGTPE]|[KMGTPE]i)?)")
_LARGEST_EXPONENT: Final = 18
_SUFFIXES: Final = {
    **{letter: Fraction(1, 1000**power) for power, letter in enumerate("mun", 1)},
    **{letter: Fraction(1000**power) for power, letter in enumerate("kMGTPE", 1)},
    **{f"{letter}i": Fraction(1024**power) for power, letter in enumerate("KMGTPE", 1)},
}


@dataclass(frozen=True, slots=True)
class Amounts:
    """What a pod asks for: thousandths of a core, bytes, and whole units of other resources by name."""

    cpu: int = 0
    memory: int = 0
    extended: tuple[tuple[str, int], ...] = ()


def quantity(text: str) -> Fraction:
    """A quantity as the API writes it, such as `1500m`, `2Gi` or `129e6`. Raises ValueError.

    Wider than what users may write in a workload (muster_kernel.quantities): other pods hold such amounts.
    """
    found = _QUANTITY.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no quantity of Kubernetes")
    number, exponent, suffix = found.groups()
    if exponent is not None:
        if abs(int(exponent)) > _LARGEST_EXPONENT:
            raise ValueError(f"{text!r} is larger or smaller than any quantity of Kubernetes")
        return Fraction(number) * Fraction(10) ** int(exponent)
    return Fraction(number) * _SUFFIXES.get(suffix or "", Fraction(1))


def amounts_of(spec: Json) -> Amounts:
    """What a pod's containers ask for together (Kubernetes' own formula, sidecars and overhead included)."""
    running: dict[str, int] = {}
    most: dict[str, int] = {}
    for one in spec.get("initContainers") or ():
        asked = _requests(one)
        if one.get("restartPolicy") == "Always":  # a sidecar: it goes on beside what follows
            _add(running, asked)
            asked = running
        else:
            asked = {name: asked.get(name, 0) + running.get(name, 0) for name in {*asked, *running}}
        most = {name: max(most.get(name, 0), asked.get(name, 0)) for name in {*most, *asked}}
    for one in spec.get("containers") or ():
        _add(running, _requests(one))
    found = {name: max(most.get(name, 0), running.get(name, 0)) for name in {*most, *running}}
    _add(found, quantities(spec.get("overhead") or {}))
    extended = tuple(
        sorted((name, amount) for name, amount in found.items() if name not in {"cpu", "memory"} and amount)
    )
    return Amounts(found.get("cpu", 0), found.get("memory", 0), extended)


def quantities(said: Json) -> dict[str, int]:
    """Amounts by resource: thousandths of a core, bytes, whole units. Raises ValueError."""
    return {name: _amount(name, str(value)) for name, value in said.items() if name not in _UNCOUNTED}


@lru_cache(maxsize=4_096)  # a cluster has few, and each event of a pod has some
def _amount(name: str, text: str) -> int:
    """Rounded up, as Kubernetes rounds what it counts."""
    exact = quantity(text) * (_MILLI if name == "cpu" else 1)
    return -(-exact.numerator // exact.denominator)


def _requests(container: Json) -> dict[str, int]:
    resources = container.get("resources") or {}
    return quantities({**(resources.get("limits") or {}), **(resources.get("requests") or {})})


def _add(into: dict[str, int], more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        into[name] = into.get(name, 0) + amount

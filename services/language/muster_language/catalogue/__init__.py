"""The catalogue: one row per field of the workload language, read at run time from the options on the proto's fields.

Reader, writer, validation, merge, explain and policy all ask it; none of them repeats what a row says.
Holds: built once per process from the descriptors, immutable afterwards; every YAML name and REST path names one row.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from types import MappingProxyType
from typing import Final

from muster_language.catalogue import value_types as of
from muster_language.catalogue.rows import PolicyPath, Row, Words, either, rows_of
from muster_language.spec import Kind, WorkloadSpec

__all__ = ["COMPANIONS", "FOLLOWERS", "Catalogue", "PolicyPath", "Row", "Words", "catalogue", "either", "nearest"]

# The number of devices belongs to the GPU request as a whole: `gpu: 2` over an inherited `gpu: 0.5` means two devices
# and not two halves. The row cannot say it by `exclusive`, since beside a portion or memory it is legal in one layer.
COMPANIONS: Final[Mapping[str, str]] = MappingProxyType({"gpu_devices_request": "gpu"})
# What qualifies a member of a group and goes with it: a limit of an inherited portion would limit another request.
FOLLOWERS: Final[Mapping[str, str]] = MappingProxyType(
    dict.fromkeys(("gpu_portion_limit", "gpu_memory_limit", "gpu_request_type"), "gpu")
)


class Catalogue:
    """All rows of a workload, by each of the names they go by; `whole` are those that only code of their own reads.

    by_attribute: the policy path of a member -> its field, the member, the path.
    """

    def __init__(self, every: tuple[Row, ...]) -> None:
        self.whole = tuple(row for row in every if row.type == of.WHOLE)
        self.rows = rows = tuple(row for row in every if row.type != of.WHOLE)
        self.by_name: Mapping[str, Row] = MappingProxyType({row.name: row for row in rows})
        self.by_number: Mapping[int, Row] = MappingProxyType({row.number: row for row in rows})
        self.by_yaml: Mapping[str, Row] = MappingProxyType(
            _unique(rows, [(key, row) for row in rows for key in _keys(row)])
        )
        self.by_rest: Mapping[str, Row] = MappingProxyType(_unique(rows, [(row.rest, row) for row in rows if row.rest]))
        self.by_policy: Mapping[str, tuple[Row, PolicyPath]] = MappingProxyType(
            {path.path: (row, path) for row in rows for path in row.policy}
        )
        self.by_attribute: Mapping[str, tuple[Row, Row, PolicyPath]] = MappingProxyType(
            {path.path: (row, member, path) for row in rows for member in row.inside for path in member.policy}
        )

    def of_kind(self, kind: Kind) -> tuple[Row, ...]:
        """The rows that a kind takes, in the order of the proto."""
        return tuple(row for row in self.rows if kind in row.kinds)


@cache
def catalogue() -> Catalogue:
    """The catalogue of this build."""
    return Catalogue(rows_of(WorkloadSpec.DESCRIPTOR))


def nearest(word: str, known: list[str]) -> str | None:
    """The known name that a mistyped one most likely means; None where nothing is near."""
    folded = {name.casefold(): name for name in known}
    found = get_close_matches(word.casefold()[:80], list(folded), n=1, cutoff=0.6)
    return folded[found[0]] if found else None


def _keys(row: Row) -> tuple[str, ...]:
    return (row.yaml, *row.aliases) if row.yaml else ()


def _unique(rows: tuple[Row, ...], pairs: list[tuple[str, Row]]) -> dict[str, Row]:
    found: dict[str, Row] = {}
    for key, row in pairs:
        # Two fields under one name would make a document mean whichever was declared last.
        if found.setdefault(key, row) is not row:
            raise ValueError(
                f"the catalogue of {len(rows)} rows names two fields {key!r}: {found[key].name} and {row.name}"
            )
    return found

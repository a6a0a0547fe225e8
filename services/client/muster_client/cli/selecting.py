"""Which workloads a verb means, and in which order: label selectors (`-l`), columns (`--sort`), confirmation.

Called by `list` and `delete`. Pure but for the question to a person. Holds: a selector that is not understood names
the forms that are; a name of a column that does not exist is answered with all that do.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

from cyclopts import Parameter

from muster.workload.v1 import workload_pb2
from muster_client.cli.output import remark
from muster_client.cli.printable import one_line
from muster_client.cli.render.amounts import time_of
from muster_client.errors import InvalidInput
from muster_client.words import kind_word, phase_word

Selectors = Annotated[list[str] | None, Parameter(name=["--selector", "-l"], negative="")]
"""Labels that all have to hold: key=value, key!=value or key; several by commas or by several options."""
_FORM: Final = re.compile(r"([^=!,\s]+)\s*(?:(=|==|!=)\s*([^=!,]*))?")
_NAMED: Final = 10


@dataclass(frozen=True, slots=True)
class Selector:
    """One condition on labels. value: None where the key alone has to be there; `equal`: whether it has to be equal."""

    key: str
    value: str | None = None
    equal: bool = True

    def takes(self, labels: dict[str, str]) -> bool:
        """Whether a workload with these labels is meant. One without the key is never equal, as in Kubernetes."""
        if self.value is None:
            return self.key in labels
        return (labels.get(self.key) == self.value) is self.equal


def selectors(texts: Iterable[str] | None) -> list[Selector]:
    """What `-l` says. Raises InvalidInput."""
    return [_selector(part.strip()) for text in texts or () for part in text.split(",")]


def _selector(text: str) -> Selector:
    found = _FORM.fullmatch(text)
    if found is None:
        raise InvalidInput(f"-l {text!r}: expected key=value, key!=value or key, several separated by commas")
    key, operator, value = found.groups()
    return Selector(key, None if operator is None else value.strip(), operator != "!=")


def selected(workload: workload_pb2.Workload, wanted: Sequence[Selector]) -> bool:
    """Whether every selector takes the workload."""
    labels = labels_of(workload)
    return all(each.takes(labels) for each in wanted)


def labels_of(workload: workload_pb2.Workload) -> dict[str, str]:
    """The labels of a workload: those of its effective spec once policy has admitted it."""
    spec = workload.effective_spec if workload.HasField("effective_spec") else workload.spec
    return {each.label: each.value for each in spec.labels if not each.deleted}


_COLUMNS: Final[dict[str, Callable[[workload_pb2.Workload], Any]]] = {
    "name": lambda each: each.name,
    "project": lambda each: (each.project, each.name),
    "kind": lambda each: (kind_word(each.spec.kind), each.name),
    "phase": lambda each: (phase_word(each.phase), each.name),
    "place": lambda each: (each.cluster, each.node_pool, each.name),
    "owner": lambda each: (each.owner.subject, each.name),
    "age": lambda each: -(created.timestamp() if (created := time_of(each.created_at)) else 0.0),
}


def in_order(found: Iterable[workload_pb2.Workload], column: str) -> list[workload_pb2.Workload]:
    """The workloads by a column, downwards where a minus is before it. Raises InvalidInput."""
    key = _COLUMNS.get(column.removeprefix("-").lower())
    if key is None:
        raise InvalidInput(
            f"--sort {column}: expected one of {', '.join(_COLUMNS)}, with a minus before it for downwards"
        )
    return sorted(found, key=key, reverse=column.startswith("-"))


def confirmed(question: str, names: Sequence[str]) -> bool:
    """Whether a person agrees. Raises InvalidInput where there is no terminal to ask at."""
    if not sys.stdin.isatty():
        raise InvalidInput(f"{question} needs a confirmation and there is no terminal to ask at: say --yes")
    for name in names[:_NAMED]:
        remark(f"  {one_line(name)}")
    if len(names) > _NAMED:
        remark(f"  and {len(names) - _NAMED} more")
    remark(f"{question}? [y/N]")
    return sys.stdin.readline().strip().lower() in {"y", "yes"}

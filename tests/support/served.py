"""Everything that the REST edge serves, without the parts behind it: for tests of paths and of the document."""

from __future__ import annotations

from typing import Any, cast

from muster_submission.rest.operation import Operation
from muster_submission.rest.parts import Parts
from muster_submission.rest.routes import operations


class _Nothing:
    """A part that is never asked: only the list of operations is looked at."""

    def __getattr__(self, name: str) -> _Nothing:
        return _Nothing()

    def __call__(self, *_: Any, **__: Any) -> _Nothing:
        return _Nothing()


def served() -> list[Operation]:
    """The operations, whose handlers cannot be called."""
    return operations(cast("Parts", _Nothing()))

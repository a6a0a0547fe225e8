"""The undo log: every change of the truth goes through it, so that an aborted transaction leaves no trace.

Used by everything in this package that changes state. Derived structures that can be made anew from the truth (queues,
timers) stay outside; the capacity index takes part, because placement rolls back to marks all the time.
Holds: `rollback(mark)` restores exactly what stood at the mark, in reverse order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

K = TypeVar("K")
V = TypeVar("V")
_ABSENT: Final = object()


class Journal:
    """Changes since the last `clear`, newest last."""

    __slots__ = ("_log",)

    def __init__(self) -> None:
        """Begins empty."""
        self._log: list[tuple[Any, ...]] = []  # what undoes a change, and its arguments

    def set(self, target: object, name: str, value: object) -> None:
        """Sets an attribute and remembers what it was."""
        self._log.append((setattr, target, name, getattr(target, name)))
        setattr(target, name, value)

    def write(self, target: object, values: Mapping[str, object]) -> None:
        """Sets those attributes that are something else now, as one change."""
        before: dict[str, object] = {}
        for name, value in values.items():
            old = getattr(target, name)
            if old is not value and old != value:
                before[name] = old
                setattr(target, name, value)
        if before:
            self._log.append((_write_back, target, before))

    def keep(self, target: object, **before: object) -> None:
        """Remembers what attributes are now that the caller sets next: for what is written at every report."""
        self._log.append((_write_back, target, before))

    def put(self, mapping: dict[K, V], key: K, value: V) -> None:
        """Sets an entry of a dict and remembers what it was."""
        self._log.append((_restore, mapping, key, mapping.get(key, _ABSENT)))
        mapping[key] = value

    def put_all(self, mapping: dict[K, V], entries: Mapping[K, V]) -> None:
        """Sets entries of a dict as one change."""
        self._log.append((_restore_all, mapping, {key: mapping.get(key, _ABSENT) for key in entries}))
        mapping.update(entries)

    def drop(self, mapping: dict[K, V], key: K) -> V | None:
        """Removes an entry of a dict and remembers it. None where there was none."""
        if key not in mapping:
            return None
        value = mapping.pop(key)
        self._log.append((_restore, mapping, key, value))
        return value

    def note(self, undo: Callable[..., Any], *arguments: object) -> None:
        """Remembers how to undo a change that was made otherwise."""
        self._log.append((undo, *arguments))

    def mark(self) -> int:
        """A point to which `rollback` can return."""
        return len(self._log)

    def rollback(self, mark: int = 0) -> None:
        """Undoes everything after the mark."""
        while len(self._log) > mark:
            undo, *arguments = self._log.pop()
            undo(*arguments)

    def clear(self) -> None:
        """Forgets: what has been changed stays."""
        self._log.clear()


def _write_back(target: object, before: Mapping[str, object]) -> None:
    for name, value in before.items():
        setattr(target, name, value)


def _restore_all(mapping: dict[K, Any], before: Mapping[K, object]) -> None:
    for key, value in before.items():
        _restore(mapping, key, value)


def _restore(mapping: dict[K, Any], key: K, value: object) -> None:
    # The order of a dict is not part of the truth: everything that decides sorts by a stable id.
    if value is _ABSENT:
        del mapping[key]
    else:
        mapping[key] = value

"""Reads a cluster file: YAML, and then one value after the other, with the place of each error.

Used by the cluster files of both back ends. Holds: every error of a file is found in one reading.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import yaml

from muster_cluster_agent.errors import ClusterFileError
from muster_kernel.numbers import bound_yaml

LOCAL_BACKEND: Final = "local"
KUBERNETES_BACKEND: Final = "kubernetes"
_Loader: Final = bound_yaml(yaml.SafeLoader)
T = TypeVar("T")


def load(text: str, *, where: str) -> Any:
    """The document in a cluster file; `where` names the file. Raises ClusterFileError where it is no YAML."""
    try:
        return yaml.load(text, _Loader)  # noqa: S506 - a SafeLoader
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: 2027-13-45, or 1,000 digits
        raise ClusterFileError(f"{where} is not valid YAML: {error}") from error


def backend_named(path: Path) -> str:
    """The back end that a cluster file names; the local one where it names none, or is no file that can be read.

    Whichever it is reads the file again, and says what is wrong with it.
    """
    try:
        document = load(path.read_text(encoding="utf-8"), where=str(path))
    except (OSError, UnicodeDecodeError, ClusterFileError):
        return LOCAL_BACKEND
    named = document.get("backend") if isinstance(document, dict) else None
    return KUBERNETES_BACKEND if named == KUBERNETES_BACKEND else LOCAL_BACKEND


class Reader:
    """Gathers errors, so that the file's author sees all of them at once."""

    def __init__(self) -> None:
        self.errors: list[str] = []

    def mapping(self, value: Any, path: str, allowed: frozenset[str]) -> Mapping[str, Any]:
        """The names of a mapping with their values, empty where it is none. A name that is not allowed is an error."""
        if not isinstance(value, dict):
            self.errors.append(f"{path}: expected names with values, not {value!r}")
            return {}
        self.errors.extend(
            f"{path}.{key}: not known here; allowed are {', '.join(sorted(allowed))}"
            for key in value
            if key not in allowed
        )
        return value

    def items(self, value: Any, path: str) -> list[Any]:
        """The items of a list; none where it is left out, or is no list (which is then an error)."""
        if value is None:
            return []
        if not isinstance(value, list):
            self.errors.append(f"{path}: expected a list, not {value!r}")
            return []
        return value

    def get(self, source: Mapping[str, Any], key: str, path: str, convert: Callable[[Any], T], default: T) -> T:
        """The converted value, or the default where it is left out or wrong (which is then an error)."""
        if source.get(key) is None:
            return default
        try:
            return convert(source[key])
        except (ValueError, TypeError, KeyError) as error:
            self.errors.append(f"{path}.{key}: {error}")
            return default

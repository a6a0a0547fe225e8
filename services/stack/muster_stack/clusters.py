"""The clusters that a fresh stack declares.

Called by the keeper. The files are the user's once written: an edit stays, a deleted cluster comes back only where no
other is declared. What they may contain is documented in docs/ and read by the cluster agent.
"""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Any, Final

import yaml

from muster_kernel.numbers import bound_yaml
from muster_stack.errors import StackError
from muster_stack.keeper.parts import Cluster
from muster_stack.layout import Layout

_Loader: Final = bound_yaml(yaml.SafeLoader)
DEFAULTS: Final = ("north", "south")


def write_defaults(layout: Layout) -> None:
    """Writes the default declarations where there are none."""
    defaults = resources.files("muster_stack") / "defaults"
    if not any(layout.clusters.glob("*.yaml")):
        for name in DEFAULTS:
            (layout.clusters / f"{name}.yaml").write_text((defaults / f"{name}.yaml").read_text())


def declared(layout: Layout) -> list[Cluster]:
    """The clusters declared in the data folder. Raises StackError where a file is no YAML or names no cluster."""
    clusters = []
    for file in sorted(layout.clusters.glob("*.yaml")):
        name = document_of(file).get("cluster")
        if not isinstance(name, str):
            raise StackError(f"{file}: the key `cluster` names the cluster with a text such as `north`; found {name!r}")
        clusters.append(Cluster(name, file))
    return clusters


def document_of(file: Path) -> dict[str, Any]:
    """Return a declaration; empty for one that is no mapping. Raises StackError for a file that is no YAML."""
    try:
        document = yaml.load(file.read_text(), _Loader)  # noqa: S506 - a SafeLoader
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise StackError(f"{file} cannot be read as YAML: {error}") from error
    return document if isinstance(document, dict) else {}

"""`muster up --cluster kubeconfig=FILE,context=C,name=N`: a Kubernetes cluster as one of the stack's.

Called by `up` before the keeper starts. Holds: a declaration that is there already is never changed; one that says
otherwise is named.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from muster_kernel import ids
from muster_kernel.numbers import bound_yaml
from muster_stack.clusters import document_of, write_defaults
from muster_stack.errors import StackError
from muster_stack.layout import Layout

_Loader: Final = bound_yaml(yaml.SafeLoader)
_FORM: Final = "kubeconfig[=FILE][,context=CONTEXT][,name=NAME]"
LONGEST_NAME: Final = 40
"""Characters of a cluster's id."""
_NOT_IN_NAMES: Final = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True)
class KubernetesCluster:
    """A cluster by its kubeconfig. context: empty for the current one."""

    name: str
    kubeconfig: Path
    context: str


def read_option(text: str) -> KubernetesCluster:
    """The cluster that an option names. Raises StackError with what is wrong."""
    given: dict[str, str] = {}
    for part in text.split(","):
        key, _, value = part.partition("=")
        if key not in {"kubeconfig", "context", "name"} or key in given:
            raise StackError(f"--cluster {text}: expected {_FORM}")
        given[key] = value
    if "kubeconfig" not in given:
        raise StackError(f"--cluster {text}: expected {_FORM}")
    file = Path(given["kubeconfig"] or _default_kubeconfig()).expanduser().absolute()
    context = given.get("context", "")
    names, current = _contexts(file)
    if context and context not in names:
        raise StackError(f"--cluster {text}: {file} has no context {context}; it has {', '.join(names)}")
    if not context and not current:
        raise StackError(f"--cluster {text}: {file} has no current context: add context=CONTEXT")
    name = given.get("name") or _NOT_IN_NAMES.sub("-", (context or current).lower()).strip("-")[:LONGEST_NAME]
    try:
        return KubernetesCluster(ids.check_name(name, limit=LONGEST_NAME), file, context)
    except ValueError as problem:
        raise StackError(f"--cluster {text}: the cluster needs a name, name=NAME ({problem})") from None


def declare(layout: Layout, options: Sequence[str]) -> None:
    """Writes a declaration for each cluster, in addition to those that are there. Raises StackError."""
    if not options:
        return
    wanted = [read_option(text) for text in options]
    layout.make()
    write_defaults(layout)
    for one in wanted:
        file = layout.clusters / f"{one.name}.yaml"
        own = {"cluster": one.name, "backend": "kubernetes", "kubeconfig": str(one.kubeconfig)}
        body: dict[str, Any] = {**own, **({"context": one.context} if one.context else {})}
        if not file.exists():
            file.write_text(yaml.safe_dump(body, sort_keys=False))
            continue
        there = document_of(file)
        other = [
            key for key in ("cluster", "backend", "kubeconfig", "context") if there.get(key, "") != body.get(key, "")
        ]
        if other:
            raise StackError(
                f"{file} declares cluster {one.name} with another {' and '.join(other)}: edit that file, or choose "
                "another name with name=NAME"
            )


def _default_kubeconfig() -> str:
    """Where kubectl finds its configuration."""
    return os.environ.get("KUBECONFIG", "").partition(os.pathsep)[0] or "~/.kube/config"


def _contexts(file: Path) -> tuple[list[str], str]:
    """The contexts of a kubeconfig, and the current one; empty: it names none. Raises StackError."""
    try:
        read = yaml.load(file.read_text(encoding="utf-8"), _Loader)  # noqa: S506 - a SafeLoader
        names = [str(one["name"]) for one in read.get("contexts") or ()]
        return names, str(read.get("current-context") or "")
    except OSError as problem:
        raise StackError(f"the kubeconfig {file} cannot be read: {problem.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError, yaml.YAMLError) as problem:
        raise StackError(f"{file} is not a kubeconfig: {problem}") from None

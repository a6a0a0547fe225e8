"""The cluster file of an agent that is to be installed: what the command says, and more settings of its own."""

from __future__ import annotations

from typing import Any, Final

import yaml

from muster_client.errors import InvalidInput
from muster_kernel.agent_rights import priority_class
from muster_kernel.numbers import bound_yaml

_Loader: Final = bound_yaml(yaml.SafeLoader)
_OUTSIDE: Final = ("kubeconfig", "context")


def cluster_file(cluster: str, namespace: str, *, managed: bool, more: str = "", where: str = "") -> str:
    """The file's text.

    more: further settings as YAML, of the file `where`. Raises InvalidInput where they say otherwise than the command.
    """
    own: dict[str, Any] = {
        "cluster": cluster,
        "backend": "kubernetes",
        "namespace": namespace,
        "namespaces": "managed" if managed else "listed",
    }
    try:
        given = yaml.load(more, _Loader) or {}  # noqa: S506 - a SafeLoader
    except (ValueError, yaml.YAMLError) as problem:
        raise InvalidInput(f"{where} is not YAML: {problem}") from None
    if not isinstance(given, dict):
        raise InvalidInput(f"{where}: expected settings as `key: value`")
    for key, value in own.items():
        if given.get(key, value) != value:
            raise InvalidInput(
                f"{where}: {key} is {given[key]!r}, but this command sets it to {value!r}: remove it from the file"
            )
    for key in _OUTSIDE:
        if key in given:
            raise InvalidInput(f"{where}: {key} is for an agent outside of the cluster; leave it out")
    return yaml.safe_dump({**own, "priority_class": priority_class(cluster), **given}, sort_keys=False)


def has_mig_manager(settings: str) -> bool:
    """Return whether a cluster file says that the cluster has a mig-manager, whose label the agent then sets."""
    return yaml.load(settings, _Loader).get("mig_manager") is True  # noqa: S506 - a SafeLoader

"""What is there already in the namespaces of projects, cluster by cluster: claims and ConfigMaps by name.

Reported by agents of clusters that have such objects, read by the choice of a cluster. Pure values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

CLAIMS: Final = "claims"
CONFIG_MAPS: Final = "configmaps"
# The word for an object in messages, by its kind.
_WORDS: Final = {CLAIMS: "claim", CONFIG_MAPS: "ConfigMap"}


class Objects(NamedTuple):
    """The objects of one namespace, each as `kind/name`.

    truncated: the namespace has more, so that an object that is not named may be there.
    """

    names: frozenset[str]
    truncated: bool = False


class ReportedObjects(NamedTuple):
    """What a report says of them. named: whether the agent reports objects at all; None: it does not say.

    entries: by namespace. removed: namespaces that have none any more.
    """

    named: bool | None = None
    entries: tuple[tuple[str, Objects], ...] = ()
    removed: tuple[str, ...] = ()


NONE_REPORTED: Final = ReportedObjects()


def key_of(namespace: str, kind: str, name: str) -> str:
    """How a request names an object that it mounts: `namespace/kind/name`."""
    return f"{namespace}/{kind}/{name}"


def lacking(mounted: Iterable[str], there: Mapping[str, Objects]) -> list[str]:
    """Which of the objects that a request mounts are certainly not among those of a cluster."""
    return [key for key in mounted if not _is_among(key, there)]


def _is_among(key: str, there: Mapping[str, Objects]) -> bool:
    namespace, _, name = key.partition("/")
    objects = there.get(namespace)
    return objects is not None and (objects.truncated or name in objects.names)


def in_words(mounted: Iterable[str]) -> str:
    """Objects as people call them: `claim data and ConfigMap settings in namespace runai-p`."""
    parts = [each.split("/", 2) for each in mounted]
    named = " and ".join(f"{_WORDS[kind]} {name}" for _, kind, name in parts)
    return f"{named} in namespace {parts[0][0]}"

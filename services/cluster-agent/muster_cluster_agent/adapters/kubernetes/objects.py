"""The claims and ConfigMaps of projects' namespaces, followed for the inventory: work goes where its data is.

Used by the cache. Only metadata is read: the agent does not need the content of a ConfigMap, and it would cost memory.
Holds: an agent that may not list them works all the same; its profile then says that it names none.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from muster_cluster_agent.adapters.kubernetes.client import Client
from muster_cluster_agent.adapters.kubernetes.list_watch import Follower, Kind
from muster_cluster_agent.domain.fleet import NamespaceObjects
from muster_cluster_agent.domain.kubernetes import marks
from muster_cluster_agent.domain.kubernetes.marks import Owner
from muster_cluster_agent.domain.kubernetes.objects import objects_of
from muster_cluster_agent.domain.kubernetes.resources import CLAIM, CONFIG_MAP
from muster_cluster_agent.domain.kubernetes.roots import Namespace

_LISTED_SECONDS: Final = 5.0  # the agent's start does not wait longer for what it can do without


class ProjectObjects:
    """What may be mounted in the namespaces of projects.

    namespaces: all namespaces with a project, by name. changed: called when an entry of the inventory may be another.
    """

    def __init__(
        self, client: Client, owner: Owner, namespaces: Mapping[str, Namespace], changed: Callable[[], None]
    ) -> None:
        self._owner = owner
        self._namespaces = namespaces
        self._tell = changed
        self._claims: dict[str, set[str]] = defaultdict(set)  # by namespace
        self._config_maps: dict[str, set[str]] = defaultdict(set)
        self._stale: set[str] = set()  # namespaces
        self._entries: dict[str, NamespaceObjects] = {}
        self.followers: Final = (
            Follower(
                client,
                Kind("persistentvolumeclaims", CLAIM.everywhere, metadata_alone=True),
                _uid_of,
                self._into(self._claims),
            ),
            Follower(
                client,
                Kind(
                    "other configmaps",
                    CONFIG_MAP.everywhere,
                    f"{marks.MANAGED_BY}!={marks.MANAGER}",
                    metadata_alone=True,
                ),
                _uid_of,
                self._into(self._config_maps),
            ),
        )

    @property
    def known(self) -> bool:
        """Whether both kinds were listed and may still be read."""
        return all(each.listed.is_set() and not each.unavailable for each in self.followers)

    async def listed(self) -> None:
        """Waits until both kinds were listed or forbidden, so that the first inventory names them.

        After some seconds without an answer it goes on.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(_LISTED_SECONDS):
                for each in self.followers:
                    await each.answered.wait()

    def namespace_changed(self, name: str) -> None:
        """A namespace has come or gone, or is another project's."""
        self._stale.add(name)
        self._tell()

    def report(self) -> tuple[NamespaceObjects, ...]:
        """The entries of all namespaces with objects, in the order of their names; none where they are not known."""
        for name in self._stale:
            claims, config_maps = self._claims.get(name, set()), self._config_maps.get(name, set())
            namespace = self._namespaces.get(name)
            if namespace is None or not namespace.belongs_to(self._owner) or not (claims or config_maps):
                self._entries.pop(name, None)
            else:
                self._entries[name] = objects_of(name, claims, config_maps)
        self._stale.clear()
        return tuple(self._entries[name] for name in sorted(self._entries)) if self.known else ()

    def _into(self, names_of: dict[str, set[str]]) -> Callable[[str, str | None, str | None], None]:
        """What follows a kind: its objects' names by namespace."""

        def changed(key: str, old: str | None, new: str | None) -> None:
            if bool(old) == bool(new):
                return
            namespace, _, name = key.partition("/")
            if new:
                names_of[namespace].add(name)
            else:
                names_of[namespace].discard(name)
                if not names_of[namespace]:
                    del names_of[namespace]
            self._stale.add(namespace)
            if namespace in self._namespaces:
                self._tell()

        return changed


def _uid_of(raw: Mapping[str, Any]) -> str:
    """The uid of an object; empty where it is being deleted, since no new pod can mount it."""
    metadata = raw["metadata"]
    return "" if "deletionTimestamp" in metadata else str(metadata["uid"])

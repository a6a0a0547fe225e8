"""The changes of a transaction as a row: the keys of the rows that it wrote, so that standbys read these rows again.

postgres.py writes it as the last statement of the state; following.py reads it.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Final

import msgspec

from muster_scheduler.domain.books.touched import Touched

WRITE: Final = "INSERT INTO changes (at, keys) VALUES ($1, $2)"
DROP: Final = "DELETE FROM changes WHERE at < $1 AND seq < (SELECT max(seq) FROM changes)"


class Changes(msgspec.Struct, omit_defaults=True):
    """Keys by table. A workload includes its requests and replicas; a cluster includes the parts of its inventory."""

    workloads: list[str] = []
    nodes: list[tuple[str, str]] = []
    clusters: list[str] = []
    objects: list[tuple[str, str]] = []
    projects: list[str] = []
    departments: list[str] = []
    pools: list[int] = []
    usage: list[tuple[str, str]] = []

    @property
    def settings(self) -> bool:
        """True if projects or departments have changed. This is rare, and anything may depend on it.

        Node pools do not count: cycles write to them, and the nodes that a node pool moves are in `nodes`.
        """
        return bool(self.projects or self.departments)


_decoder: Final = msgspec.json.Decoder(Changes)


def of_touched(touched: Touched) -> str:
    """Return the row of a transaction; empty if the transaction changed nothing."""
    workloads = touched.all_workloads() | dict.fromkeys(holder.workload for holder in touched.all_replicas())
    parts = dict.fromkeys(name for name, _ in touched.parts)
    made = Changes(
        workloads=list(dict.fromkeys((*workloads, *touched.requests, *touched.quarantined, *touched.retired))),
        nodes=list(touched.nodes),
        clusters=list(touched.clusters | parts | touched.parts_over),
        objects=list(touched.objects),
        projects=list(touched.projects),
        departments=list(touched.departments),
        pools=list(touched.pools),
        usage=list(touched.usage),
    )
    return msgspec.json.encode(made).decode() if made != Changes() else ""


def merged(rows: Iterable[str]) -> Changes:
    """Return the keys of several rows, each once."""
    read = [_decoder.decode(row) for row in rows]
    fields = ((name, [getattr(each, name) for each in read]) for name in Changes.__struct_fields__)
    return Changes(**{name: list(dict.fromkeys(chain.from_iterable(values))) for name, values in fields})

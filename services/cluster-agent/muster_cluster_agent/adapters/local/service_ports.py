"""The port of each workload that serves, kept for the workload's life: over revisions, restarts and a stopped stack.

Used by the spec writer. Holds: a port that was given to a workload is on the disk before its replica is started; only
the deletion of the workload gives it back, or thousands of newer workloads.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from pathlib import Path
from typing import Final

from muster_cluster_agent.adapters.local.addresses import Ports, is_free
from muster_cluster_agent.adapters.local.state import replace_file

KEPT: Final = 4096


class ServicePorts:
    """Ports by workload, the least recently used first."""

    def __init__(self, file: Path, ports: Ports) -> None:
        """Read what was kept; a file that cannot be read is begun again."""
        self._file = file
        self._ports = ports
        self._kept: OrderedDict[str, int] = OrderedDict()
        self._changed = False
        self.opened: set[int] = set()
        """Those on which the pump listens for us now."""
        try:
            content = json.loads(file.read_bytes())
            self._kept.update((str(workload), int(port)) for workload, port in content.items())
        except (OSError, ValueError, AttributeError, TypeError):
            self._kept.clear()
        for port in self._kept.values():
            ports.keep(port)

    def of(self, workload_id: str) -> int:
        """The workload's port; a new one where it has none. `save` it before its use. Raises BackendError."""
        port = self._kept.get(workload_id)
        if port is not None and port not in self.opened and not is_free(port):
            self.forget(workload_id)  # while nothing of it ran, some other program has taken it
            port = None
        if port is None:
            port = self._ports.take()
            self.keep(workload_id, port)
        self._kept.move_to_end(workload_id)
        return port

    def keep(self, workload_id: str, port: int) -> None:
        """Note the port of a workload that was found running."""
        if self._kept.get(workload_id) == port:
            return
        self._kept[workload_id] = port
        self._ports.keep(port)
        self._changed = True
        while len(self._kept) > KEPT:
            self._ports.give_back(self._kept.popitem(last=False)[1])

    def forget(self, workload_id: str) -> None:
        """The workload is deleted, or another program took its port."""
        port = self._kept.pop(workload_id, None)
        if port is not None:
            self._ports.give_back(port)
            self._changed = True

    def save(self) -> None:
        """Write what has changed to the disk. Blocks."""
        if self._changed:
            self._changed = False
            replace_file(self._file, json.dumps(self._kept).encode())

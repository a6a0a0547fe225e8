"""The local back end, opened. Holds: the state folder is locked before anything is read."""

from __future__ import annotations

from muster_chassis.runtime import Runtime
from muster_cluster_agent.adapters.local.backend import LocalBackend
from muster_cluster_agent.adapters.local.kept import FolderState
from muster_cluster_agent.adapters.local.state import StateFolder
from muster_cluster_agent.adapters.local.support import LOCAL
from muster_cluster_agent.errors import StateFolderError
from muster_cluster_agent.parts import Parts
from muster_cluster_agent.settings import AgentSettings


async def open_local(runtime: Runtime, settings: AgentSettings) -> Parts:
    """Opens the back end on this machine. Raises ClusterFileError or StateFolderError."""
    if settings.state_dir is None:
        raise StateFolderError("MUSTER_STATE_DIR is missing: the local back end keeps its replicas in a folder")
    state = StateFolder(settings.state_dir)
    runtime.close_last(state.aclose)
    backend = await runtime.enter(
        LocalBackend(settings.cluster_file, state, data=settings.data_dir, confined=settings.confined)
    )
    return Parts(backend.declared.cluster, backend, FolderState(state), LOCAL, folders=backend)

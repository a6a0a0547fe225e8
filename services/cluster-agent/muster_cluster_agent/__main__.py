"""`python -m muster_cluster_agent [--hold]` starts the agent of one cluster."""

from __future__ import annotations

import os
import sys

from muster_chassis import runtime
from muster_cluster_agent.app import compose
from muster_cluster_agent.settings import AgentSettings


def main() -> None:
    """Runs until SIGTERM. Replicas go on."""
    if "--hold" in sys.argv[1:]:
        os.environ["MUSTER_HOLD"] = "true"
    runtime.run("cluster-agent", AgentSettings, compose)  # pydantic reads the environment


if __name__ == "__main__":
    main()

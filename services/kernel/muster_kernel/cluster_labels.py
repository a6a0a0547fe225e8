"""Labels on objects of a Kubernetes cluster that an agent and the objects of its installation agree on.

The admission policy of `muster clusters join` lets an agent write where these labels say so; the agent sets them.
"""

from __future__ import annotations

from typing import Final

PREFIX: Final = "muster.io/"
CLUSTER: Final = f"{PREFIX}cluster"
"""The id of the cluster, on what an agent makes and on what it is installed with."""
PROJECT: Final = f"{PREFIX}project"
"""The project of a namespace, and of what a workload of the project has."""
MANAGED_BY: Final = "app.kubernetes.io/managed-by"
MANAGER: Final = "muster"
"""The value of `MANAGED_BY` on what an agent makes."""

"""The chassis: all I/O that Muster's services share, so that a service holds its own subject and nothing else.

Services call it from their composition root. It never knows a workload, a policy or a device.
"""

import os

# A service forks only to start another program. gRPC's fork handlers would start its threads in the child before that,
# and one child of seventy died of a segmentation fault (grpc: doc/fork_support.md asks for this where exec follows).
# gRPC reads it when it is imported, so it is set before anything of the chassis is.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

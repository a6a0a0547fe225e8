"""Two real nodes of Kubernetes on one machine: kubelets, containerd, runc, and devices that a plugin gives out.

`make test-node` runs it on what `make testbed` has built. It takes root: each node has network, mount and process
namespaces of its own.
"""

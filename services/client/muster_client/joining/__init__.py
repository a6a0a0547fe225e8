"""What a Kubernetes cluster needs before its agent can run there. Pure but for `bus.py`, which asks the stack.

`installing.objects_of(installation)` gives the objects, as `kubectl apply` takes them.
"""

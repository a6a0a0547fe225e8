"""The back end on a Kubernetes cluster: pods, watched and made through the cluster's API server."""

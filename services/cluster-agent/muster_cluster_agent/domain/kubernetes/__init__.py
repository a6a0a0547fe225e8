"""What a Kubernetes cluster is to Muster: objects that replicas become, and replicas that objects are. Pure."""

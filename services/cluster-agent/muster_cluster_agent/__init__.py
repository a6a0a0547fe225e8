"""The agent of one cluster: makes its replicas match the assignments."""

"""The REST API 2.18 and Kubernetes' way in: one list of operations, from which the routes and the document are made."""

"""What the catalogue says of documents, for people and for Kubernetes: explain, reference, definitions."""

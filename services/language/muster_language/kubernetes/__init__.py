"""Jobs and pod templates of Kubernetes, lowered into the fields of the language."""

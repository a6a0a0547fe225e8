"""The policies as values: documents, levels of a branch, verdicts. Pure; policy and the client import it."""

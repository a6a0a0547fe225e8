"""Numbered SQL: the schema of submission. Applied by the chassis at start, in order, once each."""

"""YAML documents of the language: text into nodes, nodes into typed specs, and specs back into text."""

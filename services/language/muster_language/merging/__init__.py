"""Layers into one spec, and what follows from it."""

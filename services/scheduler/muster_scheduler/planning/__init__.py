"""Calculators for people who plan: fair shares of a file, MIG layouts of a card. They need no control plane.

Pure rooms: level.py and layouts.py; commands.py reads files and prints. The `muster` command finds the verbs by entry
point. Nothing of the service calls them.
"""

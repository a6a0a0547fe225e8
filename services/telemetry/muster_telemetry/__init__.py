"""Usage accounts and idleness, computed from the agents' samples."""

"""The typed async client and the muster command."""

"""The `muster` command: for people at a terminal, and for scripts through --json and exit codes."""

from __future__ import annotations

from muster_client.cli.app import main

__all__ = ["main"]

"""The `muster` command: for people at a terminal, and for scripts through --json and exit codes."""

from __future__ import annotations

import os

# gRPC reads it once, when it is loaded; its remarks about connections would stand between our own lines on stderr.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")

from muster_client.cli.app import main

__all__ = ["main"]

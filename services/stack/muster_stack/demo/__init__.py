"""The demo: every kind of workload on a stack of its own, and a check for each that it really happened.

Found by the `muster` command through the entry-point group `muster.commands`.
"""

from __future__ import annotations

from muster_stack.demo.command import demo

__all__ = ["demo"]

"""How a text names a credential that submission keeps: the language writes it into specs, agents open it at a start."""

from __future__ import annotations

from typing import Final

SEALED: Final = "muster-sealed:"
"""How the text in the place of a sealed credential begins. Nobody but Muster may write one."""

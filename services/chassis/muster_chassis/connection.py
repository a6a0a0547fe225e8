"""What a statement may be run on: a connection of its own, or the pool's stand-in for one."""

from __future__ import annotations

import asyncpg
from asyncpg.pool import PoolConnectionProxy

AnyConnection = asyncpg.Connection | PoolConnectionProxy

"""Where a gang goes in one node pool, as pure functions over columns."""

"""Deciding over columns: where a replica fits, which node is best, whose turn it is, and what its queue may still take.

`seeking` is the face; below it stand `batch` (one kernel that goes through heads), `accounts` (what queues may take),
`index` (which nodes are worth a test) and `fitting` (the exact test).
"""

"""Deciding over columns: where a replica fits, which node is best, whose turn it is, and what its queue may still take.

`engine` is the face; below it stand `line` (who waits), `accounts` (what queues may take), `index` (which nodes are
worth a test), `fitting` (the exact test) and `batch` (one kernel that goes through them head by head).
"""

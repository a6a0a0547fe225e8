"""Rows that the books have changed, written into the live columns and their index by one call: a kernel.

Called by the seeker before anything is looked for. A call into compiled code costs more than a row does, so all rows
that changed since the last search go in one array of records (`columns.record_of`).
Between two reports a node only gains devices (one that its agent forgot, and that is charged), so no slot is cleared.
Holds: afterwards row and index are what `write_row` and an index made anew would say (`Capacity.check` compares).
"""

from __future__ import annotations

from muster_scheduler.domain.compiling import lean
from muster_scheduler.domain.deciding.index import Index, displace, place
from muster_scheduler.domain.deciding.tables import Rows
from muster_scheduler.domain.fleet.columns import CELL, HEAD, Ints64


@lean
def rewrite(index: Index, records: Ints64) -> None:
    """Every record in turn: its node leaves the index, takes its new row, and comes back where that belongs."""
    at = 0
    while at < len(records):
        node, count = int(records[at]), int(records[at + 5])
        displace(index, node)
        index.rows.cpu[node] = records[at + 1]
        index.rows.memory[node] = records[at + 2]
        index.rows.replicas[node] = records[at + 3]
        index.rows.idle[node] = records[at + 4]
        for slot in range(count):
            write_cell(index.rows, node, slot, records, at + HEAD + slot * CELL)
        place(index, node)
        at += HEAD + count * CELL


@lean
def write_cell(rows: Rows, node: int, slot: int, records: Ints64, at: int) -> None:
    """One device as its record says."""
    rows.mode[node, slot] = records[at]
    rows.milli[node, slot] = records[at + 1]
    rows.bytes[node, slot] = records[at + 2]
    rows.size[node, slot] = records[at + 3]
    rows.mask[node, slot] = records[at + 4]
    rows.media[node, slot] = records[at + 5]
    rows.card[node, slot] = records[at + 6]

"""A class of the queue: those of its members that wait, what each asks for, and why the class is blocked.

Kept by the queue (waiting.py), which alone changes it; read by whoever decides about a class.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from muster_kernel.sentences import Reason
from muster_scheduler.domain.asked.quotas import NOTHING, Amount
from muster_scheduler.domain.asked.requests import Grant
from muster_scheduler.domain.books.classes import ClassKey, Kin, Place


class Help(Enum):
    """What a change is to a blocked class: nothing, perhaps a place, or a reason to try everything again."""

    NONE = "none"
    PLACE = "place"
    ALL = "all"


@dataclass(slots=True, eq=False)
class Bucket:
    """The waiting members of one class. `reason`: why it is blocked; None while it is worth a try.

    members: in order, and among them some that have left; none before `first` still waits.
    before: why it was blocked, where there is perhaps a place now but no more room to be made than there was then.
    ticket: of the offer of its first member that stands; 0: none does. barred: whether it was ever blocked.
    kin, amounts: the key's. grant: what each member gets where that is CPU and memory alone, else None.
    """

    key: ClassKey
    kin: Kin
    amounts: bytes
    grant: Grant | None
    ticket: int = 0
    barred: bool = False
    members: list[Place] = field(default_factory=list)
    first: int = 0
    count: int = 0
    reason: Reason | None = None
    before: Reason | None = None
    each: Amount = NOTHING  # what one member asks for


Offer = tuple[Place, int, Bucket]  # a class's first member, the ticket, the class

"""The attacks on the edges, with the part taken out that prevents them: here each of them works.

The tests substitute that part themselves; the product has no switch for it. Rows A7, B1, B4, B5, B6, B7 and B11.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest

from muster_kernel import quantities

_MOST_DIGITS = 10_000


def _unbounded(text: str) -> Fraction:
    """The reader of GPU requests as it was: a Fraction of whatever Decimal reads."""
    number = Decimal(text)
    if abs(number.adjusted()) > _MOST_DIGITS:
        raise OverflowError(f"{text} would be written out in {abs(number.adjusted())} digits")
    return Fraction(number)


def test_a_number_that_is_not_bounded_is_written_out_in_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="is not a GPU request"):
        quantities.parse_gpu("1e999999999")
    monkeypatch.setattr(quantities, "exact", _unbounded)
    with pytest.raises(OverflowError, match="999999999 digits"):
        quantities.parse_gpu("1e999999999")

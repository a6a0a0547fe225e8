"""Amounts as exact integers, and the one place where text and fractions become them.

Accounts (requests, shares, quotas) count 1/7,000 GPU, so that hundredths of a card and sevenths of a MIG card are both
exact. A device's free portion counts milli-GPU. Memory is bytes, CPU is milli-CPU.
Called by language and policy on the way in, by the scheduler in its books, by the client on the way out.
Holds: no float takes part in a sum; a text that is not exactly representable is refused, never rounded.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from muster_kernel.numbers import LONGEST as _LONGEST_TEXT
from muster_kernel.numbers import exact

GPU: Final = 7_000  # accounting units of one whole GPU
MILLI: Final = 1_000  # milli-GPU of one whole GPU
UNITS_PER_MILLI: Final = GPU // MILLI
UNITS_PER_SEVENTH: Final = GPU // 7
PORTION_STEP: Final = 10  # milli-GPU: a portion is a multiple of 0.01 GPU
LARGEST: Final = (1 << 63) - 1

QUANTITY: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)([KMGTPE]i?|[mk])?")
QUANTITY_PATTERN: Final = r"^[0-9]+(\.[0-9]+)?([KMGTPE]i?|[mk])?$"
_POWERS: Final = {"K": 1, "k": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}
_WHOLE_BYTES: Final = re.compile(r"([0-9]{1,6})([KMGT]i?|k)?")  # at most 999,999 Ti: below LARGEST
_BYTES: Final[dict[str, int]] = {
    "": 1,
    **{letter: 1000**power for letter, power in _POWERS.items()},
    **{f"{letter}i": 1024**power for letter, power in _POWERS.items()},
}
_WHOLE_CPU: Final = re.compile(r"([0-9]{1,6})(m?)")


@dataclass(frozen=True, slots=True)
class GpuRequest:
    """What `gpu` asks for: `devices` cards, `milli` milli-GPU on each. Whole: milli = 1000; none: (0, 0)."""

    devices: int
    milli: int

    @property
    def units(self) -> int:
        """The request in 1/7,000 GPU."""
        return self.devices * self.milli * UNITS_PER_MILLI


def parse_bytes(text: str) -> int:
    """Bytes of a memory quantity such as `512Mi`, `2G` or `1.5Gi`. Raises ValueError saying what is allowed."""
    whole = _WHOLE_BYTES.fullmatch(text)
    if whole is not None:  # nearly every quantity, at a tenth of the price of exact fractions
        return int(whole[1]) * _BYTES[whole[2] or ""]
    number, suffix = _split(text, what="memory")
    if suffix == "m":
        raise ValueError(
            f"memory {text!r}: the suffix m (thousandths) is for CPU only; use none, K, M, G, T, P, E or Ki.."
        )
    factor = _factor(suffix)
    return _exact(number * factor, text, "memory", "bytes")


def parse_milli_cpu(text: str) -> int:
    """Milli-CPU of a CPU quantity such as `2`, `0.5` or `250m`. Raises ValueError saying what is allowed."""
    whole = _WHOLE_CPU.fullmatch(text)
    if whole is not None:
        return int(whole[1]) if whole[2] else int(whole[1]) * MILLI
    number, suffix = _split(text, what="cpu")
    if suffix not in {"", "m", "k"}:
        raise ValueError(f"cpu {text!r}: the suffix {suffix} is for memory; CPU takes none, m (thousandths) or k")
    factor = Fraction(1) if suffix == "m" else Fraction(MILLI) * _factor(suffix)
    return _exact(number * factor, text, "cpu", "thousandths of a CPU")


def parse_count(text: str) -> int:
    """Whole units of a named resource, such as `1` or `100Gi`. Raises ValueError saying what is allowed.

    Thousandths (`500m`) count as the next whole one, since nobody hands out a part of such a resource.
    """
    number, suffix = _split(text, what="an amount of")
    amount = number / MILLI if suffix == "m" else number * _factor(suffix)
    return _exact(Fraction(-(-amount.numerator // amount.denominator)), text, "the amount", "units")


def parse_gpu(text: str) -> GpuRequest:
    """A `gpu` request: 0, a portion from 0.01 to 1 in steps of 0.01, or a whole number of devices.

    Raises ValueError saying what is allowed.
    """
    try:
        number = exact(text)
    except ValueError:
        raise ValueError(f"{text[:_LONGEST_TEXT]!r} is not a GPU request: {_GPU_ALLOWED}") from None
    return gpu_request(number, given=text)


_GPU_ALLOWED: Final = "0 is no GPU, 0.01 to 1 a portion in steps of 0.01, a whole number above 1 that many devices"


def gpu_request(number: Fraction, *, given: str = "") -> GpuRequest:
    """The same from an exact number. `given` is what the error quotes."""
    shown = given or str(float(number))
    if number < 0 or number > LARGEST:
        raise ValueError(f"{shown} is not a GPU request: {_GPU_ALLOWED}")
    if number.denominator == 1:
        return GpuRequest(int(number), MILLI if number else 0)
    milli = number * MILLI
    if number > 1 or milli.denominator != 1 or int(milli) % PORTION_STEP:
        raise ValueError(f"{shown} is not a GPU request: {_GPU_ALLOWED}")
    return GpuRequest(1, int(milli))


def portion_milli(portion: float) -> int:
    """Milli-GPU of a portion that came as a float (REST, protobuf): 0.01 to 1 in steps of 0.01."""
    if not 0 < portion <= 1:
        raise ValueError(f"{portion} is not a portion of a GPU: 0.01 to 1, in steps of 0.01")
    hundredths = round(portion * 100)
    if hundredths / 100 != portion:  # division rounds as literals do: equal means that the text had two decimals
        raise ValueError(f"{portion!r} is not a GPU request: {_GPU_ALLOWED}")
    return hundredths * PORTION_STEP


def memory_units(requested: int, device: int) -> int:
    """What `requested` bytes charge on a device of `device` bytes: rounded up to 0.01 GPU, in 1/7,000 GPU."""
    if requested < 0 or device <= 0:
        raise ValueError(f"{requested} bytes of a device of {device} bytes is no memory request")
    hundredths = min(100, -(-requested * 100 // device))
    return hundredths * PORTION_STEP * UNITS_PER_MILLI


def format_gpu(units: int) -> str:
    """An account in GPUs: `0.5`, `3`, `1/7`, `2 3/7`; thousandths where they are exact, else sevenths."""
    if units % UNITS_PER_MILLI == 0:
        whole, milli = divmod(abs(units) // UNITS_PER_MILLI, MILLI)
        text = f"{whole}.{milli:03d}".rstrip("0").rstrip(".")
        return f"-{text}" if units < 0 else text
    if units % UNITS_PER_SEVENTH == 0:
        whole, sevenths = divmod(abs(units) // UNITS_PER_SEVENTH, 7)
        text = f"{whole} {sevenths}/7" if whole else f"{sevenths}/7"
        return f"-{text}" if units < 0 else text
    return f"{units / GPU:.3f}"


def format_bytes(amount: int) -> str:
    """Bytes with the largest binary suffix that keeps them exact: `1536Mi`, `2Gi`, `1000`."""
    for power, suffix in ((6, "Ei"), (5, "Pi"), (4, "Ti"), (3, "Gi"), (2, "Mi"), (1, "Ki")):
        if amount and amount % (1 << (10 * power)) == 0:
            return f"{amount >> (10 * power)}{suffix}"
    return str(amount)


def format_milli_cpu(amount: int) -> str:
    """Milli-CPU as people write it: `2`, `250m`."""
    return str(amount // MILLI) if amount % MILLI == 0 else f"{amount}m"


def _split(text: str, *, what: str) -> tuple[Fraction, str]:
    match = QUANTITY.fullmatch(text) if len(text) <= _LONGEST_TEXT else None
    if match is None:
        raise ValueError(
            f"{what} {text[:_LONGEST_TEXT]!r} is not a quantity: a number that is not negative, with one of "
            f"{'m, k or no suffix' if what == 'cpu' else 'K M G T P E, Ki Mi Gi Ti Pi Ei or no suffix'}"
        )
    return Fraction(match[1]), match[2] or ""


def _factor(suffix: str) -> Fraction:
    if not suffix:
        return Fraction(1)
    base = 1024 if suffix.endswith("i") else 1000
    return Fraction(base ** _POWERS[suffix[0]])


def _exact(amount: Fraction, text: str, what: str, unit: str) -> int:
    if amount.denominator != 1:
        raise ValueError(f"{what} {text!r} is not a whole number of {unit}")
    if amount > LARGEST:
        raise ValueError(f"{what} {text!r} is too large: at most {LARGEST} {unit}")
    return int(amount)

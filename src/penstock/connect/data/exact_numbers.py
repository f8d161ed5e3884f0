"""Numbers between Python and Java without a second rounding: BigDecimal to float, BigInteger to bytes."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np


def nearest_float32(number: Decimal) -> float:
    """`BigDecimal.floatValue()`. Rounding to a double first may give another number; there is no negative zero."""
    if number == 0:
        return 0.0
    with np.errstate(over="ignore"):
        near = np.float32(float(number))
        if not np.isfinite(near):
            return float(near)
        candidates = (near, np.nextafter(near, np.float32("-inf")), np.nextafter(near, np.float32("inf")))
    exact = Fraction(number)
    finite = [float(each) for each in candidates if np.isfinite(each)]
    return min(finite, key=lambda each: (abs(Fraction(each) - exact), _is_odd(each)))


def _is_odd(number: float) -> bool:
    return bool(np.float32(number).view(np.uint32) & 1)


def unscaled_bytes(number: int) -> bytes:
    """`BigInteger.toByteArray()`."""
    return number.to_bytes((number + (number < 0)).bit_length() // 8 + 1, "big", signed=True)

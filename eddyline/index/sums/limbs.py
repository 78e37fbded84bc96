"""Exact sums of doubles: fixed-point numbers of 32-bit limbs in int64, with delayed carries.

Every finite double is a whole multiple of 2**-1074, and limb j counts multiples of 2**(32 j - 1074): limbs 0 to 65 hold
any double. A limb array keeps a window of limbs that starts at `base`. A double adds a signed part to three limbs, so
limbs add and subtract exactly and in any order. A limb that reaches 2**62 passes its upper bits to the next
one; a window therefore ends with one limb more than its values need, which only takes carries and cannot overflow
before 2**61 doubles were added.

Cost: adding a double takes a few integer operations; rounding a sum passes over its limbs once. The idea is Kulisch's
long accumulator, with the delayed carries of Neal's "Fast exact summation using small and large superaccumulators"
(2015).
"""

from __future__ import annotations

import numpy as np

from eddyline.arrays import Doubles, Ints
from eddyline.index.runtime.kernel_cache import dividing_kernel, kernel

LIMBS = 66  # limbs that a double can have
LOW_BITS = 2**32 - 1
CARRY_AT = 2**62
GREATEST = float(np.finfo(np.float64).max)


@kernel
def parts(x: float) -> tuple[int, int, int, int]:
    """The limb at which a finite double begins, and what it adds to this limb and the two above."""
    bits: int = np.float64(x).view(np.int64)  # type: ignore[assignment]
    shift, mantissa = (bits >> 52) & 0x7FF, bits & 0xFFFFFFFFFFFFF
    if shift > 0:
        shift -= 1
        mantissa |= 1 << 52
    limb, s = shift >> 5, shift & 31
    first = (mantissa & (LOW_BITS >> s)) << s
    second = (mantissa >> (32 - s)) & LOW_BITS
    third = (mantissa >> 32) >> (32 - s)
    if bits < 0:
        return limb, -first, -second, -third
    return limb, first, second, third


@kernel
def fits(x: float, base: int, size: int) -> bool:
    """Whether a window has the three limbs of a double, and one above those that are not 0."""
    limb, _, _, third = parts(x)
    return x == 0.0 or (base <= limb and limb + 2 + (third != 0) < base + size)


@kernel
def limb_range(values: Doubles) -> tuple[int, int]:
    """The lowest and the highest limb of these values: all fit a window from `low` to `high` + 1. LIMBS and -1 if all
    are 0. O(values)."""
    low, high = LIMBS, -1
    for i in range(values.shape[0]):
        for c in range(values.shape[1]):
            if values[i, c] != 0.0:
                limb, _, _, third = parts(values[i, c])
                low, high = min(low, limb), max(high, limb + 1 + (third != 0))
    return low, high


@kernel
def add_double(limbs: Ints, r: int, c: int, base: int, x: float) -> None:
    """Adds a double that fits the window to the sum limbs[r, c]."""
    if x == 0.0:
        return
    limb, first, second, third = parts(x)
    j = limb - base
    # Parts that are 0 are added too: which ones are is hard to predict.
    v0, v1, v2 = limbs[r, c, j] + first, limbs[r, c, j + 1] + second, limbs[r, c, j + 2] + third
    limbs[r, c, j], limbs[r, c, j + 1], limbs[r, c, j + 2] = v0, v1, v2
    if (v0 + CARRY_AT) | (v1 + CARRY_AT) | (v2 + CARRY_AT) < 0:  # some v >= 2**62, where this wraps, or < -2**62
        for k in range(j, j + 3):
            v = limbs[r, c, k]
            if v >= CARRY_AT or v < -CARRY_AT:
                limbs[r, c, k + 1] += v >> 32
                limbs[r, c, k] = v & LOW_BITS


@kernel
def decompose(values: Doubles, base: int, size: int) -> Ints:
    """What each value adds to each limb of a window, by value, column and limb. O(values * size)."""
    limbs = np.zeros((values.shape[0], values.shape[1], size), np.int64)
    for i in range(values.shape[0]):
        for c in range(values.shape[1]):
            add_double(limbs, i, c, base, values[i, c])
    return limbs


@kernel
def to_magnitude(digits: Ints, n: int) -> bool:
    """Turns n limbs into n + 2 digits of 32 bits of their absolute value; whether the sum is negative."""
    carry = 0
    for j in range(n):
        v = digits[j] + carry
        digits[j] = v & LOW_BITS
        carry = v >> 32
    digits[n] = carry & LOW_BITS
    digits[n + 1] = (carry >> 32) & LOW_BITS
    if carry >= 0:
        return False
    plus = 1
    for j in range(n + 2):
        v = (~digits[j] & LOW_BITS) + plus
        digits[j] = v & LOW_BITS
        plus = v >> 32
    return True


@dividing_kernel
def quotient(digits: Ints, n: int, base: int, divisor: int) -> float:
    """The double nearest to a number divided by a count, ties to even; infinity if it is beyond the greatest double.

    `digits` are those of 32 bits from the limb `base` upwards. The division goes from the top digit down; three digits
    from the first that is not 0 have more than 64 bits, of the rest it only matters whether it is 0. A remainder
    is below the divisor: 2**31, or 2**47 if each digit is divided in two halves, keeps it within int64.
    """
    j = n - 1
    while j >= 0 and digits[j] == 0:
        j -= 1
    if j < 0:
        return 0.0
    if divisor == 1:
        inexact = False
        for k in range(j - 2):
            inexact = inexact or digits[k] != 0
        return _nearest(digits[j], digits[j - 1] if j > 0 else 0, digits[j - 2] if j > 1 else 0, base + j, inexact)
    d0, d1, d2 = 0, 0, 0
    known, place, rest = 0, 0, 0
    while known < 3 and (j >= 0 or rest != 0) and base + j >= -1:  # limb -1 is below the least double
        digit = digits[j] if j >= 0 else 0
        if divisor < 1 << 31:
            v = rest << 32 | digit
            q = v // divisor
            rest = v - q * divisor
        else:
            v = rest << 16 | digit >> 16
            q = v // divisor
            v = (v - q * divisor) << 16 | digit & 0xFFFF
            low = v // divisor
            rest = v - low * divisor
            q = q << 16 | low
        if known == 0:
            if q != 0:
                d0, place, known = q, base + j, 1
        elif known == 1:
            d1, known = q, 2
        else:
            d2, known = q, 3
        j -= 1
    inexact = rest != 0
    while j >= 0 and not inexact:
        inexact = digits[j] != 0
        j -= 1
    return 0.0 if known == 0 else _nearest(d0, d1, d2, place, inexact)


@kernel
def _nearest(d0: int, d1: int, d2: int, place: int, inexact: bool) -> float:
    """The double nearest to the digits d0, d1, d2, of which d0 > 0 stands at the limb `place`, and something less."""
    length: int = (np.float64(d0).view(np.int64) >> 52) - 1022  # type: ignore[assignment]  # bits of d0
    if length == 32:
        v = d0 << 31 | d1 >> 1
        inexact = inexact or (d1 & 1) != 0 or d2 != 0
    else:
        v = d0 << (63 - length) | d1 << (31 - length) | d2 >> (length + 1)
        inexact = inexact or (d2 & ((2 << length) - 1)) != 0
    top = 32 * place + length - 1  # v has 63 bits, the first is worth 2**(top - 1074)
    if top < -1:
        return 0.0
    if top > 2097:
        return np.inf
    drop = 10 if top >= 52 else 62 - top  # below 2**-1022 the bits of a double end at 2**-1074
    kept = v >> drop
    half = 1 << (drop - 1)
    if v & half and (inexact or (v & (half - 1)) != 0 or kept & 1):
        kept += 1
    if top >= 52:
        kept += (top - 52) << 52  # the leading bit of 53 counts as one in the exponent
    return np.int64(kept).view(np.float64)


@kernel
def expand(limbs: Ints, base: int) -> tuple[Ints, Doubles]:
    """Sums as doubles that add up to them exactly: (row, doubles of all columns), by row, at least one line a row.

    Each double is the nearest to what the ones before it leave; a sum beyond the greatest double has it several times,
    never more often than doubles were added. O(lines * columns * limbs).
    """
    rows, columns, size = limbs.shape
    row = np.empty(2 * rows + 1, np.int64)
    values = np.zeros((len(row), columns), np.float64)
    # What is left of a sum; a double that is nearest to it may begin, with zeros, or end outside of the window.
    left = np.zeros((1, 1, size + 4), np.int64)
    digits = np.empty(size + 6, np.int64)
    used = 0
    for r in range(rows):
        lines = 1
        for c in range(columns):
            left[0, 0, :] = 0
            left[0, 0, 2 : size + 2] = limbs[r, c]
            k = 0
            while True:
                if used + k == len(row):
                    row = np.concatenate((row, np.empty_like(row)))
                    values = np.concatenate((values, np.zeros_like(values)))
                digits[: size + 4] = left[0, 0]
                negative = to_magnitude(digits, size + 4)
                x = min(quotient(digits, size + 6, base - 2, 1), GREATEST)
                if x == 0.0:
                    break
                values[used + k, c] = -x if negative else x
                add_double(left, 0, 0, base - 2, x if negative else -x)
                k += 1
            lines = max(lines, k)
        row[used : used + lines] = r
        used += lines
    return row[:used], values[:used]

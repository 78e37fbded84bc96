"""A condition across two inputs says of a difference what it says as it was written, and nothing where it overflows."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from itertools import product
from random import Random

import pyarrow as pa
import pytest

from eddyline import types as t
from eddyline.operators.evaluate import evaluate
from eddyline.plan.differences import COMPARED, Difference, Inputs, differences
from eddyline.plan.expressions import columns_of, text
from eddyline.sql.bound import Call, Column, Constant, Expr, Param


def difference(written: Expr, inputs: Inputs) -> Difference | None:
    (said,) = differences(written, inputs, "exact") or [None]
    return said


A, B = Column(0, t.BYTE, "a"), Column(1, t.BYTE, "b")
P, Q = Param(0, t.BYTE, "p"), Param(1, t.SHORT, "q")
VALUES = (-128, -127, -60, -1, 0, 1, 3, 64, 127)


def total(rnd: Random, parts: list[Expr]) -> Expr:
    """Some sum of the parts, in the type of each pair."""
    if len(parts) == 1:
        return parts[0]
    cut = rnd.randint(1, len(parts) - 1)
    args = total(rnd, parts[:cut]), total(rnd, parts[cut:])
    common = t.common(args[0].type, args[1].type)
    wider = tuple(x if x.type == common else Call("cast", (x,), common) for x in args)
    return Call(rnd.choice(["add", "sub"]), wider, common)


def condition(rnd: Random) -> Call:
    parts = [A, B, *rnd.sample([P, Q, Constant(2, t.BYTE), P], rnd.randint(0, 3))]
    rnd.shuffle(parts)
    cut = rnd.randint(1, len(parts) - 1)
    sides = total(rnd, parts[:cut]), total(rnd, parts[cut:])
    common = t.common(sides[0].type, sides[1].type)
    return Call(
        rnd.choice(COMPARED), tuple(x if x.type == common else Call("cast", (x,), common) for x in sides), t.BOOLEAN
    )


def says(found: Difference, columns: Sequence[pa.Array], params: Sequence[pa.Array]) -> list[bool]:
    """What a difference says of some numbers, row by row."""
    n = len(columns[0])
    of = {e: evaluate(e, columns, params, n).to_pylist() for e in (found.left, found.right, found.bound)}
    terms = {e: evaluate(e, (), params, n).to_pylist() for s in found.sums for _, e in s.bounds}
    compare = getattr(operator, found.op)
    said = []
    for i in range(n):
        left, right, bound = (of[e][i] for e in (found.left, found.right, found.bound))
        spans = {e: (values[i], values[i]) for e, values in terms.items()}
        fits = bound is not None and all(s.fits((left, left), (right, right), spans) for s in found.sums)
        said.append(fits and compare(left - right, bound))
    return said


@pytest.mark.parametrize("seed", range(60))
def test_a_difference_says_what_the_condition_says(seed: int) -> None:
    rnd = Random(seed)
    written = condition(rnd)
    found = difference(written, columns_of)
    if found is None:  # both are added, or both taken away
        return
    rows = [(*x, rnd.choice([-32768, -300, 0, 5, 32767])) for x in product(VALUES, VALUES, VALUES)]
    a, b, p, q = (pa.array(c, k) for c, k in zip(zip(*rows, strict=True), (t.BYTE,) * 3 + (t.SHORT,), strict=True))
    holds = evaluate(written, [a, b], [p, q], len(rows)).fill_null(False).to_pylist()
    assert says(found, [a, b], [p, q]) == holds, text(written)
    assert says(found.mirrored(), [a, b], [p, q]) == holds, text(written)


def test_most_conditions_are_differences() -> None:
    assert sum(difference(condition(Random(seed)), columns_of) is not None for seed in range(60)) > 25


def test_a_span_fits_if_all_its_numbers_do() -> None:
    found = difference(Call("ge", (A, Call("add", (B, P), t.BYTE)), t.BOOLEAN), columns_of)
    assert found is not None
    (total,) = found.sums
    assert total.fits((0, 0), (-100, 100), {P: (-28, 27)})
    assert not total.fits((0, 0), (-100, 100), {P: (-29, 27)})
    assert not total.fits((0, 0), (-100, 100), {P: (-28, 28)})


@pytest.mark.parametrize(
    "written",
    [
        Call("ge", (Column(0, t.DOUBLE, "a"), Call("add", (Column(1, t.DOUBLE, "b"), P), t.DOUBLE)), t.BOOLEAN),
        Call("lt", (Column(0, t.STRING, "a"), Column(1, t.STRING, "b")), t.BOOLEAN),
        Call("ne", (A, B), t.BOOLEAN),
        Call("ge", (A, Call("mul", (B, P), t.BYTE)), t.BOOLEAN),
        Call("ge", (A, Call("neg", (B,), t.BYTE)), t.BOOLEAN),
        Call("ge", (A, P), t.BOOLEAN),
    ],
)
def test_what_is_no_difference_is_left(written: Call) -> None:
    assert difference(written, columns_of) is None

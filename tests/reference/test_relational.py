"""Aggregates and keys at the edges: NULL, NaN, infinities, both zeros, sums that do not fit."""

from collections import Counter
from fractions import Fraction
from typing import Any

from eddyline import types as t
from eddyline.reference import Reference, canonical
from eddyline.sql.bound import (
    Aggregate,
    BoundQuery,
    Column,
    Field,
    SetQuery,
    TableSource,
)
from tests.reference.build import COUNT, UNBOUNDED, A, bag, group, reference, select, stream


def totals(*values: float | None) -> Counter[Any]:
    """SUM, AVG, MIN, MAX and COUNT of doubles given as a table."""
    x = Column(0, t.DOUBLE, "x")
    source = TableSource("d", "d", (Field("x", t.DOUBLE),), True)
    names: tuple[Any, ...] = ("sum", "avg", "min", "max")
    aggregates = (*(Aggregate(f, x, t.DOUBLE) for f in names), Aggregate("count", x, t.BIGINT))
    ref = Reference()
    ref.create_table("d")
    ref.register("q", BoundQuery(group(source, keys=(), aggregates=aggregates), ()))
    ref.change_table("d", inserts=[(v,) for v in values])
    return ref.answer("q")


def test_aggregates_of_floats_know_what_is_not_a_number() -> None:
    nan, inf = float("nan"), float("inf")
    assert totals(None) == bag((None, None, None, None, 0))
    assert totals(1e100, 1.0, -1e100, None) == bag((1.0, 1 / 3, -1e100, 1e100, 3))
    for values in ((nan, 1.0), (1.0, nan)):
        assert totals(*values) == bag(("NaN", "NaN", 1.0, "NaN", 2))
    assert totals(inf, 1.0) == bag((inf, inf, 1.0, inf, 2))
    assert totals(inf, -inf) == bag(("NaN", "NaN", -inf, inf, 2))
    assert totals(1.7e308, 1.7e308) == bag((inf, 1.7e308, 1.7e308, 1.7e308, 2))


def test_sums_and_means_of_floats_are_rounded_once() -> None:
    assert totals(1e30, 0.001, -1e30, 0.001, 0.001) == bag((0.003, float(Fraction(0.001) * 3 / 5), -1e30, 1e30, 5))
    assert totals(0.1, 0.1, 0.1) == bag((0.30000000000000004, 0.1, 0.1, 0.1, 3))
    assert totals(5e-324, 5e-324) == bag((1e-323, 5e-324, 5e-324, 5e-324, 2))


def test_an_integer_sum_that_does_not_fit_is_null_and_one_that_fits_in_the_end_is_not() -> None:
    ref = reference(group(stream(UNBOUNDED), keys=(), aggregates=(Aggregate("sum", A, t.BIGINT),)), delay=9)
    ref.push("s", [(2**63 - 1, 10), (1, 11), (-1, 12)])
    assert [ref.answer("q", at) for at in (10, 11, 12)] == [bag(2**63 - 1), bag(None), bag(2**63 - 1)]


def test_all_nans_are_one_value_and_so_are_the_zeros() -> None:
    source = TableSource("d", "d", (Field("x", t.DOUBLE),), True)
    x = Column(0, t.DOUBLE, "x")
    ref = Reference()
    ref.create_table("d")
    ref.change_table("d", inserts=[(float("nan"),), (-float("nan"),), (0.0,), (-0.0,), (None,), (None,)])
    ref.register("groups", BoundQuery(group(source, keys=(x,), aggregates=(COUNT,)), ()))
    ref.register("distinct", BoundQuery(select(source, outputs=(x,), distinct=True), ()))
    ref.register(
        "except", BoundQuery(SetQuery("except", select(source, outputs=(x,)), select(source, outputs=(x,))), ())
    )
    ref.register("all", BoundQuery(select(source, outputs=(x,)), ()))
    assert ref.answer("groups") == bag(("NaN", 2), (0.0, 2), (None, 2))
    assert ref.answer("distinct") == bag("NaN", 0.0, None)
    assert ref.answer("except") == bag()
    assert ref.answer("all") == bag("NaN", "NaN", 0.0, 0.0, None, None)
    assert str(canonical((-0.0,))) == "(0.0,)"

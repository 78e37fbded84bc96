"""A condition against its clauses, both by the reference evaluator, on every assignment of true, false and NULL."""

from __future__ import annotations

from itertools import product
from random import Random
from typing import Any

import pytest

from eddyline import types as t
from eddyline.plan import normal_form
from eddyline.plan.normal_form import MOST_ATOMS, MOST_CLAUSES, Clause, clauses
from eddyline.reference.scalar import value
from eddyline.sql.bound import Call, Column, Constant, Expr, Param

TRUTH: tuple[bool | None, ...] = (True, False, None)
NUMBERS: tuple[int | None, ...] = (None, 0, 1, 2)
X: list[Expr] = [Column(i, t.BOOLEAN, f"x{i}") for i in range(3)]
A: Expr
B: Expr
A, B = Column(3, t.INT, "a"), Column(4, t.INT, "b")
ROWS = [(*x, a, b) for x in product(TRUTH, repeat=3) for a, b in product(NUMBERS, repeat=2)]
COMPARISONS = ["eq", "ne", "lt", "le", "gt", "ge"]


def call(function: str, *args: Expr) -> Call:
    return Call(function, args, t.BOOLEAN)


def number(value: int | None) -> Expr:
    return Constant(value, t.INT)


def is_true(expr: Expr, row: tuple[Any, ...], params: tuple[Any, ...] = ()) -> bool:
    return value(expr, row, params, {}) is True


def hold(found: tuple[Clause, ...], row: tuple[Any, ...], params: tuple[Any, ...] = ()) -> bool:
    return all(any(is_true(atom, row, params) for atom in clause) for clause in found)


def agree(condition: Expr, note: str = "") -> None:
    found = clauses(condition)
    for row in ROWS:
        assert hold(found, row) == is_true(condition, row), f"{note} at {row}"


def a_condition(rnd: Random, depth: int) -> Expr:
    kind = rnd.choice(["and", "or", "not", "not", "in", "compare", "same", "is_null", "column", "constant", "case"])
    if depth == 0 and kind in ("and", "or", "not"):
        kind = "compare"
    match kind:
        case "and" | "or":
            return call(kind, *(a_condition(rnd, depth - 1) for _ in range(rnd.choice([2, 2, 3]))))
        case "not":
            return call("not", a_condition(rnd, depth - 1))
        case "in":
            return call("in", rnd.choice([A, B]), *(number(rnd.choice(NUMBERS)) for _ in range(rnd.randint(1, 3))))
        case "compare":
            return call(rnd.choice(COMPARISONS), rnd.choice([A, B]), rnd.choice([A, B, number(rnd.choice(NUMBERS))]))
        case "same":
            return call("same", A, rnd.choice([B, number(None), number(1)]))
        case "is_null":
            return call("is_null", rnd.choice([*X, A]))
        case "column":
            return rnd.choice(X)
        case "case":
            return call("case", X[0], X[1], X[2])
    return Constant(rnd.choice(TRUTH), t.BOOLEAN)


@pytest.mark.parametrize("seed", range(80))
def test_a_condition_is_true_where_all_its_clauses_are(seed: int) -> None:
    agree(a_condition(Random(seed), depth=4), f"seed {seed}")


@pytest.mark.parametrize("most", [1, 2, 5])
@pytest.mark.parametrize("seed", range(20))
def test_a_condition_cut_off_by_the_limits_agrees_too(monkeypatch: pytest.MonkeyPatch, most: int, seed: int) -> None:
    monkeypatch.setattr(normal_form, "MOST_CLAUSES", most)
    monkeypatch.setattr(normal_form, "MOST_ATOMS", 2 * most)
    condition = a_condition(Random(f"{most} {seed}"), depth=4)
    agree(condition, f"seed {most} {seed}")
    found = clauses(condition)
    assert len(found) <= most and sum(map(len, found)) <= 2 * most, f"seed {most} {seed}"


def test_no_condition_has_no_clause() -> None:
    assert clauses(None) == ()


def test_negation_goes_down_by_de_morgan() -> None:
    assert clauses(call("not", call("and", *X))) == (tuple(call("not", x) for x in X),)
    assert clauses(call("not", call("or", *X))) == tuple((call("not", x),) for x in X)
    assert clauses(call("not", call("not", call("or", *X)))) == (tuple(X),)
    assert clauses(call("and", X[0], call("and", X[1], X[2]))) == ((X[0],), (X[1],), (X[2],))


def test_alternatives_of_conjunctions_are_spread_out() -> None:
    found = clauses(call("or", call("and", X[0], X[1]), X[2]))
    assert found == ((X[0], X[2]), (X[1], X[2]))
    assert clauses(call("or", call("and", X[0], X[1]), X[0])) == ((X[0],), (X[1], X[0]))


@pytest.mark.parametrize(("op", "turned"), [("eq", "ne"), ("lt", "ge"), ("le", "gt")])
def test_a_negated_comparison_is_turned_around(op: str, turned: str) -> None:
    for one, other in ((op, turned), (turned, op)):
        assert clauses(call("not", call(one, A, B))) == ((call(other, A, B),),)
        agree(call("not", call(one, A, B)))


@pytest.mark.parametrize("function", ["same", "is_null", "like"])
def test_a_negated_atom_without_an_opposite_stays_negated(function: str) -> None:
    atom = call(function, A) if function == "is_null" else call(function, A, B)
    assert clauses(call("not", atom)) == ((call("not", atom),),)


def test_in_is_one_clause_and_not_in_a_clause_for_every_item() -> None:
    within = call("in", A, number(0), number(1), number(0))
    assert clauses(within) == ((call("eq", A, number(0)), call("eq", A, number(1))),)
    assert clauses(call("not", within)) == ((call("ne", A, number(0)),), (call("ne", A, number(1)),))


@pytest.mark.parametrize("items", [(None,), (None, 0), (0, None, 1), (0, 1, 2), (7,)])
def test_in_with_null_items_is_true_where_it_was(items: tuple[int | None, ...]) -> None:
    within = call("in", A, *map(number, items))
    agree(within)
    agree(call("not", within))
    agree(call("or", call("not", within), call("and", within, X[0])))
    if None in items:
        assert not any(hold(clauses(call("not", within)), row) for row in ROWS)


def test_parameters_in_atoms_stay_what_they_are() -> None:
    low, high = Param(0, t.INT, "low"), Param(1, t.INT, "high")
    outside = call("not", call("and", call("ge", A, low), call("le", A, high)))
    assert clauses(outside) == ((call("lt", A, low), call("gt", A, high)),)
    for params in product(NUMBERS, repeat=2):
        for row in ROWS:
            assert hold(clauses(outside), row, params) == is_true(outside, row, params), (params, row)


def several(n: int, width: int) -> Call:
    """n alternatives of `width` parts each, all different: width ** n clauses of n atoms."""
    return call("or", *(call("and", *(call("eq", A, number(i * width + j)) for j in range(width))) for i in range(n)))


def test_a_condition_of_too_many_clauses_stays_one_atom() -> None:
    assert len(clauses(several(6, 2))) == 1 == len(clauses(several(2, 9)))
    assert len(clauses(several(2, 8))) == MOST_CLAUSES == 64
    assert clauses(several(6, 2)) == ((several(6, 2),),)
    assert len(clauses(several(5, 2))) == 32


def test_a_condition_of_too_many_atoms_stays_one_atom() -> None:
    def within(n: int) -> Call:
        return call("in", A, *(number(i) for i in range(n)))

    assert [len(c) for c in clauses(within(MOST_ATOMS))] == [MOST_ATOMS]
    assert clauses(within(MOST_ATOMS + 1)) == ((within(MOST_ATOMS + 1),),)
    assert len(clauses(call("not", within(MOST_CLAUSES)))) == MOST_CLAUSES
    assert clauses(call("not", within(MOST_CLAUSES + 1))) == ((call("not", within(MOST_CLAUSES + 1)),),)


def test_a_part_that_is_too_large_leaves_the_others_as_they_are() -> None:
    large = several(8, 2)
    assert clauses(call("and", X[0], large, X[1])) == ((X[0],), (large,), (X[1],))
    assert clauses(call("and", X[0], call("not", several(2, 2)))) == (
        (X[0],),
        *((call("ne", A, number(2 * i)), call("ne", A, number(2 * i + 1))) for i in range(2)),
    )


def test_a_negated_part_that_is_too_large_stays_negated() -> None:
    spread = call("and", *(call("or", *(call("eq", A, number(i)), X[i % 3])) for i in range(40)))
    assert clauses(call("not", spread)) == ((call("not", spread),),)
    agree(call("not", spread))

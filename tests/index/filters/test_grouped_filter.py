"""Grouped filters against five plain lines that evaluate every condition on the raw values of every row."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from eddyline.arrays import Mask
from eddyline.index.filters import bitmaps, domains, grouped_filter
from eddyline.index.filters.bitmaps import Bitmaps
from eddyline.index.filters.filter_search import Route, Router, What, search
from eddyline.index.filters.grouped_filter import GroupedFilter
from eddyline.index.filters.row_codes import RowCodes
from eddyline.index.filters.steps import steps_in
from eddyline.index.runtime.row_sets import merged
from tests.index.conditions import (
    Condition,
    Kind,
    Range,
    a_condition,
    a_row,
    as_columns,
    as_conditions,
    truth,
)
from tests.nightly import TIMES

SIZES = [0, 1, 31, 32, 33, 64, 1025, 4095, 4096, 4097, 8200]
NONE_DEAD = np.empty(0, np.bool_)
Pairs = set[tuple[int, int]]
TREES = {"BLOCK_STEP": 1e9, "SMALLEST_TREE": 1}
FORCED: dict[str, dict[str, float]] = {
    "as it is": {},
    "trees": TREES,
    "trees, for bitmaps would be large": {"BYTES_PER_CONDITION": 0, "FEW": 0, "SMALLEST_TREE": 1},
    "trees of one box": TREES | {"MOST_BOXES": 1},
    "few trees": TREES | {"SMALLEST_TREE": 20, "MOST_TREES": 3},
    "no attribute told apart": TREES | {"MOST_TOLD_APART": 0},
    "all told apart": TREES | {"NARROW": 2.0, "MOST_BOXES": 10_000},
    "both": {"SMALLEST_TREE": 4, "BLOCK_STEP": 2000.0},
    "bitmaps": {"SMALLEST_TREE": 10**9},
}


def force(monkeypatch: pytest.MonkeyPatch, how: str, cuts: int = 65_533, bins: int = 256) -> None:
    for name, value in FORCED[how].items():
        monkeypatch.setattr(grouped_filter, name, value)
    monkeypatch.setattr(domains, "MOST_CUTS", cuts)
    monkeypatch.setattr(bitmaps, "MOST_BINS", bins)


def shuffled(rnd: Random) -> Router:
    """Any order, with any number of attributes coded for all rows; the others are coded for the rows that need them."""

    def route(maps: Bitmaps, codes: RowCodes, alive: Mask) -> Route:
        width = len(maps.attributes)
        order = np.array(rnd.sample(range(width), width), np.int64)
        return Route(steps_in(maps, order, alive), rnd.randint(0, width))

    return route


class Case:
    """Conditions, rows, and the filter made of the conditions; a third of them has a part that is no range."""

    def __init__(self, seed: str, kind: Kind, conditions: list[Condition], rows: int, partial: float = 0.3) -> None:
        self.seed = f"seed {seed}"
        self.rnd = Random(f"{seed} rows")
        self.kind, self.conditions = kind, conditions
        self.rows = [a_row(self.rnd, kind) for _ in range(rows)]
        self.beside = np.array(
            [self.rnd.randrange(3) if self.rnd.random() < partial else -1 for _ in conditions], np.int64
        )
        self.filter: GroupedFilter = grouped_filter.grouped_filter(as_conditions(kind, conditions, self.beside >= 0))

    def found(self, alive: Mask, what: What) -> tuple[np.ndarray, Pairs, Pairs]:
        """Counts, certain pairs of lists, and unsure pairs."""
        columns = as_columns(self.kind, self.rows)
        codes = RowCodes(self.filter.domains, columns, len(self.rows))
        matches = search(self.filter, codes, alive, shuffled(self.rnd), what)
        pairs = list(zip(matches.pairs.rows.tolist(), matches.pairs.slots.tolist(), strict=True))
        certain = [p for p in pairs if p[1] >= 0]
        assert len(matches.sets) == (self.filter.partial.count(False) if what == "lists" else 0), self.seed
        for sets in matches.sets:
            members = merged(len(self.rows), [sets])
            rows = np.repeat(np.arange(len(self.rows)), members.counts)
            certain += zip(rows.tolist(), members.members.tolist(), strict=True)
        assert matches.unsure == any(i < 0 for _, i in pairs), self.seed
        assert len(set(certain)) == len(certain), f"{self.seed}: a certain match is there twice"
        return matches.counts, set(certain), {(r, ~i) for r, i in pairs if i < 0}

    def check(self) -> None:
        alive = np.array([self.rnd.random() < 0.6 for _ in self.conditions], np.bool_)
        for flags in (NONE_DEAD, alive):
            wanted = truth(self.conditions, self.rows, flags, self.beside)
            _, certain, unsure = self.found(flags, "lists")
            assert certain <= wanted, f"{self.seed}: certain, and wrong"
            assert wanted <= certain | unsure, f"{self.seed}: missed"
            assert not certain & unsure, f"{self.seed}: certain and unsure"
            counts, none, unsure = self.found(flags, "counts")
            decided = np.bincount([r for r, _ in unsure & wanted], minlength=len(self.rows))
            plain = np.bincount([r for r, _ in wanted], minlength=len(self.rows))
            assert (counts + decided).tolist() == plain.tolist() and not none, f"{self.seed}: counts"


def random_conditions(seed: str, kind: Kind, n: int) -> list[Condition]:
    rnd = Random(seed)
    return [a_condition(rnd, kind) for _ in range(n)]


@pytest.mark.parametrize("how", FORCED)
@pytest.mark.parametrize("cuts", [65_533, 5])
@pytest.mark.parametrize("seed", range(4 * TIMES))
def test_every_structure_agrees_with_plain_evaluation(
    monkeypatch: pytest.MonkeyPatch, how: str, cuts: int, seed: int
) -> None:
    name = f"{how} {cuts} {seed}"
    rnd = Random(name)
    force(monkeypatch, how, cuts, rnd.choice([8, 256]))
    kind = Kind(
        rnd.choice(["n", "t", "nt", "nnt", "nttnn"]), spread=rnd.choice([5, 30, 400]), width=rnd.choice([2, 20])
    )
    Case(name, kind, random_conditions(name, kind, rnd.choice([40, 150])), rows=20).check()


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("how", ["as it is", "trees", "bitmaps"])
def test_any_number_of_conditions_is_found(monkeypatch: pytest.MonkeyPatch, how: str, n: int) -> None:
    force(monkeypatch, how, cuts=65_533 if n % 2 else 64)
    kind = Kind("nn", spread=500, width=60, clauses=2, alternatives=2)
    Case(f"{n}", kind, random_conditions(f"{n}", kind, n), rows=4).check()


@pytest.mark.parametrize("how", FORCED)
def test_nothing_but_odd_ranges_agrees_too(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    force(monkeypatch, how, bins=4)
    kind = Kind("nt", spread=4, width=2, clauses=4, alternatives=4, odd=0.5, mixed=0.5)
    Case(how, kind, random_conditions(how, kind, 300), rows=25).check()


@pytest.mark.parametrize("how", FORCED)
def test_conditions_over_many_attributes_agree_too(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    force(monkeypatch, how)
    kind = Kind("n" * 70, spread=6, width=5, clauses=5)
    Case(how, kind, random_conditions(how, kind, 200), rows=10).check()


def test_the_structures_that_are_meant_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = Kind("nn", spread=400, odd=0.0)
    conditions = [[[Range(0, i, i + 2)], [Range(1, None, 3 * i)]] for i in range(1, 400)]
    for how, trees, maps in [("as it is", 0, 1), ("trees", 2, 0), ("bitmaps", 0, 1)]:
        force(monkeypatch, how)
        found = Case(how, kind, list(conditions), rows=5, partial=0.0).filter
        assert (min(len(found.trees), 2), len(found.maps)) == (trees, maps), how
    selective = [[[Range(0, i, i + 1)]] for i in range(20_000)]
    monkeypatch.undo()
    found = Case("selective", Kind("n"), [*selective, []], rows=5, partial=0.0).filter
    assert len(found.trees) == 1 and [m.slots.tolist() for m in found.maps] == [[20_000]]


def test_conditions_over_other_attributes_do_not_make_a_tree_dearer() -> None:
    """20,000 small ranges over one attribute are worth a tree, also where as many are over another attribute."""
    for kind in (Kind("n"), Kind("nn")):
        every = range(len(kind.attributes))
        conditions: list[Condition] = [[[Range(a, i, i + 1)]] for a in every for i in range(20_000)]
        found = Case("apart", kind, conditions, rows=5, partial=0.0).filter
        assert (len(found.trees), len(found.maps)) == (len(every), 0), f"{len(every)} attributes"


def test_conditions_without_any_attribute_hold_for_all_rows_or_none() -> None:
    kind = Kind("")
    case = Case("empty", kind, [[], [[]], []], rows=3, partial=0.0)
    case.check()
    assert case.found(NONE_DEAD, "lists")[1] == {(r, i) for r in range(3) for i in (0, 2)}


@pytest.mark.parametrize("how", ["trees", "bitmaps"])
def test_a_condition_without_a_clause_holds_beside_others(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    force(monkeypatch, how)
    Case(how, Kind("n"), [[], [[Range(0, 1, 5)]], [[]], [[Range(0)]], []], rows=10, partial=0.0).check()


@pytest.mark.parametrize("how", FORCED)
@pytest.mark.parametrize("cuts", [65_533, 3])
def test_alternatives_that_overlap_are_counted_once(monkeypatch: pytest.MonkeyPatch, how: str, cuts: int) -> None:
    force(monkeypatch, how, cuts)
    either = [Range(0, 1, 20), Range(0, 10, 30), Range(0, 5, 6)]
    apart = [Range(0, 1, 9), Range(0, 10, 30), Range(0, null=True)]
    mixed = [Range(0, 1, 20), Range(1, 10, 30)]
    conditions = [
        [either],
        [apart],
        [mixed],
        [either, apart],
        [mixed, apart],
        [mixed, mixed],
        [either, [Range(0, 12, 14)]],
    ]
    case = Case(f"{how} {cuts}", Kind("nn"), conditions, rows=200, partial=0.0)
    case.check()
    if cuts > 3 and how == "bitmaps":
        assert case.found(NONE_DEAD, "counts")[2] == set()


@pytest.mark.parametrize("how", FORCED)
def test_the_one_choice_that_is_left_is_certain_only_where_codes_tell_all(
    monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """x IS NOT NULL AND (x IS NULL OR 5 <= x < 9) AND y < …: one box each, and all have x in common."""
    force(monkeypatch, how, cuts=3)
    own = [[Range(0)], [Range(0, null=True), Range(0, 5, 9)]]
    conditions: list[Condition] = [[*own, [Range(1, 0, 3)]], [*own, [Range(1, 1, 3)]]]
    conditions += [[[Range(0, *ends)], []] for ends in [(1, 3), (7, 20), (30, 40)]]  # more cuts than are kept
    case = Case(how, Kind("nn"), conditions, rows=0, partial=0.0)
    assert [d.exact for d in case.filter.domains] == [False, True]
    case.rows = [[x, y] for x in range(45) for y in range(5)]
    case.check()


def test_a_batch_of_no_rows_finds_nothing() -> None:
    kind = Kind("nt")
    Case("no rows", kind, random_conditions("no rows", kind, 50), rows=0).check()


@pytest.mark.parametrize("seed", range(2 * TIMES))
def test_more_than_65533_ends_are_told_apart_by_evaluating(seed: int) -> None:
    rnd = Random(seed)
    starts = rnd.sample(range(10**6), 40_000)
    conditions: list[Condition] = [[[Range(0, s, s + rnd.choice([1, 40]))]] for s in starts]
    case = Case(f"{seed}", Kind("n", spread=10**6), conditions, rows=0, partial=0.0)
    assert not case.filter.domains[0].exact
    case.rows = [[s] for s in rnd.sample(starts, 10)]
    case.check()

"""`python -m tests.plan.rewrites`: random queries that a rule changes, in both forms, against the reference.

A case is a query and an input, played without the rule or with it under some cut into batches. Seeds that differ are
printed with their scenarios, and the exit status tells whether there were any.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Literal

import eddyline
from eddyline.plan import rules
from eddyline.plan.build import build
from eddyline.plan.rules import Rule, name_of, optimize
from eddyline.plan.rules.pull_up_negation import pull_up_negation
from eddyline.plan.rules.push_down_duplicate_elimination import push_down_duplicate_elimination
from eddyline.plan.rules.push_down_negation import push_down_negation
from eddyline.plan.rules.push_selections_below_groups import push_selections_below_groups
from eddyline.plan.rules.push_selections_below_projections import push_selections_below_projections
from eddyline.plan.rules.push_selections_below_set_operations import push_selections_below_set_operations
from eddyline.plan.rules.push_selections_into_joins import push_selections_into_joins
from eddyline.sql.binder import bind_family
from eddyline.sql.bound import Query
from eddyline.sql.parser import parse
from tests.oracle import queries
from tests.oracle.deep import deep_query, items
from tests.oracle.scenario import Scenario, check, scenario
from tests.oracle.schema import Schema

Form = Literal["without", "with"]
PARAMS = "p INT"
CONDITIONS = [
    "{0}.a < {0}.b",
    "{0}.a = {0}.b",
    "{0}.c > 0",
    "{0}.n IS NOT NULL",
    "abs({0}.a) <= {0}.b",
    "CAST({0}.c AS STRING) = '0.0'",  # true of 0.0, not of -0.0, which equals it
    "{0}.n LIKE 'a%'",
    "{0}.a IN (0, 1)",
    "({0}.a > 0 OR {0}.b = 0)",
    "coalesce({0}.a, 0) = 0",
    "{0}.a + {0}.b > 1",
    "{0}.b > :p",
]
EQUAL = ["{0}.a = {1}.a"] * 4 + ["{0}.a = {1}.b", "{0}.n = {1}.n", "{0}.c = {1}.c", "{0}.n <=> {1}.n"]
ALSO = ["{0}.a <= {1}.b", "{1}.b > :p", "{0}.b <= :p", "{1}.n LIKE 'a%'", "{0}.c <= {1}.c"]


def conditions(rnd: Random, source: str) -> str:
    return " AND ".join(c.format(source) for c in rnd.sample(CONDITIONS, rnd.choice([1, 1, 2, 3])))


def stream(rnd: Random) -> str:
    window = rnd.choice(["", " [NOW]", " [ROWS 3]", *(f" [RANGE {n} SECONDS]" for n in (1, 2, 4, 8, 8))])
    return f"{rnd.choice('rs')}{window}"


def relation(rnd: Random) -> str:
    """A query with the columns a, b, c and n."""
    kind = rnd.random()
    if kind < 0.3:
        return deep_query(rnd, 1)
    if kind < 0.6:
        return f"SELECT {items(rnd, 'd')} FROM {stream(rnd)} AS d"
    where = f" WHERE {conditions(rnd, 'd')}" if rnd.random() < 0.3 else ""
    return f"SELECT d.a, d.b, d.c, d.n FROM {stream(rnd)} AS d{where}"


def source(rnd: Random, name: str) -> str:
    return f"{stream(rnd)} AS {name}" if rnd.random() < 0.6 else f"({relation(rnd)}) AS {name}"


def joined(rnd: Random, x: str, y: str) -> list[str]:
    parts = [rnd.choice(EQUAL).format(x, y)] if rnd.random() < 0.9 else []
    parts += [c.format(x, y) for c in ALSO if rnd.random() < 0.15]
    return parts or [ALSO[0].format(x, y)]


def over_a_projection(rnd: Random) -> str:
    below = f"SELECT {items(rnd, 'e')} FROM {source(rnd, 'e')}"
    return f"SELECT {items(rnd, 'd')} FROM ({below}) AS d WHERE {conditions(rnd, 'd')}"


def over_a_set_operation(rnd: Random) -> str:
    op = rnd.choice(["UNION ALL", "EXCEPT ALL", "EXCEPT ALL", "INTERSECT ALL", "UNION", "EXCEPT"])
    below = f"{relation(rnd)} {op} {relation(rnd)}" if rnd.random() < 0.8 else f"SELECT DISTINCT * FROM {stream(rnd)}"
    return f"SELECT {items(rnd, 'd')} FROM ({below}) AS d WHERE {conditions(rnd, 'd')}"


def over_groups(rnd: Random) -> str:
    keys = rnd.sample(["a", "b", "c", "n"], rnd.randint(1, 3))
    usable = [c.format("d") for c in CONDITIONS if all(f"{{0}}.{x}" not in c for x in {*"abcn"} - set(keys))]
    having = rnd.sample(usable, min(len(usable), rnd.choice([1, 1, 2])))
    having += [x for x in ("COUNT(*) > 1", "MAX(d.b) > :p") if rnd.random() < 0.3]
    grouped = ", ".join(f"d.{k}" for k in keys)
    outputs = f"{grouped}, COUNT(*) AS k, {rnd.choice(['MIN(d.c)', 'SUM(d.a)', 'MAX(d.n)'])} AS v"
    return f"SELECT {outputs} FROM {source(rnd, 'd')} GROUP BY {grouped} HAVING {' AND '.join(having)}"


def over_a_join(rnd: Random) -> str:
    table = f", t WHERE t.a = x.{rnd.choice('ab')} AND " if rnd.random() < 0.3 else " WHERE "
    where = " AND ".join(joined(rnd, "x", "y"))
    below = f"SELECT {items(rnd, 'x', 'y')} FROM {source(rnd, 'x')}, {source(rnd, 'y')}{table}{where}"
    return f"SELECT {items(rnd, 'd')} FROM ({below}) AS d WHERE {conditions(rnd, 'd')}"


def join_of_a_negation(rnd: Random) -> str:
    names = ["d", "z"] if rnd.random() < 0.8 else ["d", "z", "w"]
    negation = f"{relation(rnd)} EXCEPT ALL {relation(rnd)}"
    if rnd.random() < 0.3:
        negation = f"SELECT {items(rnd, 'e')} FROM ({negation}) AS e"
    sources = [f"({negation}) AS d", *(source(rnd, name) for name in names[1:])]
    parts = [part for name in names[1:] for part in joined(rnd, *rnd.sample(["d", name], 2))]
    rnd.shuffle(sources)
    tail = f" FROM {', '.join(sources)} WHERE {' AND '.join(parts)}"
    if rnd.random() < 0.2:
        return f"SELECT d.a, COUNT(*) AS k, MAX(z.b) AS m{tail} GROUP BY d.a"
    outputs = rnd.sample(
        ["d.a", "d.b AS e", "d.c", "d.n AS m", "z.a AS x", "z.b", "z.n", "z.a AS o"], rnd.randint(1, 4)
    )
    return f"SELECT {', '.join(outputs)}{tail}"


def negation_of_joins(rnd: Random) -> str:
    other = source(rnd, "z")
    kept = rnd.sample("abcn", rnd.randint(2, 4))
    outputs = [f"{{0}}.{c}" for c in kept] + rnd.sample(["z.b AS x", "z.n AS y", "abs(z.a) AS v"], rnd.randint(0, 2))
    rnd.shuffle(outputs)
    where = " AND ".join(joined(rnd, "{0}", "z"))
    order = rnd.sample([0, 1], 2)

    def side(name: str) -> str:
        inputs = [source(rnd, name), other]
        sources = ", ".join(inputs[i] for i in order)
        return f"SELECT {', '.join(outputs)} FROM {sources} WHERE {where}".format(name)

    return f"{side('x')} EXCEPT ALL {side('y')}"


def distinct_join(rnd: Random) -> str:
    names = "xy" if rnd.random() < 0.7 else "xyz"
    sources = ", ".join(source(rnd, name) for name in names)
    parts = joined(rnd, "x", "y") + (joined(rnd, rnd.choice("xy"), "z") if "z" in names else [])
    outputs = [f"{x}.{c} AS {x}{c}" for x in names for c in rnd.sample("abcn", rnd.choice([0, 1, 2, 3]))]
    rnd.shuffle(outputs)
    return f"SELECT DISTINCT {', '.join(outputs) or 'x.a'} FROM {sources} WHERE {' AND '.join(parts)}"


TEXTS: dict[Rule, Callable[[Random], str]] = {
    push_selections_below_projections: over_a_projection,
    push_selections_below_set_operations: over_a_set_operation,
    push_selections_below_groups: over_groups,
    push_selections_into_joins: over_a_join,
    pull_up_negation: join_of_a_negation,
    push_down_negation: negation_of_joins,
    push_down_duplicate_elimination: distinct_join,
}


@contextmanager
def planned(rule: Rule, form: Form) -> Iterator[None]:
    """Plans without a rule, or with it wherever it applies, whatever the cost."""
    before = rules.RULES, rules.CHOSEN, rules.MARGIN
    structural = tuple(r for r in rules.RULES if r is not rule or form == "with")
    chosen = tuple(r for r in rules.CHOSEN if r is rule and form == "with")
    try:
        rules.RULES, rules.CHOSEN, rules.MARGIN = structural, chosen, 0.0
        yield
    finally:
        rules.RULES, rules.CHOSEN, rules.MARGIN = before


def schema_of(text: str) -> Schema:
    return Schema(queries.STREAMS, queries.TABLES, {"f": (PARAMS, text)})


def bound(text: str) -> Query:
    db = eddyline.connect()
    for name, columns in queries.STREAMS.items():
        db.execute(f"CREATE STREAM {name} ({columns}, ts TIMESTAMP) WATERMARK ts")
    for name, (columns, kind) in queries.TABLES.items():
        db.execute(f"CREATE TABLE {name} ({columns}) {kind}")
    db.execute(f"CREATE QUERY FAMILY f ({PARAMS}) AS {text}")
    params = db.registry.named("f").bound.params
    return bind_family(db.catalog, parse(text)[0].body.query, params).bound.query


def changed_text(rnd: Random, rule: Rule) -> str:
    """A random query whose plan the rule changes."""
    while True:
        text = TEXTS[rule](rnd)
        try:
            query = bound(text)
        except eddyline.Error as e:
            assert "matches no row" in e.message or "ambiguous" in e.message or "must be" in e.message, (text, e)
            continue
        with planned(rule, "with"):
            if any(r.startswith(name_of(rule)) for r in optimize(build(query)).rewrites):
                return text


@dataclass(frozen=True)
class Case:
    rule: Rule
    seed: int
    text: str
    scenario: Scenario


def case_of(rule: Rule, seed: int) -> Case:
    rnd = Random(f"{rule.__name__}{seed}")
    text = changed_text(rnd, rule)
    s = scenario(rnd, [], rows=rnd.randint(4, 26))
    table = [{"query": f"q{i}", "p": queries.parameter(rnd, "p", "INT")} for i in range(rnd.randint(1, 3))]
    first = rnd.choice([0, 0, 0, len(s.events) // 3])
    events = [(*e[:2], few_values(e[2])) if e[0] == "row" else e for e in s.events]
    events.insert(first, ("family", "f", table))
    s = replace(s, events=events, schema=schema_of(text), emit_all=rnd.random() < 0.3)
    if rnd.random() < 0.15:
        s.joins["f"] = ["join = 'nested loop'"]
    return Case(rule, seed, text, s)


def few_values(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """So that rows are often equal; 0.0 and -0.0 stay."""
    a, b, c, n, *rest = row
    return (*(None if v is None else v % 2 for v in (a, b)), None if c is None or c != c or c > 1 else c, n, *rest)


def play(rule: Rule, seed: int) -> int:
    """Plays a case in both forms; how many (query, input) cases were compared with the reference."""
    case = case_of(rule, seed)
    compared = 0
    forms: tuple[Form, ...] = ("without", "with")
    for form in forms:
        try:
            with planned(rule, form):
                compared += check(Random(seed), case.scenario, cuts=1)
        except BaseException as e:
            e.add_note(f"rule {rule.__name__}, seed {seed}, {form} it\n{case.text}\n{case.scenario}")
            raise
    return compared


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.plan.rewrites", description=__doc__)
    names = [rule.__name__ for rule in TEXTS]
    parser.add_argument("--cases", type=int, default=2_000, help="play at least so many of each rule")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--rule", choices=names, nargs="*", default=names)
    given = parser.parse_args()
    differences: list[str] = []
    for rule in (r for r in TEXTS if r.__name__ in given.rule):
        compared, seed = 0, given.seed
        while compared < given.cases:
            try:
                compared += play(rule, seed)
            except Exception as e:
                differences.append("\n".join([f"{type(e).__name__}: {e}", *getattr(e, "__notes__", [])]))
            seed += 1
        print(f"{rule.__name__}: {compared} cases, {len(differences)} differences so far", flush=True)
    print("\n\n".join(differences[:10]))
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())

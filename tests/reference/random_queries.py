"""Random contents of tables and random bound queries over them.

Numbers stay small and sums exact, so that every engine must give the same values: doubles are eighths, products
have a constant factor, and what rounds (division, roots, averages) never goes into a sum.
"""

from dataclasses import dataclass, field, replace
from typing import Any, Literal

import pyarrow as pa
from hypothesis import strategies as st

from eddyline import types as t
from eddyline.sql.bound import (
    Aggregate,
    BoundQuery,
    Call,
    Column,
    Constant,
    DerivedSource,
    Expr,
    Field,
    Output,
    Param,
    Query,
    SelectBlock,
    SetQuery,
    Source,
    TableSource,
)


def mostly(usual: st.SearchStrategy[Any], rare: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.integers(0, 5).flatmap(lambda n: rare if n == 5 else usual)


TABLES = {
    "t0": (Field("i", t.BIGINT), Field("x", t.DOUBLE), Field("s", t.STRING)),
    "t1": (Field("i", t.BIGINT), Field("j", t.BIGINT), Field("s", t.STRING)),
    "t2": (Field("i", t.BIGINT), Field("x", t.DOUBLE), Field("b", t.BOOLEAN)),
}
TYPES = (t.BIGINT, t.DOUBLE, t.STRING, t.BOOLEAN)
EIGHTHS = st.integers(-32, 32).map(lambda n: n / 8)
VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    t.BIGINT: st.one_of(st.integers(-2, 3), st.integers(-8, 8)),
    t.DOUBLE: mostly(EIGHTHS, st.sampled_from([-0.0, float("nan"), float("inf"), float("-inf")])),
    t.STRING: st.sampled_from(["", "a", "ab", "b", "A", "%", "a%", "a_", "é", "1", "-2", " 7 "]),
    t.BOOLEAN: st.booleans(),
}
PATTERNS = st.lists(st.sampled_from(["a", "b", "%", "_", r"\%", r"\_", "é"]), max_size=4).map("".join)

Database = dict[str, list[tuple[Any, ...]]]


def databases(most_rows: int = 6) -> st.SearchStrategy[Database]:
    def contents(fields: tuple[Field, ...]) -> st.SearchStrategy[Any]:
        values = [mostly(VALUES[f.type], st.none()) for f in fields]
        rows = st.tuples(*values)
        many = st.lists(rows, min_size=most_rows // 2, max_size=most_rows)
        return mostly(many, st.lists(rows, max_size=1))

    return st.fixed_dictionaries({name: contents(fields) for name, fields in TABLES.items()})


@st.composite
def queries(draw: st.DrawFn) -> BoundQuery:
    """Joins, groups, DISTINCT and bag operations, nested up to three deep."""
    maker = _Maker(draw)
    query = maker.query(draw(st.integers(0, 2)), maker.types(), top=True)
    return BoundQuery(query, tuple(maker.params), tuple(maker.values))


@st.composite
def projections(draw: st.DrawFn) -> BoundQuery:
    """A few deep expressions over all rows of one table."""
    maker = _Maker(draw)
    name = draw(st.sampled_from(sorted(TABLES)))
    columns = _columns([f.type for f in TABLES[name]])
    outputs = [Output(f"o{i}", maker.rough(columns, draw(st.sampled_from(TYPES)), 3)) for i in range(4)]
    block = SelectBlock((TableSource(name, name, TABLES[name], True),), None, None, (), None, tuple(outputs), False)
    return BoundQuery(block, tuple(maker.params), tuple(maker.values))


@dataclass
class _Maker:
    """Draws one query, collecting its parameters."""

    draw: st.DrawFn
    params: list[Field] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)

    def one_in(self, n: int) -> bool:
        return self.draw(st.integers(1, n)) == n

    def types(self) -> list[pa.DataType]:
        return self.draw(st.lists(st.sampled_from(TYPES), min_size=1, max_size=3))

    # queries

    def query(self, depth: int, types: list[pa.DataType], top: bool = False) -> Query:
        if depth > 0 and self.one_in(3):
            kind: Literal["union", "intersect", "except"] = self.draw(st.sampled_from(["union", "intersect", "except"]))
            left = self.query(depth - 1, types, top)
            right = self.query(depth - 1, types, top)
            if isinstance(left, SelectBlock) and not self.one_in(3):
                columns = _columns([f.type for s in left.sources for f in s.fields])
                right = replace(left, where=self.condition(columns, 1))  # two sides with rows in common
            return SetQuery(kind, left, right)
        return self.block(depth, types, top)

    def block(self, depth: int, types: list[pa.DataType], top: bool) -> SelectBlock:
        sources = self.sources(depth)
        columns = _columns([f.type for s in sources for f in s.fields])
        where = self.condition(columns, 2) if self.one_in(3) else None
        keys: tuple[Expr, ...] | None = None
        aggregates: tuple[Aggregate, ...] = ()
        having = None
        if self.one_in(2):
            keys = tuple(
                self.expr(columns, self.draw(st.sampled_from(TYPES)), 1) for _ in range(self.draw(st.integers(0, 2)))
            )
            least = 0 if keys else 1
            aggregates = tuple(self.aggregate(columns, top) for _ in range(self.draw(st.integers(least, 3))))
            columns = _columns([e.type for e in (*keys, *aggregates)])
            having = self.condition(columns, 1) if self.one_in(3) else None
        outputs = tuple(Output(f"o{i}", self.expr(columns, type, 1)) for i, type in enumerate(types))
        return SelectBlock(sources, where, keys, aggregates, having, outputs, self.one_in(4))

    def sources(self, depth: int) -> tuple[Source, ...]:
        tables = self.draw(st.lists(st.sampled_from(sorted(TABLES)), min_size=0 if depth else 1, max_size=2))
        sources: list[Source] = [TableSource(name, name, TABLES[name], True) for name in tables]
        if depth:
            query = self.query(depth - 1, self.types())
            sources = [DerivedSource(query, "d", query.fields), *sources[:1]]
        return tuple(sources)

    def aggregate(self, columns: list[Column], top: bool) -> Aggregate:
        function: Any = self.draw(st.sampled_from(["count", "sum", "min", "max", "avg" if top else "count"]))
        if function == "count":
            argument = None if self.one_in(2) else self.expr(columns, self.draw(st.sampled_from(TYPES)), 1)
            return Aggregate("count", argument, t.BIGINT)
        type = self.draw(st.sampled_from([t.BIGINT, t.DOUBLE] if function in ("sum", "avg") else TYPES[:3]))
        return Aggregate(function, self.expr(columns, type, 1), t.DOUBLE if function == "avg" else type)

    # expressions

    def constant(self, type: pa.DataType) -> Expr:
        value = None if self.one_in(6) else self.draw(VALUES[type])
        if self.one_in(2):
            return Constant(value, type)
        self.params.append(Field(f"p{len(self.params)}", type))
        self.values.append(value)
        return Param(len(self.params) - 1, type, self.params[-1].name)

    def leaf(self, columns: list[Column], type: pa.DataType) -> Expr:
        fitting = [c for c in columns if c.type == type]
        return self.draw(st.sampled_from(fitting)) if fitting and not self.one_in(4) else self.constant(type)

    def expr(self, columns: list[Column], type: pa.DataType, depth: int) -> Expr:
        if depth == 0 or self.one_in(2):
            return self.leaf(columns, type)
        if type == t.BOOLEAN:
            return self.condition(columns, depth)

        def some(of: pa.DataType = type) -> Expr:
            return self.expr(columns, of, depth - 1)

        common = ["case", "coalesce", "least", "greatest"]
        numeric = ["add", "sub", "mul", "neg", "abs", "mod"]
        own = {
            t.BIGINT: [*numeric, "floor", "ceil", "length"],
            t.DOUBLE: [*numeric, "cast"],
            t.STRING: ["concat", "upper", "lower", "cast"],
        }[type]
        function = self.draw(st.sampled_from(own + common))
        match function:
            case "case":
                args = [some(t.BOOLEAN), some(), some()]
            case "mul":
                args = [some(), self.constant(type)]
            case "neg" | "abs" | "upper" | "lower":
                args = [some()]
            case "floor" | "ceil":
                args = [some(t.DOUBLE)]
            case "length":
                args = [some(t.STRING)]
            case "cast":
                args = [some(t.BIGINT)]
            case _:
                args = [some(), some()]
        return Call(function, tuple(args), type)

    def rough(self, columns: list[Column], type: pa.DataType, depth: int) -> Expr:
        """An operand of a comparison, which may round."""
        if type in (t.BIGINT, t.DOUBLE) and self.one_in(4):
            x, y = (self.expr(columns, t.DOUBLE, depth) for _ in range(2))
            if type == t.BIGINT:
                return Call("cast", (self.draw(st.sampled_from([x, self.expr(columns, t.STRING, 0)])),), type)
            digits = Constant(self.draw(st.integers(0, 2)), t.INT)
            made = [
                Call("div", (x, y), type),
                Call("round", (x, digits), type),
                Call("sqrt", (Call("abs", (x,), type),), type),
            ]
            return self.draw(st.sampled_from(made))
        return self.expr(columns, type, depth)

    def condition(self, columns: list[Column], depth: int) -> Expr:
        if depth > 0 and self.one_in(2):
            function = self.draw(st.sampled_from(["and", "or", "not"]))
            parts = 1 if function == "not" else self.draw(st.integers(2, 3))
            return Call(function, tuple(self.condition(columns, depth - 1) for _ in range(parts)), t.BOOLEAN)
        if self.one_in(8):
            return self.leaf(columns, t.BOOLEAN)
        type = self.draw(st.sampled_from(TYPES))

        def some() -> Expr:
            return self.rough(columns, type, depth)

        function = self.draw(
            st.sampled_from(["eq", "eq", "ne", "lt", "le", "gt", "ge", "same", "is_null", "in", "like", "between"])
        )
        match function:
            case "is_null":
                return Call(function, (some(),), t.BOOLEAN)
            case "in":
                return Call(function, tuple(some() for _ in range(self.draw(st.integers(2, 4)))), t.BOOLEAN)
            case "like":
                return Call(
                    function, (self.expr(columns, t.STRING, depth), Constant(self.draw(PATTERNS), t.STRING)), t.BOOLEAN
                )
            case "between":
                subject, low, high = some(), some(), some()
                both = (Call("ge", (subject, low), t.BOOLEAN), Call("le", (subject, high), t.BOOLEAN))
                return Call("and", both, t.BOOLEAN)
            case _:
                return Call(function, (some(), some()), t.BOOLEAN)


def _columns(types: list[pa.DataType]) -> list[Column]:
    return [Column(i, type, f"c{i}") for i, type in enumerate(types)]

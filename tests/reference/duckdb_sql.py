"""Bound queries as DuckDB SQL. Inside every SELECT the columns are called c0, c1, … by position."""

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from eddyline import types as t
from eddyline.sql.bound import (
    Aggregate,
    Call,
    Column,
    Constant,
    DerivedSource,
    Expr,
    Param,
    Query,
    SelectBlock,
    SetQuery,
    Source,
)

NAMES = {t.BIGINT: "BIGINT", t.INT: "INTEGER", t.DOUBLE: "DOUBLE", t.STRING: "VARCHAR", t.BOOLEAN: "BOOLEAN"}
_INFIX = {
    **{"add": "+", "sub": "-", "mul": "*", "concat": "||", "and": "AND", "or": "OR"},
    **{"eq": "=", "ne": "<>", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "same": "IS NOT DISTINCT FROM"},
}


def literal(value: Any, type: pa.DataType) -> str:
    if value is None:
        text = "NULL"
    elif isinstance(value, str):
        text = "'" + value.replace("'", "''") + "'"
    else:
        text = f"'{value!r}'"
    return f"CAST({text} AS {NAMES[type]})"


def statement(query: Query, values: tuple[Any, ...]) -> str:
    if isinstance(query, SetQuery):
        return f"({statement(query.left, values)}) {query.kind.upper()} ALL ({statement(query.right, values)})"
    return _block(query, values)


def _block(block: SelectBlock, values: tuple[Any, ...]) -> str:
    relation = f"{_from(block.sources, values)}{_where(block.where, values)}"
    if block.keys is not None:
        keys = [f"{expression(k, values)} AS k{i}" for i, k in enumerate(block.keys)]
        arguments = [f"{_argument(a, values)} AS g{i}" for i, a in enumerate(block.aggregates)]
        names = [f"k{i}" for i in range(len(block.keys))]
        totals = [_total(a, f"g{i}") for i, a in enumerate(block.aggregates)]
        by = f" GROUP BY {', '.join(names)}" if names else ""
        grouped = f"SELECT {', '.join(names + totals)} FROM (SELECT {', '.join(keys + arguments)} FROM {relation}){by}"
        relation = f"({grouped}) AS g({_names(0, len(names + totals))}){_where(block.having, values)}"
    outputs = ", ".join(f"{expression(o.expr, values)} AS o{i}" for i, o in enumerate(block.outputs))
    return f"SELECT {'DISTINCT ' if block.distinct else ''}{outputs} FROM {relation}"


def _from(sources: Iterable[Source], values: tuple[Any, ...]) -> str:
    parts, first = [], 0
    for i, source in enumerate(sources):
        if isinstance(source, DerivedSource):
            inner = statement(source.query, values)
        else:
            assert not hasattr(source, "stream")
            inner = f"SELECT * FROM {source.alias}"
        parts.append(f"({inner}) AS s{i}({_names(first, len(source.fields))})")
        first += len(source.fields)
    return ", ".join(parts)


def _names(first: int, count: int) -> str:
    return ", ".join(f"c{first + i}" for i in range(count))


def _where(condition: Expr | None, values: tuple[Any, ...]) -> str:
    return "" if condition is None else f" WHERE {expression(condition, values)}"


def _argument(aggregate: Aggregate, values: tuple[Any, ...]) -> str:
    return "1" if aggregate.argument is None else expression(aggregate.argument, values)


def _total(aggregate: Aggregate, argument: str) -> str:
    return f"CAST({aggregate.function}({argument}) AS {NAMES[aggregate.type]})"


def expression(expr: Expr, values: tuple[Any, ...]) -> str:
    match expr:
        case Column():
            return f"c{expr.index}"
        case Param():
            return literal(values[expr.index], expr.type)
        case Constant():
            return literal(expr.value, expr.type)
        case Call():
            return _call(expr, [expression(arg, values) for arg in expr.args])


def _call(call: Call, args: list[str]) -> str:
    """Written so that DuckDB gives NULL where the language does, instead of an error or an infinity."""
    if call.function in _INFIX:
        return "(" + f" {_INFIX[call.function]} ".join(args) + ")"
    first, *others = args
    match call.function:
        case "div" | "mod":
            return f"({first} {'/' if call.function == 'div' else '%'} nullif({others[0]}, 0))"
        case "neg":
            return f"(- {first})"
        case "not":
            return f"(NOT {first})"
        case "is_null":
            return f"({first} IS NULL)"
        case "in":
            return f"({first} IN ({', '.join(others)}))"
        case "like":
            return rf"({first} LIKE {others[0]} ESCAPE '\')"
        case "case":
            return f"(CASE WHEN {first} THEN {others[0]} ELSE {others[1]} END)"
        case "floor" | "ceil":
            return f"TRY_CAST({call.function}({first}) AS BIGINT)"
        case "cast" if call.args[0].type == t.DOUBLE:
            return f"TRY_CAST(trunc({first}) AS {NAMES[call.type]})"
        case "cast":
            return f"TRY_CAST({first} AS {NAMES[call.type]})"
        case _:
            return f"{call.function}({', '.join(args)})"

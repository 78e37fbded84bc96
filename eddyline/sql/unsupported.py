"""What sqlglot reads and this language does not have: how to call it in an error, and what to do instead."""

from __future__ import annotations

from collections.abc import Mapping, Set

from sqlglot import exp

from eddyline.sql.scope import fail

EXPRESSIONS: Mapping[type, tuple[str, str | None]] = {
    exp.Window: ("OVER (window functions)", "Use a window on the stream and GROUP BY."),
    exp.Filter: ("FILTER", "Use CASE inside the aggregate."),
    exp.Subquery: ("A subquery inside an expression", "Join with it in FROM."),
    exp.Select: ("A subquery inside an expression", "Join with it in FROM."),
    exp.Exists: ("EXISTS with a subquery", "Join with it in FROM."),
    exp.All: ("ALL with a subquery", "Join with it in FROM."),
    exp.Any: ("ANY", "Use IN, or join in FROM."),
    exp.Distinct: ("DISTINCT inside a function", "Aggregate over a subquery with SELECT DISTINCT."),
    exp.Order: ("ORDER BY inside a function", None),
    exp.Limit: ("LIMIT inside a function", None),
    exp.HavingMax: ("HAVING inside a function", None),
    exp.WithinGroup: ("WITHIN GROUP", None),
    exp.IgnoreNulls: ("IGNORE NULLS", "Aggregates ignore NULL by themselves."),
    exp.RespectNulls: ("RESPECT NULLS", None),
    exp.Kwarg: ("An argument by name", "Give the arguments in their order."),
    exp.Collate: ("COLLATE", "Strings are compared by code point; use lower(…)."),
    exp.ILike: ("ILIKE", "Use lower(…) LIKE …."),
    exp.RegexpLike: ("RLIKE", "Use LIKE, or register a Python function."),
    exp.SimilarTo: ("SIMILAR TO", "Use LIKE, or register a Python function."),
    exp.BitwiseAnd: ("The operator &", None),
    exp.BitwiseOr: ("The operator |", None),
    exp.BitwiseXor: ("The operator ^", None),
    exp.BitwiseNot: ("The operator ~", None),
    exp.BitwiseLeftShift: ("The operator <<", None),
    exp.BitwiseRightShift: ("The operator >>", None),
    exp.IntDiv: ("DIV", "Use floor(a / b)."),
    exp.Tuple: ("A list of values", "Compare the columns one by one."),
    exp.Bracket: ("[…] after an expression", "A window goes after a stream in FROM: trades [RANGE 5 SECONDS]."),
    exp.Dot: ("A part of a value (a.b)", "Columns are named as source.column."),
    exp.Star: ("* in an expression", "It stands alone in SELECT, or in COUNT(*)."),
    exp.Lambda: ("A lambda", None),
    exp.Rollup: ("GROUP BY ROLLUP", None),
    exp.Cube: ("GROUP BY CUBE", None),
    exp.GroupingSets: ("GROUP BY GROUPING SETS", None),
    exp.AtTimeZone: ("AT TIME ZONE", "Times are in UTC."),
}


def only(tree: exp.Expr, known: Set[str], within: exp.Expr | None = None) -> None:
    """Refuses the arguments of a tree that would be ignored; the error points at the tree it is part of, if given."""
    for arg, value in tree.args.items():
        if value and arg not in known:
            word = _WORDS.get(arg, arg.strip("_").upper().replace("_", " "))
            fail(tree if within is None else within, f"{word} is not supported.", _HINTS.get(arg))


_WORDS = {
    "by_name": "BY NAME",
    "into": "INTO",
    "joins": "JOIN",
    "locks": "FOR UPDATE or SHARE",
    "pivots": "PIVOT",
    "sample": "TABLESAMPLE",
    "version": "AS OF",
    "match": "MATCH_RECOGNIZE",
    "connect": "CONNECT BY",
    "order": "ORDER BY",
    "limit": "LIMIT",
    "offset": "OFFSET",
    "windows": "WINDOW",
    "qualify": "QUALIFY",
    "laterals": "LATERAL VIEW",
    "sort": "SORT BY",
    "cluster": "CLUSTER BY",
    "distribute": "DISTRIBUTE BY",
    "search": "SEARCH or CYCLE",
    "key_expressions": "USING KEY",
    "default": "DEFAULT",
    "action": "ON ERROR",
    "except_": "* EXCEPT",
    "replace": "* REPLACE",
    "rename": "* RENAME",
    "ilike": "* ILIKE",
    "join_mark": "(+)",
}
_HINTS = {
    **dict.fromkeys(
        ("order", "limit", "offset", "sort", "cluster", "distribute"), "Sort or limit where the rows are read."
    ),
    **dict.fromkeys(("except_", "replace", "rename", "ilike"), "Name the columns."),
    "symmetric": "Write a BETWEEN b AND c OR a BETWEEN c AND b.",
    "format": "Register a Python function that reads the text.",
}

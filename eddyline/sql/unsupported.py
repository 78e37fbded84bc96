"""What sqlglot reads and this language does not have: how to call it in an error, and what to do instead."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

EXPRESSIONS: Mapping[type, tuple[str, str | None]] = {
    exp.Window: ("OVER (window functions)", "Use a window on the stream and GROUP BY."),
    exp.Filter: ("FILTER", "Use CASE inside the aggregate."),
    exp.Subquery: ("A subquery inside an expression", "Join with it in FROM."),
    exp.Select: ("A subquery inside an expression", "Join with it in FROM."),
    exp.Exists: ("EXISTS with a subquery", "Join with it in FROM."),
    exp.All: ("ALL with a subquery", "Join with it in FROM."),
    exp.Any: ("ANY", "Use IN, or join in FROM."),
    exp.ILike: ("ILIKE", "Use lower(…) LIKE …."),
    exp.RegexpLike: ("RLIKE", "Use LIKE, or register a Python function."),
    exp.Escape: ("LIKE … ESCAPE", "The escape character is the backslash."),
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

CLAUSES = {
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
}

"""SQL that sqlglot parses and this language refuses: its name for the error, and a hint what to do instead."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import NoReturn

from sqlglot import exp

from eddyline.sql.dialect import NAME, name_of
from eddyline.sql.scope import fail

_SCALAR = "Join with it in FROM, where an aggregate has a name: FROM trades t, (SELECT MAX(x) AS m FROM quotes) q."
_PARTNERS = "Join with a subquery that has every key once: JOIN (SELECT DISTINCT k FROM …) x ON x.k = …."
_EXTREME = "Compare with MAX or MIN: join with (SELECT MAX(x) AS m FROM …) in FROM."
_NO_PARTNER = (
    "Rows without a partner cannot be selected; their distinct keys can: SELECT k FROM a EXCEPT SELECT k FROM b,"
    " where a NULL equals a NULL."
)
# Functions of Spark that this language expresses in another way: message and hint.
NOT_FUNCTIONS = {
    "window": (
        "window(…) is not supported: a window belongs to a stream.",
        "Write FROM trades [RANGE 1 MINUTE] and GROUP BY what remains: a sliding window, updated at every change.",
    ),
    "session_window": (
        "session_window(…) is not supported: a window belongs to a stream.",
        "Write FROM trades [RANGE 1 MINUTE]: the rows of the last minute.",
    ),
    **{
        name: (f"{name} is not supported: a standing query is answered for every instant of event time, not for now.",
               "Compare with the event time of another stream, or use a window: FROM trades [RANGE 1 MINUTE].")
        for name in ("now", "current_timestamp", "current_date", "localtimestamp")
    },
}  # fmt: skip

EXPRESSIONS: Mapping[type, tuple[str, str | None]] = {
    exp.Filter: ("FILTER", "Use CASE inside the aggregate."),
    exp.Subquery: ("A subquery inside an expression", _SCALAR),
    exp.Select: ("A subquery inside an expression", _SCALAR),
    exp.Exists: ("EXISTS with a subquery", _PARTNERS),
    exp.All: ("ALL with a subquery", _EXTREME),
    exp.Any: ("ANY with a subquery", f"For = ANY: {_PARTNERS[0].lower() + _PARTNERS[1:]} Else: {_EXTREME}"),
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


def refuse_over(tree: exp.Window) -> NoReturn:
    called = f"{name_of(tree.this)}(…) " if isinstance(tree.this, exp.Func) else ""
    hint = "Use a window on the stream and GROUP BY: FROM trades [RANGE 1 MINUTE] … GROUP BY symbol."
    fail(tree, f"{called}OVER is not supported (window functions).", hint)


def refuse_modifiers(trees: Iterable[exp.Expr]) -> None:
    """Refuses OVER, FILTER and the like before an aggregate inside them makes the block group."""
    for tree in trees:
        for node in tree.walk(prune=lambda n: isinstance(n, exp.Query)):
            if isinstance(node, exp.Window):
                refuse_over(node)
            if isinstance(node, exp.Filter | exp.WithinGroup | exp.IgnoreNulls | exp.RespectNulls):
                what, hint = EXPRESSIONS[type(node)]
                fail(node, f"{what} is not supported.", hint)


def refuse_subquery(tree: exp.Expr, *, negated: bool) -> None:
    """Refuses [NOT] IN and [NOT] EXISTS with a subquery; the hint says what to do instead."""
    while isinstance(tree, exp.Paren):
        tree = tree.this
    within = isinstance(tree, exp.In) and (tree.args.get("query") or tree.args.get("unnest"))
    if within or isinstance(tree, exp.Exists):
        what = f"{'NOT ' * negated}{'IN' if isinstance(tree, exp.In) else 'EXISTS'}"
        fail(tree, f"{what} with a subquery is not supported.", _NO_PARTNER if negated else _PARTNERS)


def refuse_other_args(tree: exp.Expr, known: Set[str], within: exp.Expr | None = None) -> None:
    """Refuses a tree with arguments other than `known`: they would be ignored. Errors point at `within` or the tree."""
    for arg, value in tree.args.items():
        if value and arg not in known:
            if arg not in _WORDS and arg not in _HINTS and isinstance(tree, exp.Func) and NAME in tree.meta:
                fail(tree, f"{name_of(tree)} does not take so many arguments.")
            word = _WORDS.get(arg, arg.strip("_").upper().replace("_", " "))
            fail(tree if within is None else within, f"{word} is not supported.", _HINTS.get(arg))


_WORDS = {
    "joins": "JOIN",
    "locks": "FOR UPDATE or SHARE",
    "pivots": "PIVOT",
    "sample": "TABLESAMPLE",
    "version": "AS OF",
    "match": "MATCH_RECOGNIZE",
    "connect": "CONNECT BY",
    "order": "ORDER BY",
    "windows": "WINDOW",
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

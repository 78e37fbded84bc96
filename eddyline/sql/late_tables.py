"""Non-retroactive tables may only be joined with inputs that never retract a row (document 3, section 4.1)."""

from __future__ import annotations

from eddyline.errors import Error
from eddyline.sql.bound import DerivedSource, Query, SetQuery, StreamSource, TableSource, sources


def check_non_retroactive_tables(query: Query) -> None:
    """Refuses a query that joins a non-retroactive table with an input that may retract rows."""
    if isinstance(query, SetQuery):
        check_non_retroactive_tables(query.left)
        check_non_retroactive_tables(query.right)
        return
    frozen = [s for s in query.sources if isinstance(s, TableSource) and not s.retroactive]
    if not any(isinstance(s, StreamSource) for s in sources(query)):
        frozen = []  # a query over tables alone has no arrivals: it reads the current rows
    for s in query.sources:
        if isinstance(s, DerivedSource):
            check_non_retroactive_tables(s.query)
            if frozen and not _is_plain(s.query):
                raise _late_table(frozen[0], f"the subquery {s.alias!r}")
        elif frozen and isinstance(s, StreamSource) and s.window.kind == "rows":
            raise _late_table(frozen[0], f"the count window of {s.alias!r}")


def _late_table(table: TableSource, partner: str) -> Error:
    return Error(
        f"The non-retroactive table {table.table!r} cannot be joined with {partner}, whose rows may be retracted.",
        hint=f"Join {table.table} with the stream inside, or create it without NON RETROACTIVE.",
    )


def _is_plain(query: Query) -> bool:
    """Whether a query only selects, projects, joins and unions streams, so that rows leave only by expiration."""
    if isinstance(query, SetQuery):
        return query.kind == "union" and _is_plain(query.left) and _is_plain(query.right)
    if query.distinct or query.keys is not None:
        return False
    return all(
        _is_plain(s.query)
        if isinstance(s, DerivedSource)
        else s.window.kind != "rows"
        if isinstance(s, StreamSource)
        else not s.retroactive
        for s in query.sources
    )

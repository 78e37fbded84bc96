"""Non-retroactive tables need partners that never take a row back: the past cannot be revised (document 3, 4.1)."""

from __future__ import annotations

from eddyline.errors import Error
from eddyline.sql.bound import DerivedSource, Query, SetQuery, StreamSource, TableSource, sources


def refuse_late_tables(query: Query) -> None:
    """A non-retroactive table needs partners that never take a row back: it cannot be revised afterwards."""
    if isinstance(query, SetQuery):
        refuse_late_tables(query.left)
        refuse_late_tables(query.right)
        return
    frozen = [s for s in query.sources if isinstance(s, TableSource) and not s.retroactive]
    if not any(isinstance(s, StreamSource) for s in sources(query)):
        frozen = []  # among tables alone there are no arrivals: it is seen as it stands
    for s in query.sources:
        if isinstance(s, DerivedSource):
            refuse_late_tables(s.query)
            if frozen and not _is_plain(s.query):
                raise _late_table(frozen[0], f"the subquery {s.alias!r}")
        elif frozen and isinstance(s, StreamSource) and s.window.kind == "rows":
            raise _late_table(frozen[0], f"the count window of {s.alias!r}")


def _late_table(table: TableSource, partner: str) -> Error:
    return Error(
        f"The non-retroactive table {table.table!r} cannot be joined with {partner}, whose rows may be taken back.",
        hint=f"Join {table.table} with the stream inside, or create it without NON RETROACTIVE.",
    )


def _is_plain(query: Query) -> bool:
    """Select, project, join and union over streams: rows come once and leave only by their expiration."""
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

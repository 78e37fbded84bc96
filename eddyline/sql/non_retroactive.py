"""Non-retroactive tables may only be joined with inputs that never retract a row (document 3, section 4.1)."""

from __future__ import annotations

from eddyline.errors import Error
from eddyline.sql.bound import DerivedSource, Query, SetQuery, Source, StreamSource, TableSource, blocks, sources


def check_non_retroactive_tables(query: Query) -> None:
    """Refuses a query that joins a non-retroactive table with an input that may retract rows."""
    for block in blocks(query):
        frozen = [s for s in block.sources if isinstance(s, TableSource) and not s.retroactive]
        if not frozen or not _reads_streams(block):
            continue  # a query over tables alone has no arrivals: it reads the current rows
        for s in block.sources:
            if isinstance(s, DerivedSource) and not _is_plain(s.query):
                raise _refusal(frozen[0], f"the subquery {s.alias!r}")
            if isinstance(s, StreamSource) and s.window.kind == "rows":
                raise _refusal(frozen[0], f"the count window of {s.alias!r}")


def _refusal(table: TableSource, partner: str) -> Error:
    return Error(
        f"The non-retroactive table {table.table!r} cannot be joined with {partner}, whose rows may be retracted.",
        hint=f"Join {table.table} with the stream inside, or create it without NON RETROACTIVE.",
    )


def _is_plain(query: Query) -> bool:
    """Whether a query only selects, projects, joins and unions streams, so that rows leave only by expiration. A block
    without a stream reads the current rows of its tables, also of non-retroactive ones, and retracts those that go."""
    if isinstance(query, SetQuery):
        return query.kind == "union" and _is_plain(query.left) and _is_plain(query.right)
    plain = not query.distinct and query.keys is None and _reads_streams(query)
    return plain and all(_is_plain_source(s) for s in query.sources)


def _is_plain_source(source: Source) -> bool:
    if isinstance(source, DerivedSource):
        return _is_plain(source.query)
    return source.window.kind != "rows" if isinstance(source, StreamSource) else not source.retroactive


def _reads_streams(query: Query) -> bool:
    return any(isinstance(s, StreamSource) for s in sources(query))

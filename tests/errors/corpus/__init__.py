"""Malformed statements, each with words that its message must contain ("" where the words are not worth pinning)."""

from tests.errors.corpus.declarations import DECLARATIONS
from tests.errors.corpus.found import FOUND
from tests.errors.corpus.queries import QUERIES
from tests.errors.corpus.statements import STATEMENTS
from tests.errors.corpus.texts import TEXTS
from tests.errors.corpus.unsupported import UNSUPPORTED


def corpus() -> list[tuple[str, str]]:
    """Every malformed statement with the words of its message; they run against the connection of `state.py`."""
    whole = [case for kind in (TEXTS, DECLARATIONS, STATEMENTS) for group in kind.values() for case in group]
    queries = [case for kind in (QUERIES, UNSUPPORTED) for group in kind.values() for case in group]
    bodies = [(f"CREATE CONTINUOUS QUERY x AS\n  {sql}", words) for sql, words in queries]
    return whole + bodies + FOUND

"""The sqlglot dialect in which queries are parsed: Spark's SQL with only the functions of this language.

sqlglot rewrites calls of its 700 functions into expressions of its own (`date_trunc` into `timestamp_trunc`). The
functions that this language lacks are removed, so that a call keeps the name it was written with: errors can quote it,
and users can register a function of that name. Aggregates are plain calls too, recognised by name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import TokenType

from eddyline import types as t
from eddyline.aggregates import AGGREGATES

NAME = "name"  # metadata key of a tree: the name that its function was written with

_WORDS = Spark.Tokenizer.KEYWORDS
_TYPES = {_WORDS[name] for name in t.BY_NAME}
_BOUND = (
    exp.Abs, exp.Upper, exp.Lower, exp.Length, exp.Concat, exp.Floor, exp.Ceil, exp.Sqrt, exp.Round, exp.Coalesce,
    exp.Least, exp.Greatest, exp.If,
)  # fmt: skip
_CONVERSIONS = {"LIKE", "TO_TIMESTAMP", *t.BY_NAME}
_HINTS = {"BROADCAST", "BROADCASTJOIN", "MAPJOIN", "MERGE", "MERGEJOIN", "SHUFFLEMERGE", "SHUFFLE_HASH"} | {
    "SHUFFLE_REPLICATE_NL"
}
READ_BY_SQLGLOT = {n for n, kind in exp.FUNCTION_BY_NAME.items() if issubclass(kind, _BOUND)} | _CONVERSIONS

OF_THE_SYNTAX = READ_BY_SQLGLOT | (SparkParser.FUNCTION_PARSERS.keys() - _HINTS)  # users cannot register these


def _named(parse: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Wraps the parser of a function with special syntax so that the tree keeps the name and position of the call."""

    def parse_named(parser: Any) -> Any:
        token = parser._tokens[parser._index - 2]
        tree = parse(parser)
        if isinstance(tree, exp.Func):
            tree.update_positions(token)
            tree.meta[NAME] = token.text
        return tree

    return parse_named


class EddylineDialect(Spark):
    """Spark's SQL with three changes: SHOW, EXPLAIN and others are not parsed as raw commands; types have one name
    each (INT8 has 8 bits in some dialects and 8 bytes in others); only this language's functions are known."""

    ORIGINAL_NAME_META_KEY = NAME

    class Tokenizer(Spark.Tokenizer):
        COMMANDS: ClassVar[set[TokenType]] = set()
        KEYWORDS: ClassVar[dict[str, TokenType]] = {
            word: token for word, token in _WORDS.items() if token not in _TYPES or word in t.BY_NAME
        }

    class Parser(SparkParser):
        FUNCTIONS: ClassVar[dict[str, Callable[..., Any]]] = {
            name: build for name, build in SparkParser.FUNCTIONS.items() if name in READ_BY_SQLGLOT
        }
        FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., Any]]] = {
            name: _named(parse) for name, parse in SparkParser.FUNCTION_PARSERS.items() if name not in _HINTS
        }


DIALECT = EddylineDialect()


def name_of(tree: exp.Expr) -> str:
    """The name of a function as it was written."""
    if isinstance(tree, exp.Anonymous):
        return tree.name
    written = tree.meta.get(NAME)
    return str(written) if written else str(getattr(type(tree), "sql_name", type(tree).__name__.lower)()).lower()


def is_aggregate(tree: exp.Expr) -> bool:
    """Whether a tree is a call of an aggregate."""
    return isinstance(tree, exp.Anonymous) and tree.name.lower() in AGGREGATES

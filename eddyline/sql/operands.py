"""The parts of an expression, bound and brought to the types it needs, with conversions made explicit.

Constants are either lifted into parameters (a query registered as text) or kept (inside a declared family, whose
parameters are written `:name`). Until it is settled, a constant may change its type to suit its surroundings.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from eddyline import types as t
from eddyline.errors import Error
from eddyline.sql.bound import Call, Expr
from eddyline.sql.catalog import Catalog
from eddyline.sql.constants import Folded, convert
from eddyline.sql.scope import Constants, Scope, fail, span_of

Loose = Expr | Folded


class Operands(ABC):
    """What the kinds of expressions share."""

    def __init__(self, catalog: Catalog, scope: Scope, constants: Constants) -> None:
        self.catalog = catalog
        self.scope = scope
        self.constants = constants

    @abstractmethod
    def loose(self, tree: exp.Expr) -> Loose:
        """The expression, of the type it has by itself."""

    def bind(self, tree: exp.Expr, want: pa.DataType | None = None) -> Expr:
        """A settled expression, converted to `want` if given."""
        loose = self.loose(tree)
        if want is not None:
            loose = self.converted(loose, want, tree)
        return self.settle(loose)

    def condition(self, tree: exp.Expr, what: str) -> Expr:
        loose = self.loose(tree)
        if loose.type not in (t.BOOLEAN, t.NULL):
            fail(tree, f"{what} needs a condition, but this is {t.name_of(loose.type)}.")
        return self.settle(self.converted(loose, t.BOOLEAN, tree))

    def assigned(self, tree: exp.Expr, want: pa.DataType) -> Expr:
        """A value for a column of this type: numbers as any number, quoted constants as they can be read."""
        loose = self.loose(tree)
        readable = isinstance(loose, Folded) and loose.type in (t.STRING, t.NULL)
        if readable or (t.is_numeric(loose.type) and t.is_numeric(want)):
            return self.settle(self.converted(loose, want, tree))
        return self.settle(self.checked(loose, want, tree))

    def settle(self, loose: Loose) -> Expr:
        return self.constants.settle(loose) if isinstance(loose, Folded) else loose

    def converted(self, loose: Loose, to: pa.DataType, tree: exp.Expr) -> Loose:
        """The same value as another type; constants convert now, the rest by a cast."""
        if loose.type == to:
            return loose
        if isinstance(loose, Folded):
            try:
                return loose.then(lambda v: convert(v, to, loose.type), to)
            except Error as e:
                e.span = e.span or span_of(tree)
                raise
        return Call("cast", (loose,), to)

    def checked(self, value: Loose, want: pa.DataType, tree: exp.Expr, what: str = "Expected") -> Loose:
        """A conversion that happens by itself: to a wider number, or of anything to a string."""
        widens = t.common(value.type, want) == want or want == t.STRING
        if not widens and not (t.is_numeric(value.type) and t.is_float(want)):
            found = f"{what} {t.name_of(want)}, found {t.name_of(value.type)}."
            fail(tree, found, "Convert it with CAST(… AS type).")
        return self.converted(value, want, tree)

    def alike(self, a: Loose, b: Loose, tree: exp.Expr) -> tuple[Loose, Loose]:
        """Both sides in one type. A quoted constant takes the type of the other side; a whole number beside an
        integer becomes BIGINT, so that the size of the constant does not matter to the shape."""
        for x, y in ((a, b), (b, a)):
            if isinstance(x, Folded) and not isinstance(y, Folded):
                if x.type == t.STRING and y.type != t.STRING:
                    return self.converted(a, y.type, tree), self.converted(b, y.type, tree)
                if t.is_integer(x.type) and t.is_integer(y.type):
                    return self.converted(a, t.BIGINT, tree), self.converted(b, t.BIGINT, tree)
        joined = t.common(a.type, b.type)
        if joined == t.NULL:
            joined = t.STRING
        if joined is None:
            message = f"{t.name_of(a.type)} and {t.name_of(b.type)} cannot be compared."
            fail(tree, message, "Convert one with CAST(… AS type).")
        return self.converted(a, joined, tree), self.converted(b, joined, tree)


@dataclass(frozen=True, slots=True)
class Kind:
    """How a kind of expression is bound, and which arguments of its trees that reads: a tree with any other is
    refused, so that no modifier is ever ignored."""

    bind: Callable[[Operands, exp.Expr], Loose]
    reads: frozenset[str]


def kind(bind: Callable[[Operands, exp.Expr], Loose], reads: str = "") -> Kind:
    return Kind(bind, frozenset(reads.split()))

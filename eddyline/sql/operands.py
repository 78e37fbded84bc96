"""Binding of operands: the arguments of an expression, converted to the types it needs by explicit casts.

An operand that is a constant stays pending, so that it can take the type of the other operands. `expr` ends this: it
lifts the constant into a parameter (a query registered as text) or keeps it (a declared family).
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
from eddyline.sql.constants import PendingConstant, convert
from eddyline.sql.scope import Constants, Scope, fail, span_of

Operand = Expr | PendingConstant


class OperandBinder(ABC):
    """What the rules for all expressions share."""

    def __init__(self, catalog: Catalog, scope: Scope, constants: Constants) -> None:
        self.catalog = catalog
        self.scope = scope
        self.constants = constants

    @abstractmethod
    def operand(self, tree: exp.Expr) -> Operand:
        """Binds an expression, without conversion to a type that its context needs."""

    def bind(self, tree: exp.Expr, want: pa.DataType | None = None) -> Expr:
        """Binds an expression, converted to `want` if given."""
        operand = self.operand(tree)
        if want is not None:
            operand = self.converted(operand, want, tree)
        return self.expr(operand)

    def condition(self, tree: exp.Expr, what: str) -> Expr:
        operand = self.operand(tree)
        if operand.type not in (t.BOOLEAN, t.NULL):
            fail(tree, f"{what} needs a condition, but this is {t.name_of(operand.type)}.")
        return self.expr(self.converted(operand, t.BOOLEAN, tree))

    def assigned(self, tree: exp.Expr, want: pa.DataType) -> Expr:
        """Binds a value for a column of this type: any number fits any numeric column, and quoted text is parsed."""
        operand = self.operand(tree)
        parsed = isinstance(operand, PendingConstant) and operand.type in (t.STRING, t.NULL)
        if parsed or (t.is_numeric(operand.type) and t.is_numeric(want)):
            return self.expr(self.converted(operand, want, tree))
        return self.expr(self.coerced(operand, want, tree))

    def expr(self, operand: Operand) -> Expr:
        """The operand as a bound expression; a pending constant gets its final type here."""
        return self.constants.add(operand) if isinstance(operand, PendingConstant) else operand

    def converted(self, operand: Operand, to: pa.DataType, tree: exp.Expr) -> Operand:
        """The operand in another type: a constant is converted now, anything else by a cast."""
        if operand.type == to:
            return operand
        if isinstance(operand, PendingConstant):
            try:
                return operand.then(lambda v: convert(v, to, operand.type), to)
            except Error as e:
                e.span = e.span or span_of(tree)
                raise
        return Call("cast", (operand,), to)

    def coerced(self, value: Operand, want: pa.DataType, tree: exp.Expr, what: str = "Expected") -> Operand:
        """An implicit conversion: to a wider number, or of anything to a string. Any other is refused."""
        widens = t.common(value.type, want) == want or want == t.STRING
        if not widens and not (t.is_numeric(value.type) and t.is_float(want)):
            message = f"{what} {t.name_of(want)}, found {t.name_of(value.type)}."
            fail(tree, message, "Convert it with CAST(… AS type).")
        return self.converted(value, want, tree)

    def with_common_type(self, a: Operand, b: Operand, tree: exp.Expr) -> tuple[Operand, Operand]:
        """Both sides converted to one type. A quoted constant takes the type of the other side. An integer constant
        makes both sides BIGINT, so that the size of the constant does not change the shape."""
        for x, y in ((a, b), (b, a)):
            if isinstance(x, PendingConstant) and not isinstance(y, PendingConstant):
                if x.type == t.STRING and y.type != t.STRING:
                    return self.converted(a, y.type, tree), self.converted(b, y.type, tree)
                if t.is_integer(x.type) and t.is_integer(y.type):
                    return self.converted(a, t.BIGINT, tree), self.converted(b, t.BIGINT, tree)
        common = t.common(a.type, b.type)
        if common == t.NULL:
            common = t.STRING
        if common is None:
            message = f"{t.name_of(a.type)} and {t.name_of(b.type)} cannot be compared."
            fail(tree, message, "Convert one with CAST(… AS type).")
        return self.converted(a, common, tree), self.converted(b, common, tree)


@dataclass(frozen=True, slots=True)
class BindRule:
    """How one kind of sqlglot expression is bound, and which of its arguments that reads. A tree with any other
    argument is refused, so that no modifier is ignored."""

    bind: Callable[[OperandBinder, exp.Expr], Operand]
    reads: frozenset[str]


def rule(bind: Callable[[OperandBinder, exp.Expr], Operand], reads: str = "") -> BindRule:
    return BindRule(bind, frozenset(reads.split()))

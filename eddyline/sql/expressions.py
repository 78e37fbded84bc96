"""Scalar expressions: sqlglot trees to typed, bound expressions, with conversions made explicit.

Constants are either lifted into parameters (a query registered as text) or kept (inside a declared family, whose
parameters are written `:name`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta

import pyarrow as pa
from sqlglot import exp

from eddyline import types as t
from eddyline.errors import BindError, Error, did_you_mean
from eddyline.sql.bound import Call, Constant, Expr
from eddyline.sql.catalog import Catalog
from eddyline.sql.constants import Folded, convert, number, number_type
from eddyline.sql.functions import NAMED, UNITS, arithmetic, unit_of
from eddyline.sql.scope import Constants, Scope, fail, span_of
from eddyline.sql.unsupported import EXPRESSIONS

Loose = Expr | Folded


_COMPARE = {
    exp.EQ: "eq",
    exp.NEQ: "ne",
    exp.LT: "lt",
    exp.LTE: "le",
    exp.GT: "gt",
    exp.GTE: "ge",
    exp.NullSafeEQ: "same",
}
_ARITHMETIC = {exp.Add: "add", exp.Sub: "sub", exp.Mul: "mul", exp.Div: "div", exp.Mod: "mod"}
_FUNCTIONS = {
    exp.Abs: "abs",
    exp.Upper: "upper",
    exp.Lower: "lower",
    exp.Length: "length",
    exp.Concat: "concat",
    exp.Floor: "floor",
    exp.Ceil: "ceil",
    exp.Sqrt: "sqrt",
    exp.Round: "round",
    exp.Coalesce: "coalesce",
    exp.Least: "least",
    exp.Greatest: "greatest",
}
_DEEPEST = 100  # levels of an expression: what every later stage can walk without running out of stack
_AGGREGATES = (exp.Count, exp.Sum, exp.Avg, exp.Min, exp.Max)


class ExpressionBinder:
    """Binds expressions in one scope. `special` may answer for a whole tree (group keys and aggregates)."""

    def __init__(
        self,
        catalog: Catalog,
        scope: Scope,
        constants: Constants,
        special: Callable[[exp.Expr], Loose | None] | None = None,
    ) -> None:
        self.catalog = catalog
        self.scope = scope
        self.constants = constants
        self.special = special
        self.depth = 0

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

    def assigned(self, tree: exp.Expr, want: pa.DataType) -> Expr:
        """A value for a column of this type: numbers as any number, quoted constants as they can be read."""
        loose = self.loose(tree)
        readable = isinstance(loose, Folded) and loose.type in (t.STRING, t.NULL)
        if readable or (t.is_numeric(loose.type) and t.is_numeric(want)):
            return self.settle(self.converted(loose, want, tree))
        return self.settle(self._checked(loose, want, tree))

    def loose(self, tree: exp.Expr) -> Loose:
        self.depth += 1
        if self.depth > _DEEPEST:
            fail(tree, f"The expression is nested too deeply: more than {_DEEPEST} levels.", "Split it in subqueries.")
        found = self._loose(tree)
        self.depth -= 1
        return found

    def _loose(self, tree: exp.Expr) -> Loose:
        if self.special is not None:
            found = self.special(tree)
            if found is not None:
                return found
        kind = type(tree)
        if kind in _COMPARE:
            return self._compare(_COMPARE[kind], tree.this, tree.expression, tree)
        if kind in _ARITHMETIC:
            return self._arithmetic(_ARITHMETIC[kind], tree)
        if kind in _FUNCTIONS:
            return self._function(_FUNCTIONS[kind], tree)
        handler = self._HANDLERS.get(kind)
        if handler is None:
            if isinstance(tree, _AGGREGATES):
                fail(tree, f"{tree.sql_name()} is not allowed here.", "Aggregates go into SELECT or HAVING.")
            for unsupported in kind.__mro__:
                if unsupported in EXPRESSIONS:
                    what, hint = EXPRESSIONS[unsupported]
                    fail(tree, f"{what} is not supported.", hint)
            if isinstance(tree, exp.Func):
                fail(
                    tree,
                    f"There is no function {tree.sql_name().lower()!r}.",
                    did_you_mean(tree.sql_name(), self._functions()),
                )
            fail(tree, f"{_words(kind.__name__)} is not supported here.")
        return handler(self, tree)

    # leaves

    def _column(self, tree: exp.Expr) -> Loose:
        assert isinstance(tree, exp.Column)
        if tree.args.get("db"):
            fail(tree, "Columns are named as source.column.")
        if isinstance(tree.this, exp.Star):
            fail(tree, "* is only allowed in the list of SELECT and in COUNT(*).")
        return self.scope.resolve(tree)

    def _literal(self, tree: exp.Expr) -> Loose:
        origin = tree.meta.get("start")
        if tree.args.get("is_string"):
            return Folded(str(tree.this), t.STRING, origin, lambda text: text)
        try:
            value = number(str(tree.this))
        except (ValueError, LookupError):
            fail(tree, f"{tree.this!r} is not a number.")
        return Folded(value, number_type(value), origin, number)

    def _boolean(self, tree: exp.Expr) -> Loose:
        return Folded(bool(tree.this), t.BOOLEAN, None, None)

    def _null(self, _: exp.Expr) -> Loose:
        return Folded(None, t.NULL, None, None)

    def _placeholder(self, tree: exp.Expr) -> Loose:
        name = str(tree.this or "")
        found = self.constants.named(name) if name else None
        if found is None:
            known = [f.name for f in self.constants.declared]
            hint = (
                did_you_mean(name, known)
                if known
                else "Parameters belong to CREATE QUERY FAMILY name (parameter TYPE, …)."
            )
            fail(tree, f"There is no parameter {':' + name if name else '?'}.", hint)
        return found

    def _interval(self, tree: exp.Expr) -> Loose:
        unit = tree.args.get("unit")
        micros = unit_of(unit.name) if isinstance(unit, exp.Var) else None
        if micros is None or tree.this is None:
            what = unit.sql() if unit is not None else "nothing"
            fail(
                tree,
                f"An interval needs a number and a unit of fixed length, found {what}.",
                f"Units are {', '.join(UNITS)}.",
            )
        amount = self.loose(tree.this)
        if isinstance(amount, Folded):
            if amount.type == t.STRING:
                try:
                    amount = amount.then(lambda s: number(s.strip()), t.DOUBLE)
                except (ValueError, LookupError):
                    fail(tree, f"{amount.value!r} is not a number.")
            if amount.value is None or not t.is_numeric(amount.type):
                fail(tree, f"An interval needs a number, but this is {t.name_of(amount.type)}.")
            return amount.then(lambda v: _duration(v, micros), t.INTERVAL)
        if not t.is_numeric(amount.type):
            fail(tree, f"An interval needs a number, but this is {t.name_of(amount.type)}.")
        want = t.DOUBLE if t.is_float(amount.type) else t.BIGINT
        number_of = self.settle(self.converted(amount, want, tree))
        return Call("interval", (number_of, Constant(micros, t.BIGINT)), t.INTERVAL)

    # operators

    def _paren(self, tree: exp.Expr) -> Loose:
        return self.loose(tree.this)

    def _logical(self, tree: exp.Expr) -> Loose:
        op = "and" if isinstance(tree, exp.And) else "or"
        parts: list[Expr] = []
        stack = [tree]
        while stack:  # a long chain is a deep tree: flatten it without recursion
            top = stack.pop()
            if type(top) is type(tree):
                stack += [top.expression, top.this]
            elif isinstance(top, exp.Paren) and type(top.this) is type(tree):
                stack.append(top.this)
            else:
                parts.append(self.condition(top, op.upper()))
        return Call(op, tuple(parts), t.BOOLEAN)

    def _not(self, tree: exp.Expr) -> Loose:
        return Call("not", (self.condition(tree.this, "NOT"),), t.BOOLEAN)

    def _compare(self, op: str, left: exp.Expr, right: exp.Expr, tree: exp.Expr) -> Loose:
        return self._compared(op, self.loose(left), self.loose(right), tree)

    def _compared(self, op: str, a: Loose, b: Loose, tree: exp.Expr) -> Loose:
        a, b = self._alike(a, b, tree)
        return Call(op, (self.settle(a), self.settle(b)), t.BOOLEAN)

    def _alike(self, a: Loose, b: Loose, tree: exp.Expr) -> tuple[Loose, Loose]:
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
            fail(
                tree,
                f"{t.name_of(a.type)} and {t.name_of(b.type)} cannot be compared.",
                "Convert one with CAST(… AS type).",
            )
        return self.converted(a, joined, tree), self.converted(b, joined, tree)

    def _between(self, tree: exp.Expr) -> Loose:
        low = self.settle(self._compared("ge", self.loose(tree.this), self.loose(tree.args["low"]), tree))
        high = self.settle(self._compared("le", self.loose(tree.this), self.loose(tree.args["high"]), tree))
        return Call("and", (low, high), t.BOOLEAN)

    def _in(self, tree: exp.Expr) -> Loose:
        if tree.args.get("query") or tree.args.get("field") or tree.args.get("unnest"):
            fail(tree, "IN takes a list of values.", "Join with the other source instead of a subquery.")
        subject = self.loose(tree.this)
        items = [self.loose(e) for e in tree.expressions]
        if not items:
            fail(tree, "IN needs at least one value.")
        joined = subject.type
        for item, e in zip(items, tree.expressions, strict=True):
            x, y = self._alike(Constant(None, joined) if not isinstance(subject, Folded) else subject, item, e)
            joined = t.common(x.type, y.type) or joined
        args = [
            self.converted(x, joined, e) for x, e in zip([subject, *items], [tree.this, *tree.expressions], strict=True)
        ]
        return Call("in", tuple(self.settle(x) for x in args), t.BOOLEAN)

    def _is(self, tree: exp.Expr) -> Loose:
        other = tree.expression
        if isinstance(other, exp.Null):
            return Call("is_null", (self.bind(tree.this),), t.BOOLEAN)
        if isinstance(other, exp.Boolean):
            return Call("same", (self.condition(tree.this, "IS"), Constant(bool(other.this), t.BOOLEAN)), t.BOOLEAN)
        fail(tree, "IS takes NULL, NOT NULL, TRUE or FALSE.")

    def _like(self, tree: exp.Expr) -> Loose:
        return Call("like", (self.bind(tree.this, t.STRING), self.bind(tree.expression, t.STRING)), t.BOOLEAN)

    def _arithmetic(self, op: str, tree: exp.Expr) -> Loose:
        a, b = self.loose(tree.this), self.loose(tree.expression)
        types = arithmetic(op, a.type, b.type)
        if types is None:
            sign = {"add": "+", "sub": "-", "mul": "*", "div": "/", "mod": "%"}[op]
            fail(
                tree,
                f"{t.name_of(a.type)} {sign} {t.name_of(b.type)} has no meaning.",
                "Convert one with CAST(… AS type).",
            )
        left, right, result = types
        args = self.settle(self.converted(a, left, tree.this)), self.settle(self.converted(b, right, tree.expression))
        return Call(op, args, result)

    def _neg(self, tree: exp.Expr) -> Loose:
        inner = self.loose(tree.this)
        if not (t.is_numeric(inner.type) or inner.type == t.INTERVAL):
            fail(tree, f"-{t.name_of(inner.type)} has no meaning.")
        if isinstance(inner, Folded):
            return inner.then(lambda v: None if v is None else -v, inner.type)
        return Call("neg", (inner,), inner.type)

    def _cast(self, tree: exp.Expr) -> Loose:
        word = tree.args["to"].sql(dialect="spark").upper()
        to = t.BY_NAME.get(word)
        if to is None or to == t.INTERVAL:
            fail(tree, f"{word} is not a type to cast to.", did_you_mean(word, t.BY_NAME))
        inner = self.loose(tree.this)
        if not t.castable(inner.type, to):
            fail(tree, f"{t.name_of(inner.type)} cannot be cast to {t.name_of(to)}.")
        return self.converted(inner, to, tree)

    def _case(self, tree: exp.Expr) -> Loose:
        subject = tree.this
        conditions, values, trees = [], [], []
        for branch in tree.args["ifs"]:
            if subject is not None:
                conditions.append(self.settle(self._compare("eq", subject, branch.this, branch)))
            else:
                conditions.append(self.condition(branch.this, "WHEN"))
            trees.append(branch.args["true"])
        otherwise = tree.args.get("default")
        if otherwise is not None:
            trees.append(otherwise)
        values = [self.loose(v) for v in trees]
        if otherwise is None:
            values.append(Folded(None, t.NULL, None, None))
            trees.append(tree)
        return self._case_call(conditions, values, trees, tree)

    def _if(self, tree: exp.Expr) -> Loose:
        otherwise = tree.args.get("false")
        trees = [tree.args["true"], otherwise if otherwise is not None else tree]
        values = [
            self.loose(trees[0]),
            self.loose(trees[1]) if otherwise is not None else Folded(None, t.NULL, None, None),
        ]
        return self._case_call([self.condition(tree.this, "IF")], values, trees, tree)

    def _case_call(self, conditions: list[Expr], values: list[Loose], trees: list[exp.Expr], tree: exp.Expr) -> Loose:
        joined = self._joined([v.type for v in values], tree)
        settled = [self.settle(self.converted(v, joined, e)) for v, e in zip(values, trees, strict=True)]
        args: list[Expr] = []
        for condition, value in zip(conditions, settled, strict=False):
            args += [condition, value]
        return Call("case", (*args, settled[-1]), joined)

    def _joined(self, types: Sequence[pa.DataType], tree: exp.Expr) -> pa.DataType:
        joined: pa.DataType = t.NULL
        for x in types:
            wider = t.common(joined, x)
            if wider is None:
                fail(
                    tree,
                    f"{t.name_of(joined)} and {t.name_of(x)} do not go together here.",
                    "Convert with CAST(… AS type).",
                )
            joined = wider
        return t.STRING if joined == t.NULL else joined

    def _dpipe(self, tree: exp.Expr) -> Loose:
        return self._call("concat", [tree.this, tree.expression], tree)

    def _function(self, name: str, tree: exp.Expr) -> Loose:
        trees: list[exp.Expr] = []
        for given in tree.args.values():
            trees += [e for e in (given if isinstance(given, list) else [given]) if isinstance(e, exp.Expr)]
        return self._call(name, trees, tree)

    def _anonymous(self, tree: exp.Expr) -> Loose:
        name = str(tree.this).lower()
        if name in NAMED:
            return self._call(name, list(tree.expressions), tree)
        function = self.catalog.functions.get(name)
        if function is None:
            fail(tree, f"There is no function {name!r}.", did_you_mean(name, self._functions()))
        if len(tree.expressions) != len(function.takes):
            fail(tree, f"{function.name} takes {len(function.takes)} arguments, found {len(tree.expressions)}.")
        args = tuple(self._argument(e, want, tree) for e, want in zip(tree.expressions, function.takes, strict=True))
        return Call(f"udf:{function.name.lower()}", args, function.gives)

    def _call(self, name: str, trees: list[exp.Expr], tree: exp.Expr) -> Loose:
        signature = NAMED[name]
        if not signature.least_args <= len(trees) <= signature.most_args:
            least, most = signature.least_args, signature.most_args
            takes = str(least) if least == most else f"{least} to {most}" if most < 255 else f"{least} or more"
            fail(tree, f"{name} takes {takes} argument{'' if takes == '1' else 's'}, found {len(trees)}.")
        values = [self.loose(e) for e in trees]
        resolved = signature.resolve([v.type for v in values])
        if resolved is None:
            given = ", ".join(t.name_of(v.type) for v in values)
            fail(tree, f"{name}({given}) has no meaning.", "Convert with CAST(… AS type).")
        wanted, gives = resolved
        if gives == t.NULL:
            wanted, gives = [t.STRING] * len(wanted), t.STRING
        if name == "round" and len(values) == 2 and not isinstance(values[1], Folded):
            fail(tree, "The number of digits of round must be a constant.")
        args = [self._checked(v, want, e) for v, want, e in zip(values, wanted, trees, strict=True)]
        if name == "round" and len(values) == 2:
            digits = values[1]
            assert isinstance(digits, Folded)
            return Call(name, (self.settle(args[0]), Constant(convert(digits.value, t.INT), t.INT)), gives)
        return Call(name, tuple(self.settle(a) for a in args), gives)

    def _argument(self, tree: exp.Expr, want: pa.DataType, call: exp.Expr) -> Expr:
        return self.settle(self._checked(self.loose(tree), want, tree))

    def _checked(self, value: Loose, want: pa.DataType, tree: exp.Expr) -> Loose:
        """A conversion that happens by itself: to a wider number, or of anything to a string."""
        if (
            t.common(value.type, want) != want
            and want != t.STRING
            and not (t.is_numeric(value.type) and t.is_float(want))
        ):
            fail(
                tree, f"Expected {t.name_of(want)}, found {t.name_of(value.type)}.", "Convert it with CAST(… AS type)."
            )
        return self.converted(value, want, tree)

    def _functions(self) -> list[str]:
        return [*NAMED, *self.catalog.functions.names()]

    _HANDLERS: Mapping[type, Callable[[ExpressionBinder, exp.Expr], Loose]] = {
        exp.Column: _column,
        exp.Literal: _literal,
        exp.Boolean: _boolean,
        exp.Null: _null,
        exp.Placeholder: _placeholder,
        exp.Interval: _interval,
        exp.Paren: _paren,
        exp.And: _logical,
        exp.Or: _logical,
        exp.Not: _not,
        exp.Between: _between,
        exp.In: _in,
        exp.Is: _is,
        exp.Like: _like,
        exp.Neg: _neg,
        exp.Cast: _cast,
        exp.TryCast: _cast,
        exp.Case: _case,
        exp.If: _if,
        exp.DPipe: _dpipe,
        exp.Anonymous: _anonymous,
    }


_LONGEST = 2**62  # microseconds of an interval: what can be added to any time without overflow


def _duration(value: float, micros: int) -> timedelta:
    try:
        length = round(value * micros)
    except (OverflowError, ValueError):
        length = _LONGEST
    if not -_LONGEST < length < _LONGEST:
        raise BindError("The interval is out of range.", hint="It may be up to a hundred thousand years long.")
    return timedelta(microseconds=length)


def _words(camel: str) -> str:
    return "".join(" " + c.lower() if c.isupper() and i else c for i, c in enumerate(camel))

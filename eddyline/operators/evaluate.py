"""Evaluates expressions over the columns of a batch: `sql/functions.py` in Arrow kernels.

`evaluate` is total: data never makes it raise; an operation without a value gives NULL. Intermediate results are
arrays, or scalars as long as no column is involved, so that kernels use their paths for scalars. Cost: a few
kernel calls per node of the expression; Python per row only for user-defined functions, per distinct value for
text (`casts.py`, letters beyond ASCII), per distinct pattern for LIKE, and for `round` where digits decide a half.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eddyline import types as t
from eddyline.index.filters.domains import as_integers
from eddyline.operators.casts import arrow_value, cast, in_calendar, per_distinct, rounded, whole
from eddyline.operators.user_functions import Failure as Failure
from eddyline.operators.user_functions import Functions as Functions
from eddyline.operators.user_functions import called
from eddyline.plan.expressions import MAY_OVERFLOW
from eddyline.sql.bound import Call, Column, Constant, Expr, Param
from eddyline.sql.constant_lists import ConstantList
from eddyline.sql.functions import COMPARISONS
from eddyline.state.list_rows import ListRows, of_array, same_for_all

Value: TypeAlias = Any  # pa.Array or pa.Scalar; ListRows for a list of constants


def evaluate(
    expr: Expr,
    columns: Sequence[pa.Array],
    params: Sequence[Value],
    length: int,
    functions: Functions | None = None,
    owners: npt.NDArray[np.int64] | None = None,
) -> pa.Array:
    """One value per row; columns, and params that are arrays, have `length` rows. `owners` are the rows' queries."""
    return _array(_Batch(columns, params, length, functions, owners).value(expr), length)


def holds(
    expr: Expr,
    columns: Sequence[pa.Array],
    params: Sequence[Value],
    length: int,
    functions: Functions | None = None,
    owners: npt.NDArray[np.int64] | None = None,
) -> np.ndarray:
    """A mask: where the condition is true. NULL counts as false."""
    values = evaluate(expr, columns, params, length, functions, owners)
    mask: np.ndarray = pc.fill_null(values, False).to_numpy(zero_copy_only=False)
    return mask


@dataclass(frozen=True, slots=True)
class _Batch:
    columns: Sequence[pa.Array]
    params: Sequence[Value]
    length: int
    functions: Functions | None
    owners: npt.NDArray[np.int64] | None

    def value(self, expr: Expr) -> Value:
        match expr:
            case Column():
                return _typed(self.columns[expr.index], expr.type)
            case Param():
                given = self.params[expr.index]
                if pa.types.is_list(expr.type):
                    return given if isinstance(given, ListRows) else of_array(_array(given, self.length))
                return _typed(given, expr.type)
            case Constant() if isinstance(expr.value, ConstantList):
                return same_for_all(expr.value, self.length)
            case Constant():
                return pa.scalar(arrow_value(expr.value, expr.type), expr.type)
            case Call():
                args = [self.value(arg) for arg in expr.args]
                if expr.function.startswith("udf:"):
                    return self.call_udf(expr.function.removeprefix("udf:"), args, expr.type)
                result = _typed(_apply(expr.function, expr.type, args), expr.type)
                if expr.function in MAY_OVERFLOW and self.functions is not None and not t.is_float(expr.type):
                    self._note_overflow(expr.function, args, result)
                return result

    def _note_overflow(self, function: str, args: Sequence[Value], result: Value) -> None:
        """Records the rows whose result is NULL although no argument is."""
        if self._failures is None or not isinstance(result, pa.Array) or not result.null_count:
            return
        lost = result.is_null()
        for arg in args:
            lost = pc.and_(lost, arg.is_valid() if isinstance(arg, pa.Array) else pa.scalar(arg.is_valid))
        rows = np.nonzero(lost.to_numpy(zero_copy_only=False))[0]
        if len(rows):
            self._fail(f"An overflow in {function!r} ({len(rows)} rows).", rows)

    def _fail(self, message: str, rows: Any) -> None:
        assert self._failures is not None
        rows = np.asarray(rows, np.int64)
        self._failures.append(Failure(message, None if self.owners is None else np.unique(self.owners[rows]), rows))

    @property
    def _failures(self) -> list[Failure] | None:
        return None if self.functions is None else self.functions.failures

    def call_udf(self, name: str, args: Sequence[Value], to: pa.DataType) -> pa.Array:
        assert self.functions is not None, f"there are no function bodies, so none of {name}"
        arrays = [_array(arg, self.length) for arg in args]
        result = called(name, self.functions.bodies[name], arrays, to, self.length)
        if len(result.failed):
            self.functions.note(name, len(result.failed), result.message, result.first)
            if self._failures is not None:
                self._fail(f"The function {name!r} failed for {len(result.failed)} rows: {result.first}", result.failed)
        return result.values


def _apply(function: str, to: pa.DataType, args: list[Value]) -> Value:
    if function in _TAKE_NULL:
        kernel = _TAKE_NULL[function]
    elif any(isinstance(arg, pa.Scalar) and not arg.is_valid for arg in args):
        return pa.scalar(None, to)
    else:
        kernel = _STRICT[function]
    if not all(isinstance(arg, pa.Scalar) for arg in args):
        return kernel(to, *args)
    result = kernel(to, pa.repeat(args[0], 1), *args[1:])  # kernels can rely on one array among their arguments
    return result[0] if isinstance(result, pa.Array) else result


def _typed(x: Value, to: pa.DataType) -> Value:
    return x if x.type == to else x.cast(to)


def _array(x: Value, length: int) -> pa.Array:
    return pa.repeat(x, length) if isinstance(x, pa.Scalar) else x


def _plain(kernel: Callable[..., Any]) -> Callable[..., Value]:
    return lambda _, *args: kernel(*args)


# Arithmetic.


def _arithmetic(op: str, to: pa.DataType, a: Value, b: Value) -> Value:
    if t.is_float(to):
        return getattr(pc, op)(a, b)
    if to not in (t.TIMESTAMP, t.INTERVAL):
        return _checked(op, a, b)
    amount = _checked(op, a.cast(pa.int64()), b.cast(pa.int64()))
    return (in_calendar(amount) if to == t.TIMESTAMP else amount).cast(to)


def _checked(op: str, a: Value, b: Value) -> Value:
    """On integers of one type, NULL on overflow."""
    try:
        return getattr(pc, op + "_checked")(a, b)
    except pa.ArrowInvalid:
        # An overflow is off by a multiple of 2^bits; a calculation in floats is off by far less than half of that.
        kernel, limit = getattr(pc, op), 2.0 ** (a.type.bit_width - 1)
        wrapped = kernel(a, b)
        about = kernel(*(x.cast(t.DOUBLE, safe=False) for x in (a, b)))
        off = pc.abs(pc.subtract(about, wrapped.cast(t.DOUBLE, safe=False)))
        return pc.if_else(pc.less(off, limit), wrapped, pa.scalar(None, wrapped.type))


def _neg(to: pa.DataType, x: Value) -> Value:
    return pc.negate(x) if t.is_float(to) else _arithmetic("subtract", to, pa.scalar(0, to), x)


def _abs(to: pa.DataType, x: Value) -> Value:
    return pc.abs(x) if t.is_float(to) else pc.if_else(pc.less(x, pa.scalar(0, to)), _neg(to, x), x)


def _unless_zero(x: Value) -> Value:
    return pc.if_else(pc.equal(x, pa.scalar(0, x.type)), pa.scalar(None, x.type), x)


def _div(_: pa.DataType, a: Value, b: Value) -> Value:
    return pc.divide(a, _unless_zero(b))


def _mod(to: pa.DataType, a: Value, b: Value) -> Value:
    b = _unless_zero(b)
    if t.is_float(to):
        return _numpy(np.fmod, to, a, b)
    b = pc.if_else(pc.equal(b, pa.scalar(-1, to)), pa.scalar(1, to), b)  # the least integer / -1 overflows
    return pc.subtract(a, pc.multiply(pc.divide(a, b), b))


def _numpy(function: Callable[..., Any], to: pa.DataType, *args: Value) -> pa.Array:
    """A NumPy function over floats of one type, NULL where an argument is."""
    nulls = reduce(pc.or_, [pc.is_null(x) for x in args])
    floats = [np.asarray(x if isinstance(x, pa.Array) else x.as_py(), to.to_pandas_dtype()) for x in args]
    with np.errstate(all="ignore"):
        return pa.array(function(*floats), to, mask=nulls.to_numpy(zero_copy_only=False))


def _interval(to: pa.DataType, number: Value, unit: pa.Scalar) -> Value:
    if t.is_integer(number.type):
        return _arithmetic("multiply", to, number, unit)
    return whole(to, pc.round(pc.multiply(number, unit.cast(t.DOUBLE)), 0, "half_to_even"))


def _round(to: pa.DataType, x: pa.Array, digits: pa.Scalar | None = None) -> pa.Array:
    return _numpy(partial(rounded, digits=0 if digits is None else digits.as_py()), to, x)


# Comparison and logic.


def _compare(op: str, a: Value, b: Value) -> Value:
    if t.is_float(a.type) and (_has_nan(a) or _has_nan(b)):
        a, b = _order_key(a), _order_key(b)
    return _KERNELS[op](a, b)


_KERNELS = {
    "eq": pc.equal,
    "ne": pc.not_equal,
    "lt": pc.less,
    "le": pc.less_equal,
    "gt": pc.greater,
    "ge": pc.greater_equal,
}


def _has_nan(x: Value) -> bool:
    return pc.any(pc.is_nan(x)).as_py() is True


def _order_key(x: Value) -> Value:
    """Integers in the order of the floats, NaN the greatest."""
    if isinstance(x, pa.Scalar):
        return _order_key(pa.repeat(x, 1))[0]
    integers, missing = as_integers(x)
    return pa.array(integers, mask=missing)


def _same(_: pa.DataType, a: Value, b: Value) -> Value:
    return pc.coalesce(_compare("eq", a, b), pc.and_(pc.is_null(a), pc.is_null(b)))


def _in(_: pa.DataType, wanted: Value, *others: Value) -> Value:
    return reduce(pc.or_kleene, [_compare("eq", wanted, other) for other in others])


def _in_list(_: pa.DataType, wanted: Value, lists: ListRows) -> pa.Array:
    return lists.holding(_array(wanted, len(lists)))


def _case(_: pa.DataType, *args: Value) -> Value:
    *pairs, result = args
    for condition, value in zip(pairs[-2::-2], pairs[::-2], strict=True):
        result = pc.if_else(pc.fill_null(condition, False), value, result)
    return result


def _extreme(op: str, _: pa.DataType, *args: Value) -> Value:
    """`op` is lt for the least, gt for the greatest."""
    return reduce(lambda a, b: pc.if_else(pc.coalesce(_compare(op, b, a), pc.is_null(a)), b, a), args)


# Strings.


def _letters(ascii_kernel: Callable[..., Any], method: Callable[[str], str], _: pa.DataType, x: pa.Array) -> pa.Array:
    """Python knows ß → SS and the final ς, Arrow's kernels for Unicode do not."""
    if pc.all(pc.string_is_ascii(x)).as_py() is not False:
        return ascii_kernel(x)
    return per_distinct(x, t.STRING, method)


def _concat(_: pa.DataType, *args: Value) -> Value:
    return pc.binary_join_element_wise(*args, "", null_handling="emit_null")


def _like(_: pa.DataType, text: Value, pattern: Value) -> Value:
    if isinstance(pattern, pa.Scalar):
        return _matches(text, pattern.as_py())
    text = _array(text, len(pattern))
    encoded = pattern.dictionary_encode()
    codes = pc.fill_null(encoded.indices, -1).to_numpy()
    rows = np.argsort(codes, kind="stable")
    unknown, *groups = np.split(rows, np.searchsorted(codes[rows], np.arange(len(encoded.dictionary))))
    pieces = [pa.nulls(len(unknown), t.BOOLEAN)]
    for like, group in zip(encoded.dictionary.to_pylist(), groups, strict=True):
        pieces.append(_matches(text.take(pa.array(group)), like))
    return pa.concat_arrays(pieces).take(pa.array(np.argsort(rows)))


def _matches(text: pa.Array, pattern: str) -> pa.Array:
    """LIKE with one pattern; a backslash at its end stands for itself. `pc.match_like` (pyarrow 26) would not find
    b\\ LIKE %\\\\, where an escaped backslash ends the pattern."""
    parts = re.findall(r"\\.|.", pattern, re.DOTALL)
    literal = "".join(p[-1] for p in parts if p not in ("%", "_"))
    kinds = "".join(p if p in ("%", "_") else "x" for p in parts)
    if "%" not in kinds and "_" not in kinds:
        return pc.equal(text, literal)
    if re.fullmatch("x*%+", kinds):
        return pc.starts_with(text, literal)
    if re.fullmatch("%+x*", kinds):
        return pc.ends_with(text, literal)
    if re.fullmatch("%+x+%+", kinds):
        return pc.match_substring(text, literal)
    regex = "".join({"%": ".*", "_": "."}.get(p) or _quoted(p[-1]) for p in parts)
    try:
        return pc.match_substring_regex(text, rf"(?s)\A{regex}\z")
    except pa.ArrowInvalid:  # the pattern is too large for RE2
        compiled = re.compile(regex, re.DOTALL)
        return per_distinct(text, t.BOOLEAN, lambda s: compiled.fullmatch(s) is not None)


def _quoted(c: str) -> str:
    return c if c.isalnum() or ord(c) > 127 else f"\\x{ord(c):02x}"


_STRICT: dict[str, Callable[..., Value]] = {
    "add": partial(_arithmetic, "add"),
    "sub": partial(_arithmetic, "subtract"),
    "mul": partial(_arithmetic, "multiply"),
    "div": _div,
    "mod": _mod,
    "neg": _neg,
    "abs": _abs,
    **{op: _plain(partial(_compare, op)) for op in COMPARISONS},
    "not": _plain(pc.invert),
    "like": _like,
    "upper": partial(_letters, pc.ascii_upper, str.upper),
    "lower": partial(_letters, pc.ascii_lower, str.lower),
    "length": _plain(pc.utf8_length),
    "concat": _concat,
    "floor": lambda to, x: whole(to, pc.floor(x)),
    "ceil": lambda to, x: whole(to, pc.ceil(x)),
    "round": _round,
    "sqrt": _plain(pc.sqrt),
    "cast": cast,
    "interval": _interval,
}
_TAKE_NULL: dict[str, Callable[..., Value]] = {
    "and": lambda _, *args: reduce(pc.and_kleene, args),
    "or": lambda _, *args: reduce(pc.or_kleene, args),
    "same": _same,
    "is_null": _plain(pc.is_null),
    "in": _in,
    "in_list": _in_list,
    "case": _case,
    "coalesce": _plain(pc.coalesce),
    "least": partial(_extreme, "lt"),
    "greatest": partial(_extreme, "gt"),
}

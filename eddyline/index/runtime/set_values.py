"""Sets of 4,096 bits as values of kernels, for loops that intersect one set with others in turn.

A set in memory (`vectors.py`) is loaded and stored at every step of such a loop. A value stays in eight registers of
AVX-512, so a step loads the other sets and nothing else: a row and block of five attributes took 57 ns as sets in
memory, and takes 45 ns as a value. Where a machine has too few registers, LLVM keeps a part on the stack; with AVX2
the same search took 85 and 71 ns.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core.datamodel import models
from numba.core.datamodel.registry import register_default

from eddyline.index.runtime.vectors import SET_WORDS, intrinsic

_I64 = ir.IntType(64)
_VECTOR = ir.VectorType(_I64, SET_WORDS)


class _SetType(types.Type):
    def __init__(self) -> None:
        super().__init__(name="SetOf4096")


@register_default(_SetType)
class _SetModel(models.PrimitiveModel):
    def __init__(self, data_models: Any, type_: Any) -> None:
        super().__init__(data_models, type_, _VECTOR)  # type: ignore[no-untyped-call]


_SET = _SetType()


@intrinsic
def load_set(typing_context: Any, a: Any, at: Any) -> Any:
    """The set at a position of an array."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(_place(context, builder, signature, args, 0), align=8)

    return _SET(a, types.intp), codegen


@intrinsic
def store_set(typing_context: Any, to: Any, at: Any, members: Any) -> Any:
    """Writes a set to a position of an array."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(args[2], _place(context, builder, signature, args, 0), align=8)
        return context.get_dummy_value()

    return types.void(to, types.intp, _SET), codegen


@intrinsic
def intersected(typing_context: Any, members: Any, a: Any, at: Any) -> Any:
    """The intersection of a set with one in memory."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.and_(args[0], builder.load(_place(context, builder, signature, args, 1), align=8))

    return _SET(_SET, a, types.intp), codegen


@intrinsic
def overlaps(typing_context: Any, members: Any, a: Any, at: Any) -> Any:
    """0 if a set and one in memory are disjoint."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        both = builder.and_(args[0], builder.load(_place(context, builder, signature, args, 1), align=8))
        return _call(builder, "llvm.vector.reduce.or.v64i64", _I64, both)

    return types.uint64(_SET, a, types.intp), codegen


@intrinsic
def size_of(typing_context: Any, members: Any) -> Any:
    """The number of members of a set."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        bits = _call(builder, "llvm.ctpop.v64i64", _VECTOR, args[0])
        return _call(builder, "llvm.vector.reduce.add.v64i64", _I64, bits)

    return types.int64(_SET), codegen


def _place(context: Any, builder: Any, signature: Any, args: Any, i: int) -> Any:
    """A pointer to the set that parameters i and i + 1 give as an array and a position."""
    array = context.make_array(signature.args[i])(context, builder, args[i])
    return builder.bitcast(builder.gep(array.data, [args[i + 1]]), _VECTOR.as_pointer())


def _call(builder: Any, name: str, gives: Any, vector: Any) -> Any:
    known = builder.module.globals.get(name)
    return builder.call(known or ir.Function(builder.module, ir.FunctionType(gives, [_VECTOR]), name), [vector])

"""Vector instructions for kernels: tests of 32 numbers of 16 bits, which is one cache line, and sets of 4,096 bits.

LLVM translates them to what the machine has (one AVX-512 instruction, two of AVX2, four of NEON). It does not always
find them in a plain loop: 139 tests of 32 boxes took 6.1 µs that way, and take 1.5 µs this way.
A set is 64 words of an array; it is given as the array and the position of its first word.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import carray, extending, njit, types  # type: ignore[attr-defined]
from numba.core import cgutils

# What it makes is called inside kernels, without the typing context.
intrinsic: Callable[[Callable[..., Any]], Callable[..., Any]] = extending.intrinsic

LANES = 32
LINE = 64  # bytes

_I16, _I32, _I64 = (ir.IntType(bits) for bits in (16, 32, 64))
_VECTOR = ir.VectorType(_I16, LANES)
_SET_LINE = ir.VectorType(_I64, 8)
SET_LINES = 8
SET_WORDS = 8 * SET_LINES


@intrinsic
def lanes_within(typing_context: Any, block: Any, at: Any, x: Any) -> Any:
    """Bit k says whether block[at + k] <= x <= block[at + k] + block[at + 32 + k]: 32 low ends, then 32 widths.

    `block` is a contiguous array of uint16. The sum does not wrap around in what is stored, so one subtraction and one
    comparison, both without sign, test both ends.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, args[0])
        low_at = builder.gep(array.data, [args[1]])
        low = builder.load(builder.bitcast(low_at, _VECTOR.as_pointer()), align=2)
        width_at = builder.gep(low_at, [ir.Constant(_I64, LANES)])
        width = builder.load(builder.bitcast(width_at, _VECTOR.as_pointer()), align=2)
        nothing = ir.Constant(_VECTOR, ir.Undefined)
        one = builder.insert_element(nothing, args[2], ir.Constant(_I32, 0))
        everywhere = builder.shuffle_vector(one, nothing, ir.Constant(ir.VectorType(_I32, LANES), [0] * LANES))
        held = builder.icmp_unsigned("<=", builder.sub(everywhere, low), width)
        return builder.bitcast(held, _I32)

    return types.uint32(block, types.intp, types.uint16), codegen


@intrinsic
def lowest_bit(typing_context: Any, word: Any) -> Any:
    """The position of the lowest bit that is set; the word is not zero."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        position = builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))
        return builder.zext(position, _I64) if signature.args[0].bitwidth < 64 else position

    return types.int64(word), codegen


@intrinsic
def bits_set(typing_context: Any, word: Any) -> Any:
    """The number of bits of a word that are set."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        count = builder.ctpop(args[0])
        return builder.zext(count, _I64) if signature.args[0].bitwidth < 64 else count

    return types.int64(word), codegen


@intrinsic
def copy_set(typing_context: Any, to: Any, to_at: Any, a: Any, a_at: Any) -> Any:
    """Copies a set."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        _copied(context, builder, signature, args, align=8)
        return context.get_dummy_value()

    return types.void(to, types.intp, a, types.intp), codegen


@intrinsic
def copy_words(typing_context: Any, to: Any, to_at: Any, a: Any, a_at: Any, n: Any) -> Any:
    """Copies n words, which do not overlap."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        into, source = _sets(context, builder, signature, args[:4])
        cgutils.raw_memcpy(builder, into, source, args[4], 8)  # type: ignore[no-untyped-call]
        return context.get_dummy_value()

    return types.void(to, types.intp, a, types.intp, types.intp), codegen


@intrinsic
def fill_words(typing_context: Any, to: Any, to_at: Any, n: Any) -> Any:
    """Sets all bits of n words."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        (into,) = _sets(context, builder, signature, args[:2])
        size = builder.mul(args[2], ir.Constant(_I64, 8))
        cgutils.memset(builder, into, size, 255)  # type: ignore[no-untyped-call]
        return context.get_dummy_value()

    return types.void(to, types.intp, types.intp), codegen


@intrinsic
def stream_set(typing_context: Any, to: Any, to_at: Any, a: Any, a_at: Any) -> Any:
    """As `copy_set`, bypassing the caches, to a position that begins with a cache line and is not read soon."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        past = builder.module.add_metadata([ir.Constant(_I32, 1)])
        for store in _copied(context, builder, signature, args, align=LINE):
            store.set_metadata("nontemporal", past)
        return context.get_dummy_value()

    return types.void(to, types.intp, a, types.intp), codegen


@intrinsic
def unite(typing_context: Any, to: Any, to_at: Any, a: Any, a_at: Any) -> Any:
    """Adds a set to another."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        into, added = _sets(context, builder, signature, args)
        for line in range(SET_LINES):
            place = _line(builder, into, line)
            both = builder.or_(builder.load(place, align=8), builder.load(_line(builder, added, line), align=8))
            builder.store(both, place, align=8)
        return context.get_dummy_value()

    return types.void(to, types.intp, a, types.intp), codegen


@intrinsic
def intersect(typing_context: Any, to: Any, to_at: Any, a: Any, a_at: Any, b: Any, b_at: Any, c: Any, c_at: Any) -> Any:
    """to = a ∩ b; returns 0 if that is disjoint from c. Nine parameters: Numba's own, and four sets."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        into, *others = _sets(context, builder, signature, args)
        something = ir.Constant(_SET_LINE, [0] * 8)
        for line in range(SET_LINES):
            x, y, z = (builder.load(_line(builder, p, line), align=8) for p in others)
            both = builder.and_(x, y)
            builder.store(both, _line(builder, into, line), align=8)
            something = builder.or_(something, builder.and_(both, z))
        return _call(builder, "llvm.vector.reduce.or.v8i64", _I64, something)

    place = types.intp
    return types.uint64(to, place, a, place, b, place, c, place), codegen


@intrinsic
def meets(typing_context: Any, a: Any, a_at: Any, b: Any, b_at: Any) -> Any:
    """0 if two sets are disjoint."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointers = _sets(context, builder, signature, args)
        something = ir.Constant(_SET_LINE, [0] * 8)
        for line in range(SET_LINES):
            x, y = (builder.load(_line(builder, p, line), align=8) for p in pointers)
            something = builder.or_(something, builder.and_(x, y))
        return _call(builder, "llvm.vector.reduce.or.v8i64", _I64, something)

    return types.uint64(a, types.intp, b, types.intp), codegen


@intrinsic
def members(typing_context: Any, a: Any, at: Any) -> Any:
    """The number of members of a set."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        (pointer,) = _sets(context, builder, signature, args)
        total = ir.Constant(_SET_LINE, [0] * 8)
        for line in range(SET_LINES):
            words = builder.load(_line(builder, pointer, line), align=8)
            total = builder.add(total, _call(builder, "llvm.ctpop.v8i64", _SET_LINE, words))
        return _call(builder, "llvm.vector.reduce.add.v8i64", _I64, total)

    return types.int64(a, types.intp), codegen


@intrinsic
def run_starts(typing_context: Any, a: Any, at: Any) -> Any:
    """The number of runs of consecutive members; a run that continues in the next word is counted in both."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        (pointer,) = _sets(context, builder, signature, args)
        total = ir.Constant(_SET_LINE, [0] * 8)
        ones = ir.Constant(_SET_LINE, [1] * 8)
        for line in range(SET_LINES):
            words = builder.load(_line(builder, pointer, line), align=8)
            begins = builder.and_(words, builder.not_(builder.shl(words, ones)))
            total = builder.add(total, _call(builder, "llvm.ctpop.v8i64", _SET_LINE, begins))
        return _call(builder, "llvm.vector.reduce.add.v8i64", _I64, total)

    return types.int64(a, types.intp), codegen


@intrinsic
def _pointer(typing_context: Any, address: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], _I64.as_pointer())

    return types.CPointer(types.int64)(types.int64), codegen  # type: ignore[no-untyped-call]


@njit(inline="always")
def table_at(address: int, columns: int, rows: int) -> npt.NDArray[np.int64]:
    """The table of 64-bit integers at an address, column after column: for kernels that take any number of tables. The
    caller of the kernel must keep them alive."""
    table: npt.NDArray[np.int64] = carray(_pointer(address), (columns, rows))
    return table


def _sets(context: Any, builder: Any, signature: Any, args: Any) -> list[Any]:
    """Pointers to sets, each of which is given as an array and a position."""
    pointers = []
    for i in range(0, len(args), 2):
        array = context.make_array(signature.args[i])(context, builder, args[i])
        pointers.append(builder.gep(array.data, [args[i + 1]]))
    return pointers


def _copied(context: Any, builder: Any, signature: Any, args: Any, align: int) -> list[Any]:
    """Copies a set, line by line; returns the stores."""
    into, source = _sets(context, builder, signature, args)
    lines = [(_line(builder, source, line), _line(builder, into, line)) for line in range(SET_LINES)]
    return [builder.store(builder.load(a, align=8), b, align=align) for a, b in lines]


def _line(builder: Any, pointer: Any, line: int) -> Any:
    return builder.bitcast(builder.gep(pointer, [ir.Constant(_I64, line * 8)]), _SET_LINE.as_pointer())


def _call(builder: Any, name: str, gives: Any, vector: Any) -> Any:
    """Calls an LLVM intrinsic on a vector of words."""
    known = builder.module.globals.get(name)
    return builder.call(known or ir.Function(builder.module, ir.FunctionType(gives, [_SET_LINE]), name), [vector])


def on_lines(shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Zeros that begin with a cache line, so that no vector spans two."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = np.zeros(size + LINE, np.uint8)
    start = -memory.ctypes.data % LINE
    return memory[start : start + size].view(dtype).reshape(shape)

"""Signed-zero analysis: which values are never -0.0. Adding 0.0 to these changes no bit.

    g[...] = 0.0;  g[i] += a * b;  h[i] = 0.0 + g[i]      h is g: a sum that starts at 0.0 is never -0.0

Gradients are such sums, and gradients of copies sums of such sums.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from weft.affine import Affine
from weft.loops.constants import constant_value
from weft.loops.effects import accumulation
from weft.loops.insert_casts import dtype_of
from weft.loops.nests import Nest
from weft.loops.nodes import Buffer, Cast, Let, Local, Program, Read, Set, Stmt, Store
from weft.loops.walk import buffers_of, everything
from weft.ops import OPS, Call, Scalar
from weft.ops.convert import exact
from weft.ops.dtypes import carrier, is_float

#: The known value of a variable.
Held = Callable[[Local], Scalar | None]
#: Variables and buffers that are known never to hold -0.0.
Positive = Collection[Local | Buffer]
#: The depth to which a scalar is searched, variables included: what is shared is searched again wherever it is read.
_FAR = 6


def unsigned(scalar: Scalar, held: Held, positive: Positive = (), far: int = _FAR) -> bool:
    """Is a scalar never -0.0, given the known values of variables?"""

    def inner(one: Scalar) -> bool:
        return unsigned(one, held, positive, far - 1)

    constant = constant_value(scalar)
    if constant is not None:
        return not is_float(dtype_of(scalar)) or str(constant) != "-0.0"
    match scalar:
        case Affine():
            return True
        case Read(buffer=buffer):
            return buffer in positive
        case _ if not is_float(dtype_of(scalar)):
            return True
        case _ if not far:
            return False
        case Local():
            value = held(scalar)
            return scalar in positive or (value is not None and inner(value))
        case Cast(value=value):
            return not is_float(dtype_of(value)) or (exact(dtype_of(value), scalar.dtype) and inner(value))
        case Call(op="add", args=args):
            return any(map(inner, args))
        case Call(op="sub", args=(first, _)):
            return inner(first)
        case Call(op="where" | "max" | "min", args=args):
            return all(map(inner, args[-2:]))
        case Call(op=op):
            return OPS[op].unsigned
    return False


def never_minus_zero(body: tuple[Stmt, ...], positive: Collection[Buffer]) -> set[Local | Buffer]:
    """The accumulators of a block that start at zero, and of the buffers `positive` those that it touches."""
    return {*_sums_from_zero(body), *(one for one in buffers_of(Program(body)) if one in positive)}


def _sums_from_zero(body: Sequence[Stmt]) -> set[Local]:
    """The variables of a block that start at a constant other than -0.0 and are only added to."""
    started = [one for one in everything(body) if isinstance(one, Let) and constant_value(one.value) is not None]
    found = {one.local for one in started if unsigned(one.value, lambda local: None)}
    sets = [one for one in everything(body) if isinstance(one, Set)]
    return found - {one.local for one in sets if (accumulation(one) or ("", None))[0] != "add"}


def unsigned_buffers(nests: Sequence[Nest]) -> set[Buffer]:
    """The buffers that nests fill with what is never -0.0 before they read them, and then only add to.

    What is rounded when it is stored does not count: a small negative number may become -0.0.
    """
    first = {nest.target: nest for nest in reversed(nests)}
    found = {target for target, nest in first.items() if carrier(target.dtype) == target.dtype and nest.fills}
    written: set[Buffer] = set()
    for nest in nests:
        found -= {read.buffer for read in nest.reads} - written
        written.add(nest.target)
    known = -1
    while known != len(found):  # what is read is written before, mostly: a second look finds nothing
        known = len(found)
        for nest in nests:
            if nest.target in found and not _adds(nest, found):
                found.discard(nest.target)
    return found


def _adds(nest: Nest, positive: Positive) -> bool:
    """Does a nest add to its target, or store what is never -0.0, given what buffers are not?"""
    core = nest.core
    return unsigned(core.value, lambda local: None, positive) if isinstance(core, Store) else core.op in ("add", "sub")

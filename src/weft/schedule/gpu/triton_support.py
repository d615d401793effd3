"""Which operations and types Triton supports: these run in lanes, the rest on SIMT threads."""

from __future__ import annotations

from collections.abc import Sequence

from weft.loops import Cast, Let, Read, Stmt, Store, Update, dtype_of
from weft.loops.walk import everything, parts, walk
from weft.ops import OPS, Call
from weft.ops.dtypes import is_float

#: Operations that are many steps on 64 bits, or of which CUDA's library for Triton has none.
_UNSPELLED = ("threefry4x32", "uniform", "normal", "digamma", "trigamma", "type_as")
#: Operations that loop, of whole numbers.
_OF_FLOATS = ("pow",)
#: Types that no lane computes: they are converted otherwise on each architecture.
_EIGHT_BITS = ("float8_e4m3fn", "float8_e5m2")


def unspelled(body: Sequence[Stmt], float8: bool = False) -> str:
    """What Triton has no word for in a block; nothing if it has one for all. Eight bits may be read as `float8`."""
    for stmt in everything(body):
        if isinstance(stmt, Store | Update) and stmt.buffer.dtype in _EIGHT_BITS:
            return f"`{stmt.buffer.name}` is {stmt.buffer.dtype}"
        if isinstance(stmt, Let) and "." in stmt.local.dtype:
            return f"`{stmt.local.name}` is a state of several numbers"
        if isinstance(stmt, Update) and (why := _operation(stmt.op, dtype_of(stmt.value))):
            return why
        scalars = [one for part in parts(stmt) for one in walk(part)]
        known = [one.value for one in scalars if float8 and isinstance(one, Cast) and one.dtype == "float32"]
        for one in scalars:
            match one:
                case Read(buffer=buffer) if buffer.dtype in _EIGHT_BITS and any(one is other for other in known):
                    pass
                case Read(buffer=buffer) if "." in buffer.dtype or buffer.dtype in _EIGHT_BITS:
                    return f"`{buffer.name}` is {buffer.dtype}"
                case Cast(dtype=dtype) if dtype in _EIGHT_BITS:
                    return f"it rounds to {dtype}"
                case Call(op=op, args=args) if why := _operation(op, dtype_of(args[-1])):
                    return why
    return ""


def _operation(op: str, dtype: str) -> str:
    row = OPS[op]
    if op in _UNSPELLED or row.monoid is not None or "." in dtype or not row.triton:
        return f"`{op}` runs on one number at a time"
    if op in _OF_FLOATS and not is_float(dtype):
        return f"`{op}` of whole numbers runs on one number at a time"
    return ""

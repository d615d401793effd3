"""The loop language."""

from weft.loops.check import MalformedLoops, check
from weft.loops.nodes import (
    Buffer,
    Cast,
    Fill,
    For,
    If,
    Inside,
    Let,
    Local,
    Place,
    Program,
    Read,
    Remark,
    Set,
    Stmt,
    Store,
    Update,
    buffers_of,
    reads,
    walk,
)
from weft.loops.rewrite import rewrite
from weft.loops.show import show, show_scalar
from weft.loops.typed import combine, combined, dtype_of, typed

__all__ = [
    "Buffer",
    "Cast",
    "Fill",
    "For",
    "If",
    "Inside",
    "Let",
    "Local",
    "MalformedLoops",
    "Place",
    "Program",
    "Read",
    "Remark",
    "Set",
    "Stmt",
    "Store",
    "Update",
    "buffers_of",
    "check",
    "combine",
    "combined",
    "dtype_of",
    "reads",
    "rewrite",
    "show",
    "show_scalar",
    "typed",
    "walk",
]

"""The loop language."""

from weft.loops.check import MalformedLoops, check
from weft.loops.nodes import (
    Buffer,
    Fill,
    For,
    If,
    Inside,
    Place,
    Program,
    Read,
    Remark,
    Stmt,
    Store,
    Update,
    buffers_of,
    reads,
    walk,
)
from weft.loops.show import show, show_scalar

__all__ = [
    "Buffer",
    "Fill",
    "For",
    "If",
    "Inside",
    "MalformedLoops",
    "Place",
    "Program",
    "Read",
    "Remark",
    "Stmt",
    "Store",
    "Update",
    "buffers_of",
    "check",
    "reads",
    "show",
    "show_scalar",
    "walk",
]

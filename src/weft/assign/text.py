"""How the notation spells accumulations."""

from __future__ import annotations

from weft.ops import OPS


def accumulating(op: str) -> str:
    """How an assignment writes what it accumulates with: as the table does, but the gate of relu like relu.

    A monoid stands in braces: `=:{mean}`.
    """
    if OPS[op].monoid:
        return f"{{{op}}}"
    return "?/" if op == "relu_gate" else OPS[op].text

"""How the notation spells accumulations."""

from __future__ import annotations

from collections.abc import Mapping

from weft.ops import OPS

#: How an assignment writes what it accumulates with: as the table does, but the gate of relu like relu.
ACCUMULATING: Mapping[str, str] = {
    op.name: "?/" if op.name == "relu_gate" else op.text for op in OPS.values() if op.arity == 2
}

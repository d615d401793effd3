"""A routine: code compiled for a context, run by calling it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from typing import TYPE_CHECKING

from weft.assign import Accum, Code, Comment, Keep, Merge, Node, Operand, Seq, Stored, node_of, statements, target
from weft.assign.complete import reads
from weft.backends.seam import Executable
from weft.errors import WeftError, user_origin
from weft.loops import Buffer, Program, buffers_of
from weft.loops import show as show_loops
from weft.tensor.slices import StaticIndex

if TYPE_CHECKING:
    from weft.runtime.context import Context


@dataclass(frozen=True, eq=False)
class Facts:
    """What completed code needs to find in memory, what it writes, what it leaves stored, what it touches at all."""

    needs: tuple[Operand, ...]
    written: tuple[Node, ...]
    leaves: tuple[Node, ...]
    touched: tuple[Node, ...]


@dataclass(frozen=True, eq=False)
class Routine:
    """Compiled code, with what it does to memory."""

    context: Context
    code: Code
    program: Program
    executable: Executable
    bindings: Mapping[str, StaticIndex]
    facts: Facts

    def __call__(self, **values: int) -> None:
        """Run; every static index must be bound: `step(i=3)`."""
        self.context.run(self, self._bound(values))

    def __repr__(self) -> str:
        return f"<routine({', '.join(self.bindings)})>"

    def show(self, stage: str) -> str:
        """A stage of the compilation as text: "assign", "loops" or "source"."""
        match stage:
            case "assign":
                return self.context.show(self.code)
            case "loops":
                return show_loops(self.program)
            case "source":
                return self.executable.source
        raise WeftError(f"there is no stage {stage!r}", origin=user_origin(), fix='use "assign", "loops" or "source"')

    @cached_property
    def buffers(self) -> tuple[Buffer, ...]:
        """The memory it works on."""
        return buffers_of(self.program)

    def _bound(self, values: Mapping[str, int]) -> dict[str, int]:
        for name in values:
            if name not in self.bindings:
                known = ", ".join(self.bindings) or "none"
                raise WeftError(
                    f"the routine has no static index `{name}`", origin=user_origin(), fix=f"its indices are: {known}"
                )
        for name, index in self.bindings.items():
            value = values.get(name)
            if value is None:
                raise WeftError(
                    f"static index `{name}` is not bound", origin=user_origin(), fix=f"call the routine with {name}=…"
                )
            if not isinstance(value, Integral) or isinstance(value, bool) or not 0 <= value < index.size:
                raise WeftError(
                    f"{name}={value} is outside the range of static index `{name}`",
                    origin=user_origin(),
                    fix=f"bind it to a whole number from 0 to {index.size - 1}",
                )
        return {name: int(value) for name, value in values.items()}


def analyse(code: Code) -> Facts:
    """Read off completed code what it does to memory."""
    needs: dict[Operand, None] = {}
    consumed: dict[Node, bool] = {}  # every node written so far: has it been read since?
    touched: dict[Node, None] = {}
    for statement in statements(code):
        for operand in statement.operands if isinstance(statement, Accum) else ():
            node = node_of(operand)
            touched[node] = None
            if isinstance(operand, Merge | Stored) or node not in consumed:
                needs[operand] = None
            else:
                consumed[node] = True
        needs |= dict.fromkeys(node for node in reads(statement) if node not in consumed)
        written = target(statement)
        touched[written] = None
        consumed[written] = False
    kept = {node for keep in _keeps(code) for node in keep.nodes}
    leaves = [node for node, read in consumed.items() if not read or node in kept or _persists(node)]
    return Facts(tuple(needs), tuple(consumed), tuple(leaves), tuple(touched))


def _persists(node: Node) -> bool:
    return node.definition is None and node.gradient_of is None


def _keeps(code: Code) -> list[Keep]:
    match code:
        case Keep():
            return [code]
        case Seq(codes=codes):
            return [keep for one in codes for keep in _keeps(one)]
        case Comment(body=body):
            return _keeps(body)
    return []

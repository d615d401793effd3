"""What loops of a text compute for every iteration.

    h =: h0; ~for:"t" ~range:3 (z =: tanh(h); h =: z; s =+ z; hs =: z ~logic:"@| t'" ~slots:"0=>1")

A node that a loop writes has a value for each of its iterations: z. One that was written before, and is overwritten in
the loop, is carried from one to the next: h. One that the loop adds to, s, or of which it writes the part that belongs
to the iteration, hs, is not of the loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from weft.assign import Iterations, LoopIndex
from weft.assign.syntax import Assign, LoopBlock, Quoted, RemarkBlock, Statement
from weft.errors import user_origin
from weft.notation import Mistake
from weft.shape.infer import infer
from weft.shape.logic import Literal
from weft.shape.nodes import Dim, Shape

#: The loops around a statement, outermost first, and whether they run backwards.
Around: TypeAlias = tuple[tuple[LoopIndex, bool], ...]


@dataclass(frozen=True, slots=True)
class _Write:
    around: Around
    statement: Assign

    @property
    def own(self) -> Around:
        """The loops that what it writes has values for: not the one that stands where its left side is written."""
        right = self.statement.right
        text = right.logic.text if isinstance(right.logic, Quoted) and right.slots and right.slots.lhs else ""
        return tuple((index, reverse) for index, reverse in self.around if text != f"@| {index.symbol}")


class TextLoops:
    """The loops of a text: those of one name and size are one."""

    def __init__(self, program: Sequence[Statement]) -> None:
        self._indices: dict[tuple[str, int], LoopIndex] = {}
        self._writes: dict[str, list[_Write]] = {}
        for around, statement in self._nested(program):
            self._writes.setdefault(statement.target.text, []).append(_Write(around, statement))

    def index(self, loop: LoopBlock) -> LoopIndex:
        key = loop.index.text, loop.size
        if key not in self._indices:
            shape = Literal(Shape(output=(Dim(loop.size),)))
            length = infer(shape, name=loop.index.text, title="loop", origin=user_origin()).result
            self._indices[key] = LoopIndex(loop.index.text, length)
        return self._indices[key]

    def iterations(self, name: str) -> Iterations | None:
        """The iterations that a node by this name has values for."""
        writes = sorted(self._writes.get(name, ()), key=lambda one: len(one.own))
        if not writes or not writes[-1].own:
            return None
        outer = writes[0].own
        carried = [one for one in writes if len(one.own) > len(outer) and one.statement.sign.reset]
        for one in writes:
            if one.own[: len(outer)] != outer or (one in carried and len(one.own) != len(outer) + 1):
                what = f"`{name}` is written in loops of which none is around all others"
                raise Mistake(what, one.statement.span, "write it in one loop, and before that for its first iteration")
        if carried:
            last, reverse = carried[0].own[-1]
            return Iterations((*(index for index, _ in outer), last), "backward" if reverse else "forward")
        return Iterations(tuple(index for index, _ in outer)) if outer else None

    def _nested(self, program: Sequence[Statement], around: Around = ()) -> Iterator[tuple[Around, Assign]]:
        for statement in program:
            match statement:
                case Assign():
                    yield around, statement
                case RemarkBlock(body=body):
                    yield from self._nested(body, around)
                case LoopBlock(body=body, reverse=reverse):
                    yield from self._nested(body, (*around, (self.index(statement), reverse)))

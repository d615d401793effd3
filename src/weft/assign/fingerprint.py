"""Code as a text that is the same for code that lowers to the same loops, whatever its tensors are called.

Tensors are numbered in the order they are met. The text holds all that lowering looks at: element types, closed shapes,
which loops an operation runs, and values with the numbers that shapes give them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from weft.assign.extents import Extent
from weft.assign.iterations import LoopIndex
from weft.assign.nodes import (
    Accum,
    Assignment,
    Cells,
    Code,
    Comment,
    Direct,
    Fetch,
    Merge,
    Node,
    Operand,
    Repeat,
    Seq,
    node_of,
)
from weft.loops import Buffer, Cast, Local, Read
from weft.loops.walk import INNER, children
from weft.ops import OPS, Call, Scalar, fold_tree
from weft.project.plan import label_sizes
from weft.shape.cells import ShapeVar
from weft.shape.close import close
from weft.shape.infer import Operation
from weft.shape.logic import Einsum


@dataclass(slots=True)
class Fingerprint:
    """The text, and the tensors by number."""

    lines: list[str] = field(default_factory=list)
    numbers: dict[Node | Merge, int] = field(default_factory=dict)
    _shapes: dict[ShapeVar, str] = field(default_factory=dict)
    #: Operations by number: one of many operands is written once, not again with the gradient of each.
    _operations: dict[Operation, int] = field(default_factory=dict)
    _loops: dict[LoopIndex, int] = field(default_factory=dict)

    @staticmethod
    def of(code: Code, wanted: Iterable[Node] = ()) -> Fingerprint:
        """The fingerprint of code; the nodes `wanted` are numbered even if it does not mention them."""
        made = Fingerprint()
        made._code(code)
        for node in wanted:
            made.number(node)
        return made

    def number(self, operand: Operand) -> int:
        """Which tensor an operand is; whether its value is computed or as stored makes no difference to loops."""
        key = operand if isinstance(operand, Merge) else node_of(operand)
        if key not in self.numbers:
            node = node_of(operand)
            self.numbers[key] = len(self.numbers)
            self.lines.append(f"{node.dtype} {self._shape(node.shape)}{self._iterations(node)}")
        return self.numbers[key]

    def _code(self, code: Code) -> None:
        match code:
            case Seq(codes=codes):
                for one in codes:
                    self._code(one)
            case Comment(body=body):
                self._code(body)
            case Repeat(index=index, reverse=reverse, body=body):
                self.lines.append(f"for {self._loop(index)} {reverse}")
                self._code(body)
                self.lines.append("end")
            case Accum() | Fetch() | Direct():
                self._statement(code)

    def _loop(self, index: LoopIndex) -> str:
        """Which loop it is, its name too: that is what slices call it."""
        return f"{self._loops.setdefault(index, len(self._loops))} {index.name}:{index.size}"

    def _statement(self, statement: Assignment) -> None:
        if isinstance(statement, Fetch):
            assert isinstance(statement.source, Cells), "data and files are bound, not computed"
            line = f"{self.number(statement.node)} = {_value(statement.source.value)}"
        elif isinstance(statement, Direct):
            numbers = [self.number(one) for one in (statement.lhs, *statement.operands)]
            line = f"{numbers} {statement.names} {statement.accum} {statement.keeps} {_direct(statement)}"
        else:
            operands = [self.number(one) for one in (statement.lhs, *statement.operands)]
            record, how = statement.record, "reset" if statement.reset else ""
            slots = f"{record.lhs} {record.operands} by {self._operation(record.operation)}"
            line = f"{operands} {OPS[statement.accum].identity} {how} {_value(statement.value)} {slots}"
        self.lines.append(line)

    def _iterations(self, node: Node) -> str:
        if node.iterations is None:
            return ""
        return f" {node.iterations.carried} {[self._loop(index) for index in node.iterations.indices]}"

    def _operation(self, operation: Operation) -> int:
        """Which operation it is."""
        if operation not in self._operations:
            logic = operation.logic
            spelled = f"einsum {logic.spec.text} {logic.outside}" if isinstance(logic, Einsum) else repr(logic)
            self._operations[operation] = len(self._operations)
            self.lines.append(f"{spelled} {[self._shape(slot) for slot in operation.slots]} {label_sizes(operation)}")
        return self._operations[operation]

    def _shape(self, shape: ShapeVar) -> str:
        if shape not in self._shapes:
            closed = close(shape)
            self._shapes[shape] = f"{closed} {closed.marks}"
        return self._shapes[shape]


def _direct(code: Direct) -> str:
    """All that the loops of a direct assignment depend on besides its buffers."""
    domain = code.domain
    texts = [_value(one, domain.number) for one in (*code.at, code.value)]
    return f"{' '.join(texts)} {dict(domain.ranges)} {domain.idle}"


def _value(value: Scalar, number: Callable[[str], int] | None = None) -> str:
    """A scalar, its inner nodes by number: each is written once, though it may stand in many places and be deep."""
    lines: list[str] = []

    def combine(one: Scalar, parts: Sequence[str]) -> str:
        match one:
            case Call(op=name) | Cast(dtype=name) | Read(buffer=Buffer(name=name)):
                lines.append(f"{name}({','.join(parts)})")
                return f"${len(lines)}"
            case Local(name=name) if number:
                return str(number(name))
        return repr(one.number if isinstance(one, Extent) else one)

    last = fold_tree(value, combine, children) if type(value) in INNER else combine(value, ())
    return f"{';'.join(lines)};{last}"

"""Prints code in the assignment notation: `p =- learning_rate *. sgd_delta`.

A tensor written inside an expression is printed as it was written, unless the printed code computes it in a statement
of its own: then it goes by its name. Nodes of one label are told apart by numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from weft.assign.nodes import (
    Accum,
    Arg,
    Cells,
    Code,
    Comment,
    Data,
    Extent,
    Fetch,
    File,
    Keep,
    Merge,
    Node,
    Noop,
    Offset,
    Operand,
    Record,
    Seq,
    Source,
    Symbol,
    statements,
)
from weft.ops import OPS, Call, Num, Scalar
from weft.shape.logic import Compose, Einsum, Logic, Pointwise, Slice, Transpose
from weft.shape.nodes import Bound


def show(code: Code) -> str:
    """The notation of a piece of code, one statement a line."""
    return Printer(code).show(code)


class Printer:
    """Prints code whose statements compute a fixed set of nodes; `name` says what a node is called."""

    def __init__(self, code: Code, name: Callable[[Node], str] | None = None) -> None:
        self.computed = {target(statement) for statement in statements(code)}
        self.name = name or _names(code)

    def show(self, code: Code) -> str:
        match code:
            case Noop() | Keep():
                return ""
            case Seq(codes=codes):
                return ";\n".join(text for one in codes if (text := self.show(one)))
            case Comment(text=text, body=body):
                return f'~~("{text}";\n' + "\n".join("  " + line for line in self.show(body).splitlines()) + ")"
            case Accum():
                return self._accum(code)
            case Fetch(node=node, source=source):
                return f"{self.name(node)} =: {self._source(source)}"

    def _accum(self, code: Accum) -> str:
        sign = "=" + (":" if code.reset else "") + ("" if code.accum == "arg2" else OPS[code.accum].text)
        return f"{self.name(code.lhs)} {sign} {self._right(code)}"

    def _right(self, code: Accum) -> str:
        logic = _logic(code)
        return self._value(code.value, code.operands, top=True, pointwise=not logic) + logic

    def _operand(self, operand: Operand) -> str:
        if isinstance(operand, Merge):
            return f"{self.name(operand.node)}.merge"
        node = operand if isinstance(operand, Node) else operand.node
        if not node.inline or node in self.computed:
            return self.name(node)
        if isinstance(node.definition, Accum):
            return f"({self._right(node.definition)})"
        if isinstance(node.definition, Fetch):
            return self._source(node.definition.source)
        return self.name(node)

    def _value(self, value: Scalar, operands: tuple[Operand, ...], top: bool, pointwise: bool) -> str:
        match value:
            case Arg(number=number):
                return self._operand(operands[number])
            case Num(value=number):
                return repr(number)
            case Symbol(name=name):
                return name
            case Extent(label=label):
                return f"dim({label})"
            case Offset():
                return "range"
            case Call(op=op, args=args):
                shown = [self._value(arg, operands, False, pointwise) for arg in args]
                if not OPS[op].infix:
                    return f"{op}({', '.join(shown)})"
                sign = "*." if op == "mul" and pointwise else OPS[op].text
                return f"{shown[0]} {sign} {shown[1]}" if top else f"({shown[0]} {sign} {shown[1]})"
        raise AssertionError(f"not a scalar of an assignment: {value!r}")

    def _source(self, source: Source) -> str:
        match source:
            case Cells(value=value):
                return self._value(value, (), True, True)
            case Data(array=array):
                return f"data {array.dtype}{list(array.shape)}"
            case File(path=path):
                return f"file {path!r}"


def target(statement: Accum | Fetch) -> Node:
    """The node a statement writes."""
    return statement.lhs if isinstance(statement, Accum) else statement.node


def logic_text(logic: Logic) -> str:
    """How the notation writes a logic."""
    match logic:
        case Pointwise():
            return "."
        case Compose():
            return "@"
        case Transpose():
            return "T"
        case Einsum(spec=spec):
            return spec.text
        case Slice(at=at):
            return f"@| {at.symbol if isinstance(at, Bound) else at.at}"
    raise AssertionError(f"{logic} is the logic of no assignment")


def _logic(code: Accum) -> str:
    """How the assignment's loops are found, where that is not pointwise; `~slots` names the roles of a gradient."""
    record = code.record
    text = logic_text(record.operation.logic)
    if not record.direct and not isinstance(record.operation.logic, Pointwise):
        return f' ~logic:"{text}" ~slots:"{_slots(record)}"'
    return "" if text == "." else f' ~logic:"{text}"'


def _slots(record: Record) -> str:
    return f"{','.join(map(str, record.operands))}=>{record.lhs}"


def _names(code: Code) -> Callable[[Node], str]:
    """A name for each node the code mentions: its label, numbered where several nodes share one."""
    chosen: dict[Node, str] = {}
    taken: set[str] = set()

    def name(node: Node) -> str:
        if node.gradient_of is not None:
            return f"{name(node.gradient_of)}.grad"
        if node not in chosen:
            chosen[node] = distinct(node.label, taken)
            taken.add(chosen[node])
        return chosen[node]

    for node in _mentioned(code):
        name(node)
    return name


def distinct(label: str, taken: set[str]) -> str:
    """The label, with a number if it is taken."""
    found, number = label, 1
    while found in taken:
        number += 1
        found = f"{label}_{number}"
    return found


def _mentioned(code: Code) -> Iterator[Node]:
    for statement in statements(code):
        for operand in statement.operands if isinstance(statement, Accum) else ():
            yield operand if isinstance(operand, Node) else operand.node
        yield target(statement)

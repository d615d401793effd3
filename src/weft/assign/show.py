"""Prints code in the assignment notation: `p =- learning_rate *. sgd_delta`.

A tensor written inside an expression is printed as it was written, unless the printed code computes it in a statement
of its own (stated.py): then it goes by its name. Nodes of one label are told apart by numbers. `~slots:"0,2=>1"` says
which slots of the operation the operands and the left side fill where that is not one after another: in gradients.
There `~logic:joined` is the operation that computes `joined`, where some of its slots stay empty.
`~let part = …;` before a statement names a part of what it computes (parts.py). `~at:ids` is an operand that holds
positions, in the order in which the operation has those; that it is watched is not said, as it always is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, TypeAlias

from weft.assign.concat_terms import operation_node
from weft.assign.dtype_inference import Peek
from weft.assign.extents import Extent
from weft.assign.nodes import (
    Accum,
    Arg,
    Assignment,
    Cells,
    Code,
    Comment,
    Data,
    Direct,
    Fetch,
    File,
    Keep,
    Merge,
    Node,
    Noop,
    Offset,
    Operand,
    Repeat,
    Seq,
    Stored,
    Symbol,
    ValueSource,
    first_number,
    node_of,
    operands_of,
    positions_of,
    statements,
    target,
)
from weft.assign.parts import chained_operands, named, needs_slots, places
from weft.assign.slice_text import show_slice
from weft.assign.stated import is_inline, stated
from weft.assign.text import accumulating
from weft.naming import FreshNames
from weft.notation.spelling import spelled_name, spelled_number, spelled_string
from weft.ops import OPS, Call, Num, Scalar, leaves
from weft.ops.dtypes import carrier
from weft.shape.logic import Compose, Einsum, Logic, Pointwise, Slice, Transpose, Written, read_by
from weft.shape.nodes import Dim


def show(code: Code) -> str:
    """The notation of a piece of code, one statement a line."""
    full = stated(code)
    return Printer(full).show(full)


def show_statement(statement: Assignment) -> str:
    """A statement on one line, with what is written inside it and nowhere else."""
    return Printer(stated(statement)).show(statement).splitlines()[-1]


@dataclass(frozen=True, slots=True)
class _Line:
    """What a value is printed for: its operands, whether its loops are pointwise, whether operands keep apart.

    Without slots a pointwise tensor inside an expression and a call inside its scalar mean the same and print the
    same, unless the tensor is stored in fewer bits than it is computed in and so rounded or wrapped. Slots number the
    operands, so there a tensor inside must be seen to be one.
    """

    operands: tuple[Operand, ...]
    pointwise: bool = True
    apart: bool = False
    #: What parts of the value are called that are printed before it.
    parts: Mapping[int, str] = field(default_factory=dict)


#: A piece of text, or what makes pieces of it in its turn: expressions are as deep as somebody cared to write them.
_Piece: TypeAlias = "str | Callable[[], Sequence[_Piece]]"

#: Where a value stands: the assignment's own operation, alone between brackets and commas, or inside an expression.
_Place: TypeAlias = Literal["top", "argument", "inside"]


class Printer:
    """Prints code whose statements compute a fixed set of nodes; `name` says what a node is called."""

    def __init__(self, code: Code, name: Callable[[Node], str] | None = None) -> None:
        self.computed = {target(statement) for statement in statements(code)}
        self._called = name or self._names(code)
        self._introduced: set[Node] = set()  # by statements printed so far
        self._stored_in = Peek()

    def name(self, node: Node) -> str:
        return spelled_name(self._called(node))

    def show(self, code: Code) -> str:
        match code:
            case Noop() | Keep():
                return ""
            case Seq(codes=codes):
                return ";\n".join(text for one in codes if not _is_implied(one) and (text := self.show(one)))
            case Comment(text=text, body=body):
                lines = self.show(body).splitlines()
                return f"~~({spelled_string(text)}" + ";" * bool(lines) + "".join(f"\n  {line}" for line in lines) + ")"
            case Repeat(index=index, reverse=reverse, body=body):
                head = f"~for:{spelled_string(index.name)} ~range:{index.size}" + " ~reverse" * reverse
                return f"{head} (" + "".join(f"\n  {line}" for line in self.show(body).splitlines()) + ")"
            case Accum() | Fetch():
                text = self._assignment(code)
                self._introduced.add(target(code))
                return text
            case Direct(lhs=lhs, domain=domain):
                shown = [_joined(self._operand(one, _Line(()), "inside")) for one in code.operands]
                return domain.show([self.name(lhs), *shown])

    def _assignment(self, code: Accum | Fetch) -> str:
        if isinstance(code, Fetch):
            return f"{self._target(code)} =: {_joined(self._source(code.source, 'top'))}{self._type(code)}"
        parts = named(code)
        names = self._part_names(code) if parts else FreshNames()
        line = self._line(code, {id(part): names.fresh("part") for part in parts})
        lets = [f"~let {line.parts[id(part)]} = {_joined(self._call(part, line, 'argument'))};\n" for part in parts]
        return f"{''.join(lets)}{self._target(code)} {_sign(code)} {_joined(self._right(code, line))}"

    def _part_names(self, code: Accum) -> FreshNames:
        """Names for parts of a statement: those it mentions are taken."""
        symbols = (leaf.name for leaf in leaves(code.value) if isinstance(leaf, Symbol))
        return FreshNames([*symbols, *map(self._called, self._mentioned(code))])

    def _line(self, code: Accum, parts: Mapping[int, str] | None = None) -> _Line:
        pointwise = isinstance(code.record.operation.logic, Pointwise)
        return _Line(code.operands, pointwise, needs_slots(code), parts or {})

    def _target(self, code: Accum | Fetch) -> str:
        """The left side, with what a node was made with where it is first written."""
        node = target(code)
        if node.declared is None or node in self._introduced:
            return self.name(node)
        traits = [f"{row} = [{'; '.join(map(_size, dims))}]" for row, dims in node.declared.sizes]
        if node.declared.scalar:
            traits.append("scalar")
        if (init := first_number(node)) is not None:
            traits.append(f"init = {spelled_number(init)}")
        if not traits:
            return self.name(node)
        return "{ " + "; ".join([self.name(node), *traits]) + " }"

    def _right(self, code: Accum, line: _Line) -> Sequence[_Piece]:
        record = code.record
        shown = [*self._value(code.value, line, "top")]
        of = operation_node(code)
        if not line.pointwise:
            text = self.name(of) if of else spelled_string(logic_text(record.operation.logic))
            shown.append(f" ~logic:{text}")
        if line.apart:
            shown.append(f' ~slots:"{self._slots(code)}"')
        shown += [f" ~at:{self.name(node_of(one))}" for one in positions_of(code)]
        read = read_by(record.operation.logic)
        if isinstance(read, Einsum) and read.outside != "check" and not of:
            shown.append(f" ~outside:{spelled_string(read.outside)}")
        if record.operation.sizes and not of:
            sizes = ", ".join(f"{name}={_size(dim, '=')}" for name, dim in record.operation.sizes.items())
            shown.append(f" ~sizes:{spelled_string(sizes)}")
        shown.append(self._type(code))
        return shown

    def _type(self, code: Accum | Fetch) -> str:
        """The type a computed tensor or a node was given, where it is first written; leaves bring theirs."""
        node = target(code)
        made = node.declared is not None
        own = not node.is_grad and (made or node.definition is not None or node.init is None)
        if not own or node in self._introduced:
            return ""
        if node.precision.stated:
            return f" ~type:{spelled_string(node.dtype)}"
        bounded = made and node.precision.bounded
        return f" ~at_least:{spelled_string(node.precision.least)}" if bounded else ""

    def _slots(self, code: Accum) -> str:
        """The slot of each operand, or of each place where one stands if the text shows some operand twice."""
        record = code.record
        shown = [place.number for place in places(code)]
        repeated = [number for number, times in Counter(shown).items() if times > 1]
        valued = code.operands[: len(record.operands) - len(positions_of(code))]
        told_apart = len(set(valued)) == len(valued)
        if not told_apart or any(self._written(code.operands[number]) for number in repeated):
            return f"{','.join(str(record.operands[number]) for number in shown)}=>{record.lhs}"
        return f"{','.join(map(str, record.operands[: len(valued)]))}=>{record.lhs}"

    def _written(self, operand: Operand) -> Accum | Fetch | None:
        """The definition that stands for an operand."""
        if not isinstance(operand, Node) or operand in self.computed or not is_inline(operand):
            return None
        return operand.definition if isinstance(operand.definition, Accum | Fetch) else None

    def _operand(self, operand: Operand, line: _Line, place: _Place) -> Sequence[_Piece]:
        if isinstance(operand, Merge):
            return (self.name(operand.node), ".merge")
        if isinstance(operand, Stored):
            return (f"given({self.name(operand.node)})",)
        match self._written(operand):
            case Accum() as definition:
                return self._inline(definition, line, place)
            case Fetch(source=source) as definition:
                said = self._type(definition)
                shown = ("(=: ", *self._source(source, "top"), said, ")")
                return shown if line.apart or said else self._source(source, place)
        return (self.name(operand),)

    def _inline(self, code: Accum, line: _Line, place: _Place) -> Sequence[_Piece]:
        """A tensor inside an expression: like a part of the expression where that means the same."""
        logic = code.record.operation.logic
        # A function alone on the right of other loops would be the assignment's own operation.
        own = place == "top" and not line.pointwise and not _is_infix(code.value)
        part = isinstance(logic, Pointwise) and code.accum == "arg2" and isinstance(code.value, Call) and not own
        if part and not self._type(code) and not line.apart and not needs_slots(code) and self._is_wide(code.lhs):
            bare = place == "argument" or (place == "top" and line.pointwise)
            return (partial(self._value, code.value, _Line(code.operands), "argument" if bare else "inside"),)
        usual = not line.apart and _sign(code) == _USUAL_SIGNS.get(type(logic))
        return ("(" if usual else f"({_sign(code)} ", partial(self._right, code, self._line(code)), ")")

    def _is_wide(self, node: Node) -> bool:
        """Is it stored in what it is computed in?"""
        dtype = self._stored_in(node.precision)
        return carrier(dtype) == dtype

    def _value(self, value: Scalar, line: _Line, place: _Place) -> Sequence[_Piece]:
        match value:
            case Arg(number=number):
                return self._operand(line.operands[number], line, place)
            case Num(value=number):
                return (spelled_number(number),)
            case Symbol(name=name):
                return (name,)
            case Extent(label=label):
                return (f"dim({label})",)
            case Offset():
                return ("range",)
            case Call():
                part = line.parts.get(id(value))
                return (part,) if part else self._call(value, line, place)
        raise AssertionError(f"not a scalar of an assignment: {value!r}")

    def _call(self, value: Call, line: _Line, place: _Place) -> Sequence[_Piece]:
        op = OPS[value.op]
        if not op.infix:
            return (f"{op.name}(", *self._values(value.args, line, "argument", ", "), ")")
        primitive = place == "top" and not line.pointwise
        terms = chained_operands(value) if primitive and not line.apart else value.args
        sign = "*." if op.name == "mul" and not primitive else op.text
        shown = self._values(terms, line, "inside", f" {sign} ")
        return ("(", *shown, ")") if place == "inside" else shown

    def _values(self, values: Sequence[Scalar], line: _Line, place: _Place, between: str) -> Sequence[_Piece]:
        shown = [piece for value in values for piece in (between, partial(self._value, value, line, place))]
        return shown[1:]

    def _source(self, source: ValueSource, place: _Place) -> Sequence[_Piece]:
        match source:
            case Cells(value=value):
                return self._value(value, _Line(()), place)
            case Data(array=array):
                return (f"data {array.dtype}{list(array.shape)}",)
            case File(path=path):
                return (f"file {path!r}",)

    def _names(self, code: Code) -> Callable[[Node], str]:
        """A name for each node the code mentions: its label, numbered where several nodes share one."""
        chosen: dict[Node, str] = {}
        names = FreshNames()

        def name(node: Node) -> str:
            if node.is_grad and node.gradient_of is not None:
                return f"{name(node.gradient_of)}.grad"
            if node not in chosen:
                chosen[node] = names.fresh(node.label)
            return chosen[node]

        mentioned = dict.fromkeys(node for statement in statements(code) for node in self._mentioned(statement))
        for node in sorted(mentioned, key=lambda node: node.name.inline):  # what somebody gave a name has it as it is
            name(node)
        return name

    def _mentioned(self, statement: Assignment) -> Iterator[Node]:
        """The nodes a statement names, its target last."""
        rest = [*reversed(operands_of(statement))]
        while rest:
            operand = rest.pop()
            definition = self._written(operand)
            if definition is None:
                yield node_of(operand)
            else:
                rest += reversed(operands_of(definition))
        yield target(statement)


def _is_implied(code: Code) -> bool:
    """Is it what watches positions, wherever they are read?"""
    return isinstance(code, Accum | Fetch) and target(code).check is not None


def _joined(pieces: Sequence[_Piece]) -> str:
    """The text that pieces come to."""
    text: list[str] = []
    rest = [*reversed(pieces)]
    while rest:
        piece = rest.pop()
        if isinstance(piece, str):
            text.append(piece)
        else:
            rest += reversed(piece())
    return "".join(text)


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
        case Slice():
            return show_slice(logic)
        case Written(of=of):
            return logic_text(of)
    raise AssertionError(f"{logic} is the logic of no assignment")


#: How the notation accumulates a tensor written in brackets when it does not say.
_USUAL_SIGNS: Mapping[type[Logic], str] = {Compose: "=:+", Einsum: "=:+", Transpose: "=:", Slice: "=:"}


def _sign(code: Accum) -> str:
    if code.accum == "arg2":
        return "=:"
    return "=" + (":" if code.reset else "") + accumulating(code.accum)


def _size(dim: Dim, equals: str = " = ") -> str:
    return f"{spelled_name(dim.basis)}{equals}{dim.size}" if dim.basis else str(dim.size)


def _is_infix(value: Scalar) -> bool:
    return isinstance(value, Call) and OPS[value.op].infix

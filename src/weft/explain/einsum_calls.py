"""A program as `wf.einsum` calls, one a line: names of tensors are variables.

h = wf.einsum("i->j;k|i=>k|j", w, x, label="h")

An einsum accumulates, and combines its operands by one operation. A value of several takes several calls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from keyword import kwlist
from math import isfinite

from weft.assign import (
    Accum,
    Arg,
    Assignment,
    Cells,
    Fetch,
    Keep,
    Node,
    Operand,
    closed_buffer,
)
from weft.assign.explicit import Explicit, SpellingOut
from weft.assign.nodes import positions_of
from weft.comprehension.definition_text import filling, identifier, node_here, said
from weft.einsum import nodes as ein, show_spec
from weft.errors import WeftError
from weft.explain.contraction import EinsumForm, contraction, labelled, letters, sizes_to_give, spec_text
from weft.explain.program import NamedProgram, check_alone, example
from weft.loops import Buffer
from weft.naming import FreshNames
from weft.ops import OPS, Call, Num, Scalar
from weft.shape.close import close
from weft.shape.logic import Einsum, Outside, position_slots
from weft.shape.nodes import Shape
from weft.tensor.einsum import contract
from weft.tensor.leaves import constant, number
from weft.tensor.tensor import Tensor

#: How a number is read: it has one cell.
_CELL = ein.ShapeSpec(ein.Row(), ein.Row(), ein.Row(trail=(ein.Position(0),)))


def einsum_calls(program: NamedProgram) -> str:
    """The calls that compute what a program does.

    They are made on examples of the tensors it reads, and what that computes is written: so every tensor has a variable
    of its own, in the order in which tensors need each other, and writing what is read again changes nothing.
    """
    made = _written(program)
    tried = {node: made.tried[one.name].node.shape for node, one in made.buffers.items()}
    check_alone(program, "as einsums", tried)
    params = [made.examples[made.buffer(one)] for one in program.params]
    results = [made.tried[made.buffer(one).name].node for one in program.results]
    return "\n".join(_written(NamedProgram.of(Keep(tuple(results)), program.name, results, params)).lines)


def _written(program: NamedProgram) -> _CallWriter:
    writing = _CallWriter()
    for node in (*program.params, *program.results):
        writing.buffer(node)
    for _ in said(program.code, "as einsums", writing.statement):
        pass
    return writing


@dataclass(slots=True)
class _CallWriter:
    names: FreshNames = field(default_factory=lambda: FreshNames(["wf", *kwlist]))
    buffers: dict[Node, Buffer] = field(default_factory=dict)
    shapes: dict[Buffer, Shape] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    #: What the variables would hold: the calls are tried, for what types they give.
    tried: dict[str, Tensor] = field(default_factory=dict)
    literals: set[Buffer] = field(default_factory=set)
    examples: dict[Buffer, Node] = field(default_factory=dict)

    def buffer(self, operand: Operand) -> Buffer:
        node = node_here(operand)
        if node not in self.buffers:
            literal = _literal(node)
            name = self._number(*literal) if literal else self.names.fresh(identifier(node.label))
            found = closed_buffer(node, node.id, name)
            self.buffers[node], self.shapes[found] = found, close(node.shape)
            if literal:
                self.literals.add(found)
            else:
                self.examples[found] = example(name, self.shapes[found], found.dtype)
                self.tried[name] = Tensor(self.examples[found])
        return self.buffers[node]

    def _number(self, value: float, dtype: str | None) -> str:
        """A number as an operand; by itself it takes the type of what it meets."""
        if not isfinite(value):
            raise WeftError(f"{value} is no number that is written")
        text = repr(value) if dtype is None else f'wf.number({value!r}, dtype="{dtype}")'
        self.tried[text] = number(value, dtype=dtype) if dtype else constant(value)
        return text

    def statement(self, code: Assignment) -> None:
        if isinstance(code, Fetch):
            if not _literal(code.node):
                self._filled(code)
        elif isinstance(code, Accum) and position_slots(code.record.operation.logic):
            self._looked_up(code)
        elif not (isinstance(code, Accum) and self._as_written(code)):
            self._spelled_out(SpellingOut(self.buffer)(code))

    def _filled(self, code: Fetch) -> None:
        target = self.buffer(code.node)
        value = filling(code, target)
        if not isinstance(value, Num):
            raise WeftError("its cells are computed from where they lie")
        labels = dict(zip(letters(len(target.shape)), target.shape, strict=True))
        given = self._number(value.value, None if target.dtype == "float32" else target.dtype)
        self._call(target.name, [_CELL], labelled([*labels], self.shapes[target]), [given], "", "add", labels)

    def _as_written(self, code: Accum) -> bool:
        """An einsum in the words it was written in, if it is one."""
        logic, target = code.record.operation.logic, self.buffer(code.lhs)
        op = _combination(code.value, len(code.operands))
        if not isinstance(logic, Einsum) or logic.left or not code.record.direct or not code.reset or op is None:
            return False
        operands = [self.buffer(one).name for one in code.operands]
        sizes = {name: dim.size for name, dim in code.record.operation.sizes.items()}
        self._line(target.name, logic.spec.text, operands, op, _accumulation(code.accum), sizes)
        return True

    def _looked_up(self, code: Accum) -> None:
        """An einsum with positions; the gradient of one is another, with the parts of its spec in other roles."""
        record, operation = code.record, code.record.operation
        if not isinstance(operation.logic, Einsum):
            raise WeftError("it writes to a part of what is there")
        slots = list(range(1, len(operation.slots))) if record.direct else list(record.operands)
        by_slot = dict(zip(record.operands, code.operands, strict=False))
        op = _combination(code.value, len(slots) - len(positions_of(code)))
        if op is None:
            raise WeftError("it looks up, and is more than one operation on what it finds")
        spec, shapes = operation.logic.spec, operation.logic.spec.shapes
        if not record.direct:
            spec = ein.Spec(tuple(shapes[slot] for slot in slots), shapes[record.lhs])
        close(operation.result)
        labels = {name: axis.dim.size for name, axis in operation.labels.items()}
        sizes = sizes_to_give(spec.operands, spec.result, labels)
        operands, target = [self.buffer(by_slot[slot]).name for slot in slots], self.buffer(code.lhs)
        made = target.name if code.reset else self.names.fresh(f"{target.name}_by")
        accum = _accumulation("add" if code.accum == "sub" else code.accum)
        self._line(made, spec.text or show_spec(spec), operands, op, accum, sizes, operation.logic.outside)
        if not code.reset:
            every = labelled(letters(len(target.shape)), self.shapes[target])
            self._call(target.name, [every, every], every, [target.name, made], code.accum, "add", {})

    def _spelled_out(self, one: Explicit) -> None:
        if len(one.runs) != 1:
            raise WeftError("it writes one part after another" if one.runs else "it writes nothing")
        made, target = contraction(one.runs[0], one.target, self.shapes), one.target.name
        if one.reset or one.accum == "arg2":
            if one.accum == "arg2" and not one.surjective:
                raise WeftError("it writes a part of what is there")
            self._contracted(target, made, "add" if one.accum == "arg2" else one.accum)
            return
        added = self.names.fresh(f"{target}_by")
        self._contracted(added, made, "add" if one.accum == "sub" or (one.injective and one.surjective) else one.accum)
        every = labelled(letters(len(one.target.shape)), self.shapes[one.target])
        self._call(target, [every, every], every, [target, added], one.accum, "add", {})

    def _contracted(self, target: str, made: EinsumForm, accum: str) -> None:
        """An einsum for the value's last operation, after those for what that combines."""
        operands = [one.name for one in made.operands]
        op = _combination(made.value, len(operands))
        parts = [self._read(at, made) for at in range(len(operands))]
        if op is None:
            if made.padded:
                raise WeftError("it is padded, and computed by more than one operation")
            assert isinstance(made.value, Call)
            op = made.value.op
            found = [self._part(arg, made) for arg in made.value.args]
            parts, operands = [part for part, _ in found], [name for _, name in found]
        self._call(target, parts, made.result, operands, op, _accumulation(accum), made.labels)

    def _read(self, operand: int, made: EinsumForm) -> ein.ShapeSpec:
        """How an operand is read; a number that is written is the same everywhere."""
        return _CELL if made.operands[operand] in self.literals else made.parts[operand]

    def _part(self, value: Scalar, made: EinsumForm) -> tuple[ein.ShapeSpec, str]:
        """A part of a value, as a tensor of its own if it is computed: how it is read, and its name."""
        match value:
            case Num():
                return _CELL, self._number(value.value, "bool" if isinstance(value.value, bool) else None)
            case Arg(number=at):
                return self._read(at, made), made.operands[at].name
            case Call(args=args) if all(isinstance(one, Num) for one in args):
                raise WeftError("it computes with numbers alone")
            case Call(op=op, args=args):
                found = [self._part(one, made) for one in args]
                used = {label.name for part, _ in found for label in part.labels}
                labels = [name for name in made.labels if name in used]
                result = ein.ShapeSpec(ein.Row(), ein.Row(), ein.Row(trail=tuple(map(ein.Label, labels))))
                result = result if labels else _CELL
                name = self.names.fresh("part")
                self._call(name, [part for part, _ in found], result, [one for _, one in found], op, "add", made.labels)
                return result, name
        raise WeftError("it reads a static index, or a number found from shapes")

    def _call(
        self,
        target: str,
        parts: Sequence[ein.ShapeSpec],
        result: ein.ShapeSpec,
        operands: Sequence[str],
        op: str,
        accum: str,
        labels: Mapping[str, int],
    ) -> None:
        sizes = sizes_to_give(parts, result, labels)
        self._line(target, spec_text(parts, result), operands, op, accum, sizes)

    def _line(
        self,
        target: str,
        spec: str,
        operands: Sequence[str],
        op: str,
        accum: str,
        sizes: Mapping[str, int],
        outside: Outside = "check",
    ) -> None:
        words = [repr(spec).replace("'", '"'), *operands]
        words += [f'accum="{_called(accum)}"'] if accum != "add" else []
        words += [f'op="{_called(op)}"'] if op not in ("", "mul") else []
        words += [f'outside="{outside}"'] if outside != "check" else []
        words += [f'label="{target}"', *(f"{name}={size}" for name, size in sizes.items())]
        self.lines.append(f"{target} = wf.einsum({', '.join(words)})")
        made = contract(
            spec,
            [self.tried[one] for one in operands],
            accum=accum,
            op=op or "mul",
            label=target,
            outside=outside,
            sizes=sizes,
        )
        wanted = self.tried.get(target, made).dtype
        if made.dtype != wanted:
            raise WeftError(f"it holds {wanted}, and einsums would make that {made.dtype}")
        self.tried[target] = made


def _combination(value: Scalar, operands: int) -> str | None:
    """The operation that combines all operands in order, none if there is one operand; None if it takes several."""
    if (value, operands) in ((Arg(0), 1), (Num(1), 0)):
        return ""
    args = tuple(map(Arg, range(operands)))
    if not isinstance(value, Call) or (len(value.args) != 2 and value.args != args):
        return None
    if len(value.args) != 2:
        return value.op
    rest: Scalar = value
    for last in range(operands - 1, 0, -1):
        if not isinstance(rest, Call) or rest.op != value.op or rest.args[1] != Arg(last):
            return None
        rest = rest.args[0]
    return value.op if rest == Arg(0) and operands > 1 else None


def _accumulation(accum: str) -> str:
    if OPS[accum].neutral is None:
        raise WeftError(f"it accumulates with `{OPS[accum].text}`")
    return accum


def _called(op: str) -> str:
    return OPS[op].text if OPS[op].text in "+-*/%" else op


def _literal(node: Node) -> tuple[float, str | None] | None:
    """The number that a node is written as, and its type if it was given one; None if it has a name."""
    match node.definition:
        case Fetch(source=Cells(value=Num(value=value))) if node.name.inline:
            return value, node.dtype if node.precision.stated else None
    return None

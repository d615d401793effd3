"""`wf.parse_cd`: code from its notation, the one `str(code)` prints.

    p =- learning_rate *. sgd_delta

The outermost operator on the right is the assignment's own operation. Where its loops are pointwise, everything inside
that is pointwise too belongs to the one scalar it computes; what has loops of its own becomes a tensor without a name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, cast, get_args

from weft.assign import Arg, Code, Comment, LoopIndex, Node, Record, Repeat, Slot, node_of, record, recording
from weft.assign.parse import INFIX, parse
from weft.assign.slice_text import parse_slice
from weft.assign.syntax import (
    Assign,
    At,
    Bracket,
    EinsumCall,
    FunctionCall,
    Infix,
    Lift,
    LoopBlock,
    Name,
    NumberLiteral,
    Quoted,
    Right,
    Sign,
    Slots,
    Statement,
    Value,
    in_a_row,
    names_in,
)
from weft.einsum import parse_spec
from weft.errors import WeftError, user_origin
from weft.notation import Mistake, Source
from weft.notation.words import meant
from weft.ops import OPS, Call, Num, Scalar, call, substitute
from weft.ops.dtypes import element_type
from weft.project.plan import check_labels
from weft.shape.infer import Operation, infer
from weft.shape.logic import (
    Compose,
    Einsum,
    Logic,
    Outside,
    Pointwise,
    Slice,
    Transpose,
    Written,
    arity,
    position_slots,
    read_by,
)
from weft.shape.subscripts import AxisPoint, GivenIndex
from weft.tensor.assignments import assignable, record_over
from weft.tensor.einsum import einsum
from weft.tensor.functions import compose
from weft.tensor.leaves import constant
from weft.tensor.names import Given, TextNames, checked, said_type, unheld
from weft.tensor.operator import Operator, read_logic
from weft.tensor.positions import lookups_of
from weft.tensor.reading import Reading, operation_of
from weft.tensor.slices import StaticIndex, apply_slice
from weft.tensor.tensor import Tensor, given

#: The leftmost batch axis has a position for each iteration of a loop.
_RUN_THROUGH = Einsum(parse_spec("steps, ..batch..|; steps => steps"))


def parse_cd(text: str, names: Mapping[str, Given] | None = None, /, *, declare: bool = False, **more: Given) -> Code:
    """The code that `text` writes over tensors and numbers given by name.

    Names with dots in them come in a mapping: `parse_cd(text, {"net.w": w})`. Quotes or braces around a name on the
    left side declare a node, as wf.node does; with `declare` every unknown name there does, so that the whole of a
    printed routine reads back.
    """
    program = parse(text)
    source = Source(text)
    reader = _Reader(source, TextNames(checked({**(names or {}), **more}), program, declare, source))
    with recording() as codes:
        for statement in program:
            reader.run(statement)
    return codes.code


# Statements


@dataclass(frozen=True, slots=True)
class _Found:
    """The tensors that a scalar mentions, in the order it does, and its parts that have names."""

    tensors: list[Tensor] = field(default_factory=list)
    parts: dict[str, Scalar] = field(default_factory=dict)


class _Reader:
    def __init__(self, source: Source, names: TextNames) -> None:
        self.source = source
        self.names = names
        self.lets: Mapping[str, Value] = {}  # of the statement that is read
        self.operations: dict[Node, Operation] = {}  # of the statements read so far
        self.loops: Mapping[str, LoopIndex] = {}  # around the statement that is read

    def run(self, statement: Statement) -> None:
        """Record what a statement says."""
        try:
            if isinstance(statement, Assign):
                self._assign(statement)
                return
            if isinstance(statement, LoopBlock):
                self._loop(statement)
                return
            words = [part.text if isinstance(part, Quoted) else self._label(part) for part in statement.parts]
        except Mistake as mistake:
            raise self.source.error(mistake) from None
        except WeftError as error:
            error.notes = (*error.notes, self._place(statement))
            raise
        with recording() as inner:
            for one in statement.body:
                self.run(one)
        record(Comment(" ".join(words), inner.code))

    def _loop(self, loop: LoopBlock) -> None:
        around, index = self.loops, self.names.loops.index(loop)
        self.loops = {**around, index.symbol: index}
        with recording() as inner:
            for one in loop.body:
                self.run(one)
        self.loops = around
        record(Repeat(index, loop.reverse, inner.code))

    def _place(self, statement: Statement) -> str:
        span = statement.span
        shown = " ".join(self.source.text[span.start : span.end].split())
        return f"in the code, {self.source.where(span.start)}: {shown if len(shown) <= 100 else shown[:99] + '…'}"

    def _label(self, name: Name) -> str:
        found = self.names[name]
        return found.label if isinstance(found, Tensor) else name.text

    def _assign(self, statement: Assign) -> None:
        self.names.check_target(statement.target)
        lhs = self.names.target(statement.target)
        self.lets = statement.lets
        reading = self._right(statement.right)
        target = assignable(lhs)
        _check_type(statement, target)
        operation = operation_of(reading, target)
        self.operations[target] = operation
        self._run_through(operation, statement.right)
        accum, reset = _accumulation(statement.sign)
        by_slot = {slot: tensor.operand for slot, tensor in reading.by_slot.items()}
        lookups = lookups_of(operation, by_slot, user_origin())
        for one in map(node_of, lookups.watched):
            if one.iterations and one.definition:  # what an iteration holds is watched in its loop
                record(one.definition)
        operands = [one.operand for one in (*reading.tensors, *reading.positions.values())]
        where = Record(operation, reading.lhs, (*reading.slots, *reading.positions))
        values = [*operands, *lookups.watched]
        record_over(where, target, accum, reset, reading.value, values, enrich=not self.names.exact)

    def _run_through(self, operation: Operation, right: Right) -> None:
        """A loop that stands in an axis comes to all its positions, so they are as many as its iterations."""
        logic = read_by(operation.logic)
        points = [one for one in logic.subscripts if isinstance(one, AxisPoint)] if isinstance(logic, Slice) else []
        for point in (one for one in points if one.looped):
            if point.index.only not in self.loops:
                fix = "write the statement in the loop, between its brackets"
                raise Mistake(f"there is no loop `{point.index.only[:-1]}` around", right.span, fix)
            shapes = [operation.slots[1], self.loops[point.index.only].length]
            infer(_RUN_THROUGH, shapes, title="loop", origin=user_origin(), code=True)

    # Right sides

    def _right(self, right: Right) -> Reading:
        found = self._values_of(right)
        return replace(found, positions=self._positions(right, found)) if right.at or _held(found) else found

    def _positions(self, right: Right, found: Reading) -> dict[int, Tensor]:
        """The tensors with positions, in the slots that values leave for them."""
        free = [slot for slot in _held(found) if slot not in found.slots]
        if len(free) != len(right.at):
            what = f"the operation has positions in {len(free)} operands, and ~at names {len(right.at)}"
            raise Mistake(what, right.span, "write ~at:ids for each operand of the spec that ends in `@`")
        tensors = [self._tensor(one) for one in right.at]
        return dict(zip(free, tensors, strict=True))

    def _values_of(self, right: Right) -> Reading:
        """A right side without its positions."""
        if isinstance(right.logic, Name):
            return self._of_another(right, right.logic)
        logic, value = self._logic(right, right.logic), right.value
        if (
            isinstance(logic, Compose)
            and isinstance(value, FunctionCall)
            and value.function == "fma"
            and len(value.args) == 3
        ):
            product = Infix("*", value.args[0], value.args[1], value.span)
            logic, value = None, Infix("+", product, value.args[2], value.span)
        if right.sizes and not isinstance(logic, Einsum):
            raise Mistake("sizes are those of the labels of a spec", right.span, 'write ~logic:"…" with a spec')
        if isinstance(logic, Einsum):
            check_labels(logic.spec, right.sizes)
            logic = replace(logic, outside=_outside(right.outside)) if right.outside else logic
        if isinstance(logic, Compose):
            _check_compose(value)
        if right.slots is not None:
            return self._by_slots(right, right.slots, logic)
        if logic is not None:
            slots = tuple(slot for slot in range(1, arity(logic) + 1) if slot not in position_slots(logic))
            made, operands = _primitive(value, len(slots), right) if slots else (self._part(value, _Found()), ())
            tensors = tuple(self._tensor(one) for one in operands)
            return Reading(logic, made, tensors, slots, 0, right.sizes, right.span)
        if right.logic is None and isinstance(value, Infix) and value.op == "*":
            fix = 'write `*.` for the pointwise product, or say ~logic:"." or ~logic:"@"'
            raise Mistake("`*` alone does not say which loops run", value.span, fix)
        scalar, pointwise = self._scalar(value, top=True)
        return Reading(Pointwise(len(pointwise)), scalar, pointwise, _count(pointwise), 0, {}, right.span)

    def _of_another(self, right: Right, name: Name) -> Reading:
        """A right side in the slots of the operation that computes a tensor."""
        meaning = self.names[name]
        operation = None
        if isinstance(meaning, Tensor):
            operation = self.operations.get(meaning.node) or meaning.operation
        if operation is None or right.slots is None or right.sizes:
            missing = "needs ~slots, and has its sizes" if operation else "is there only if an operation computes it"
            fix = 'say which of its slots are filled: ~logic:joined ~slots:"0=>2"'
            raise Mistake(f"the operation of `{name.text}` {missing}", name.span, fix)
        return replace(self._by_slots(right, right.slots, operation.logic), operation=operation)

    def _logic(self, right: Right, logic: Quoted | None) -> Logic | None:
        """The logic a right side names; None for pointwise, which takes as many operands as there are."""
        text = logic.text if logic else "."
        if text == ".":
            return None
        if logic and (written := parse_slice(text, lambda name: self._given_index(Name(name, logic.span)))):
            return written
        return read_logic(text)

    def _given_index(self, name: Name) -> GivenIndex:
        found = self._static(name)
        return GivenIndex(found.name, found.size, found.counts)

    def _static(self, name: Name) -> StaticIndex:
        meaning = self.names[name]
        if not isinstance(meaning, StaticIndex):
            fix = f'give one: {name.text}=wf.index("{name.text}", size)'
            raise Mistake(f"`{name.text}` is not a static index", name.span, fix)
        return meaning

    def _by_slots(self, right: Right, slots: Slots, logic: Logic | None) -> Reading:
        """One scalar over tensors in the slots said: one for each tensor, or for each place where one stands."""
        found = _Found()
        self._read_lets(self.lets, found)
        value = self._part(right.value, found, top=True)
        places = [tensor.operand for tensor in found.tensors]
        distinct = list(dict.fromkeys(places))
        if len(slots.operands) == len(distinct):
            slot_of = dict(zip(distinct, slots.operands, strict=True))
            numbers = [slot_of[operand] for operand in places]
        elif len(slots.operands) == len(places):
            numbers = list(slots.operands)
        else:
            what = f"~slots names {len(slots.operands)} operands and the right side has {len(distinct)}"
            raise Mistake(what, slots.span, "give the slot of each tensor in the order they are written")
        value, keys = _renumbered(value, list(zip(places, numbers, strict=True)))
        first = {tensor.operand: tensor for tensor in reversed(found.tensors)}
        tensors = tuple(first[operand] for operand, _ in keys)
        used = tuple(number for _, number in keys)
        logic = logic or Pointwise(max(*used, slots.lhs, 0))
        if isinstance(logic, Slice | Einsum) and (more := max(*used, slots.lhs, 0) - arity(logic)) > 0:
            logic = Written(logic, more)
        return Reading(logic, value, tensors, used, slots.lhs, right.sizes, slots.span)

    # Values

    def _scalar(self, value: Value, top: bool = False) -> tuple[Scalar, tuple[Tensor, ...]]:
        """A value as one scalar over distinct tensors."""
        found = _Found()
        self._read_lets(self.lets if top else (), found)
        part = self._part(value, found, top)
        scalar, operands = _renumbered(part, [tensor.operand for tensor in found.tensors])
        known = {tensor.operand: tensor for tensor in found.tensors}
        return scalar, tuple(known[operand] for operand in operands)

    def _part(self, value: Value, found: _Found, top: bool = False) -> Scalar:
        """A value as a scalar; each tensor it mentions is added to `found` and stands in it by number."""
        match value:
            case NumberLiteral(value=number):
                return Num(number)
            case Lift():
                return self._lifted(value)
            case Name(text=text) if text in self.lets:
                self._read_lets([text], found)
                return found.parts[text]
            case Name():
                meaning = self.names[value]
                return _place(meaning, found) if isinstance(meaning, Tensor) else meaning
            case Infix(op=op, left=left) if top or op != "*":
                first, row = in_a_row(left, "*")
                scalar = self._part(first, found)
                for one in (*row, value):
                    scalar = call(INFIX[one.op], scalar, self._part(one.right, found))
                return scalar
            case FunctionCall(function=function, args=args) if function != "given":
                op = _function(value)
                return call(op, *(self._part(arg, found) for arg in args))
        return _place(self._tensor(value), found)

    def _read_lets(self, wanted: Iterable[str], found: _Found) -> None:
        """Read parts that have names, each once, after those that it mentions."""
        needed, rest = set[str](), list(wanted)
        while rest:
            name = rest.pop()
            if name not in needed and name not in found.parts:
                needed.add(name)
                rest += (one for one in names_in(self.lets[name]) if one in self.lets)
        for name in [name for name in self.lets if name in needed] if needed else ():
            found.parts[name] = self._part(self.lets[name], found)

    def _lifted(self, lift: Lift) -> Scalar:
        if isinstance(lift.value, NumberLiteral):
            return Num(lift.value.value)
        meaning = self.names[lift.value]
        if isinstance(meaning, Tensor):
            what = f"`{lift.value.text}` is a tensor, and `!.` makes a constant of a number"
            raise Mistake(what, lift.span, f"write `{lift.value.text}`")
        return meaning

    def _tensor(self, value: Value) -> Tensor:
        """A value as a tensor through which no gradient flows."""
        match value:
            case Infix(op="*"):
                first, row = in_a_row(value, *(INFIX.keys() - {"*"}))
                return reduce(compose, (self._tensor(one.right) for one in row), self._tensor(first))
            case EinsumCall(spec=spec, args=args):
                return einsum(spec.text, *(self._tensor(arg) for arg in args))
            case At(value=inner, index=index):
                at = index.value if isinstance(index, NumberLiteral) else self._static(index).name
                logic = parse_slice(f"@| {at}", lambda name: self._given_index(Name(name, index.span)))
                if logic is None:
                    raise Mistake(f"{at} is no position of an axis", index.span, "write a whole number from 0 on")
                return apply_slice(logic, self._tensor(inner))
            case FunctionCall(function="given", args=args):
                return self._given(value, args)
            case Bracket():
                return self._bracket(value)
        scalar, tensors = self._scalar(value)
        if scalar == Arg(0):
            return Tensor(tensors[0].operand)
        if not tensors:
            return constant(scalar)
        return _computed(Reading(Pointwise(len(tensors)), scalar, tensors, _count(tensors), 0, {}, value.span), "arg2")

    def _given(self, call: FunctionCall, args: tuple[Value, ...]) -> Tensor:
        meaning = self.names[args[0]] if len(args) == 1 and isinstance(args[0], Name) else None
        if not isinstance(meaning, Tensor):
            raise Mistake("`given` takes the name of a tensor", call.span, "write `given(x)`")
        return given(meaning)

    def _bracket(self, bracket: Bracket) -> Tensor:
        """An assignment without a left side: the tensor it computes."""
        reading = self._right(bracket.right)
        summed = isinstance(reading.logic, Compose | Einsum)
        accum, reset = _accumulation(bracket.sign) if bracket.sign else ("add" if summed else "arg2", True)
        if not reset:
            raise Mistake("a tensor without a name has no old value", bracket.span, "start it afresh: `=:`, `=:+` …")
        if bracket.right.at_least:
            fix = "assign it to a name of its own"
            raise Mistake("only a node is bounded by ~at_least", bracket.right.at_least.span, fix)
        if not reading.tensors and isinstance(reading.logic, Pointwise):
            return constant(reading.value, dtype=said_type(bracket.right))
        if reading.lhs != 0 or sorted(reading.by_slot) != list(range(1, arity(reading.logic) + 1)):
            what = "a tensor without a name is the result, and each slot of an operand holds one"
            raise Mistake(what, reading.span, "assign it to a name of its own")
        return _computed(reading, accum, said_type(bracket.right))


def _place(tensor: Tensor, found: _Found) -> Arg:
    found.tensors.append(tensor)
    return Arg(len(found.tensors) - 1)


def _renumbered(value: Scalar, keys: Sequence[Any]) -> tuple[Scalar, list[Any]]:
    """The value with arguments of equal keys made one, and the distinct keys by number."""
    distinct = list(dict.fromkeys(keys))
    numbers = {key: number for number, key in enumerate(distinct)}

    def renumber(leaf: Scalar) -> Scalar:
        return Arg(numbers[keys[leaf.number]]) if isinstance(leaf, Arg) else leaf

    return substitute(value, renumber), distinct


def _held(reading: Reading) -> tuple[int, ...]:
    return position_slots(reading.logic)


def _outside(said: Quoted) -> Outside:
    if said.text not in get_args(Outside):
        known = " or ".join(f'"{one}"' for one in get_args(Outside))
        raise Mistake(f"~outside does not know {said.text!r}", said.span, f"it is {known}")
    return cast(Outside, said.text)


def _count(tensors: Sequence[Tensor]) -> tuple[int, ...]:
    return tuple(range(1, len(tensors) + 1))


def _accumulation(sign: Sign) -> tuple[str, bool]:
    return sign.op or "arg2", sign.reset or sign.op in ("", "arg2")


def _check_type(statement: Assign, target: Node) -> None:
    """Refuse a type that the target does not have."""
    dtype, right = said_type(statement.right), statement.right
    if right.at_least and target.precision.least != element_type(right.at_least.text):
        what = f"`{target}` was not made with at_least={right.at_least.text!r}"
        raise Mistake(what, right.at_least.span, "leave it out, or give a node made so")
    if dtype is not None and target.dtype != dtype:
        fix = f"give it: wf.cast(t, {dtype!r}), or a node with dtype={dtype!r}"
        raise Mistake(f"`{target}` is stored in {target.dtype}, not in {dtype}", statement.right.span, fix)


def _check_compose(value: Value) -> None:
    name = (
        INFIX.get(value.op) if isinstance(value, Infix) else value.function if isinstance(value, FunctionCall) else None
    )
    if name in ("div", "pow"):
        what = f'logic "@" with {OPS[name].text!r} reads like a matrix inverse or power and computes neither'
        raise Mistake(what, value.span, 'use logic "." for pointwise, or an explicit einsum spec')


def _function(call: FunctionCall) -> str:
    """The operation a call names."""
    if call.function == "dim":
        raise unheld("dim(…)", call.span)
    op = OPS.get(call.function) or next((one for one in OPS.values() if one.text == call.function), None)
    if op is None:
        fix = meant(call.function, OPS, f"the functions are {', '.join(OPS)}")
        raise Mistake(f"there is no function `{call.function}`", call.span, fix)
    if len(call.args) != op.arity:
        count = "one operand" if op.arity == 1 else f"{op.arity} operands"
        raise Mistake(f"`{call.function}` takes {count}, not {len(call.args)}", call.span)
    return op.name


def _primitive(value: Value, count: int, right: Right) -> tuple[Scalar, Sequence[Value]]:
    """The assignment's own operation over `count` operands. One written several times in a row takes more than two."""
    if isinstance(value, FunctionCall) and value.function != "given" and len(value.args) == count:
        return call(_function(value), *map(Arg, range(count))), value.args
    if count == 1:
        return Arg(0), (value,)
    operands: list[Value] = []
    op = INFIX[value.op] if isinstance(value, Infix) else ""
    rest = value
    while len(operands) < count - 1 and isinstance(rest, Infix) and INFIX[rest.op] == op:
        operands.insert(0, rest.right)
        rest = rest.left
    operands.insert(0, rest)
    if len(operands) != count:
        text = right.logic.text if right.logic else "."
        raise Mistake(f'logic "{text}" takes {count} operands and the right side has {len(operands)}', value.span)
    args: Iterable[Scalar] = map(Arg, range(count))
    return reduce(lambda left, one: call(op, left, one), args), operands


# Operations


def _computed(reading: Reading, accum: str, dtype: str | None = None) -> Tensor:
    """The tensor a right side computes, its gradients left behind."""

    def forward(v: Slot, *operands: Slot) -> None:
        value = substitute(
            reading.value, lambda leaf: operands[reading.slots[leaf.number] - 1] if isinstance(leaf, Arg) else leaf
        )
        if accum == "arg2":
            v[:] = value
        else:
            v.accumulate(accum, value, reset=True)

    by_slot = reading.by_slot
    tensors = [Tensor(by_slot[slot].operand) for slot in sorted(by_slot)]
    names = {Compose: "compose", Einsum: "einsum", Transpose: "transpose", Slice: "slice"}
    own = reading.value.op if isinstance(reading.value, Call) else "identity"
    return Operator(names.get(type(reading.logic), own), None, forward).apply(
        reading.logic, tensors, sizes=reading.sizes, dtype=dtype
    )

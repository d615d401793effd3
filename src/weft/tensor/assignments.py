"""Code: assignments recorded while ordinary Python runs under `@wf.cd`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from typing import Any, ParamSpec

from weft.assign import (
    Accum,
    Arg,
    Cells,
    Code,
    Declared,
    Node,
    NodeName,
    Offset,
    Operand,
    Precision,
    Record,
    current,
    infer_precision,
    node_of,
    operands_of,
    record,
    recording,
    statements,
)
from weft.einsum.nodes import Position
from weft.errors import WeftError, user_origin
from weft.ops import OPS, Call, Monoid, Num, Scalar, accumulating_op, call, find, leaves, scalar
from weft.ops.dtypes import element_type
from weft.public import public
from weft.shape.close import peek
from weft.shape.infer import infer
from weft.shape.logic import (
    Assigned,
    Compose,
    Einsum,
    Literal,
    Logic,
    Parameter,
    Pointwise,
    Slice,
    Written,
    elaborate,
    position_slots,
    read_by,
)
from weft.shape.nodes import Dim, Shape
from weft.shape.text import RowSizes, given_dims
from weft.tensor.functions import compose
from weft.tensor.leaves import UNNAMED
from weft.tensor.operator import read_logic
from weft.tensor.positions import lookups_of
from weft.tensor.scope import as_tensor
from weft.tensor.tensor import Tensor, TensorLike, is_number

P = ParamSpec("P")


def cd(function: Callable[P, object]) -> Callable[P, Code]:
    """Make a function whose assignments are recorded: calling it returns their code.

    Called inside another such function, its code is recorded there as well.
    """

    @public
    @functools.wraps(function)
    def recorded(*args: P.args, **kwargs: P.kwargs) -> Code:
        with recording() as codes:
            function(*args, **kwargs)
        if not codes.codes:
            raise WeftError(
                f"`{function.__name__}` recorded no assignment",
                fix="assign with `t[:] = …`, `t += …` or t.accumulate: `t = …` only gives a name; code that does "
                "nothing is wf.seq()",
            )
        if current() is not None:
            record(codes.code)
        return codes.code

    return recorded


def node(
    name: str,
    *,
    dtype: str | None = None,
    at_least: str | None = None,
    init: float | None = None,
    scalar: bool = False,
    o: RowSizes | None = None,
    i: RowSizes | None = None,
    b: RowSizes | None = None,
) -> Tensor:
    """A non-differentiable tensor to assign to; its shape and type are inferred from what is assigned.

    It keeps its value between runs. Code that writes it and reads it before starts from zero, or from `init`. `dtype`
    gives its type; `at_least` only says what it must not be narrower than. With `scalar` it holds a single number; `o`,
    `i` and `b` give the sizes of its output, input and batch axes.
    """
    origin = user_origin()
    if not isinstance(name, str) or not name:
        raise WeftError(f"a node needs a name, not {name!r}", origin=origin)
    logic = Literal(Shape(output=(Dim(1),)), claims=False) if scalar else Assigned()
    batch, input, output = given_dims(b, "b"), given_dims(i, "i"), given_dims(o, "o")
    also = elaborate(Parameter(batch, input, output))
    shape = infer(logic, name=name, title="node", origin=origin, also=also, code=True).result
    least = element_type(at_least) if at_least else None
    precision = Precision.given(element_type(dtype)) if dtype else Precision.from_operands(least)
    rows = zip("bio", (batch, input, output), strict=True)
    declared = Declared(tuple((row, dims) for row, dims in rows if dims is not None), scalar)
    first = None if init is None else Cells(Num(float(init)))
    return Tensor(Node(NodeName(name), shape, precision, init=first, origin=origin, declared=declared))


def assign(
    lhs: Tensor,
    accum: str | Monoid,
    op: str,
    *rhs: TensorLike,
    init: bool = False,
    logic: str = ".",
) -> Tensor:
    """Record `lhs = accum(lhs, op(rhs…))` in full generality.

    `accum` is "=" for a plain write; with `init` the left side starts at what `accum` begins with. `logic` is ".", "@",
    "T" or an einsum spec and says which loops run; `fma` with "@" composes two operands and adds the third.
    """
    loops = read_logic(logic, len(rhs))
    count = len(rhs) - len(position_slots(loops))
    found = find(op, arity=count)
    if logic == "@" and found.name in ("div", "pow"):
        raise WeftError(
            f'logic "@" with {found.text!r} reads like a matrix inverse or power and computes neither',
            fix='use logic "." for pointwise, or an explicit einsum spec',
        )
    name = "arg2" if accum in ("=", "arg2") else accumulating_op(accum, init).name
    tensors = [as_tensor(one, found.name) for one in rhs]
    _refuse_stale(tensors)
    if logic == "@" and found.name == "fma":
        tensors, found, loops, count = [compose(*tensors[:2]), tensors[2]], OPS["add"], Pointwise(2), 2
    value = call(found.name, *(Arg(number) for number in range(count)))
    operands = [tensors[slot - 1].operand for slot in _in_order(loops, len(tensors))]
    _record(lhs, name, init or name == "arg2", loops, value, operands)
    return lhs


def assign_to(target: Tensor, accum: str | Monoid, value: TensorLike, *, reset: bool = False) -> None:
    """Record an assignment of a value; an operation written on the right becomes the assignment's own.

    What is assigned to a part of a tensor, `t[2:5] = …`, is written to that part of it.
    """
    name = "arg2" if accum == "arg2" else accumulating_op(accum, reset).name
    if part := _part_read(target):
        _write_part(part, name, reset, value)
        return
    if is_number(value):
        number = scalar(value)
        _record(target, name, reset, Pointwise(0), number, [])
        return
    tensor = as_tensor(value, "an assignment")
    _refuse_stale([tensor])
    inner = _own_operation(tensor)
    merged = _merged(name, reset, inner) if inner else None
    if inner is not None and merged is not None:
        logic = inner.record.operation.logic
        _record(target, merged, reset, logic, inner.value, inner.operands, inner.record)
    else:
        _record(target, name, reset, Pointwise(1), Arg(0), [tensor.operand])


def set_part(whole: Tensor, key: Any, value: TensorLike) -> None:
    """Record `whole[key] = value`, or nothing if a part is assigned to itself: so ends `whole[key] += value`."""
    part = whole[key]
    read, own = map(_part_read, (part, value))
    if value is not part and not (read and own and _reads(read) == _reads(own)):
        assign_to(part, "arg2", value, reset=True)


def _reads(part: Accum) -> tuple[object, ...]:
    """What a part is read from, and how."""
    whole, *filled = part.operands[: len(part.record.operands)]  # after these come what is watched
    slicing = _slice_between(whole)
    return part.record.operation.logic, part.record.operands, _reads(slicing) if slicing else whole, *filled


def _part_read(tensor: object) -> Accum | None:
    """How a tensor made in this very recording reads the part of another that it is; None if it is none."""
    if not isinstance(tensor, Tensor):
        return None
    where, read = current(), tensor.node.definition
    made = where is not None and tensor.operand in where.parts
    return read if made and isinstance(read, Accum) else None


def _slice_between(whole: Operand) -> Accum | None:
    """How the slice of a tensor is read in which the same brackets look positions up; None if they slice nothing."""
    where = current()
    made = where is not None and whole in where.between
    return whole.definition if made and isinstance(whole, Node) and isinstance(whole.definition, Accum) else None


def _write_part(read: Accum, accum: str, reset: bool, value: TensorLike) -> None:
    """Record an assignment to a part. Everything else keeps its value; what is assigned broadcasts to the part.

    Positions of a slice are written in a copy of it, which is written back.
    """
    values = [] if is_number(value) else [as_tensor(value, "an assignment")]
    _refuse_stale(values)
    between = read.operands[0]
    slicing = _slice_between(between)
    target = assignable(Tensor((slicing or read).operands[0]))
    _check_part(read, target, accum, reset)
    computed: Scalar = scalar(value) if is_number(value) else Arg(0)
    if slicing is None:
        _write_where_read(read, target, accum, reset, computed, values)
        return
    copy = Node(NodeName(f"{target.label}_part"), node_of(between).shape, node_of(between).precision)
    _record(Tensor(copy), "arg2", True, slicing.record.operation.logic, Arg(0), slicing.operands, slicing.record)
    _write_where_read(read, copy, accum, reset, computed, values)
    _write_where_read(slicing, target, "arg2", True, Arg(0), [Tensor(copy)], enrich=False)


def _write_where_read(
    read: Accum,
    target: Node,
    accum: str,
    reset: bool,
    computed: Scalar,
    values: Sequence[Tensor],
    *,
    enrich: bool = True,
) -> None:
    """Record an assignment to a part of `target`, over the loops by which it is read, as a gradient is."""
    record, logic, origin = read.record, read.record.operation.logic, user_origin()
    assert isinstance(logic, Slice | Einsum)
    by_slot: dict[int, Operand] = dict(zip(record.operands, (target, *read.operands[1:]), strict=False))
    shapes = [node_of(by_slot[slot]).shape for slot in sorted(by_slot)] + [one.shape for one in values]
    operation = infer(
        Written(logic, len(values)) if values else logic,
        shapes,
        name=f"{target.label}[…]",
        title=target.label,
        origin=origin,
        sizes=record.operation.sizes,
        code=True,
    )
    slots = range(len(by_slot) + 1, len(by_slot) + 1 + len(values))
    lookups = lookups_of(operation, by_slot, origin)
    operands = [*(one.operand for one in values), *lookups.positions.values(), *lookups.watched]
    where = Record(operation, 1, (*slots, *lookups.positions))
    record_over(where, target, accum, reset, computed, operands, enrich=enrich)


def _check_part(read: Accum, target: Node, accum: str, reset: bool) -> None:
    if reset and accum != "arg2":
        what = f"a part of `{target.label}` is not started afresh and accumulated into at once"
        raise WeftError(what, fix="assign what it starts from, then accumulate: `t[2:5] = 0.0`, `t[2:5] += x`")
    if accum == "arg2":
        _check_positions_differ(target, [node_of(one) for one in read.operands[1 : len(read.record.operands)]])


def _check_positions_differ(target: Node, positions: Sequence[Node]) -> None:
    """Refuse a plain write where data says: what would be left of several values for one cell is chance."""
    for one in positions:
        if peek(one.shape).count != 1:
            raise WeftError(
                f"`{one.label}` may hold a position of `{target.label}` several times, and `=` does not say which of "
                "the values stays",
                notes=[f"{one.label} is {one.shape}"],
                fix=f'say how they combine: `{target.label}[{one.label}] += …`, or `.accumulate("max", …)`; one '
                "position alone, or a slice from it on, `t : t + 4`, may be written",
            )


def _refuse_stale(tensors: Sequence[Tensor]) -> None:
    where = current()
    if where is not None:
        where.writes.use(tensor.operand for tensor in tensors)


def _own_operation(tensor: Tensor) -> Accum | None:
    """The assignment that computes an expression written in this very recording."""
    where = current()
    definition = tensor.node.definition
    fresh = where is not None and tensor.node.id > where.started and tensor.node.name.inline
    return definition if fresh and isinstance(definition, Accum) and tensor.operand is tensor.node else None


def _merged(outer: str, reset: bool, inner: Accum) -> str | None:
    """The one accumulation that does what an inner and an outer one do in turn; None if there is none.

    A result at a position alone, as a sum's at 0, is to broadcast: its own loops would write that position only.
    """
    logic = read_by(inner.record.operation.logic)
    if isinstance(logic, Einsum) and any(isinstance(axis, Position) for axis in logic.spec.result.axes):
        return None
    if inner.accum == "arg2":
        return outer
    if outer == "arg2" and reset:
        return inner.accum
    same = outer == inner.accum or (inner.accum == "add" and outer == "sub")
    return outer if same else None


def _record(
    lhs: Tensor,
    accum: str,
    reset: bool,
    logic: Logic,
    value: Scalar,
    operands: Sequence[Operand],
    like: Record | None = None,
) -> None:
    """Record an assignment with loops of its own; those of `like` if an operation gave its slots already."""
    origin = user_origin()
    target = assignable(lhs)
    if isinstance(logic, Compose) and isinstance(value, Call) and value.op in ("div", "pow"):
        raise WeftError(f'logic "@" with {value.op!r} is refused', origin=origin, fix='use logic "."')
    nodes = [node_of(operand) for operand in operands]
    by_slot = sorted(zip(_in_order(logic, len(nodes)), nodes, strict=True), key=itemgetter(0)) if like is None else ()
    shapes = like.operation.slots[1:] if like else [one.shape for _, one in by_slot]
    sizes = like.operation.sizes if like else None
    operation = infer(
        logic,
        shapes,
        title=target.label,
        origin=origin,
        result=target.shape,
        sizes=sizes,
        code=True,
        varies=any(isinstance(leaf, Offset) for leaf in leaves(value)),
    )
    slots = like.operands if like else _in_order(logic, len(operands))
    lookups = lookups_of(operation, dict(zip(slots, operands, strict=False)), origin)
    read = [*operands[: len(slots)], *lookups.watched]
    record_over(Record(operation, 0, slots), target, accum, reset, value, read)


def _in_order(logic: Logic, operands: int) -> tuple[int, ...]:
    """The slots of so many operands, those with positions last."""
    held = position_slots(logic)
    return (*(slot for slot in range(1, operands + 1) if slot not in held), *held)


def record_over(
    where: Record,
    target: Node,
    accum: str,
    reset: bool,
    value: Scalar,
    operands: Sequence[Operand],
    *,
    enrich: bool = True,
) -> None:
    """Record an assignment over the loops of an operation applied before; `enrich`: it may add to the target's name."""
    code = Accum(target, accum, reset, value, tuple(operands), where, user_origin())
    infer_precision(code)
    record(code)
    if enrich:
        _enrich(target, operands)


def assignable(lhs: Tensor) -> Node:
    """The node an assignment to `lhs` writes; refused where it is computed from others."""
    if not isinstance(lhs, Tensor):
        what = f"{type(lhs).__name__} cannot be assigned to"
        raise WeftError(what, fix="assign to a parameter, a gradient, data, or a wf.node")
    if current() is None:
        raise WeftError(
            f"`{lhs.label}` is assigned to outside a function under @wf.cd",
            fix="to compute something new write `t = t + x`; to record an assignment put it under @wf.cd",
        )
    if not isinstance(lhs.operand, Node):
        raise WeftError(f"`{lhs.label}` cannot be assigned to", fix="assign to the tensor itself")
    if lhs.operand.definition is not None:
        one = "; a part of a part is one pair of brackets, t[i, j]" if _part_read(lhs) else ""
        raise WeftError(
            f"`{lhs.label}` is computed from other tensors and cannot be assigned to",
            fix=f"assign to a parameter, a gradient, data, or a wf.node{one}",
        )
    return lhs.operand


def _sources(operands: Sequence[Operand]) -> Iterator[Node]:
    """The nodes that expressions written inline are made of, each once, in the order written."""
    seen: set[Node] = set()
    stack = list(reversed(operands))
    while stack:
        operand = stack.pop()
        node = node_of(operand)
        if node in seen:
            continue
        seen.add(node)
        if not node.name.inline:
            yield node
        elif node.definition is not None:
            for statement in reversed(list(statements(node.definition))):
                stack += reversed(operands_of(statement))


def _enrich(target: Node, operands: Sequence[Operand]) -> None:
    """A declared node is called after what it is first computed from as well."""
    own = target.name
    if target.declared is None or own.after is not None:
        return
    names = (node.name.after or node.label.removesuffix(".grad") for node in _sources(operands) if node is not target)
    own.after = next((name for name in names if name not in UNNAMED), None)
    if own.after is not None:
        own.text = f"{own.text}.{own.after}"

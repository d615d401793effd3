"""A program in the notation of code: assignments of comprehensions become those of einsums.

C(m, n) +=! A(m, k) * B(k, n)      becomes      C =:+ A * B ~logic:"ik;kj=>ij"
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from weft.assign import (
    Accum,
    Cells,
    Code,
    Direct,
    Fetch,
    Node,
    Operand,
    Record,
    closed_buffer,
    node_of,
    seq,
    show,
    statements,
)
from weft.assign.explicit import SpellingOut
from weft.assign.extents import Extent
from weft.assign.nodes import Piece, rebuilt, symbols, target as target_of
from weft.comprehension.definition_text import Unsayable, is_said
from weft.einsum import parse_spec
from weft.errors import WeftError, user_origin
from weft.explain.contraction import contraction, sizes_to_give, spec_text
from weft.explain.program import NamedProgram, check_alone, example
from weft.loops import Buffer
from weft.ops import Num, Scalar, substitute
from weft.shape.close import close
from weft.shape.infer import infer
from weft.shape.logic import Einsum, Literal
from weft.shape.nodes import Dim
from weft.tensor.read_code import parse_cd
from weft.tensor.slices import StaticIndex
from weft.tensor.tensor import Tensor, require_grad


def code_text(program: NamedProgram) -> str:
    """The program as `wf.parse_cd` reads it."""
    text = show(rebuilt(program.code, _said))
    written = {target_of(one) for one in statements(program.code)}
    learned = {one.gradient_of for one in written}
    labels = Counter(one.label for one in {*written, *program.params})
    try:
        given = {one.label: Tensor(example(one.label, close(one.shape), one.dtype)) for one in program.params}
        given |= {one.label: require_grad(given[one.label]) for one in program.params if one in learned}
        known: dict[str, Tensor | Scalar] = {**given}
        known |= {one.name: StaticIndex(one.name, one.size, one.counts) for one, _ in symbols(program.code)}
        read = {target_of(one).label: target_of(one).shape for one in statements(parse_cd(text, known, declare=True))}
    except WeftError as error:
        what = f"this cannot be said as code: where that is all that is read, {error.what}"
        raise Unsayable(what, origin=user_origin()) from None
    check_alone(
        program, "as code", {one: read[one.label] for one in written if labels[one.label] == 1 and one.label in read}
    )
    return text


def _said(code: Piece) -> Code:
    if not isinstance(code, Accum | Fetch | Direct):
        return code
    if not is_said(code):
        return seq()
    try:
        match code:
            case Direct():
                return _over_an_operation(code)
            case Accum():
                return replace(code, value=substitute(code.value, _with_sizes))
            case Fetch(source=Cells(value=value)):
                return replace(code, source=Cells(substitute(value, _with_sizes)))
        return code
    except WeftError as error:
        raise Unsayable.of(code, "as code", error.what) from None


def _with_sizes(leaf: Scalar) -> Scalar:
    """What is computed from sizes, as the number it is: a text alone has no sizes to compute it from."""
    return Num(leaf.number) if isinstance(leaf, Extent) else leaf


def _over_an_operation(code: Direct) -> Code:
    """A direct assignment as one over the loops of an einsum."""
    nodes: dict[Buffer, Node] = {}

    def buffer(operand: Operand) -> Buffer:
        found = closed_buffer(node_of(operand), node_of(operand).id, node_of(operand).label)
        nodes[found] = node_of(operand)
        return found

    one = SpellingOut(buffer)(code)
    if len(one.runs) != 1:
        raise WeftError("its loops are empty")
    run = one.runs[0]
    if isinstance(run.value, Num) and one.accum == "arg2" and one.surjective:
        return Fetch(code.lhs, Cells(run.value), code.origin)
    made = contraction(run, one.target, {found: close(node.shape) for found, node in nodes.items()})
    sizes = {name: Dim(size) for name, size in sizes_to_give(made.parts, made.result, made.labels).items()}
    operands = tuple(nodes[found] for found in made.operands)
    shapes = [infer(Literal(close(node.shape)), name=node.label).result for node in operands]
    logic = Einsum(parse_spec(spec_text(made.parts, made.result)))
    record = Record(infer(logic, shapes, sizes=sizes), 0, tuple(range(1, len(operands) + 1)))
    return Accum(code.lhs, one.accum, one.reset, made.value, operands, record, code.origin)

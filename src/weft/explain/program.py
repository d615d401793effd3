"""What is to be said in another notation: complete code, what it reads and what it leaves behind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from weft.assign import Cells, Code, Fetch, Keep, Node, NodeName, Precision, complete, seq, statements, target
from weft.assign.definite_assignment import written_part
from weft.assign.definitions import inputs_of
from weft.assign.nodes import Piece, keeps, rebuilt
from weft.comprehension.definition_text import Unsayable
from weft.comprehension.signature import Template
from weft.errors import ShapeError, WeftError
from weft.explain.contraction import sizes_to_give
from weft.project import Plan
from weft.project.show import tensor_names
from weft.shape.cells import ShapeVar
from weft.shape.close import close
from weft.shape.infer import infer
from weft.shape.logic import Literal
from weft.shape.nodes import Shape
from weft.tc import Definition
from weft.tc.call import on_leaves
from weft.tensor.einsum import contract
from weft.tensor.tensor import Tensor

#: What can be said in another notation.
Sayable: TypeAlias = Tensor | Sequence[Tensor] | Code | Definition | Plan


@dataclass(frozen=True, slots=True)
class NamedProgram:
    """Complete code under a name; its parameters are the tensors it reads, its results those it is run for."""

    name: str
    code: Code
    params: tuple[Node, ...]
    results: tuple[Node, ...]
    #: How many axes tensors have in the text that the program comes of.
    ranks: Mapping[Node, int] = field(default_factory=dict)

    @staticmethod
    def of(code: Code, name: str, results: Sequence[Node] = (), params: Sequence[Node] = ()) -> NamedProgram:
        """The program of code; what is bound to data or a file is a parameter."""
        whole = rebuilt(complete(code), lambda one: seq() if _is_bound(one) else one)
        written = dict.fromkeys(target(one) for one in statements(whole) if target(one).check is None)
        needed = dict.fromkeys([*params, *inputs_of(whole), *_kept_in_part(whole)])
        read = tuple(one for one in needed if one.check is None)
        if not written:
            what = f"`{results[0]}` is given, not computed" if results else "this code does nothing"
            raise WeftError(f"{what}: there is nothing to print")
        kept = {node for one in keeps(whole) for node in one.nodes}
        lasting = [one for one in written if one in kept or one in read or _is_gradient(one)]
        return NamedProgram(name, whole, read, tuple(results or lasting or written))


def _kept_in_part(code: Code) -> Iterator[Node]:
    """The nodes of which code first writes a part: what the rest holds comes in."""
    seen = set[Node]()
    for one in statements(code):
        if target(one) not in seen and written_part(one) is not None:
            yield target(one)
        seen.add(target(one))


def _is_bound(code: Piece) -> bool:
    return isinstance(code, Fetch) and not isinstance(code.source, Cells)


def _is_gradient(node: Node) -> bool:
    """Is it the gradient of something that is not computed, which somebody will want?"""
    return node.is_grad and node.gradient_of is not None and node.gradient_of.definition is None


def check_alone(program: NamedProgram, notation: str, found: Mapping[Node, ShapeVar]) -> None:
    """Refuse a text by which tensors get other sizes, or none: one that is written at a position has any size it meets.

    `found` are the shapes that reading it gives.
    """
    for code in statements(program.code):
        node = target(code)
        if node in found and not _same(node.shape, found[node]):
            why = f"where that is all that is read, nothing says that `{node}` is {close(node.shape)}"
            raise Unsayable.of(code, notation, why)


def _same(one: ShapeVar, other: ShapeVar) -> bool:
    try:
        return close(one).array_shape == close(other).array_shape
    except ShapeError:
        return False


def program_of(what: Sayable) -> NamedProgram:
    """What there is to say of a tensor or several, of code, or of a plan."""
    tensors = [what] if isinstance(what, Tensor) else what if isinstance(what, list | tuple) else []
    if tensors and all(isinstance(one, Tensor) for one in tensors):
        nodes = tuple(one.node for one in tensors)
        return NamedProgram.of(Keep(nodes), "forward", nodes)
    if isinstance(what, Plan):
        return _planned(what)
    if isinstance(what, Code):
        return NamedProgram.of(what, "code")
    given = repr(what) if len(repr(what)) <= 60 else f"a {type(what).__name__}"
    fix = "give a tensor or a list of them, code, a definition of wf.tc.define, or what wf.plan returns"
    raise WeftError(f"{given} is no program", fix=fix)


def applied(template: Template, shapes: Sequence[tuple[int, ...]]) -> NamedProgram:
    """What there is to say of a comprehension on tensors of these shapes."""
    flat, application = template.flat, on_leaves(template, shapes)
    params = [application.node(one) for one in flat.params]
    program = NamedProgram.of(Keep(application.results), template.name, application.results, params)
    return replace(program, ranks={application.node(one): flat.ranks[one] for one in (*flat.params, *flat.results)})


def supposed(template: Template) -> Iterator[list[tuple[int, ...]]]:
    """Shapes for the parameters of a comprehension: sizes that fall or rise by even steps, so that windows fit."""
    types = [one.type for one in template.definition.params]
    names = dict.fromkeys(size for one in types for size in one.sizes)
    for least, step in ((9, 2), (15, 4)):
        rising = [least + step * number for number in range(len(names))]
        for order in (rising[::-1], rising):
            yield [one.shape(dict(zip(names, order, strict=True))) for one in types]


def _planned(plan: Plan) -> NamedProgram:
    """An einsum on tensors of a plan's shapes, called as the plan calls them."""
    name, *names = tensor_names(plan.projection)
    types = ["int32" if slot in plan.spec.positions else "float32" for slot in range(1, len(names) + 1)]
    operands = [Tensor(example(*one)) for one in zip(names, plan.shapes[:-1], types, strict=True)]
    sizes = {loop.name: loop.size for factor in plan.loops for loop in factor}
    sizes |= {one.name: one.size for one in plan.projection.looked_up}
    made = contract(
        plan.spec.text, operands, label=name, sizes=sizes_to_give(plan.spec.operands, plan.spec.result, sizes)
    )
    return NamedProgram.of(Keep((made.node,)), "plan", [made.node], [one.node for one in operands])


def example(name: str, shape: Shape, dtype: str = "float32") -> Node:
    """A node of a shape and a type."""
    return Node(NodeName(name), infer(Literal(shape), name=name).result, Precision.given(dtype))

"""Gradients as tensors, of any order.

What backpropagation adds to `p.grad` defines a tensor here, whose children are what it reads: it is computed when it is
needed, and differentiated like everything else.

y =: x * x    by  x    is    d_x =: d_y * x + d_y * x    of  d_y  and  x;    again by  x    it is    d_y + d_y
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from typing import TypeVar, cast

from weft.assign import (
    Accum,
    Adjoint,
    Assignment,
    Cells,
    Code,
    Direct,
    Fetch,
    Node,
    NodeName,
    Operand,
    infer_precision,
    operands_of,
    seq,
    statements,
    target,
)
from weft.assign.definitions import accumulates
from weft.assign.record import assign_pointwise
from weft.errors import WeftError, user_origin, warn
from weft.ops import Num
from weft.tensor.adjoint import pull_back_all
from weft.tensor.gradient import chosen_between, computed_together, topological
from weft.tensor.nested_results import parts, structured_as
from weft.tensor.scope import as_tensor
from weft.tensor.tensor import Tensor

#: What is differentiated by, and along: a tensor, or tensors in a structure.
T = TypeVar("T")


def grad(y: Tensor, x: T, *, d: Tensor | float | None = None) -> T:
    """The gradient of `y` by `x`, as a tensor; for a tuple, list, dict or dataclass of tensors, nested, such a one.

    `y` is one number, unless `d` is given, of the shape of `y`: then that is pulled back. A gradient can be
    differentiated again.

    >>> x = wf.require_grad(wf.data(np.array([1.0, 2.0]), label="x"))
    >>> slope = wf.grad(wf.sum(x**3), x)
    >>> print(ctx[slope], ctx[wf.grad(wf.sum(slope), x)])
    [ 3. 12.] [ 6. 12.]
    """
    asked = _asked(x, "grad")
    path = _Path.between([_checked(y, "grad")], asked)
    gradients = path.backward([(y, _ones_like(y) if d is None else _spread(as_tensor(d, "grad"), y, "d"))])
    return cast(T, structured_as(x, (path.gradient(one, gradients) for one in asked)))


def jvp(y: Tensor, x: T, v: T) -> Tensor:
    """How `y` changes as `x` moves along `v`, as a tensor; `v` is of the shape of `x`, or structured as `x` is.

    >>> x = wf.require_grad(wf.data(np.array([1.0, 2.0]), label="x"))
    >>> print(ctx[wf.jvp(x**3, x, wf.data(np.array([1.0, 10.0]), label="v"))])
    [  3. 120.]
    """
    asked, along = _asked(x, "jvp"), _along(x, v)
    path = _Path.between([_checked(y, "jvp")], asked)
    for one in asked:
        path.check(one)
    moved = {one: _spread(way, one, "v") for one, way in zip(asked, along, strict=True)}
    tangents = path.forward({one: moved[known] for one, known in path.asked.items()})
    return tangents[y] if y in tangents else zeros_like(y)


def pulled_back(seeds: Sequence[tuple[Tensor, Tensor]], asked: Sequence[Tensor]) -> dict[Tensor, Tensor]:
    """The gradients of tensors, by results of which theirs are given; zero where nothing passes them on.

    Nothing passes through what is asked for: of two tensors one of which is computed from the other, each has its own.
    """
    path = _Path.between([tensor for tensor, _ in seeds], asked, leaves=frozenset(asked))
    gradients = path.backward(seeds)
    found = {one: path.found(one, gradients) for one in asked}
    return {one: zeros_like(one) if gradient is None else gradient for one, gradient in found.items()}


@dataclass(slots=True)
class _Path:
    """The tensors through which results change with what is asked for, operands before users; `y` is the first of them.

    `asked` are the tensors of the graph that are among those asked for: a value may be there as several tensors.
    """

    y: Tensor
    tensors: list[Tensor]
    asked: Mapping[Tensor, Tensor]
    graph: list[Tensor]
    leaves: frozenset[Tensor]

    @staticmethod
    def between(results: Sequence[Tensor], asked: Sequence[Tensor], leaves: frozenset[Tensor] = frozenset()) -> _Path:
        graph, wanted = topological(*results, leaves=leaves), {one.operand: one for one in asked}
        found = {one: wanted[one.operand] for one in graph if one.operand in wanted and one.differentiable}
        path: dict[Tensor, None] = {}
        for tensor in graph:
            inner = () if tensor in leaves else tensor.children
            if tensor in found or (_passes_on(tensor) and any(child in path for child in inner)):
                path[tensor] = None
        return _Path(results[0], list(path), found, graph, leaves)

    def backward(self, seeds: Sequence[tuple[Tensor, Tensor]]) -> dict[Tensor, Tensor]:
        """The gradient of each tensor, after those of all that read it."""
        users: dict[Tensor, list[Tensor]] = {tensor: [] for tensor in self.tensors}
        gradients: dict[Tensor, Tensor] = {}
        given: dict[Tensor, list[Tensor]] = {}
        for result, seed in seeds:
            given.setdefault(result, []).append(seed)
        masked, waiting = chosen_between(self.graph), computed_together(self.tensors)
        for tensor in reversed(self.tensors):
            found = given.get(tensor, [])
            plain = [user for user in users[tensor] if user.pullback]
            if plain:
                block = _GradientBlock(like(tensor))
                for user in plain:
                    block.pull_back(user, gradients[user], tensor, masked=user in masked)
                found.append(block.tensor())
            if found:
                gradients[tensor] = _sum(found)
            if tensor in waiting and (own := {one: gradients[one] for one in waiting[tensor] if one in gradients}):
                assert tensor.joint is not None
                for child, gradient in tensor.joint.pull_back(own, users).items():
                    given.setdefault(child, []).append(gradient)
            if tensor in gradients and tensor.pullback and tensor not in self.leaves:
                for child in dict.fromkeys(tensor.children):
                    if child in users:
                        users[child].append(tensor)
        return gradients

    def forward(self, moved: Mapping[Tensor, Tensor]) -> dict[Tensor, Tensor]:
        """The tangent of each tensor, after those of all that it reads."""
        tangents: dict[Tensor, Tensor] = {}
        for tensor in self.tensors:
            children = [child for child in dict.fromkeys(tensor.children) if child in tangents]
            found = [_tangent(tensor, child, tangents[child]) for child in children]
            tangents[tensor] = _sum([moved[tensor], *found] if tensor in moved else found)
        return tangents

    def gradient(self, x: Tensor, gradients: Mapping[Tensor, Tensor]) -> Tensor:
        """The gradient by one tensor: of all tensors of the graph that are it."""
        self.check(x)
        found = self.found(x, gradients)
        if found is not None:
            return found
        what = f"the gradient of `{self.y.label}` by `{x.label}` is zero: nothing passes it on"
        fix = "if something should, look for wf.stop_gradient and comparisons"
        warn(WeftError(what, fix=fix))
        return zeros_like(x)

    def found(self, x: Tensor, gradients: Mapping[Tensor, Tensor]) -> Tensor | None:
        """The gradient by one tensor, if there is any."""
        found = [gradients[one] for one, asked in self.asked.items() if asked is x and one in gradients]
        return _sum(found) if found else None

    def check(self, x: Tensor) -> None:
        """Refuse to differentiate by what cannot make a difference; a gradient may turn out to be constant."""
        same = [one for one in self.graph if one.node is x.node]
        if not same and all(one.node.gradient_of is None for one in self.graph):
            what = f"`{self.y.label}` is not computed from `{x.label}`"
            raise WeftError(what, fix="differentiate by something that it is computed from")
        if not any(one.differentiable for one in (x, *same)):
            what = f"`{x.label}` is not differentiable: it is neither a parameter nor computed from one"
            fix = f"x = wf.require_grad({x.label}), and build `{self.y.label}` from x"
            raise WeftError(what, fix=fix)


def _tangent(tensor: Tensor, child: Tensor, tangent: Tensor) -> Tensor:
    """How a tensor changes with one of its children: the transpose of its pullback, which is linear in the gradient."""
    gradient = Tensor(like(tensor), differentiable=True)
    if tensor.joint:
        pulled = tensor.joint.pull_back({tensor: gradient}, [child])[child]
    else:
        block = _GradientBlock(like(child))
        block.pull_back(tensor, gradient, child)
        pulled = block.tensor()
    found = _Path.between([pulled], [gradient]).backward([(pulled, tangent)]).get(gradient)
    if found is None:
        return zeros_like(tensor)
    if gradient in topological(found):
        what = f"the gradient function of `{tensor.label}` is not linear in the gradient of its result"
        raise WeftError(what, fix="multiply g with what does not depend on it")
    return found


def _passes_on(tensor: Tensor) -> bool:
    return tensor.pullback is not None or tensor.joint is not None


def _sum(tensors: Iterable[Tensor]) -> Tensor:
    return reduce(operator.add, tensors)


# From assignments to tensors


@dataclass(slots=True)
class _GradientBlock:
    """Assignments that add up to a result, written over stand-ins for the tensors they read.

    A stand-in says which tensor is meant where several have the same value, and only one passes gradients on. Where
    gradients are masked, what is differentiated (`linear`) is not what is computed: a mask tests whether a gradient is
    there, and that one is zero does not mean that it does not change.
    """

    result: Node
    computed: list[Code] = field(default_factory=list)
    linear: list[Code] = field(default_factory=list)
    tensors: dict[Operand, Tensor] = field(default_factory=dict)

    def pull_back(self, user: Tensor, gradient: Tensor, child: Tensor, *, masked: bool = False) -> None:
        """Add what the gradient of a user implies for one of its children."""
        assert user.pullback is not None
        value, own, *read = map(self._stand_in, (user, gradient, *user.children))
        into = [self.result if one is child else None for one in user.children]
        linear = user.pullback(user, Adjoint(value, own, read, into))
        self.linear.append(linear)
        self.computed.append(user.pullback(user, Adjoint(value, own, read, into, masked)) if masked else linear)

    def _stand_in(self, tensor: Tensor) -> Node:
        made = like(tensor)
        self.tensors[made] = tensor
        return made

    def tensor(self) -> Tensor:
        """The result as a tensor; what is computed on the way to it becomes tensors too."""
        computed, linear = _by_target(self.computed), _by_target(self.linear)
        for node, body in {**linear, **computed}.items():
            if node is not self.result:
                self.tensors[node] = _assigned(node, body, body, self.tensors)
        return _assigned(self.result, computed.get(self.result, []), linear.get(self.result, []), self.tensors)


def _by_target(codes: Sequence[Code]) -> dict[Node, list[Assignment]]:
    """The assignments to each node, in order; refused if one is read before it is complete."""
    found: dict[Node, list[Assignment]] = {}
    read: set[Operand] = set()
    for statement in statements(seq(*codes)):
        node = target(statement)
        if node in read or (node in found and not _continues(statement)):
            what = f"it writes `{node.label}` again after it read it, or otherwise than by adding"
            fix = "let the gradient function give each value a name of its own, by wf.intermediate"
            raise WeftError(f"a gradient cannot become a tensor: {what}", fix=fix)
        read.update(operands_of(statement))
        found.setdefault(node, []).append(statement)
    return found


def _continues(statement: Assignment) -> bool:
    """May an assignment follow others to the same node? Those of a comprehension are differentiated together."""
    return isinstance(statement, Direct) or (isinstance(statement, Accum) and statement.accum in ("add", "sub"))


def _assigned(
    node: Node, computed: Sequence[Assignment], linear: Sequence[Assignment], tensors: Mapping[Operand, Tensor]
) -> Tensor:
    """The tensor that some assignments compute one after another, from zero, and from tensors that are complete."""
    children = {one: tensors[one] if one in tensors else Tensor(one) for body in linear for one in operands_of(body)}
    code = _from_zero(node, [_over({**tensors, **children}, one) for one in computed])
    differentiable = any(child.differentiable for child in children.values())
    pullback = partial(pull_back_all, linear, list(children)) if differentiable else None
    return Tensor(
        node.defined(code), children=tuple(children.values()), differentiable=differentiable, pullback=pullback
    )


def _over(tensors: Mapping[Operand, Tensor], statement: Assignment) -> Assignment:
    """An assignment over what the stand-ins stand for."""
    if isinstance(statement, Fetch):
        return statement
    return replace(statement, operands=tuple(tensors[one].operand for one in statement.operands))


def _from_zero(node: Node, body: Sequence[Assignment]) -> Code:
    """Assignments that start from zero rather than from what the node holds."""
    if body and isinstance(body[0], Accum) and body[0].accum == "add":
        return seq(replace(body[0], reset=True), *body[1:])
    return seq(*body) if body and not accumulates(body[0]) else seq(Fetch(node, Cells(Num(0.0))), *body)


# Tensors like others


def like(tensor: Tensor) -> Node:
    """A node for the gradient of a tensor: it is stored as the tensor is."""
    node = tensor.node
    return Node(
        NodeName(f"d_{node.label}"), node.shape, node.precision.of_gradient(), origin=user_origin(), gradient_of=node
    )


def zeros_like(tensor: Tensor) -> Tensor:
    return _assigned(like(tensor), [], [], {})


def _ones_like(y: Tensor) -> Tensor:
    """Where a gradient starts: the one number that `y` is checked to be when shapes are known."""
    node = like(y)
    return Tensor(node.defined(Fetch(node, Cells(Num(1.0)), user_origin())))


def _spread(value: Tensor, to: Tensor, title: str) -> Tensor:
    """A value in the shape of another tensor."""
    return shaped(value, like(to), title)


def shaped(value: Tensor, node: Node, title: str) -> Tensor:
    """A value as a node has it: in its shape, stored as it is."""
    body = assign_pointwise(node, value.operand, title=title)
    infer_precision(body)
    return _assigned(node, [body], [body], {value.operand: value})


# What is asked for


def _asked(x: object, name: str) -> list[Tensor]:
    found = [part for _, part in parts(x)]
    for one in found:
        if not isinstance(one, Tensor):
            what = f"wf.{name} differentiates by tensors, not {type(one).__name__}"
            raise WeftError(what, fix="give a tensor, or a tuple or dict of tensors, which may be nested")
    return cast(list[Tensor], found)


def _along(x: object, v: object) -> list[Tensor]:
    """The directions, in the order of what moves along them."""
    ways, wanted = dict(parts(v)), [path for path, _ in parts(x)]
    found = [ways[path] for path in wanted if path in ways]
    if len(found) != len(wanted):
        what = f"wf.jvp moves {len(wanted)} tensors along {len(found)}"
        raise WeftError(what, fix="give one direction for each tensor, of its shape, in the structure they stand in")
    return _asked(found, "jvp")


def _checked(y: object, name: str) -> Tensor:
    if not isinstance(y, Tensor):
        what = f"wf.{name} differentiates a tensor, not {type(y).__name__}"
        raise WeftError(what, fix=f"wf.{name}(loss, w)")
    return y

"""A definition compiled for given shapes: what it computes, and its gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from weft.assign import Code, Keep, Node, NodeName, Precision, complete
from weft.backends import Array
from weft.comprehension.apply import Application
from weft.comprehension.definition_text import definition
from weft.comprehension.gradient import backward
from weft.comprehension.nodes import Definition
from weft.comprehension.signature import Template
from weft.comprehension.steps import Extents, Step
from weft.config import config
from weft.lazy import lazy_property
from weft.runtime.engine import Engine
from weft.schedule import Options
from weft.shape.infer import infer
from weft.shape.logic import Literal
from weft.shape.nodes import Dim, Shape


class CompiledCall:
    """A definition on parameters of known shapes."""

    def __init__(
        self,
        template: Template,
        shapes: Sequence[tuple[int, ...]],
        engine: Engine,
        options: Options | None = None,
    ) -> None:
        self.engine = engine
        self.template, self.given = template, tuple(shapes)
        self.application = on_leaves(template, shapes)
        self.params = [self.application.node(one) for one in template.flat.params]
        self.options = options or Options()
        results = self.application.results
        chosen = config.options.but(schedule=self.options)
        self.function = engine.pure_function(Keep(results), self.params, results, chosen)

    @lazy_property
    def loops(self) -> dict[str, int]:
        """Its loops by name, and how far the longest of a name runs."""
        return _loops(self.template.flat.steps, self.application.extents)

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """The shapes of all its tensors."""
        return self.application.extents.shapes

    def __call__(self, arrays: Sequence[Array], into: Sequence[Array | None]) -> list[Array]:
        found = self.function(*arrays, into=into)
        return [one.reshape(self.shapes[name]) for one, name in zip(found, self.template.flat.results, strict=True)]


class GradientCall:
    """The gradients of some results by some parameters, on parameters of known shapes."""

    def __init__(
        self, call: CompiledCall, of: Sequence[str], wrt: Sequence[str], options: Options | None = None
    ) -> None:
        self.shapes = [call.shapes[one] for one in wrt]
        self.options = options or Options()
        code, seeds, found = gradient_code(call.application, of, wrt)
        chosen = config.options.but(schedule=self.options)
        self.function = call.engine.pure_function(code, [*call.params, *seeds.values()], [*found.values()], chosen)

    def __call__(self, arrays: Sequence[Array], seeds: Sequence[Array]) -> list[Array]:
        found = self.function(*arrays, *seeds)
        return [one.reshape(shape) for one, shape in zip(found, self.shapes, strict=True)]


def gradient_code(
    application: Application, of: Sequence[str], wrt: Sequence[str]
) -> tuple[Code, dict[str, Node], dict[str, Node]]:
    """Code for the gradients of some results by some parameters: those that come in, and those that it finds."""
    shapes, types = application.extents.shapes, application.template.flat.types
    seeds, found = ({one: leaf(f"d_{one}", shapes[one], types[one]) for one in some} for some in (of, wrt))
    return application.backward(seeds, found), seeds, found


def gradient_definition(
    name: str, template: Template, shapes: Sequence[tuple[int, ...]], of: Sequence[str], wrt: Sequence[str]
) -> Definition:
    """The gradients of some results by some parameters as a definition, for parameters of these shapes.

    It takes all parameters and the gradients of the results; what these need is computed first.
    """
    flat, application = template.flat, on_leaves(template, shapes)
    params = {one: application.node(one) for one in flat.params}
    code, seeds, found = gradient_code(application, of, wrt)
    ranks = {node: flat.ranks[one] for some in (params, seeds, found) for one, node in some.items()}
    return definition(name, complete(code), [*params.values(), *seeds.values()], list(found.values()), ranks)


def gradient_loops(call: CompiledCall, of: Sequence[str], wrt: Sequence[str]) -> dict[str, int]:
    """The loops of gradients by name, those of what they are computed from included."""
    flat, extents = call.template.flat, call.application.extents
    made = backward(flat, of, wrt, afresh=True)
    shapes = {**extents.shapes, **{one: extents.shapes[like] for one, like in made.like.items()}}
    return {**call.loops, **_loops(made.steps, replace(extents, shapes=shapes))}


def _loops(steps: Sequence[Step], extents: Extents) -> dict[str, int]:
    found: dict[str, int] = {}
    for step in steps:
        for name, extent in extents.ranges(step).items():
            found[name] = max(found.get(name, 0), extent.size)
    return found


def on_leaves(template: Template, shapes: Sequence[tuple[int, ...]]) -> Application:
    """A definition on leaves of these shapes. It belongs to no line of the program: many of them may call it."""
    extents = template.extents(shapes)  # what is wrong with the shapes is said in terms of the text
    given = zip(template.flat.params, shapes, strict=True)
    params = [leaf(name, shape, template.flat.types[name]) for name, shape in given]
    return Application(template, params, None, {}, extents)


def leaf(name: str, shape: tuple[int, ...], dtype: str) -> Node:
    """A node of a known shape and type that somebody gives a value."""
    dims = tuple(Dim(size) for size in shape) or (Dim(1),)
    found = infer(Literal(Shape(output=dims)), name=name).result
    return Node(NodeName(name), found, Precision.given(dtype))

"""Random programs in all notations: each that has words for a program gives its numbers, and says it again alike.

One that has none says which others do.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

import weft as wf
from comprehension.programs import grown
from comprehension.running import definition, several
from generators.comprehensions import quietly
from weft.assign import statements, target

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Pick: TypeAlias = Callable[..., Any]
NOTATIONS = ("tc", "einsum", "cd")


def check(rng: np.random.Generator) -> None:
    """A random expression of tensors, its gradients, or a random comprehension."""
    pick = lambda *options: options[rng.integers(len(options))]  # noqa: E731
    kind = pick("tensor", "gradient", "comprehension")
    with quietly():
        if kind == "comprehension":
            assert_comprehension(pick, rng)
        else:
            assert_tensor(expression(pick), inputs(rng), kind == "gradient")


# Expressions of tensors


def inputs(rng: np.random.Generator) -> dict[str, wf.Tensor]:
    """Tensors to start from; values differ, so that a maximum is attained once."""
    double = lambda *shape: rng.standard_normal(shape)  # noqa: E731
    return {
        "a": wf.data(double(3, 4), label="a"),
        "b": wf.data(double(4), label="b"),
        "c": wf.data(double(2, 4), batch=1, label="c"),
        "d": wf.data(double(3, 3), label="d"),
    }


#: What is made of one tensor of so many output axes, and of two.
ONE = {
    1: [
        "i=>i",
        "i=>0",
        "2*i=>i",
        "i<+k=>ik k=2",
        "2*i<+k=>i k=2",
        "i=+k=>i k=3",
        "i=>ij j=2",
        "1^i=>i",
        "i=>i^1",
        "i=>2*i",
    ],
    2: ["ij=>ji", "ij=>j", "ij=>i", "ij=>0", "0j=>j", "i,2*j<+k=>i,j,k k=2", "ij=>2*i,j", "i,1^j=>i,j"],
}
TWO = {
    (1, 1): ["i;j=>ij", "i;i=>i", "i;i=>0", "i;j=>i^j", "i<+k;k=>i", "i=+k;k=>i"],
    (2, 1): ["ij;j=>i", "ij;j=>ij", "ij;k=>ik", "i,j=+k;k=>i,j"],
    (2, 2): ["ij;kj=>ik", "ij;ik=>jk", "ij;kj=>0"],
}
#: What takes several assignments, a loop, positions or a part of an axis.
SEVERAL: tuple[Callable[[wf.Tensor, wf.Tensor], wf.Tensor], ...] = (
    lambda one, other: wf.softmax(one),
    lambda one, other: wf.cumsum(one),
    lambda one, other: wf.sort(one),
    lambda one, other: wf.concat(one, one * 2.0),
    lambda one, other: one[..., ::-1],
    lambda one, other: one[..., 1:],
    lambda one, other: wf.einsum("...|v; ...|@v => ...|0", one, wf.argmax(one)),
    lambda one, other: wf.einsum("...|i => ...|0", one, accum="var"),
)
FUNCTIONS = ("tanh", "exp", "relu", "sin", "sigmoid", "sat01")


def expression(pick: Pick) -> Callable[[Mapping[str, wf.Tensor]], wf.Tensor]:
    """How to make a tensor of those to start from: operations picked one after another, where they fit."""

    def make(given: Mapping[str, wf.Tensor]) -> wf.Tensor:
        made = list(given.values())
        for number in range(pick(1, 2, 3, 4, 5)):
            try:
                made.append(_next(pick, made, f"t{number}"))
            except (wf.WeftError, KeyError):
                continue  # it does not fit
        return made[-1] if len(made) > len(given) else _plain(given)

    return make


def _plain(given: Mapping[str, wf.Tensor]) -> wf.Tensor:
    return wf.einsum("ij;j=>i", given["a"], given["b"], label="t")


def _next(pick: Pick, made: Sequence[wf.Tensor], label: str) -> wf.Tensor:
    one, other = pick(*made), pick(*made)
    match pick("function", "pointwise", "one", "one", "two", "two", "whole", "composed", "made of several"):
        case "function":
            return getattr(wf, pick(*FUNCTIONS))(one).named(label)
        case "pointwise":
            return pick(lambda: one + other, lambda: one - 0.5 * other, lambda: one * other, lambda: 1.5 - one)().named(
                label
            )
        case "one":
            spec, *sizes = pick(*ONE[len(one.dims.output)]).split(" ")
            given = {name: int(size) for name, _, size in (one.partition("=") for one in sizes)}
            return wf.einsum(spec, one, accum=pick("+", "+", "max", "min", "*"), label=label, **given)
        case "two":
            specs = TWO[len(one.dims.output), len(other.dims.output)]
            return wf.einsum(pick(*specs), one, other, op=pick("*", "*", "+", "-"), accum=pick("+", "max"), label=label)
        case "made of several":
            return pick(*SEVERAL)(one, other).named(label)
        case "whole":
            return wf.einsum("...|...=>0", one, accum=pick("+", "max"), label=label)
    return wf.where(wf.less(one, other), wf.tanh(one) * 2.0, other + 1.0).named(label)


def assert_tensor(make: Callable[..., wf.Tensor], given: dict[str, wf.Tensor], gradient: bool) -> None:
    """Every notation that has words for a tensor, or for its gradients, gives the same numbers."""
    ctx = wf.Context("interp")
    arrays = {name: ctx[one] for name, one in given.items()}
    if gradient:
        learned = {name: array for name, array in arrays.items() if name != "c"}
        given = {name: wf.param(name, init=array, dtype="float64") for name, array in learned.items()}
    made = make(given)
    try:
        wf.Context("interp")[made]
    except wf.WeftError:
        made = _plain(given)  # nothing says how large it is
    what: Any = made
    results = {made.label: made}
    if gradient:
        loss = wf.einsum("...|...=>0", made * made, label="loss")
        what, used = wf.grad_update(loss), [one for one in given.values() if one in loss.params]
        results = {f"{one.label}.grad": one.grad for one in used}
    ctx = wf.Context("interp")
    ctx.compile(what if gradient else made.forward, keep=list(results.values()))()
    wanted = {name: ctx[one] for name, one in results.items()}
    for notation in NOTATIONS:
        text = _words(what, notation)
        if text is not None:
            found = RUN[notation](text, given, arrays, [*wanted])
            for name, array in wanted.items():
                shown = f"{name} by\n{text}\nof {made.forward}"
                assert found[name].shape == array.shape, shown
                np.testing.assert_allclose(found[name], array, 1e-6, 1e-6, err_msg=shown)


def _words(what: Any, notation: str, *arrays: Array) -> str | None:
    try:
        return wf.show_as(what, notation, *arrays)
    except wf.WeftError as error:
        if "cannot be said" not in error.what:
            raise
        for other in re.findall(r'"(\w+)"', error.fix or ""):
            wf.show_as(what, other, *arrays)
        return None


Tensors: TypeAlias = Mapping[str, wf.Tensor]
Arrays: TypeAlias = Mapping[str, Array]


def by_comprehension(text: str, given: Tensors, arrays: Arrays, names: list[str]) -> dict[str, Array]:
    """The results of a text that defines a comprehension."""
    one = definition(text)
    assert wf.show_as(one, "tc") == text
    found = several(one(*(arrays[name] for name in one.params)))
    results = dict(zip(one.results, found, strict=True))
    return {name: results[name.replace(".", "_")] for name in names}


def by_einsums(text: str, given: Tensors, arrays: Arrays, names: list[str]) -> dict[str, Array]:
    """The results of lines that call wf.einsum."""
    made: dict[str, Any] = {"wf": wf, **given}
    exec(text, made)
    ctx = wf.Context("interp")
    results = [*names, *(["loss"] if "loss" in made else [])]
    again = wf.show_as([made[name.replace(".", "_")] for name in results], "einsum")
    assert sorted(again.splitlines()) == sorted(text.splitlines()), f"{text}\nsays again\n{again}"
    return {name: ctx[made[name.replace(".", "_")]] for name in names}


def by_code(text: str, given: Tensors, arrays: Arrays, names: list[str]) -> dict[str, Array]:
    """The results of a text of assignments."""
    code = wf.parse_cd(text, dict(given), declare=True)
    assert wf.show_as(code, "cd") == text
    nodes = {target(one).label: wf.Tensor(target(one)) for one in statements(code)}
    ctx = wf.Context("interp")
    ctx.compile(code, keep=[nodes[name] for name in names])()
    return {name: ctx[nodes[name]] for name in names}


RUN: Mapping[str, Callable[..., dict[str, Array]]] = {"tc": by_comprehension, "einsum": by_einsums, "cd": by_code}


# Comprehensions


def assert_comprehension(pick: Pick, rng: np.random.Generator) -> None:
    program = grown(pick, rng, smooth=True, sizes=(2, 5))
    one = definition(program.text)
    arrays = [program.inputs[name] for name in one.params]
    wanted = several(one(*arrays))
    named = dict(zip(one.template.flat.results, wanted, strict=True))
    for notation in NOTATIONS:
        text = _words(one, notation, *arrays)
        if text is not None:
            tensors = {name: wf.data(array, label=name) for name, array in program.inputs.items()}
            found = RUN[notation](text, tensors, program.inputs, [*named])
            for name, array in named.items():
                shown = f"{name} by\n{text}\nof {program.text}"
                np.testing.assert_allclose(found[name].reshape(array.shape), array, 1e-6, 1e-6, err_msg=shown)

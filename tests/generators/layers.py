"""Layers whose bodies are drawn at random: who owns which parameter, and what it is called.

A body uses bare strings, declares parameters, makes layers, in loops too, and is applied several times. The labels of a
model's parameters are unique, every application uses the same parameters, a name is one parameter, and declaring a name
twice in one application is refused. A parameter is reached by the path that its label tells. What the body returns, in
whatever structure, is what the layer returns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import weft as wf

Step = Callable[[Any], Any]
NAMES = ("w", "v", "b")


def check(rng: np.random.Generator) -> None:
    body, twice, shown = _body(rng, 2)

    structure, size = _structure(rng, 2)

    @wf.op
    def model(x: wf.Tensor) -> Any:
        y = body(x)
        return structure([y * float(number) for number in range(size)])

    made, x = model(label="model"), wf.data(np.ones(3))
    said = ""
    try:
        first = made(x)
    except wf.WeftError as error:
        said = str(error)
    assert ("is declared twice in one application" in said) == twice, f"{said or 'not refused'}\n{shown}"
    if said:
        return
    params = made.params
    labels = [param.label for param in params]
    assert len(set(labels)) == len(labels), f"{labels}\n{shown}"
    second = made(wf.data(np.ones((2, 3)), batch=1))
    assert made.params == params, shown
    for one, other in zip(_tensors(first), _tensors(second), strict=True):
        assert set(one.params) == set(other.params) <= set(params), shown
        assert one.label == other.label, shown
        assert one.label.partition(".")[0] == "model", one.label
    assert all(label.startswith("model.") for label in labels), shown
    assert [made.param(label.removeprefix("model.")) for label in labels] == list(params), shown


class Pair(NamedTuple):
    """Two of anything."""

    left: Any
    right: Any


def _structure(rng: np.random.Generator, depth: int) -> tuple[Callable[[list[wf.Tensor]], Any], int]:
    """How tensors become what a body returns, and how many there are."""
    kind = int(rng.integers(5)) if depth else 0
    if kind == 0:
        return lambda tensors: tensors[0], 1
    inner = [_structure(rng, depth - 1) for _ in range(2 if kind == 4 else int(rng.integers(1, 4)))]

    def filled(tensors: list[wf.Tensor]) -> Any:
        rest, made = list(tensors), []
        for fill, size in inner:
            made.append(fill(rest[:size]))
            rest = rest[size:]
        if kind == 3:
            return {f"k{at}": one for at, one in enumerate(made)}
        return Pair(*made) if kind == 4 else tuple(made) if kind == 1 else made

    return filled, sum(size for _, size in inner)


def _tensors(value: Any) -> list[wf.Tensor]:
    if isinstance(value, wf.Tensor):
        return [value]
    return [one for part in (value.values() if isinstance(value, dict) else value) for one in _tensors(part)]


def _body(rng: np.random.Generator, depth: int) -> tuple[Step, bool, str]:
    """A function of a tensor, whether it declares some name twice at once, and what it does in words."""
    steps: list[Step] = []
    words: list[str] = []
    seen: set[str] = set()
    twice = False
    for _ in range(rng.integers(1, 5)):
        turns = int(rng.integers(1, 4)) if rng.random() < 0.3 else 1
        kind = rng.integers(3 if depth else 2)
        name = str(rng.choice(NAMES))
        if kind == 0:
            step, word = _string(name), f'"{name}"'
            seen.add(name)
        elif kind == 1:
            step, word = _declared(name), f'param("{name}")'
            twice |= name in seen or turns > 1
            seen.add(name)
        else:
            inner, clash, shown = _body(rng, depth - 1)
            label = str(rng.choice(["", "", "inner", "inner2", "w"]))
            step, word = _layer(inner, label), f"layer({label})[{shown}]"
            twice |= clash
        steps += [step] * turns
        words.append(f"{turns} x {word}" if turns > 1 else word)

    def body(x: wf.Tensor) -> wf.Tensor:
        for step in steps:
            x = step(x)
        return x

    return body, twice, ", ".join(words)


def _string(name: str) -> Step:
    return lambda x: name * x


def _declared(name: str) -> Step:
    return lambda x: x + wf.param(name, o=3)


def _layer(body: Step, label: str) -> Step:
    @wf.op
    def inner(x: wf.Tensor) -> wf.Tensor:
        return body(x)

    return lambda x: inner(x, label=label)

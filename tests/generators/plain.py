"""Every stage is a plain value: no function is in it, and a program that is made twice is the same at every stage.

A draw makes a program twice over: a model with initialisers of every kind and an update of its parameters, code over
matrices (reading.py), or a random comprehension and its gradient. From completed code down to the kernels after every
pass, all that a stage leads to is looked at, shapes and types with what is known of them included.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set as AbstractSet
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

import numpy as np

import weft as wf
from backends.interpreted import Fusing
from comprehension.programs import grown
from comprehension.running import definition, is_real, several
from generators.comprehensions import quietly
from generators.reading import Drawn
from weft.assign import Code, Fingerprint, complete
from weft.assign.definitions import initial
from weft.runtime.initial_values import is_computed

#: What leads to nothing else.
_LEAVES = (str, bytes, int, float, np.generic, np.ndarray, type(None), Enum, type, BaseException)


def check(rng: np.random.Generator) -> None:
    """Draw a program, twice the same."""
    seed, draw = int(rng.integers(2**32)), [_model, _matrices, _comprehension][rng.integers(3)]
    with quietly():
        first, second = (_stages(*draw(np.random.default_rng(seed))) for _ in range(2))
        for (name, one, shown), (_, other, again) in zip(first, second, strict=True):
            found = next(functions(one), None)
            assert found is None, f"{name}: a function stands in {found}"
            assert shown == again, f"{name} of one program:\n{shown}\nand once more:\n{again}"
            if name != "assign":
                assert one == other, f"{name} of one program differ:\n{shown}"
                assert hash(one) == hash(other), f"{name} of one program have two hashes:\n{shown}"


def _stages(code: Code, *indices: wf.StaticIndex) -> Iterator[tuple[str, object, object]]:
    """The stages of code by name, with what is printed of them."""
    whole = complete(code)
    routine = wf.Context(Fusing()).compile(code, bindings=list(indices))
    yield "assign", whole, (str(whole), Fingerprint.of(whole).lines)
    yield "loops", routine.loops, routine.show("loops")
    yield from ((name, tuple(kernels), str(kernels)) for name, kernels in routine.trace())


def functions(value: object) -> Iterator[str]:
    """The way to every function that a value leads to."""
    seen: dict[int, object] = {}
    rest: list[tuple[object, str]] = [(value, type(value).__name__)]
    while rest:
        one, way = rest.pop()
        if callable(one) and not isinstance(one, Code | type):  # code answers a call with what to do instead
            yield way
        elif not isinstance(one, _LEAVES) and id(one) not in seen:
            seen[id(one)] = one
            rest += [(part, f"{way}{step}") for step, part in _parts(one)]


def _parts(value: Any) -> Iterator[tuple[str, object]]:
    match value:
        case Mapping():
            yield from (("[key]", key) for key in value)
            yield from ((f"[{key!s:.20}]", part) for key, part in value.items())
        case Sequence() | AbstractSet():
            yield from ((f"[{number}]", part) for number, part in enumerate(value))
        case _:
            names = [field.name for field in fields(value)] if is_dataclass(value) else []
            names += [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
            names += getattr(value, "__dict__", {})
            for name in dict.fromkeys(names):
                if name != "__weakref__" and hasattr(value, name):
                    yield f".{name}", getattr(value, name)


# Programs


def _model(rng: np.random.Generator) -> tuple[Code, wf.StaticIndex]:
    """A step of training: parameters that start in every way, random numbers, sizes as numbers."""
    wf.seed(0)
    n, outputs = wf.index("n", 5), int(rng.integers(1, 4))
    x = wf.data(rng.normal(size=(4, 3)).astype("float32"), batch=1, label="x")
    starts: list[Any] = [None, 0.5, wf.kaiming(), wf.xavier(2.0, "normal"), wf.uniform(-1, 1), np.ones((outputs, 3))]
    starts.append(wf.random_standard_normal("start", step=0) * wf.number(0.1))
    init = starts[rng.integers(len(starts))]
    w = wf.param("w", init=init, o=outputs, i=3)
    hidden = wf.dropout(wf.tanh(w @ x), 0.25, step=n).named("hidden")
    total = wf.einsum("...|d => 0", hidden * hidden, label="total")
    loss = total / wf.dim(total, "d") + wf.number(1, basis="cost" if rng.random() < 0.5 else None)
    optimiser = [wf.optim.sgd, wf.optim.adam][rng.integers(2)]
    first = initial(w.node) if is_computed(w.node) else wf.seq()
    return wf.seq(first, wf.grad_update(loss), optimiser(loss, lr=0.1)), n


def _matrices(rng: np.random.Generator) -> tuple[Code, wf.StaticIndex]:
    drawn = Drawn(rng, runnable=True)
    drawn.leaves()
    return drawn.code(), drawn.index


def _comprehension(rng: np.random.Generator) -> tuple[Code]:
    """A definition on tensors, and its gradient where it has one."""
    program = grown(lambda *options: options[rng.integers(len(options))], rng, smooth=bool(rng.random() < 0.5))
    given = {name: wf.data(array, label=name) for name, array in program.inputs.items()}
    learned = {name: wf.require_grad(one) if is_real(program.inputs[name]) else one for name, one in given.items()}
    results = several(definition(program.text)(**learned))
    pieces = [one.forward for one in results]
    pieces += [wf.grad_update(wf.einsum("...|...->... => 0", one)) for one in results if one.differentiable][:1]
    return (wf.seq(*pieces),)

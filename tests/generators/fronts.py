"""The same arithmetic as statements of a comprehension and as tensors: one typing, to the last bit.

Whole numbers are exact until they are stored, which a statement does once and every operation on tensors does. So each
operation is a statement. A whole number that is written beside a type of fewer than 32 bits is an int32 in a
comprehension: then it is given that type on the other side.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

import weft as wf
from comprehension.running import definition, several

TYPES = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64")
NARROW = ("int8", "uint8", "int16", "uint16")
SPELLED = {"float16": "half", "float32": "float", "float64": "double"}
Combine = Callable[[wf.Tensor, wf.Tensor], wf.Tensor]


def _quotient(x: wf.Tensor, y: wf.Tensor) -> wf.Tensor:
    return x / y if "float" in x.dtype + y.dtype else x // y


PAIRS: dict[str, Combine] = {
    "{} + {}": lambda x, y: x + y,
    "{} - {}": lambda x, y: x - y,
    "{} * {}": lambda x, y: x * y,
    "{} / {}": _quotient,
    "{} % {}": lambda x, y: x % y,
    "max({}, {})": wf.maximum,
    "min({}, {})": wf.minimum,
    "{0} < {1} ? {0} : {1}": lambda x, y: wf.where(wf.less(x, y), x, y),
}


@dataclass
class Term:
    """An expression: as text, and what makes a tensor of it."""

    text: str
    tensor: wf.Tensor | int

    def beside(self, other: Term) -> wf.Tensor:
        """The tensor, where it meets another."""
        if isinstance(self.tensor, wf.Tensor):
            return self.tensor
        assert isinstance(other.tensor, wf.Tensor)
        narrow = other.tensor.dtype in NARROW
        return wf.number(self.tensor, dtype="int32" if narrow else other.tensor.dtype)


def check(rng: np.random.Generator) -> None:
    """Random operations on three tensors, numbers, and what came of those before."""
    arrays = {name: _data(rng, str(rng.choice(TYPES))) for name in "xyz"}
    terms = [Term(f"{name}(i)", wf.data(array, label=name)) for name, array in arrays.items()]
    params = ", ".join(f"{SPELLED.get(str(one.dtype), one.dtype)}(N) {name}" for name, one in arrays.items())
    made: dict[str, wf.Tensor] = {}
    lines: list[str] = []
    for number in range(int(rng.integers(1, 6))):
        one = terms[rng.integers(len(terms))]
        other = terms[rng.integers(len(terms))] if rng.random() < 0.7 else _number(rng)
        spelled = str(rng.choice(list(PAIRS)))
        line = f"t{number}(i) = {spelled.format(one.text, other.text)}"
        try:
            tensor = PAIRS[spelled](one.beside(other), other.beside(one))
            assert tensor.dtype, "what does not agree is told when somebody asks"
        except wf.WeftError:
            with pytest.raises(wf.WeftError, match="no whole-number type holds both"):
                definition(_text(params, [*made, f"t{number}"], [*lines, line]))
            continue
        made[f"t{number}"] = tensor
        lines.append(line)
        terms.append(Term(f"t{number}(i)", tensor))
    if made:
        _compared(_text(params, [*made], lines), arrays, made)


def _text(params: str, results: list[str], lines: list[str]) -> str:
    return f"def f({params}) -> ({', '.join(results)}) {{\n" + "\n".join(lines) + "\n}"


def _data(rng: np.random.Generator, dtype: str) -> np.ndarray:
    if "float" in dtype:
        return (rng.integers(1, 25, 5) / 8).astype(dtype)
    limits = np.iinfo(dtype)
    return rng.integers(1, min(limits.max, 2**40), 5, endpoint=True).astype(dtype)


def _number(rng: np.random.Generator) -> Term:
    value = int(rng.integers(1, 128))
    return Term(str(value), value)


def _compared(text: str, arrays: dict[str, np.ndarray], made: dict[str, wf.Tensor]) -> None:
    ctx = wf.Context("interp")
    with np.errstate(all="ignore"):
        found, wanted = several(definition(text)(*arrays.values())), [ctx[one] for one in made.values()]
    for name, one, other in zip(made, found, wanted, strict=True):
        assert one.dtype == other.dtype, f"`{name}` is {one.dtype} and not {other.dtype}:\n{text}"
        np.testing.assert_array_equal(one, other, err_msg=f"{name} of\n{text}")

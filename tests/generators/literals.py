"""First values of parameters: a literal, an array or an expression given as `init` is what it is as a tensor.

A part of a literal that has output axes may be a tensor: the literal is then what it would be with the numbers of that
part written out. (A tensor without would bring along the one output axis that every tensor has.)
"""

from __future__ import annotations

from typing import Any

import numpy as np

import weft as wf
from weft.tensor.literals import Batch


def check(rng: np.random.Generator) -> None:
    literal = _literal(rng)
    kind = rng.integers(3)
    init = literal if kind == 0 else wf.tensor(literal)
    if kind == 2:
        init = init * 2 - wf.data(rng.integers(-3, 3, 1).astype("float32")) + wf.number(0.5)
    tensor = init if isinstance(init, wf.Tensor) else wf.tensor(init)
    param, ctx = wf.param("p", init=init), wf.Context("interp")
    used = rng.random() < 0.5
    value = ctx[param * 2] / 2 if used else ctx[param]
    np.testing.assert_array_equal(value, ctx[tensor], err_msg=repr(literal))
    assert str(param.dims) == str(tensor.dims), f"{param.dims} is not {tensor.dims}: {literal}"
    values = np.asarray(ctx[tensor])
    lying = wf.param("p", init=values, **_rows(tensor))
    assert str(lying.dims).replace("a=", "") == str(tensor.dims).replace("a=", ""), f"{lying} is not {tensor}"
    np.testing.assert_array_equal(ctx[lying], values)
    plain = ctx[wf.tensor(literal)]
    mixed = wf.tensor(_mixed(literal, rng))
    np.testing.assert_array_equal(ctx[mixed], plain, err_msg=repr(literal))


def _mixed(literal: Any, rng: np.random.Generator) -> Any:
    """The literal with some of its parts as tensors; what is labelled stays as it is."""
    if not isinstance(literal, list | tuple | Batch) or "Labelled" in repr(literal):
        return literal
    items = literal.items if isinstance(literal, Batch) else literal
    if not _has_output(items[0]):
        return literal
    items = [wf.tensor(one) if rng.random() < 0.5 else _mixed(one, rng) for one in items]
    return Batch(tuple(items)) if isinstance(literal, Batch) else type(literal)(items)


def _has_output(part: Any) -> bool:
    return isinstance(part, list) or (isinstance(part, Batch) and _has_output(part.items[0]))


def _rows(tensor: wf.Tensor) -> dict[str, Any]:
    """Enough of a tensor's rows to read an array like it."""
    dims = tensor.dims
    rows = {"b": dims.batch, "o": dims.output, "i": dims.input}
    return {name: [dim.size for dim in row] for name, row in rows.items() if row or name == "o"}


def _literal(rng: np.random.Generator) -> Any:
    """Nested batches, lists and tuples of numbers, in that order, some axes labelled."""
    kinds = [kind for kind in ("batch", "list", "tuple") for _ in range(rng.integers(0, 3))] or ["list"]
    sizes = [int(size) for size in rng.integers(1, 4, len(kinds))]
    labelled = [rng.random() < 0.2 for _ in kinds]

    def nested(level: int) -> Any:
        if level == len(kinds):
            return float(rng.integers(-9, 10)) if rng.random() < 0.5 else int(rng.integers(-9, 10))
        items = [nested(level + 1) for _ in range(sizes[level])]
        made = {"batch": lambda: wf.batch(*items), "list": lambda: items, "tuple": lambda: tuple(items)}[kinds[level]]()
        return wf.labelled("a", made) if labelled[level] else made

    return nested(0)

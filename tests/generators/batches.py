"""Specs over tensors with batch axes: a warning comes exactly where examples are mixed without being written.

A batch axis is mixed in silence if the part of its tensor does not write it, no row variable covers it, and it has more
than one position. What the warning advises is tried as well: reduced on purpose, the value is the same. (Where two
tensors have such axes it is another one: written alike, they run together.)
"""

from __future__ import annotations

import re
import warnings

import numpy as np

import weft as wf

LETTERS = "ijk"


def check(rng: np.random.Generator) -> None:
    parts, arrays, mixed = [], [], []
    sizes = {letter: int(rng.integers(1, 4)) for letter in LETTERS}
    ellipsis = tuple(rng.integers(1, 4, rng.integers(0, 2)))  # what `...` stands for in every part that has it
    for _ in range(rng.integers(1, 3)):
        part, shape, batch, unwritten = _operand(rng, sizes, ellipsis)
        parts.append(part)
        arrays.append((rng.uniform(-1, 1, shape), batch))
        mixed.append(unwritten)
    known = {letter for part in parts for letter in part if letter in LETTERS}
    result = "".join(letter for letter in LETTERS if letter in known and rng.random() < 0.5) or "0"
    covered = any("...|" in part for part in parts)
    spec = "; ".join(parts) + " => " + ("...|" if covered and rng.random() < 0.5 else "") + result
    tensors = [wf.data(array, batch=batch, label=f"x{number}") for number, (array, batch) in enumerate(arrays)]
    shown = f"{spec} of {', '.join(map(str, tensors))}"
    found, value = _computed(spec, tensors)
    expected = [f"x{number}" for number, axes in enumerate(mixed) if np.prod(axes) > 1]
    assert [re.match(r"`(\w+)`", text)[1] for text in found] == expected, f"{shown}\n{found}"  # type: ignore[index]
    summed = re.search(r"`([^`]*)` to reduce", found[0]) if found else None
    assert bool(summed) == (bool(found) and len({axes for axes in mixed if axes}) == 1), f"{shown}\n{found}"
    if summed:
        again, same = _computed(summed[1], tensors)
        assert again == [], f"{shown}\nadvised {summed[1]}: {again}"
        if len([axes for axes in mixed if axes]) == 1:
            np.testing.assert_allclose(same, value, rtol=1e-9, atol=1e-12, err_msg=shown)


def _operand(
    rng: np.random.Generator, sizes: dict[str, int], ellipsis: tuple[int, ...]
) -> tuple[str, tuple[int, ...], int, tuple[int, ...]]:
    """A part of a spec, a shape that fits it, how many of its axes are batch axes, and those that are not written."""
    output = [str(one) for one in rng.permutation(list(LETTERS))[: rng.integers(1, 3)]]
    named = [one for one in LETTERS if one not in output][: rng.integers(0, 2)]
    batch = [sizes[one] for one in named]
    unwritten: tuple[int, ...] = ()
    row = "".join(named)
    if rng.random() < 0.4:
        row, batch = "..." + row, [*ellipsis, *batch]
    else:
        unwritten = tuple(int(size) for size in rng.integers(1, 3, rng.integers(0, 3)))
        batch = [*unwritten, *batch]
    part = (f"{row}|" if row else "") + "".join(output)
    return part, (*batch, *(sizes[one] for one in output)), len(batch), unwritten


def _computed(spec: str, tensors: list[wf.Tensor]) -> tuple[list[str], np.ndarray]:
    """The warnings, and the value."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        value = wf.Context("interp")[wf.einsum(spec, *tensors)]
    return [str(one.message) for one in found if one.category is wf.WeftWarning], value

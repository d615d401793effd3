"""Routines of several contractions, sums and updates over shared operands, at sizes that reach the tiles.

    A =+ C * A ~logic:"ij; jk => ik";  v =:+ C * w ~logic:"ij; j => i";  s =:+ A ~logic:"ij => j";  v =- 0.5 *. w

Two to five statements share a few tensors of a few sizes, so that they share loops as well. Compiled code run three
times computes what NumPy does, up to rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

import weft as wf

#: Of every sum's terms together, how far a result may be from it.
_ROUNDING = {"float32": 3e-5, "float64": 1e-13}
_RUNS = 3
#: Programs whose numbers grow beyond this are not drawn: every sum of their terms is finite in single precision.
_LARGEST = 1e12
#: Statements over more points are not drawn: they take long and show nothing new.
_POINTS = 1 << 21

#: The tensors by name.
Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Statement:
    """`target = accum(target, value)`: a sum of products of operands, by their letters, times a number.

    With `twice` the value `t` is used twice: `t * t + t`.
    """

    target: str
    accum: str  # "=:+", "=+" or "=-"
    operands: tuple[tuple[str, str], ...]  # names and letters
    result: str
    factor: float = 1.0
    twice: bool = False

    @property
    def spec(self) -> str:
        return f"{'; '.join(letters for _, letters in self.operands)} => {self.result or '0'}"

    def points(self, arrays: Arrays) -> int:
        """How many points its loops have."""
        sizes = {
            letter: size for name, each in self.operands for letter, size in zip(each, arrays[name].shape, strict=True)
        }
        return prod(sizes.values())

    def __str__(self) -> str:
        value = " * ".join(name for name, _ in self.operands)
        return f'{self.target} {self.accum} {self.factor} * {value}  "{self.spec}"{" twice" * self.twice}'

    def run(self, arrays: Arrays, *, magnitudes: bool = False) -> None:
        """Do it to arrays; of magnitudes nothing is ever taken away."""
        letters = ",".join(one for _, one in self.operands)
        value = np.einsum(f"{letters}->{self.result}", *(arrays[name] for name, _ in self.operands), optimize=True)
        value = value.reshape(arrays[self.target].shape) * self.factor
        value = value * value + value if self.twice else value
        start = np.zeros_like(value) if self.accum == "=:+" else arrays[self.target]
        arrays[self.target] = start - value if self.accum == "=-" and not magnitudes else start + value

    def record(self, tensors: dict[str, wf.Tensor]) -> None:
        """Do it to tensors, in code."""
        operands = [tensors[name] for name, _ in self.operands]
        value = wf.einsum(self.spec, *operands)
        target = tensors[self.target]
        reset, accum = self.accum == "=:+", "-" if self.accum == "=-" else "+"
        value = value if self.factor == 1 else self.factor * value
        target.accumulate(accum, value * value + value if self.twice else value, reset=reset)


def check(rng: np.random.Generator) -> None:
    dtype = str(rng.choice(["float32", "float64"]))
    arrays = _arrays(rng, dtype)
    statements = _statements(rng, arrays)
    wanted, sizes = _simulated(statements, arrays)
    tensors = {
        name: wf.param(name, o=list(one.shape), dtype=dtype, init=0.0)  # type: ignore[arg-type]
        for name, one in arrays.items()
    }

    @wf.cd
    def code() -> None:
        for one in statements:
            one.record(tensors)

    ctx = wf.Context("cc")
    for name, one in arrays.items():
        ctx[tensors[name]] = one
    run = ctx.compile(code())
    for _ in range(_RUNS):
        run()
    for name in {one.target: None for one in statements}:
        off = np.abs(ctx[tensors[name]] - wanted[name]) / (sizes[name] + 1e-30)
        assert off.max() <= _ROUNDING[dtype], f"{name} is off by {off.max():.1e} of its terms\n" + "\n".join(
            [*(f"{one}: {dtype} {array.shape}" for one, array in arrays.items()), *map(str, statements)]
        )


def _arrays(rng: np.random.Generator, dtype: str) -> Arrays:
    """Some matrices, vectors and stacks of matrices over two or three sizes."""
    count = int(rng.integers(1, 4))
    sizes = [int(rng.integers(127, 131) if rng.random() < 0.15 else rng.integers(8, 71)) for _ in range(count)]
    few = int(rng.integers(2, 5))
    shapes: dict[str, tuple[int, ...]] = {}
    for name in "ABCDE"[: int(rng.integers(2, 6))]:
        shapes[name] = tuple(sizes[at] for at in rng.integers(0, len(sizes), 2))
    for name in "uvw"[: int(rng.integers(1, 4))]:
        shapes[name] = (sizes[int(rng.integers(0, len(sizes)))],)
    for name in "XYZ"[: int(rng.integers(0, 3))]:
        shapes[name] = (few, *(sizes[at] for at in rng.integers(0, len(sizes), 2)))
    return {name: (rng.uniform(-1, 1, shape) / np.sqrt(shape[-1])).astype(dtype) for name, shape in shapes.items()}


def _statements(rng: np.random.Generator, arrays: Arrays) -> list[Statement]:
    """Some statements; a result that no tensor is there for gets one."""
    wanted, found = int(rng.integers(2, 6)), list[Statement]()
    while len(found) < wanted:
        read = [name for before in found for name, _ in before.operands]
        one, shape = _statement(rng, arrays, read, f"r{len(found)}")
        if len(shape) > 3 or one.points(arrays) > _POINTS:
            continue
        dtype = next(iter(arrays.values())).dtype
        trial = {one.target: rng.uniform(-1, 1, shape).astype(dtype), **arrays}
        if all(array.max() < _LARGEST for array in _simulated([*found, one], trial)[1].values()):
            found.append(one)
            arrays[one.target] = trial[one.target]
    return found


def _statement(
    rng: np.random.Generator, arrays: Arrays, read: Sequence[str], fresh: str
) -> tuple[Statement, tuple[int, ...]]:
    """A statement over one or two tensors, often such as others `read`, into one there is or a fresh one; its shape."""
    names = [*arrays, *read, *read]
    sizes: dict[str, int] = {}
    chosen = [names[at] for at in rng.integers(0, len(names), 1 if rng.random() < 0.25 else 2)]
    operands = tuple((name, _letters(rng, arrays[name].shape, sizes)) for name in chosen)
    common = [letter for letter in sizes if all(letter in letters for _, letters in operands)]
    gone = common if len(operands) == 2 and common and rng.random() < 0.7 else [*sizes][: int(rng.integers(0, 3))]
    result = "".join(rng.permutation([letter for letter in sizes if letter not in gone]))
    shape = tuple(sizes[letter] for letter in result) or (1,)
    fits = [name for name, one in arrays.items() if one.shape == shape]
    target = str(rng.choice(fits)) if fits and rng.random() < 0.5 else fresh
    accum = str(rng.choice(["=:+", "=:+", "=+", "=-"]))
    factor, twice = float(rng.choice([1.0, 1.0, 0.5])), bool(rng.random() < 0.1)
    return Statement(target, accum, operands, result, factor, twice), shape


def _letters(rng: np.random.Generator, shape: Sequence[int], sizes: dict[str, int]) -> str:
    """A letter for each axis: one that other operands have, where the size is right, or a new one."""
    found = ""
    for size in shape:
        known = [letter for letter, one in sizes.items() if one == size and letter not in found]
        new = next(letter for letter in "ijklmnopq" if letter not in sizes)
        letter = str(rng.choice(known)) if known and rng.random() < 0.8 else new
        sizes[letter] = size
        found += letter
    return found


def _simulated(statements: Sequence[Statement], arrays: Arrays) -> tuple[Arrays, Arrays]:
    """What the tensors hold after all runs, and how large all terms that went into them are together."""
    values = {name: one.astype("float64") for name, one in arrays.items()}
    sizes = {name: np.abs(one) for name, one in values.items()}
    for _ in range(_RUNS):
        for one in statements:
            one.run(values)
            one.run(sizes, magnitudes=True)
            if not all(np.isfinite(array).all() for array in sizes.values()):
                return values, {name: np.full_like(array, np.inf) for name, array in sizes.items()}
    return values, sizes

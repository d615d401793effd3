"""Random comprehensions: both backends give what NumPy makes of them, and gradients agree with differences.

Programs have numbers on the left, tensors written in parts and again, calls that take numbers and leave results,
literals beside narrow whole numbers, all reductions, choices, gathers and the builtins.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Mapping

import numpy as np

import weft as wf
from comprehension.oracle import run
from comprehension.programs import Array, Program, grown
from comprehension.running import NEAR, assert_near, assert_slopes, definition, is_real, seeds_of, several

#: What is larger than this may be far from what doubles give.
LARGE = 1e4


def check(rng: np.random.Generator) -> None:
    """A random program, or one of doubles that can be differentiated."""
    smooth = bool(rng.random() < 0.4)
    program = grown(lambda *options: options[rng.integers(len(options))], rng, smooth=smooth)
    with quietly():
        for backend in ("interp", "cc"):
            assert_means(program, backend)
        if smooth:
            assert_gradients(program)


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Numbers may grow without bound, and a program that reads from an empty tensor means nothing."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        except wf.IndexOutOfBounds as error:
            if not error.what.endswith(" is 0"):
                raise


def assert_means(program: Program, backend: str) -> None:
    """A backend gives what NumPy does."""
    wanted = run(program.checked, "f", program.inputs)
    found = several(definition(program.text, backend)(**program.inputs))
    for name, array in zip(program.results, found, strict=True):
        expected, shown = wanted[name], f"{name} on {backend} of\n{program.text}\n{program.inputs}"
        assert (array.dtype, array.shape) == (expected.dtype, expected.shape), shown
        if is_real(array):
            fine = np.isfinite(expected) & (np.abs(expected.astype("float64")) < LARGE)
            near = NEAR[array.dtype.name]
            one, other = array[fine].astype("float64"), expected[fine].astype("float64")
            np.testing.assert_allclose(one, other, rtol=near, atol=near, err_msg=shown)
        else:
            np.testing.assert_array_equal(array, expected, err_msg=shown)


def assert_gradients(program: Program) -> None:
    """Gradients agree with differences, and so does the gradient as a definition of its own."""
    one = definition(program.text)
    args = [program.inputs[name] for name in one.params]
    outputs = several(one(*args))
    if not any(map(is_real, outputs)) or not all((np.abs(one.astype("float64")) < LARGE).all() for one in outputs):
        return  # differences would show nothing of what is small
    seeds = seeds_of(outputs, np.random.default_rng(0))
    wrt = [name for name in one.params if is_real(program.inputs[name])]
    found = dict(zip(wrt, one.grad(*args, d=seeds), strict=True))

    def value(given: Mapping[str, Array]) -> float:
        results = run(program.checked, "f", given)
        pairs = zip(program.results, seeds, strict=True)
        return sum(float((results[name] * seed).sum()) for name, seed in pairs if seed is not None)

    assert_slopes(found, program.inputs, value, near=1e-4)
    written = definition(one.show("gradient", *args))
    given = [seed for seed in seeds if seed is not None]
    for name, array in zip(wrt, several(written(*args, *given)), strict=True):
        assert_near(array, found[name])

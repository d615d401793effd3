"""Random programs give on every backend what NumPy makes of them, and their gradients agree with differences."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Mapping

import numpy as np
from hypothesis import assume, given, settings

import weft as wf
from comprehension.oracle import run
from comprehension.programs import Program, programs
from comprehension.running import (
    NEAR,
    Array,
    assert_near,
    assert_slopes,
    definition,
    is_real,
    seeds_of,
    several,
)

#: What is larger than this may be far from what doubles give.
LARGE = 1e4


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Numbers may grow without bound; a program that reads from an empty tensor is left out."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        except wf.IndexOutOfBounds as error:
            assume(not error.what.endswith(" is 0"))
            raise


def assert_means(program: Program, backend: str) -> None:
    with quietly():
        wanted = run(program.checked, "f", program.inputs)
        found = several(definition(program.text, backend)(**program.inputs))
    for name, array in zip(program.results, found, strict=True):
        expected = wanted[name]
        assert array.dtype == expected.dtype
        assert array.shape == expected.shape
        if is_real(array):
            fine = np.isfinite(expected) & (np.abs(expected.astype("float64")) < LARGE)
            near = NEAR[array.dtype.name]
            np.testing.assert_allclose(
                array[fine].astype("float64"), expected[fine].astype("float64"), rtol=near, atol=near
            )
        else:
            np.testing.assert_array_equal(array, expected)


@settings(max_examples=40)
@given(programs(sizes=(0, 4)))
def test_interpreted(program: Program) -> None:
    assert_means(program, "interp")


@settings(max_examples=12)
@given(programs())
def test_compiled(program: Program) -> None:
    assert_means(program, "cc")


@settings(max_examples=15)
@given(programs(smooth=True))
def test_gradients(program: Program) -> None:
    with quietly():
        one = definition(program.text)
        args = [program.inputs[name] for name in one.params]
        outputs = several(one(*args))
        assume(any(map(is_real, outputs)) and all(np.isfinite(output).all() for output in outputs))
        seeds = seeds_of(outputs, np.random.default_rng(0))
        wrt = [name for name in one.params if is_real(program.inputs[name])]
        found = dict(zip(wrt, one.grad(*args, d=seeds), strict=True))

        def value(given: Mapping[str, Array]) -> float:
            results = run(program.checked, "f", given)
            pairs = zip(program.results, seeds, strict=True)
            return sum(float((results[name] * seed).sum()) for name, seed in pairs if seed is not None)

        assert_slopes(found, program.inputs, value, near=1e-4)
        written = definition(one.show("gradient", *args))
        for name, array in zip(
            wrt, several(written(*args, *(seed for seed in seeds if seed is not None))), strict=True
        ):
            assert_near(array, found[name])

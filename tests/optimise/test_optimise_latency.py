"""What it costs that functions wait for one another."""

from __future__ import annotations

import numpy as np
import pytest

import weft as wf
from weft.affine import Affine
from weft.loops import Buffer, Local, Read
from weft.machine import Machine
from weft.ops import Call, Num, Scalar
from weft.optimise.latency import chain, pass_ns, waiting_ns

X = Read(Buffer(1, "x", (8,), "float32"), (Affine(((1, "i"),)),))


def _call(op: str, *args: Scalar) -> Call:
    return Call(op, args)


@pytest.mark.parametrize(
    ("scalar", "functions"),
    [
        (X, 0),
        (_call("add", X, _call("div", X, X)), 0),
        (_call("tanh", X), 1),
        (_call("mul", _call("tanh", X), _call("exp", X)), 1),  # neither waits for the other
        (_call("tanh", _call("add", _call("exp", X), Num(1))), 2),
        (_call("pow", X, Num(2)), 0),
        (_call("pow", X, Num(0.7)), 1),
        (_call("sqrt", _call("log", X)), 1),
    ],
)
def test_functions_in_a_row(scalar: Scalar, functions: int) -> None:
    assert chain(scalar, {}) == functions
    assert chain(scalar, {X.buffer: 2}) == 2 + functions


def test_numbers_are_waited_for_as_well() -> None:
    number = Local("t", "float32")
    assert chain(_call("exp", number), {number: 1}) == 2


def test_the_longer_the_chain_the_longer_each_function_takes() -> None:
    longer = [waiting_ns(Machine(), count, 1, count + 1) for count in range(1, 5)]
    assert longer == sorted(longer)
    assert longer[0] > 0
    assert waiting_ns(Machine(), 1, 1, 1) == 0  # side by side


def test_memory_takes_longer_from_beyond_the_cache() -> None:
    small, large = Buffer(1, "a", (1 << 10,), "float32"), Buffer(2, "b", (1 << 20,), "float32")
    assert pass_ns(Machine(), large) > 1024 * pass_ns(Machine(), small) / 8
    assert pass_ns(Machine()) < pass_ns(Machine(), small) < pass_ns(Machine(), small, small)


@pytest.mark.parametrize(("points", "kernels"), [(8, 1), (4096, 3)])
def test_a_chain_of_functions_is_cut_where_memory_is_cheaper(points: int, kernels: int) -> None:
    y = wf.data(np.linspace(0, 1, points, dtype="float32"))
    for _ in range(3):
        y = wf.tanh(y) * 0.5
    run = wf.Context("cc").compile(y.forward)
    assert len(run.kernels) == kernels
    assert ("functions would wait for it" in run.show("virtual")) == (kernels > 1)


def test_after_a_product_functions_do_not_wait_either() -> None:
    y = wf.einsum("ij; jk => ik", *(wf.data(np.ones((64, 64), "float32")) for _ in range(2)))
    for _ in range(4):
        y = wf.tanh(y)
    run = wf.Context("cc").compile(y.forward)
    product, chain = run.show("kernels").split("\n\n")
    assert product.count("tanh(einsum_total)") == 1
    assert product.count(" = tanh(") == 1
    assert chain.count("    for j") == chain.count(" = tanh(") == 3

"""Values handed on within a kernel: what must not be taken for known."""

from __future__ import annotations

import numpy as np

from weft.affine import Affine
from weft.loops import Buffer, Cast, For, Let, Local, Program, Read, Set, Stmt, Store, Update, buffers_of
from weft.loops.interp import run_scalar
from weft.ops import Num
from weft.schedule.fusion.forward_stores import forwarded
from weft.schedule.nodes import Kernel

X, Y, INDEX = Buffer(0, "x", (4,), "float32"), Buffer(1, "y", (4,), "float32"), Buffer(2, "index", (1,), "int64")
FIRST = (Affine(()),)
T = Local("t", "float32")


def number(value: float) -> Cast:
    return Cast("float32", Num(value))


def agree(*body: Stmt) -> None:
    """The block does before and after what it should, to every buffer."""
    before, after = (
        {one: np.arange(one.shape[0]).astype(one.dtype) for one in buffers_of(Program(body))} for _ in range(2)
    )
    (kernel,) = forwarded([Kernel((), body)], tuple(before))
    run_scalar(Program(body), before, {})
    run_scalar(Program(kernel.body), after, {})
    for buffer in before:
        np.testing.assert_array_equal(after[buffer], before[buffer], err_msg=buffer.name)


def test_a_cell_found_through_another_that_is_written() -> None:
    found = (Read(INDEX, FIRST),)
    two = Store(INDEX, FIRST, Cast("int64", Num(2)))
    agree(Store(X, found, number(7)), two, Store(Y, FIRST, Read(X, found)))
    agree(Store(X, found, number(1)), two, Store(X, found, number(3)))


def test_a_number_that_gets_another_value() -> None:
    agree(Let(T, number(5)), Store(X, FIRST, T), Set(T, number(6)), Store(Y, FIRST, Read(X, FIRST)))


def test_a_number_that_a_loop_gives_another_value() -> None:
    i = (Affine(((1, "i"),)),)
    inner = (Store(Y, i, Read(X, FIRST)), Set(T, Read(Y, i)), Set(T, number(9)))
    agree(Let(T, number(5)), Store(X, FIRST, T), For("i", 4, inner), Update(Y, FIRST, "add", Read(X, FIRST)))


def test_a_sum_in_a_cell_found_through_another_that_the_loop_writes() -> None:
    found = (Read(INDEX, FIRST),)
    inner = (Update(X, found, "add", number(1)), Store(INDEX, FIRST, Cast("int64", Num(2))))
    agree(Store(X, found, number(7)), For("i", 2, inner))

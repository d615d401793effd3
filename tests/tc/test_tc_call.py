"""Calling a definition with arrays: arguments, outputs, memory, and compiling once."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import weft as wf
from comprehension.running import assert_near, backends, definition
from weft.backends import Array
from weft.backends.interp import Interp
from weft.loops import Buffer
from weft.runtime.engine import Engine

MM = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }"
ADD = "def add(float(M,K) A, float(K,N) B) -> (C) { C(m,n) += A(m,k) * B(k,n) }"
RNG = np.random.default_rng(0)
A, B = RNG.random((3, 4)).astype("float32"), RNG.random((4, 5)).astype("float32")


# Arguments


@backends
def test_by_position_and_by_name(backend: str) -> None:
    mm = definition(MM, backend)
    for found in (mm(A, B), mm(A, B=B), mm(B=B, A=A)):
        assert_near(found, A @ B)


@backends
def test_several_results_are_a_tuple(backend: str) -> None:
    f = definition("def f(float a, float(N) x) -> (y, s) { y(i) = a * x(i)\n s +=! y(i) }", backend)
    y, s = f(2, A[0])
    assert_near(y, 2 * A[0])
    assert s.shape == ()
    assert_near(s, 2 * A[0].sum())


@backends
@pytest.mark.parametrize("number", [2, 2.0, np.float32(2), np.array(2, "float32"), True])
def test_numbers_for_tensors_without_axes(backend: str, number: object) -> None:
    assert definition("def f(float a) -> (b) { b = a + a }", backend)(number) == 2 * float(number)  # type: ignore[arg-type]


def test_no_parameters() -> None:
    assert definition("def f() -> (c) { c(i) = i where i in 0:3 }")().tolist() == [0, 1, 2]


@backends
def test_memory_of_any_order(backend: str) -> None:
    mm = definition(MM, backend)
    wide = RNG.random((6, 8)).astype("float32")
    backwards, transposed = wide[::2, ::-2], RNG.random((5, 4)).astype("float32").T
    assert_near(mm(backwards, transposed), backwards @ transposed)
    still = A.copy()
    still.flags.writeable = False
    assert_near(mm(still, B), A @ B)
    assert_near(mm(A.astype(">f4"), B), A @ B)
    assert_near(mm(np.broadcast_to(np.float32(1), (3, 4)), B), np.ones((3, 4)) @ B)
    odd = np.zeros(A.nbytes + 1, "u1")[1:].view("float32").reshape(A.shape)
    odd[:] = A
    assert_near(mm(odd, B), A @ B)


@backends
def test_results_belong_to_the_caller(backend: str) -> None:
    f = definition("def f(float(N) x) -> (y) { y(i) = x(i) }", backend)
    x = np.zeros(4, "float32")
    first, second = f(x), f(x + 1)
    first[:] = 7
    assert second.tolist() == [1, 1, 1, 1]
    assert x.tolist() == [0, 0, 0, 0]
    assert f(x).tolist() == [0, 0, 0, 0]


class Copying(Interp):
    """A backend that works in memory of its own."""

    def adopt(self, buffer: Buffer, array: Array, device: int) -> None:
        return None


@pytest.mark.parametrize("backend", ["interp", "cc", Copying()])
def test_every_call_sees_what_is_in_the_arrays_then(backend: object) -> None:
    f = wf.tc.define("def f(float(N) x) -> (y) { y(i) = 2 * x(i) }", backend=backend).f  # type: ignore[arg-type]
    x = np.ones(4, "float32")
    still = x.view()
    still.flags.writeable = False
    for value in (1, 3, 5):
        x[:] = value
        for one in (x, still):
            assert f(one).tolist() == [2 * value] * 4
            assert f.grad(one).tolist() == [2] * 4


# Outputs


@backends
def test_outputs_are_written_in_place(backend: str) -> None:
    mm, out = definition(MM, backend), np.full((3, 5), 9, "float32")
    assert mm(A, B, outputs=(out,)) is out
    assert_near(out, A @ B)
    turned = np.zeros((5, 3), "float32").T
    assert mm(A, B, outputs=[turned]) is turned
    assert_near(turned, A @ B)


@backends
def test_accumulating_begins_from_what_is_there(backend: str) -> None:
    add, out = definition(ADD, backend), np.ones((3, 5), "float32")
    add(A, B, outputs=(out,))
    add(A, B, outputs=(out,))
    assert_near(out, 1 + 2 * (A @ B))
    start = np.ones((3, 5), "float32")
    for found in (add(A, B, start), add(A, B, C=start)):
        assert_near(found, 1 + A @ B)
    assert (start == 1).all()


@backends
def test_outputs_may_be_inputs(backend: str) -> None:
    mm, square = definition(MM, backend), RNG.random((40, 40)).astype("float32")
    wanted = square @ square
    assert_near(mm(square, square), wanted)
    mm(square, square, outputs=(square,))
    assert_near(square, wanted)
    both = definition("def f(float(N) x) -> (y, z) { y(i) = x(i) + 1\n z(i) = x(i) * 2 }", backend)
    x, z = np.arange(6, dtype="float32"), np.zeros(6, "float32")
    both(x, outputs=(x, z))
    assert x.tolist() == [1, 2, 3, 4, 5, 6]
    assert z.tolist() == [0, 2, 4, 6, 8, 10]


@backends
def test_a_parameter_that_is_a_result(backend: str) -> None:
    f = definition("def f(float(N) x) -> (x) { x(i) = x(i) * 2 }", backend)
    x = np.ones(3, "float32")
    assert f(x).tolist() == [2, 2, 2]
    assert x.tolist() == [1, 1, 1]
    f(x, outputs=(x,))
    assert x.tolist() == [2, 2, 2]


def test_outputs_that_interleave_are_apart() -> None:
    both = definition("def f(float(N) x) -> (y, z) { y(i) = x(i) + 1\n z(i) = x(i) * 2 }")
    memory = np.zeros(6, "float32")
    both(np.arange(3, dtype="float32"), outputs=(memory[::2], memory[1::2]))
    assert memory.tolist() == [1, 0, 2, 2, 3, 4]


# Compiling


def test_it_is_compiled_once_for_the_same_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = []
    real = Engine.pure_function
    monkeypatch.setattr(Engine, "pure_function", lambda *args: compiled.append(1) or real(*args))
    mm = definition(MM)
    for _ in range(3):
        mm(A, B)
        mm(A[::-1], B)
    assert len(compiled) == 1
    mm(A[:2], B)
    assert len(compiled) == 2
    for _ in range(3):
        mm.grad(A, B, wrt="A")
    assert len(compiled) == 3


@backends
def test_threads_call_one_definition_at_once(backend: str) -> None:
    tc = wf.tc.define(MM + "\ndef pick(float(N,K) L, int32(B) I) -> (O) { O(b,k) = L(I(b),k) }", backend=backend)
    wrong: list[BaseException] = []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        try:
            for round in range(8):
                a = rng.random((3 + (round + seed) % 3, 4)).astype("float32")
                assert_near(tc.mm(a, B), a @ B)
                assert_near(tc.mm.grad(a, B, wrt="A"), np.ones((len(a), 5)) @ B.T)
                places = rng.integers(0, len(a), 3).astype("int32")
                assert_near(tc.pick(a, places), a[places])
                with pytest.raises(wf.IndexOutOfBounds):
                    tc.pick(a, places + 10)
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, wrong[0]

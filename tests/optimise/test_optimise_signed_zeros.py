"""What is never -0.0."""

from __future__ import annotations

import pytest

from loops.written import V, W, X, program
from weft.loops import Let, Local, Store
from weft.loops.nests import nests
from weft.optimise.signed_zeros import never_minus_zero, unsigned, unsigned_buffers

#: Values, and whether they are never -0.0; T is a variable that never is.
T = Local("t", "float32")
SCALARS = {
    "1.0": True,
    "0.0": True,
    "-0.0": False,
    "V[0]": False,
    "t": True,
    "t + V[0]": True,
    "V[0] + V[1]": False,
    "t - V[0]": True,
    "V[0] - t": False,
    "t * t": False,
    "exp(V[0])": True,
    "where(lt(V[0], 0.0), t, 1.0)": True,
    "where(lt(V[0], 0.0), V[0], t)": False,
    "max(t, V[0])": False,
    "float32(K[0])": True,
}


@pytest.mark.parametrize("value", SCALARS)
def test_scalars(value: str) -> None:
    body = program(f"t: float32 = 0.0\nW[0] = {value}").body
    store = body[-1]
    assert isinstance(store, Store)
    assert unsigned(store.value, lambda local: None, {T}) == SCALARS[value]


def test_a_variable_is_what_it_holds() -> None:
    body = program("t: float32 = 0.0\nu: float32 = t + V[0]\nW[0] = u").body
    held = {stmt.local: stmt.value for stmt in body if isinstance(stmt, Let)}
    store = body[-1]
    assert isinstance(store, Store)
    assert unsigned(store.value, held.get)
    assert not unsigned(store.value, lambda local: None)


#: A sum in a variable, and whether it is never -0.0.
SUMS = {
    "t: float32 = 0.0\nfor i in range(4):\n    t = t + V[i]": True,
    "t: float32 = -0.0\nfor i in range(4):\n    t = t + V[i]": False,
    "t: float32 = 0.0\nfor i in range(4):\n    t = t * V[i]": False,
    "t: float32 = V[0]\nfor i in range(4):\n    t = t + V[i]": False,
}


@pytest.mark.parametrize("text", SUMS)
def test_sums_that_start_at_zero(text: str) -> None:
    assert (T in never_minus_zero(program(text).body, [])) == SUMS[text]


#: What nests do to V, and whether it then never holds -0.0.
BUFFERS = {
    "V[...] = 0.0\nfor i in range(4):\n    V[i] += W[i]": True,
    "for i in range(4):\n    V[i] = -0.0\nfor i in range(4):\n    V[i] += W[i]": False,
    "for i in range(3):\n    V[i] = 0.0\nfor i in range(4):\n    V[i] += W[i]": False,
    "for i in range(4):\n    V[3 - i] = 0.0\nfor i in range(4):\n    V[i] += W[i]": True,
    "V[...] = 0.0\nfor i in range(4):\n    V[i] *= W[i]": False,
    "V[...] = 0.0\nfor i in range(4):\n    V[i] = W[i]": False,
    "for i in range(4):\n    V[i] += W[i]": False,
    "for i in range(4):\n    W[i] = 0.0 + V[i]\nV[...] = 0.0": False,
    "W[...] = 0.0\nfor i in range(4):\n    V[i] = W[i]": True,
    "W[...] = 0.0\nfor i in range(4):\n    V[i] = W[i]\nfor i in range(4):\n    W[i] = -0.0": False,
    "W[...] = -0.0\nfor i in range(4):\n    V[i] = W[i]": False,
}


@pytest.mark.parametrize("text", BUFFERS)
def test_buffers(text: str) -> None:
    assert (V in unsigned_buffers(nests(program(text)))) == BUFFERS[text]


def test_buffers_that_a_block_does_not_touch_are_left_out() -> None:
    assert never_minus_zero(program("V[0] = W[0]").body, [V, X]) == {V}
    assert W not in never_minus_zero(program("V[0] = W[0]").body, [V, X])

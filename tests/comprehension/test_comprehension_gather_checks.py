"""Subscripts read from data: found, checked while running, and told of when they stray."""

from __future__ import annotations

import numpy as np
import pytest

import weft as wf
from comprehension.running import assert_near, backends, definition

LOOKUP = "def f(float(N) L, {}(B) I) -> (O) {{ O(b) = L(I(b)) }}"
L = np.arange(4, dtype="float32")


@backends
@pytest.mark.parametrize("dtype", ["int8", "int64", "uint8", "uint32", "uint64"])
def test_every_whole_number_can_be_a_subscript(backend: str, dtype: str) -> None:
    f = definition(LOOKUP.format(dtype), backend)
    table = np.arange(300, dtype="float32")  # more cells than int8 counts
    places = np.array([0, 1, 127], dtype)
    assert_near(f(table, places), places)
    assert f.grad(table, places).sum() == 3


@backends
def test_gradients_are_added_where_values_were_read(backend: str) -> None:
    f = definition("def f(float(V,D) L, int32(B) I) -> (O) { O(b,d) = L(I(b),d) }", backend)
    found = f.grad(np.ones((3, 2), "float32"), np.array([2, 0, 2], "int32"), d=np.ones((3, 2), "float32"))
    assert_near(found, [[1, 1], [0, 0], [2, 2]])


@backends
@pytest.mark.parametrize(
    ("dtype", "place", "said"),
    [
        ("int32", -7, -7),
        ("int32", 4, 4),
        ("int64", 2**32 + 1, 2**32 + 1),
        ("int64", -(2**63), -(2**63)),
        ("int64", 2**63 - 1, 2**63 - 1),
        ("uint64", 2**64 - 1, 2**63 - 1),
        ("uint8", 255, 255),
    ],
)
def test_one_that_strays_is_named(backend: str, dtype: str, place: int, said: int) -> None:
    f = definition(LOOKUP.format(dtype), backend)
    places = np.array([1, place], dtype)
    with pytest.raises(wf.IndexOutOfBounds) as error:
        f(L, places)
    where = f"`I(1)` is {said}" if said == place else f"`I(b)` is {said} somewhere"  # a number that was not cut off
    assert error.value.what == f"{where}, and axis 0 of `L` is 4"
    assert error.value.fix == "pass whole numbers from 0 to 3, or keep them there: `min(max(I(b), 0), 3)`"
    with pytest.raises(wf.IndexOutOfBounds):
        f.grad(L, places)
    assert_near(f(L, np.array([3, 0], dtype)), [3, 0])


@backends
def test_outputs_are_left_alone_when_one_strays(backend: str) -> None:
    f, out = definition(LOOKUP.format("int32"), backend), np.full(2, 9, "float32")
    with pytest.raises(wf.IndexOutOfBounds):
        f(L, np.array([4, 0], "int32"), outputs=(out,))
    assert out.tolist() == [9, 9]


def test_the_line_that_called_is_named() -> None:
    f = definition(LOOKUP.format("int32"))
    f(L, np.array([1], "int32"))
    with pytest.raises(wf.IndexOutOfBounds) as error:
        f(L, np.array([9], "int32"))
    assert 'f(L, np.array([9], "int32"))' in str(error.value)


@backends
def test_nothing_can_be_read_from_an_empty_tensor(backend: str) -> None:
    f = definition(LOOKUP.format("int32"), backend)
    with pytest.raises(wf.IndexOutOfBounds, match="axis 0 of `L` is 0"):
        f(L[:0], np.array([0], "int32"))
    assert f(L[:0], np.zeros(0, "int32")).shape == (0,)


@backends
@pytest.mark.parametrize(
    "subscript", ["min(max(I(b), 0), N - 1)", "I(b) % N", "min(max(I(b), 0), 3)", "I(b) < 0 ? 0 : min(I(b), 3)"]
)
def test_one_that_the_text_keeps_inside_does_not_stray(backend: str, subscript: str) -> None:
    f = definition(f"def f(float(N) L, int32(B) I) -> (O) {{ O(b) = L({subscript}) }}", backend)
    assert ((f(L, np.array([-9, 2, 9], "int32")) >= 0) & (f(L, np.array([-9, 2, 9], "int32")) < 4)).all()


@backends
def test_one_that_is_not_read_does_not_stray(backend: str) -> None:
    text = "def f(float(N) L, int32(B) I) -> (O) { O(b) = I(b) >= 0 && I(b) < N ? L(I(b)) : -1 }"
    assert definition(text, backend)(L, np.array([-9, 2, 9], "int32")).tolist() == [-1, 2, -1]


@backends
def test_unchecked_ones_read_some_cell(backend: str) -> None:
    f = definition(LOOKUP.format("int32"), backend, unchecked=True)
    assert f(L, np.array([-9, 2, 9], "int32")).tolist() == [0, 2, 3]
    assert f.grad(L, np.array([-9, 2, 9], "int32")).sum() == 3


@backends
def test_subscripts_of_subscripts(backend: str) -> None:
    f = definition("def f(float(N) L, int32(M) J, int32(B) I) -> (O) { O(b) = L(J(I(b))) }", backend)
    j = np.array([3, 1], "int32")
    assert f(L, j, np.array([1, 0], "int32")).tolist() == [1, 3]
    with pytest.raises(wf.IndexOutOfBounds, match="axis 0 of `J` is 2"):
        f(L, j, np.array([2], "int32"))
    with pytest.raises(wf.IndexOutOfBounds, match="`J\\(I\\(b\\)\\)` is 7"):
        f(L, np.array([7, 1], "int32"), np.array([0], "int32"))


@backends
def test_subscripts_and_choices_computed_from_what_was_read(backend: str) -> None:
    text = """def f(float(N) L, int32(M) A, int32(B) I) -> (O) { J(b) = A(I(b))
        O(b) = L(J(b)) > 0 ? L(J(b)) : 2 * L(I(b)) }"""
    f, table = definition(text, backend), np.array([1, -2, 3, 4], "float32")
    j, places = np.array([3, 1, 0], "int32"), np.array([0, 1, 2], "int32")
    assert f(table, j, places).tolist() == [4, -4, 1]
    assert f.grad(table, j, places).tolist() == [1, 2, 0, 1]
    with pytest.raises(wf.IndexOutOfBounds, match="`I\\(0\\)` is 3, and axis 0 of `A` is 3"):
        f(table, j, np.array([3], "int32"))
    for run in (f, f.grad):
        with pytest.raises(wf.IndexOutOfBounds, match="`J\\(b\\)` is 4 somewhere, and axis 0 of `L` is 4"):
            run(table, np.array([4, 1, 0], "int32"), places)


@backends
def test_tensors_called_like_what_watches(backend: str) -> None:
    f = definition("def f(float(N) L, int32(B) strayed) -> (O) { O(b) = L(strayed(b)) }", backend)
    assert f(L, np.array([3, 0], "int32")).tolist() == [3, 0]
    with pytest.raises(wf.IndexOutOfBounds):
        f(L, np.array([4], "int32"))


# In tensor expressions


@backends
def test_routines_check_too(backend: str) -> None:
    lookup = definition("def f(float(V,D) L, int32(B) I) -> (O) { O(b,d) = L(I(b),d) }", backend)
    table, places = wf.param("L", o=(5, 3)), np.array([0, 4, 4], "int32")
    rows = lookup(table, wf.data(places))
    loss = wf.einsum("... => 0", rows * rows)
    ctx = wf.Context(backend)
    ctx[table] = np.ones((5, 3), "float32")
    step = ctx.compile(wf.grad_update(loss), keep=[table.grad])
    step()
    assert_near(ctx[table.grad], np.array([2, 0, 0, 0, 4])[:, None] * np.ones(3))
    places[1] = 5
    with pytest.raises(wf.IndexOutOfBounds, match="axis 0 of `L` is 5"):
        step()
    places[1] = 1
    step()
    assert_near(ctx[table.grad], np.array([2, 2, 0, 0, 2])[:, None] * np.ones(3))


# What is more than affine, and what wraps around


@backends
def test_a_subscript_that_is_more_than_affine_is_checked(backend: str) -> None:
    f = definition("def f(float(N) t, float(M) u) -> (O) { O(i) = t(i * i) where i in 0:M }", backend)
    t = np.arange(10, dtype="float32")
    np.testing.assert_array_equal(f(t, t[:4]), [0, 1, 4, 9])
    with pytest.raises(wf.WeftError, match=r"`i \* i` is 16 somewhere, and axis 0 of `t` is 10"):
        f(t, t[:5])


@backends
@pytest.mark.parametrize(
    ("subscript", "dtype", "value", "said"),
    [
        ("r(b) + 1", "uint64", 2**64 - 1, "2**62 or more"),
        ("r(b) * 2", "int64", 2**63 - 1, "2**62 or more"),
        ("-3 * r(b) + 2", "int64", 2**62, "-2**62 or less"),
        ("r(b) * r(b) * r(b) * r(b)", "int32", 2**16, "2**62 or more"),
        ("r(b) * r(b)", "int32", 2**16, str(2**32)),
        ("r(b) - 1", "uint8", 0, "-1"),
        ("(r(b) + 1) / 2", "uint64", 2**64 - 1, "2**62 or more"),
    ],
)
def test_a_subscript_that_wraps_around_is_reported(
    backend: str, subscript: str, dtype: str, value: int, said: str
) -> None:
    f = definition(f"def f({dtype}(B) r, float(N) t) -> (O) {{ O(b) = t({subscript}) }}", backend)
    t = np.arange(9, dtype="float32")
    with pytest.raises(wf.WeftError) as raised:
        f(np.array([value], dtype), t)
    assert raised.value.what.endswith(f"is {said} somewhere, and axis 0 of `t` is 9")
    if subscript[0] != "-":
        f(np.array([1], dtype), t)


@backends
def test_what_cannot_stray_is_not_watched(backend: str) -> None:
    f = definition("def f(int32(B) r, float(N) t) -> (O) { O(b) = t(r(b) % N) + t(min(max(r(b), 0), N - 1)) }", backend)
    r, t = np.array([-7, 3, 90], "int32"), np.arange(4, dtype="float32")
    np.testing.assert_array_equal(f(r, t), t[r % 4] + t[np.clip(r, 0, 3)])
    assert "strayed" not in f.show("assign", r, t)
    assert "strayed" in definition("def f(int32(B) r, float(N) t) -> (O) { O(b) = t(r(b)) }").show("assign", r % 4, t)


def test_what_cannot_stray_is_not_watched_in_tensor_expressions() -> None:
    f = definition("def f(int32(B) r, float(N) t) -> (O) { O(b) = t(r(b) % N) }")
    r, t = wf.data(np.array([-7, 3], "int32")), wf.data(np.arange(4, dtype="float32"))
    routine = wf.Context("interp").compile(wf.seq(f(r, t).forward))
    assert "strayed[" not in routine.show("loops").replace("f.O.strayed[...] = 0", "")
    watched = definition("def f(int32(B) r, float(N) t) -> (O) { O(b) = t(r(b)) }")
    assert "f.O.strayed[0]" in wf.Context("interp").compile(wf.seq(watched(r, t).forward)).show("loops")

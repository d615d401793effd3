"""Subscripts: what `x[…]` reads, what `x[…] = …` writes, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf
from tensor.differences import double, total

A = np.arange(60.0).reshape(3, 4, 5)
KEYS = [
    np.s_[-1],
    np.s_[2],
    np.s_[1:3],
    np.s_[::2],
    np.s_[::-1],
    np.s_[:, 2],
    np.s_[..., 1:3],
    np.s_[1, ..., -2],
    np.s_[:, ::-2, 3],
    np.s_[5:9],
    np.s_[2, 1, 0],
    np.s_[()],
    np.s_[np.int64(1), 0:0],
]
N = wf.index("n", 3)


def cube(label: str = "x") -> wf.Tensor:
    return wf.data(A.copy(), batch=1, input=1, label=label)


@pytest.mark.parametrize("backend", ["interp", "cc"])
def test_the_same_brackets_pick_the_same_elements_from_a_tensor_and_from_its_array(backend: str) -> None:
    x, ctx = cube(), wf.Context(backend)
    parts = [x[key] * 1.0 for key in KEYS]
    ctx.compile(wf.seq(*(part.forward for part in parts)), keep=parts)()
    for key, part in zip(KEYS, parts, strict=True):
        assert np.array_equal(ctx[part].reshape(A[key].shape), A[key]), key


def test_what_is_left_of_a_row_stays_in_it() -> None:
    x = cube()
    shown = {"[0]": x[0], "[:, 1:]": x[:, 1:], "[..., 0]": x[..., 0], "[:, 0]": x[:, 0], "[0, 0, 0]": x[0, 0, 0]}
    assert {text: str(part.dims) for text, part in shown.items()} == {
        "[0]": "5->4",
        "[:, 1:]": "3|5->3",
        "[..., 0]": "3|4",
        "[:, 0]": "3|5->1",  # every output row has an axis
        "[0, 0, 0]": "1",
    }
    assert x[...] is x
    assert x[:, :] is x


@pytest.mark.parametrize("key", [np.s_[0:0], np.s_[1:1], np.s_[0:1], np.s_[0:4], np.s_[::2], np.s_[3:5], np.s_[::-1]])
def test_parts_of_an_axis_that_nobody_said_the_size_of(key: Any) -> None:
    """What is left of all axes is one number, in an axis that is closed before parts of it are counted."""
    ctx, x = wf.Context("interp"), wf.data(A, label="x")
    for whole in (wf.max, wf.sum):
        found, number = ctx[whole(x)[key]], ctx[whole(x)]
        assert np.array_equal(found, number[key]), key


@pytest.mark.parametrize("running", [wf.cumsum, wf.cumprod, wf.cummax])
def test_running_totals_of_one_number(running: Callable[[wf.Tensor], wf.Tensor]) -> None:
    ctx, x = wf.Context("interp"), cube()
    assert np.array_equal(ctx[running(wf.max(x))], ctx[wf.max(x)])


def test_windows_at_static_indices() -> None:
    x, ctx, n = cube(), wf.Context("interp"), wf.index("n", 2)
    first, second, last = x[:, 2 * n : 2 * n + 2] * 1.0, x[..., n + 3] * 1.0, x[:, n + 2 : n : -1] * 1.0
    step = ctx.compile(wf.seq(first.forward, second.forward, last.forward), bindings=[n], keep=[first, second, last])
    assert 'x ~logic:"[2*n:2*n + 2]"' in step.show("assign")
    for at in range(2):
        step(n=at)
        assert np.array_equal(ctx[first], A[:, 2 * at : 2 * at + 2])
        assert np.array_equal(ctx[second], A[..., at + 3])
        assert np.array_equal(ctx[last], A[:, at + 2 : at : -1])


def test_gradients_of_slices_to_the_second_order() -> None:
    w = double("w", b=3, o=4, init=wf.normal(0.0, 1.0))
    y = total(w[1:] * w[:-1, ::-1]) + total(w[-1, 1:3] * w[0, ::2])
    wf.gradcheck(y, w)
    g = wf.grad(y, w)
    wf.gradcheck(wf.einsum("...|... => 0", g * g * g), w)


def test_sizes_flow_through_slices_in_both_directions() -> None:
    w = wf.param("w")
    rest = (w @ wf.data(np.ones((2, 3)), batch=1))[:, 1:]
    assert str(wf.einsum("...|i; i => ...|i", rest, wf.data(np.ones(4))).dims) == "2|4"
    assert str(w.dims) == "3->5"


def test_a_size_that_turns_out_too_small_is_refused_where_it_does() -> None:
    h = wf.param("w") @ wf.data(np.ones((4, 3)), batch=1)
    h[..., 7]
    with pytest.raises(wf.ShapeError, match="position 7 is outside the output axis of `add`, which has size 5"):
        h + wf.data(np.zeros((4, 5)), batch=1)


def test_subscripts_of_a_tensor_of_which_nothing_is_known_are_of_its_batch_row() -> None:
    n, ctx = wf.node("n"), wf.Context("interp")
    row, i = wf.data(np.arange(3.0)), wf.index("i", 2)

    @wf.cd
    def step() -> None:
        n[:] = 7.0
        n[i] = row

    ctx.compile(step(), bindings=[i])(i=1)
    assert ctx[n].tolist() == [[7.0, 7.0, 7.0], [0.0, 1.0, 2.0]]


REFUSED: dict[str, tuple[Callable[[wf.Tensor], object], str]] = {
    "a position outside": (
        lambda x: x[3],
        "position 3 is outside batch axis 0 of `x`, which has size 3\nx is 3|5->4\n-> name a position from -3 to 2",
    ),
    "a position outside from the end": (
        lambda x: x[..., -6],
        "position -6 is outside input axis 0 of `x`, which has size 5\nx is 3|5->4\n-> name a position from -5 to 4",
    ),
    "too many": (
        lambda x: x[0, 0, 0, 0],
        "`x` has 3 axes and was given 4 subscripts\nx is 3|5->4\n-> give one subscript for each axis at most",
    ),
    "two dots": (lambda x: x[..., 0, ...], "`...` stands 2 times between the brackets of `x[…]`\n-> write it once"),
    "no step": (
        lambda x: x[::0],
        "the step of a slice is a whole number other than 0, not 0\n"
        "-> x[::2] takes every second position, x[::-1] all of them backwards",
    ),
    "an index of another size": (
        lambda x: x[wf.index("i", 5)],
        "static index `i` has 5 positions, and batch axis 0 of `x` has 3\nx is 3|5->4\n"
        '-> make them equal: wf.index("i", 3), or give the data an axis of 5 batches before the one of examples: '
        "wf.data(x.reshape(batches, size, …), batch=2)",
    ),
    "an index of another size of an output axis": (
        lambda x: x[:, N],
        "static index `n` has 3 positions, and output axis 0 of `x` has 4\nx is 3|5->4\n"
        '-> make them equal: wf.index("n", 4)',
    ),
    "a window that ends outside": (
        lambda x: x[:, N : N + 3],
        "`n` would reach position 4 of output axis 0 of `x`, which has size 4\nx is 3|5->4\n"
        "-> give fewer positions to `n` (it has n below 3), or slice less",
    ),
    "a position before the first": (
        lambda x: x[..., N - 1],
        "`n` would reach position -1 of input axis 0 of `x`, which has size 5\nx is 3|5->4\n"
        "-> give fewer positions to `n` (it has n below 3), or slice less",
    ),
    "a window of changing size": (
        lambda x: x[:, N:],
        "how many positions a slice of output axis 0 of `x` has would depend on `n`\n"
        "-> end it a number of positions after its start: x[i : i + 4]",
    ),
    "no sum": (
        lambda x: x[N * N],
        "batch axis 0 of `x` cannot be indexed by what is no sum of static indices times whole numbers\n"
        "-> write it as 4 * i + j",
    ),
    "a row of unknown rank": (
        lambda x: wf.node("c", o=[5, 3])[2:],
        "how many batch axes `c` has is not known here, and so not which axes the subscripts are of\n"
        "c is ...|...->5,3\n"
        "-> say it where `c` is made, b=[] for none; or use an einsum, which names the row",
    ),
}


def told(error: wf.WeftError) -> str:
    return "\n".join([error.what, *error.notes, *([f"-> {error.fix}"] if error.fix else [])])


@pytest.mark.parametrize("case", REFUSED)
def test_subscripts_that_are_refused(case: str) -> None:
    read, expected = REFUSED[case]
    with pytest.raises(wf.WeftError) as caught:
        read(cube())
    assert told(caught.value) == expected


@pytest.mark.parametrize("key", [1.5, "a", None, True, [1, 2], {}, slice(1.5), slice(0, 3, 1.0), np.bool_(True)])
def test_keys_that_are_no_subscripts(key: Any) -> None:
    kinds = 'subscripts are whole numbers, slices, static indices (wf.index("i", size)) and `...`'
    more = {
        type(None): '; a new axis is wf.einsum("...|i => ...|0i", t)',
        bool: "; elements are chosen by wf.where",
        list: "; positions are a tensor: x[wf.data(np.array([2, 0]))]",
    }
    wrong = next(one for one in (key.stop, key.step) if isinstance(one, float)) if isinstance(key, slice) else key
    with pytest.raises(wf.WeftError) as caught:
        cube()[0, key]
    assert told(caught.value) == f"`x` cannot be indexed by {wrong!r}\n-> {kinds}{more.get(type(key), '')}"


def test_what_is_advised_for_new_axes_works() -> None:
    ctx, x = wf.Context("interp"), wf.data(np.arange(24.0).reshape(8, 3), batch=1)
    assert ctx[wf.einsum("...|i => ...|0i", x)].tolist() == ctx[x][:, None].tolist()


def test_the_sign_of_the_notation_slices_the_leftmost_batch_axis() -> None:
    with pytest.raises(wf.ShapeError, match="the batch row of `x` needs at least 1 axis") as caught:
        wf.parse_cd("y =: x @| 0", x=wf.data(np.ones(3), label="x"), declare=True)
    assert caught.value.fix.startswith("`@|` slices the leftmost batch axis")
    with pytest.raises(wf.WeftError, match=r"1\.5 is no position of an axis"):
        wf.parse_cd("y =: x @| 1.5", x=cube(), declare=True)
    with pytest.raises(wf.WeftError):
        wf.parse_cd('y =: x ~logic:"[1:n]"', x=cube(), n=N, declare=True)


# Writing


@pytest.mark.parametrize("backend", ["interp", "cc"])
def test_parts_are_written_and_the_rest_is_kept(backend: str) -> None:
    cache, ctx = wf.data(np.arange(15.0).reshape(5, 3), batch=1, label="cache"), wf.Context(backend)
    row, rows = wf.data(np.array([10.0, 20, 30]), label="row"), wf.data(np.ones((2, 3)), batch=1, label="rows")
    i, j = wf.index("i", 5), wf.index("j", 4)

    @wf.cd
    def step() -> None:
        cache[i] = row
        cache[j : j + 2] += rows
        cache[::2, 1] = 0.5
        cache[1:] = cache[:-1]
        cache[-1].accumulate("max", 50.0)
        last = cache[-1]
        last *= 2.0
        cache[2, 1:] = row[:-1] * 2.0

    code = step()
    assert str(code).splitlines()[:4] == [
        'cache =: row ~logic:"@| i" ~slots:"2=>1";',
        'cache =+ rows ~logic:"[j:j + 2|]" ~slots:"2=>1";',
        'cache =: 0.5 ~logic:"[::2|1]" ~slots:"=>1";',
        'cache =: (=: cache ~logic:"[:-1|]") ~logic:"[1:|]" ~slots:"2=>1";',
    ]
    again = wf.parse_cd(str(code), cache=cache, row=row, rows=rows, i=i, j=j)
    assert str(again) == str(code)
    ctx.compile(again, bindings=[i, j])(i=1, j=2)
    assert ctx[cache].tolist() == [[0, 0.5, 2], [0, 0.5, 2], [10, 20, 40], [7, 0.5, 9], [100, 100, 100]]


def test_one_cell_is_written_and_the_rest_is_kept() -> None:
    table, ctx = wf.data(np.ones((2, 3)), batch=1, label="table"), wf.Context("interp")

    @wf.cd
    def step() -> None:
        table[1, -1] = 5.0

    ctx.compile(step())()
    assert ctx[table].tolist() == [[1, 1, 1], [1, 1, 5]]


def test_a_part_of_a_node_is_no_value_of_the_rest() -> None:
    n, ctx = wf.node("n", b=5, o=1, i=[]), wf.Context("interp")

    @wf.cd
    def step() -> None:
        n[1:3] = 1.0

    run = ctx.compile(step())
    with pytest.raises(wf.WeftError, match="`n` is written in part only"):
        run()
    ctx[n] = np.zeros((5, 1))
    run()
    assert ctx[n].ravel().tolist() == [0.0, 1.0, 1.0, 0.0, 0.0]


@pytest.mark.parametrize("key", [1, (1, 2), (slice(None), 0), (0, slice(2, 2)), (slice(3, 0), 1), slice(0, 0), ...])
def test_one_number_written_to_a_part_keeps_the_rest(key: Any) -> None:
    array = np.arange(12.0).reshape(3, 4)
    x, ctx = wf.data(array.copy(), batch=1, label="x"), wf.Context("interp")
    ctx.compile(wf.cd(lambda: x.__setitem__(key, 2.5))())()
    array[key] = 2.5
    assert ctx[x].tolist() == array.tolist()


@pytest.mark.parametrize("backend", ["interp", "cc"])
def test_writes_where_data_says(backend: str) -> None:
    array, at = np.arange(12.0).reshape(6, 2), np.array([3, 1, 3, 5])
    table, ids = wf.data(array.copy(), batch=1, label="table"), wf.data(at, batch=1, label="ids")
    g, row = wf.data(np.arange(8.0).reshape(4, 2), batch=1, label="g"), wf.data(np.array([7.0, 8]), label="row")
    one, t = wf.data(np.array([2]), label="one"), wf.node("t", dtype="int32", scalar=True, init=0)

    @wf.cd
    def step() -> None:
        table[ids] += g
        table[ids].accumulate("max", 20.0)
        table[one] = row
        table[ids] *= row
        table[t : t + 2] -= 1.0
        table[t + 1 : t + 4 : 2] = row * 2.0
        t[:] = t + 1

    code, names = step(), {"table": table, "ids": ids, "g": g, "row": row, "one": one, "t": t}
    assert str(code).splitlines()[:2] == [
        'table =+ g ~logic:"v, ...|...; b0| @v => b0, ...|..." ~slots:"3=>1" ~at:ids;',
        'table =@^ 20.0 ~logic:"v, ...|...; b0| @v => b0, ...|..." ~slots:"=>1" ~at:ids;',
    ]
    again = wf.parse_cd(str(code), names, declare=True)
    assert str(again) == str(code)
    ctx = wf.Context(backend)
    run = ctx.compile(again)
    for start in range(3):
        run()
        np.add.at(array, at, np.arange(8.0).reshape(4, 2))
        np.maximum.at(array, at, 20.0)
        array[2] = [7, 8]
        np.multiply.at(array, at, np.array([7.0, 8]))
        array[start : start + 2] -= 1
        array[start + 1 : start + 4 : 2] = [14, 16]
        assert np.array_equal(ctx[table], array)
    with pytest.raises(wf.IndexOutOfBounds, match=r"`add\[0\]` is 4, and the positions along `start` are from 0 to 3"):
        run()


@pytest.mark.parametrize("backend", ["interp", "cc"])
def test_writes_where_data_and_slices_say(backend: str) -> None:
    array, at = np.arange(12.0).reshape(3, 4), np.array([2, 0, 2])
    n, ids, i = wf.data(array.copy(), label="n"), wf.data(at, label="ids"), wf.index("i", 3)
    g, one = wf.data(np.arange(6.0).reshape(3, 2), label="g"), wf.data(np.array([1]), label="one")

    @wf.cd
    def step() -> None:
        n[ids, 0:2] += g
        n[1:, ids] += 1.0
        n[ids, i].accumulate("max", 20.0)
        n[one, ::3] = -1.0
        n[one, i : i + 2] *= n[one, 2:]

    code = step()
    assert str(code).splitlines()[:3] == [
        'n_part =: n ~logic:"[:, 0:2]";',
        'n_part =+ g ~logic:"...|...->v0, ...; p0 @v0 => ...|...->p0, ..." ~slots:"3=>1" ~at:ids;',
        'n =: n_part ~logic:"[:, 0:2]" ~slots:"2=>1";',
    ]
    again = wf.parse_cd(str(code), {"n": n, "ids": ids, "g": g, "one": one}, i=i, declare=True)
    ctx = wf.Context(backend)
    for routine, column in ((ctx.compile(code, bindings=[i]), 2), (ctx.compile(again, bindings=[i]), 0)):
        routine(i=column)
        np.add.at(array, (at, slice(0, 2)), np.arange(6.0).reshape(3, 2))
        np.add.at(array, (slice(1, None), at), 1.0)
        np.maximum.at(array, (at, column), 20.0)
        array[1, ::3] = -1
        array[1, column : column + 2] *= array[1, 2:]
        assert np.array_equal(ctx[n], array)


def test_a_refused_write_to_positions_of_a_slice_names_the_tensor() -> None:
    n, ids = wf.data(np.zeros((3, 4)), label="n"), wf.data(np.array([2, 0]), label="ids")
    for write, what in (
        (lambda: n.__setitem__((ids, slice(2)), 1.0), "`ids` may hold a position of `n` several times"),
        (lambda: n[ids, :2].accumulate("+", 1.0, reset=True), "a part of `n` is not started afresh"),
        (lambda: (n * 2.0).__setitem__((ids, slice(2)), 1.0), "`mul` is computed from other tensors"),
    ):
        with pytest.raises(wf.WeftError, match=what):
            wf.cd(write)()


def test_positions_broadcast() -> None:
    array = np.arange(24.0).reshape(3, 4, 2)
    x, ctx = wf.require_grad(wf.data(array, label="x")), wf.Context("interp")
    rows, columns = np.array([[0, 1], [2, 0]]), np.array([[1], [3]])
    for ours in ((rows, columns), (columns, rows), (rows, columns[:, 0]), (columns, 0, rows % 2), (rows[:1], columns)):
        theirs = tuple(one % size for one, size in zip(ours, (3, 4, 2), strict=False))
        keys = [wf.data(one, label="at") if isinstance(one, np.ndarray) else one for one in theirs]
        assert np.array_equal(ctx[x[tuple(keys)]], array[theirs])
        gradient = np.zeros_like(array)
        np.add.at(gradient, theirs, 1.0)
        assert np.array_equal(ctx[wf.grad(wf.einsum("...|... => 0", x[tuple(keys)]), x)], gradient)
    lone, both = (wf.data(one, batch=1, label="at") for one in (np.array([[1]]), np.array([[1], [0]])))
    assert np.array_equal(ctx[x[lone, both]].ravel(), array[np.array([1]), np.array([1, 0])].ravel())


def test_slices_that_begin_at_a_tensor() -> None:
    w, t = double("w", b=6, o=2, init=wf.normal(0.0, 1.0)), wf.data(np.array([2]), label="t")
    ctx = wf.Context("interp")
    parts = [w[t : t + 3], w[t - 2 : t + 3 : 2], w[t]]
    ctx.compile(wf.seq(*(part.forward for part in parts)), keep=parts)()
    value = ctx[w]
    for part, expected in zip(parts, (value[2:5], value[0:5:2], value[[2]]), strict=True):
        assert np.array_equal(ctx[part], expected)
    wf.gradcheck(total(w[t : t + 3] * w[t - 2 : t + 1]), w)
    flat = wf.data(np.arange(5.0), label="flat")
    assert ctx[flat[t : t + 2]].tolist() == [2.0, 3.0]


IDS = wf.data(np.array([1, 2]), label="ids")
T = wf.data(np.array([1]), label="t")
UNKNOWN = "end the slice a number of positions after its start, of which there is one tensor: x[t : t + 4]"
COMPUTED: dict[str, tuple[Callable[[wf.Tensor], object], str, str]] = {
    "no end": (lambda x: x[T:], "how many elements a slice of `x` from `t` to its end has is not known", UNKNOWN),
    "a number": (lambda x: x[T:2], "how many elements a slice of `x` from `t` to 2 has is not known", UNKNOWN),
    "backwards": (lambda x: x[T : T - 1], "the slice of `x` ends before it begins", "write x[t : t + 4]"),
    "many": (
        lambda x: x[IDS : IDS + 1],
        "a slice of `x` begins at one position, and `ids` holds 2",
        'rows that begin at many positions are wf.einsum("v<+k, ...; ...|@v => ...|k, ...", x, starts, k=4)',
    ),
    "a step": (
        lambda x: x[T : T + 1 : -1],
        "the step of a slice that begins at a tensor is a whole number from 1 on, not -1",
        "take the slice first, and turn that round: x[t : t + 4][::-1]",
    ),
    "an end": (
        lambda x: x[0, 1:T],
        "`x` cannot be indexed by `t` here",
        'subscripts are whole numbers, slices, static indices (wf.index("i", size)) and `...`; a tensor of positions '
        "stands for itself, x[0, ids], or begins a slice, x[0, t : t + 4]",
    ),
    "different axes": (
        lambda x: x[IDS, wf.data(np.array([[0, 1]]), batch=1, label="others")],
        "`ids` and `others` are read together, and do not have as many batch axes",
        "give both the same axes, or look up by one after the other: x[rows][:, columns]",
    ),
    "batch axes behind others": (
        lambda x: x[:, wf.data(np.array([0, 1]), batch=1, label="examples")],
        "`examples` has batch axes, which would stand behind other axes of `x`",
        'say where they go by a spec: wf.einsum("i, v; ...|@v => ...|i", x, positions)',
    ),
    "a plain write": (
        lambda x: wf.cd(lambda: x.__setitem__(IDS, 1.0))(),
        "`ids` may hold a position of `x` several times, and `=` does not say which of the values stays",
        'say how they combine: `x[ids] += …`, or `.accumulate("max", …)`; one position alone, or a slice from it on, '
        "`t : t + 4`, may be written",
    ),
}


@pytest.mark.parametrize("case", COMPUTED)
def test_tensors_in_brackets_that_are_refused(case: str) -> None:
    read, what, fix = COMPUTED[case]
    with pytest.raises(wf.WeftError) as caught:
        read(cube())
    assert (caught.value.what, caught.value.fix) == (what, fix)


def test_only_what_brackets_make_is_a_part() -> None:
    table = wf.data(np.ones((3, 2)), label="table")

    @wf.cd
    def step() -> None:
        found = wf.einsum("v, d; 0 @v => d", table, T)
        found += 1.0

    with pytest.raises(wf.WeftError, match="is computed from other tensors and cannot be assigned to"):
        step()


def _nested(c: wf.Tensor) -> None:
    c[1][2] = 1.0


def _computed(c: wf.Tensor) -> None:
    (c * 2.0)[1] = 1.0


def _large(c: wf.Tensor) -> None:
    c[1:3] = wf.data(np.zeros((3, 3)), batch=1, label="r")


def _afresh(c: wf.Tensor) -> None:
    c[1].accumulate("+", 1.0, reset=True)


def _itself(c: wf.Tensor) -> None:
    c[1] = c[1]


def _used_after(c: wf.Tensor) -> None:
    row = c[1]
    row += 1.0
    c[2] = row


@pytest.mark.parametrize(
    ("write", "what"),
    [
        (_nested, "`slice` is computed from other tensors and cannot be assigned to"),
        (_computed, "`mul` is computed from other tensors and cannot be assigned to"),
        (_large, "the axis cannot be both 2 and 3"),
        (_afresh, "a part of `c` is not started afresh and accumulated into at once"),
        (_itself, "`_itself` recorded no assignment"),
        (_used_after, "`slice` reads `c`, which was written after `slice` was made"),
    ],
)
def test_writes_that_are_refused(write: Callable[[wf.Tensor], None], what: str) -> None:
    c = wf.data(np.zeros((5, 3)), batch=1, label="c")
    with pytest.raises(wf.WeftError) as caught:
        wf.cd(write)(c)
    assert caught.value.what == what
    if write is _nested:
        assert caught.value.fix.endswith("; a part of a part is one pair of brackets, t[i, j]")


def test_a_part_is_written_only_in_code() -> None:
    c = wf.data(np.zeros((5, 3)), batch=1, label="c")
    with pytest.raises(wf.WeftError, match="is assigned to outside a function"):
        c[1] += 2.0


def test_parts_in_other_notations() -> None:
    array, rows = np.arange(12.0).reshape(6, 2), np.full((3, 2), 7.0)
    x, g = wf.data(array, batch=1, label="x"), wf.data(rows, batch=1, label="g")
    ids, i = wf.data(np.array([3, 1, 3]), batch=1, label="ids"), wf.index("i", 6)

    @wf.cd
    def some() -> None:
        x[1:4] = g

    @wf.cd
    def looked_up() -> None:
        x[ids] += g

    @wf.cd
    def at_an_index() -> None:
        x[i] = 1.0

    written = wf.show_as(some(), "tc")
    assert written.splitlines()[1].strip() == "x(i, j) = g(i - 1, j) where i in 1:4, j in 0:2"
    found = wf.tc.define(written, backend="interp").code(rows, array.copy())
    assert found.tolist() == [[0, 1], [7, 7], [7, 7], [7, 7], [8, 9], [10, 11]]
    added = array.copy()
    np.add.at(added, [3, 1, 3], rows)
    scattered = wf.tc.define(wf.show_as(looked_up(), "tc"), backend="interp").code
    assert np.array_equal(scattered(np.array([[3], [1], [3]]), rows, array.copy()), added)
    assert wf.show_as(some(), "cd") == 'x =: g ~logic:"[1:4|]" ~slots:"2=>1"'
    for code, notation, why in [
        (some(), "einsum", "it writes a part of what is there"),
        (looked_up(), "einsum", "it writes to a part of what is there"),
        (at_an_index(), "tc", "it reads the static index `i`"),
    ]:
        with pytest.raises(wf.WeftError) as caught:
            wf.show_as(code, notation)
        assert caught.value.what.endswith(why)

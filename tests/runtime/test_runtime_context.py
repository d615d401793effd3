"""Contexts: what they hold, what they compute, what they refuse, what they leave alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import weft as wf


def param(name: str = "w", **options: object) -> wf.Tensor:
    return wf.param(name, dtype="float64", **options)  # type: ignore[arg-type]


def total(tensor: wf.Tensor) -> wf.Tensor:
    return wf.einsum("...|...->... => 0", tensor)


@pytest.fixture
def ctx() -> wf.Context:
    return wf.Context("interp")


# Values


def test_values_are_set_and_read(ctx: wf.Context) -> None:
    w = param(o=(2, 3))
    ctx[w] = np.arange(6).reshape(2, 3)
    assert ctx[w].tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    assert ctx[w].dtype == np.float64
    ctx[w] = 7
    assert (ctx[w] == 7).all()
    ctx[w] = [[1, 2, 3], [4, 5, 6]]
    assert ctx[w][1, 2] == 6


def test_values_lie_batch_output_input(ctx: wf.Context) -> None:
    w = param(b=2, i=3, o=4)
    assert ctx[w].shape == (2, 4, 3)


def test_what_is_read_is_a_copy(ctx: wf.Context) -> None:
    w, array = param(o=2), np.ones(2)
    ctx[w] = array
    array[:] = 5
    ctx[w][:] = 6
    assert ctx[w].tolist() == [1.0, 1.0]
    x = wf.data(array)
    ctx[x][:] = 7
    assert array.tolist() == [5.0, 5.0]


def test_a_tensor_is_computed_on_the_spot(ctx: wf.Context) -> None:
    w = param(o=2)
    ctx[w] = [1.0, 2.0]
    y = w * 2.0 + 1.0
    assert ctx[y].tolist() == [3.0, 5.0]
    ctx[w] = [10.0, 20.0]
    assert ctx[y].tolist() == [21.0, 41.0]


def test_values_computed_on_the_spot_do_not_disturb_what_is_stored(ctx: wf.Context) -> None:
    w = param(o=2, init=1.0)
    y = w * 2.0
    z = y + 1.0
    run = ctx.compile(y.forward)
    run()
    ctx[w] = 5.0
    assert ctx[z].tolist() == [11.0, 11.0]
    assert ctx[wf.given(y)].tolist() == [2.0, 2.0]
    run()
    assert ctx[wf.given(y)].tolist() == [10.0, 10.0]


def test_contexts_are_separate(ctx: wf.Context) -> None:
    w, other = param(o=1, init=1.0), wf.Context("interp")
    ctx[w] = 2.0
    assert (ctx[w].item(), other[w].item()) == (2.0, 1.0)


def test_the_default_context_works() -> None:
    assert wf.Context()[wf.number(2.0) + 1.0].tolist() == [3.0]


# Routines


def test_a_routine_runs_again_and_again(ctx: wf.Context) -> None:
    w = param(o=1, init=1.0)

    @wf.cd
    def double() -> None:
        w[:] = w * 2.0

    run = ctx.compile(double())
    for expected in (2.0, 4.0, 8.0):
        run()
        assert ctx[w].item() == expected


def test_each_thing_is_computed_once(ctx: wf.Context) -> None:
    w = param(o=2, init=1.0)
    y = wf.exp(w)
    run = ctx.compile(wf.grad_update(total(y * y + y)))
    assert run.show("assign").count(" =: exp(w)") == 1


def test_bindings(ctx: wf.Context) -> None:
    x, i = wf.data(np.arange(6.0).reshape(3, 2), batch=1), wf.index("i", 3)
    row = x[i] * 1.0
    run = ctx.compile(row.forward, bindings=[i])
    for at in (0, 2, 1, np.int64(1)):
        run(i=at)
        assert ctx[row].tolist() == [2.0 * at, 2.0 * at + 1]


@pytest.mark.parametrize("value", [3, -1, 100, 1.5, True, "x", float("nan")])
def test_a_binding_out_of_range_is_refused(ctx: wf.Context, value: object) -> None:
    x, i = wf.data(np.ones((3, 2)), batch=1), wf.index("i", 3)
    run = ctx.compile((x[i] * 1.0).forward, bindings=[i])
    with pytest.raises(wf.WeftError) as caught:
        run(i=value)
    assert caught.value.what == f"i={value} is outside the range of static index `i`"
    assert caught.value.fix == "bind it to a whole number from 0 to 2"
    assert str(caught.value).startswith("test_runtime_context.py:")


def test_one_binding_and_one_tensor_to_keep_need_no_list(ctx: wf.Context) -> None:
    x, i = wf.data(np.arange(6.0).reshape(3, 2), batch=1), wf.index("i", 3)
    row = x[i]
    ctx.compile((row * 2.0).forward, bindings=i, keep=row)(i=1)
    assert ctx[row].tolist() == [2.0, 3.0]


def test_a_missing_binding_is_refused(ctx: wf.Context) -> None:
    x, i = wf.data(np.ones((3, 2)), batch=1), wf.index("i", 3)
    run = ctx.compile((x[i] * 1.0).forward, bindings=[i])
    with pytest.raises(wf.WeftError) as caught:
        run()
    assert (caught.value.what, caught.value.fix) == ("static index `i` is not bound", "call the routine with i=…")


def test_an_unknown_binding_is_refused(ctx: wf.Context) -> None:
    run = ctx.compile((param(o=2) * 1.0).forward)
    with pytest.raises(wf.WeftError) as caught:
        run(k=1)
    assert (caught.value.what, caught.value.fix) == ("the routine has no static index `k`", "its indices are: none")


def test_an_index_that_is_not_among_the_bindings_is_refused(ctx: wf.Context) -> None:
    x, i = wf.data(np.ones((3, 2)), batch=1), wf.index("i", 3)
    for tensor in (x[i] * 1.0, x * i, wf.dropout(x, 0.5, step=i)):
        with pytest.raises(wf.WeftError) as caught:
            ctx.compile(tensor.forward)
        assert caught.value.what == "the code uses static index `i`, which is not among the bindings"
        assert caught.value.fix == "compile with bindings=[i]"
        with pytest.raises(wf.WeftError, match="static index `i`"):
            ctx[tensor]


def test_bindings_that_are_no_indices_are_refused(ctx: wf.Context) -> None:
    x, i = wf.data(np.ones((3, 2)), batch=1), wf.index("i", 3)
    with pytest.raises(wf.WeftError) as caught:
        ctx.compile(x[i].forward, bindings=["i"])  # type: ignore[list-item]
    assert caught.value.what == "'i' among the bindings is not a static index"
    with pytest.raises(wf.WeftError, match="`i`"):
        ctx.compile(x[i].forward, bindings=[wf.index("i", 5)])


def test_an_index_may_be_called_like_a_loop(ctx: wf.Context) -> None:
    array = np.arange(12.0).reshape(3, 2, 2)
    for name in ("i", "j", "i0"):
        x, index = wf.data(array, batch=1), wf.index(name, 3)
        picked = x[index] + index
        run = ctx.compile(picked.forward, bindings=[index])
        run(**{name: 2})
        np.testing.assert_array_equal(ctx[picked], array[2] + 2)


@pytest.mark.parametrize(
    ("name", "size"), [("i", 0), ("i", -1), ("i", 2.5), ("i", True), ("", 3), ("a b", 3), (None, 3)]
)
def test_indices_that_are_refused(name: str, size: int) -> None:
    with pytest.raises(wf.WeftError, match=r"a static index needs a name|needs a size from 1 on|takes text for `name`"):
        wf.index(name, size)


# What stays stored


def test_roots_and_what_nobody_consumed_stay(ctx: wf.Context) -> None:
    w = param(o=2, init=3.0)
    middle = w * 2.0
    top = middle + 1.0
    ctx.compile(top.forward)()
    assert ctx[wf.given(top)].tolist() == [7.0, 7.0]
    with pytest.raises(wf.WeftError, match="never got a value"):
        ctx[wf.given(middle)]
    assert ctx[middle].tolist() == [6.0, 6.0]


def test_keep_stores_what_is_in_between(ctx: wf.Context) -> None:
    w = param(o=2, init=3.0)
    middle = w * 2.0
    ctx.compile((middle + 1.0).forward, keep=[middle])()
    assert ctx[wf.given(middle)].tolist() == [6.0, 6.0]


def test_keep_computes_what_the_code_does_not_need(ctx: wf.Context) -> None:
    w = param(o=2, init=3.0)
    aside = w * 5.0
    ctx.compile((w * 2.0).forward, keep=[aside])()
    assert ctx[wf.given(aside)].tolist() == [15.0, 15.0]


def test_a_gradient_in_between_needs_keep(ctx: wf.Context) -> None:
    w = param(o=2, init=3.0)
    middle = w * 2.0
    loss = total(middle * middle)
    ctx.compile(wf.grad_update(loss))()
    assert ctx[w.grad].tolist() == [24.0, 24.0]
    with pytest.raises(wf.WeftError) as caught:
        ctx[middle.grad]
    assert caught.value.what == "`mul.grad` is not stored: no routine left it behind"
    assert (
        caught.value.fix
        == "keep it: ctx.compile(code, keep=[t.grad]); of ctx.function return it: returns=wf.grad(loss, t)"
    )
    ctx.compile(wf.grad_update(loss), keep=[middle.grad])()
    assert ctx[middle.grad].tolist() == [12.0, 12.0]


def test_given_reads_what_is_stored_and_computes_nothing(ctx: wf.Context) -> None:
    w = param(o=2, init=3.0)
    y = w * 2.0
    z = wf.given(y) + 1.0
    ctx.compile(y.forward)()
    ctx[w] = 0.0
    assert ctx[z].tolist() == [7.0, 7.0]
    assert (y + 1.0).params == (w,)
    assert z.params == ()
    assert not z.differentiable


def test_given_without_a_stored_value_is_refused(ctx: wf.Context) -> None:
    z = wf.given(param(o=2) * 2.0) + 1.0
    with pytest.raises(wf.WeftError, match=r"`mul` is read by a routine that starts with .* but never got a value"):
        ctx[z]


# Reading garbage


def test_a_node_that_never_got_a_value_is_refused(ctx: wf.Context) -> None:
    n, m = wf.node("n", dtype="float64"), wf.node("m", dtype="float64")

    @wf.cd
    def code() -> None:
        m[:] = n * wf.data(np.ones(2))

    run = ctx.compile(code())
    with pytest.raises(wf.WeftError) as caught:
        run()
    assert caught.value.what.startswith("`n` is read by a routine that starts with `")
    assert caught.value.what.endswith("but never got a value")
    assert caught.value.fix == "set it first: ctx[n] = …, or give it init=…"
    assert "test_runtime_context.py" in caught.value.notes[0]
    ctx[n] = 3.0
    run()
    assert ctx[m].tolist() == [3.0, 3.0]


def test_what_only_reads_a_node_that_never_got_a_value_is_refused(ctx: wf.Context) -> None:
    n, m = wf.node("n", dtype="float64"), wf.node("m")

    @wf.cd
    def code() -> None:
        m[:] = n + wf.data(np.ones(2))

    run = ctx.compile(code())
    with pytest.raises(wf.WeftError, match=r"`n` is read by a routine .* but never got a value"):
        run()
    ctx[n] = 2.0
    run()
    assert ctx[m].tolist() == [3.0, 3.0]


def test_accumulating_goes_on_from_a_value_that_was_set(ctx: wf.Context) -> None:
    n = wf.node("n", dtype="float64")

    @wf.cd
    def code() -> None:
        n.accumulate("+", wf.data(np.ones(2)))

    run = ctx.compile(code())
    ctx[n] = [1.0, 2.0]
    run()
    assert ctx[n].tolist() == [2.0, 3.0]


def test_a_gradient_that_was_never_computed_is_refused(ctx: wf.Context) -> None:
    w, n = param(o=2), wf.node("n", dtype="float64")

    @wf.cd
    def code() -> None:
        n[:] = w.grad

    with pytest.raises(wf.WeftError, match=r"`w\.grad` is read by a routine .* but never got a value"):
        ctx.compile(code())()


def test_parameters_are_initialised_at_first_use_and_once(ctx: wf.Context) -> None:
    w = param(o=4)
    first = ctx[w]
    np.testing.assert_array_equal(ctx[w], first)
    np.testing.assert_array_equal(ctx[w * 1.0], first)


def test_a_value_that_was_set_is_not_initialised_over(ctx: wf.Context) -> None:
    w = param(o=2, init=1.0)
    ctx[w] = 9.0
    ctx.compile(wf.grad_update(total(w * w)))()
    assert ctx[w].tolist() == [9.0, 9.0]


# The user's arrays


def test_data_is_not_copied_until_it_is_written(ctx: wf.Context) -> None:
    array = np.arange(3.0)
    x = wf.data(array)
    y = x * 2.0
    assert ctx[y].tolist() == [0.0, 2.0, 4.0]
    array[0] = 5.0
    assert ctx[y].tolist() == [10.0, 2.0, 4.0]


def test_the_user_s_array_is_never_written(ctx: wf.Context) -> None:
    array = np.arange(3.0)
    x = wf.data(array)

    @wf.cd
    def code() -> None:
        x[:] = x * 10.0
        x.accumulate("+", 1.0)

    run = ctx.compile(code())
    run()
    run()
    assert array.tolist() == [0.0, 1.0, 2.0]
    assert ctx[x].tolist() == [11.0, 111.0, 211.0]


def test_an_array_that_may_not_be_written_is_fine(ctx: wf.Context) -> None:
    array = np.arange(3.0)
    array.flags.writeable = False
    x = wf.data(array)

    @wf.cd
    def code() -> None:
        x[:] = x + 1.0

    ctx.compile(code())()
    assert ctx[x].tolist() == [1.0, 2.0, 3.0]
    assert array.tolist() == [0.0, 1.0, 2.0]


def test_a_list_given_to_a_parameter_is_not_written(ctx: wf.Context) -> None:
    start = np.array([1.0, 2.0])
    w = param(init=start)
    ctx.compile(wf.seq(wf.grad_update(total(w * w)), wf.optim.sgd(total(w * w), lr=0.1)))()
    assert start.tolist() == [1.0, 2.0]


# Errors leave everything as it was


def test_a_failed_compile_leaves_the_context_usable(ctx: wf.Context) -> None:
    w, n = param(o=(2, 3), init=1.0), wf.node("n", dtype="float64")
    ctx.compile((w * 2.0).forward)()
    bad = wf.cd(lambda: wf.assign(n, "=", "id", w, logic="ij=>i"))()
    for _ in range(2):
        with pytest.raises(wf.ProjectionError):
            ctx.compile(bad)
    assert (ctx[w] == 1.0).all()
    good = wf.cd(lambda: wf.assign(n, "+", "id", w, logic="ij=>i", init=True))()
    ctx.compile(good)()
    assert ctx[n].tolist() == [3.0, 3.0]


def test_a_failed_run_writes_nothing(ctx: wf.Context) -> None:
    w, n = param(o=2, init=1.0), wf.node("n", dtype="float64")

    @wf.cd
    def code() -> None:
        w[:] = 5.0
        w.accumulate("+", n)

    with pytest.raises(wf.WeftError, match="`n` is read"):
        ctx.compile(code())()
    assert ctx[w].tolist() == [1.0, 1.0]


def test_values_of_the_wrong_shape_are_refused(ctx: wf.Context) -> None:
    w = param(i=3, o=2)
    with pytest.raises(wf.ShapeError) as caught:
        ctx[w] = np.ones((3, 2))
    assert caught.value.what == "`w` is 3->2, in memory (2, 3), and cannot be set to an array of (3, 2)"
    assert caught.value.fix == "give it the shape (2, 3): axes lie batch first, then output, then input"
    assert str(caught.value).startswith("test_runtime_context.py:")


@pytest.mark.parametrize("value", ["abc", [[1], [2, 3]], 1j, None])
def test_values_that_are_no_numbers_are_refused(ctx: wf.Context, value: object) -> None:
    w = param(o=2, init=1.0)
    with pytest.raises(wf.WeftError):
        ctx[w] = value
    assert ctx[w].tolist() == [1.0, 1.0]


def test_what_is_computed_cannot_be_set(ctx: wf.Context) -> None:
    y = param(o=2) * 2.0
    with pytest.raises(wf.WeftError) as caught:
        ctx[y] = 1.0
    assert caught.value.what == "`mul` is computed from other tensors and cannot be set"
    assert caught.value.fix == "set the parameters or data it is computed from"


def test_a_context_holds_tensors_only(ctx: wf.Context) -> None:
    with pytest.raises(wf.WeftError, match="a context holds tensors, not str"):
        ctx["w"]  # type: ignore[index]
    with pytest.raises(wf.WeftError, match="a context holds tensors, not int"):
        ctx.compile(wf.seq(), keep=[3])  # type: ignore[list-item]


def test_compile_takes_code(ctx: wf.Context) -> None:
    with pytest.raises(wf.WeftError) as caught:
        ctx.compile(param(o=2) * 2.0)  # type: ignore[arg-type]
    assert caught.value.what == "compile takes code, not Tensor"
    assert "ctx[t]" in caught.value.fix


def test_a_backend_that_does_not_exist_is_refused() -> None:
    with pytest.raises(wf.WeftError, match="there is no backend 'tpu'"):
        wf.Context("tpu")


def test_a_stage_that_does_not_exist_is_refused(ctx: wf.Context) -> None:
    run = ctx.compile((param(o=2) * 2.0).forward)
    with pytest.raises(wf.WeftError, match="there is no stage 'poetry'"):
        run.show("poetry")


# Showing


def test_a_routine_shows_its_stages(ctx: wf.Context) -> None:
    w, x = param(i=3, o=2), wf.data(np.ones(3), label="x")
    run = ctx.compile((w @ x).forward)
    assert run.show("assign") == 'compose =:+ w * x ~logic:"@"'
    assert run.show("loops").splitlines() == [
        '# compose =:+ w * x ~logic:"@"',
        "compose[...] = 0",
        "for i in range(2):",
        "    for j in range(3):",
        "        compose[i] += w[i, j] * x[j]",
    ]


def test_names_are_the_same_in_every_stage(ctx: wf.Context) -> None:
    first, second = param("w", o=2), param("w", o=2)
    run = ctx.compile((first * second).forward)
    assert run.show("assign") == "mul =: w *. w_2"
    assert "mul[i] = w[i] * w_2[i]" in run.show("loops")


def test_the_code_of_nothing_runs(ctx: wf.Context) -> None:
    run = ctx.compile(wf.seq())
    run()
    assert run.show("loops") == ""


# Files


def test_data_mapped_from_a_file(ctx: wf.Context, tmp_path: Path) -> None:
    path = tmp_path / "weights.bin"
    np.arange(6, dtype=np.float32).tofile(path)
    x = wf.from_file(path)
    y = wf.einsum("ij;j=>i", x, wf.tensor([1.0, 1.0, 1.0]))
    assert ctx[y].tolist() == [3.0, 12.0]
    assert (x.label, str(x.dims), x.dtype) == ("weights", "2,3", "float32")
    (block,) = (block for buffer, block in ctx._engine.devices[0].memory.blocks.items() if buffer.name == "weights")
    assert isinstance(block.base.base, np.memmap)
    assert not block.flags.writeable


def test_a_mapped_file_is_never_written(ctx: wf.Context, tmp_path: Path) -> None:
    path = tmp_path / "x.bin"
    np.arange(4, dtype=np.float64).tofile(path)
    x = wf.from_file(path, "float64")

    @wf.cd
    def code() -> None:
        x[:] = x * wf.data(np.full(4, 2.0))

    ctx.compile(code())()
    assert ctx[x].tolist() == [0.0, 2.0, 4.0, 6.0]
    assert np.fromfile(path).tolist() == [0.0, 1.0, 2.0, 3.0]


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(wf.WeftError) as caught:
        wf.from_file(tmp_path / "nothing.bin")
    assert caught.value.what == f"there is no file {str(tmp_path / 'nothing.bin')!r}"


@pytest.mark.parametrize("length", [0, 3, 7])
def test_a_file_of_an_impossible_length_is_refused(tmp_path: Path, length: int) -> None:
    path = tmp_path / "odd.bin"
    path.write_bytes(b"x" * length)
    with pytest.raises(wf.ShapeError) as caught:
        wf.from_file(path)
    assert caught.value.what == f"file 'odd.bin' has {length} bytes, not a positive multiple of 4"
    assert caught.value.fix == "check the file's length and the element type it is read as"


def test_a_file_shorter_than_its_use_needs_is_refused(ctx: wf.Context, tmp_path: Path) -> None:
    path = tmp_path / "short.bin"
    np.arange(5, dtype=np.float32).tofile(path)
    x = wf.from_file(path)
    with pytest.raises(wf.ShapeError):
        ctx[wf.einsum("ij;j=>i", x, wf.tensor([1.0, 1.0, 1.0]))]


def test_a_file_cut_short_later_is_refused(ctx: wf.Context, tmp_path: Path) -> None:
    path = tmp_path / "cut.bin"
    np.arange(6, dtype=np.float32).tofile(path)
    y = wf.from_file(path) * wf.data(np.ones(6))
    path.write_bytes(b"\0" * 8)
    with pytest.raises(wf.WeftError) as caught:
        ctx[y]
    assert caught.value.what.startswith(f"file {str(path)!r} cannot be mapped as 6 values of float32: ")

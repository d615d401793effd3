"""Values: never out of date, written in part or whole, asked for by whom, and where there is no memory for them."""

from __future__ import annotations

import numpy as np
import pytest

import weft as wf
from producers import Producer
from runtime.hooked import param
from runtime.scripts import run_script
from weft.runtime.engine import Engine


def total(tensor: wf.Tensor) -> wf.Tensor:
    return wf.einsum("...|...->... => 0", tensor, label="total")


@pytest.fixture(params=["interp", "cc"])
def ctx(request: pytest.FixtureRequest) -> wf.Context:
    return wf.Context(request.param)


@pytest.fixture
def interp() -> wf.Context:
    return wf.Context("interp")


# First values


@pytest.mark.parametrize(("init", "programs"), [(0.0, 0), (0, 0), (-0.0, 1), (2.5, 1)])
def test_first_values_of_zero_need_no_program(init: float, programs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are what new memory holds; a negative zero is not."""
    made: list[int] = []
    compile_initial = Engine._compile_initial
    monkeypatch.setattr(
        Engine, "_compile_initial", lambda *given: made.append(len(given[1])) or compile_initial(*given)
    )
    w, ctx = param("w", o=3, init=init), wf.Context("interp")
    ctx[w] = np.ones(3)
    fresh = wf.Context("interp")
    assert fresh[w].tobytes() == np.full(3, init, fresh[w].dtype).tobytes()
    assert len(made) == programs


# Out of date


def test_new_data_makes_what_a_step_left_out_of_date(ctx: wf.Context) -> None:
    x = wf.data(np.ones((3, 2)), batch=1, label="x")
    h = wf.param("w", o=2, init=1.0, dtype="float64") * x
    loss = total(h * h)
    step = ctx.compile(wf.seq(wf.grad_update(loss), wf.optim.sgd(loss, lr=0.5)))
    step()
    seen = ctx[loss].item()
    assert seen == 6.0  # the loss the step saw, not that of the parameter it moved
    assert ctx[h][0].tolist() == [-2.0, -2.0]
    ctx[x] = np.full((3, 2), 10.0)
    assert (ctx[loss].item(), ctx[h][0, 0]) == (2400.0, -20.0)
    assert ctx[wf.given(loss)].item() == 6.0
    step()
    assert ctx[loss].item() == 2400.0


def test_what_another_routine_changed_makes_it_out_of_date(interp: wf.Context) -> None:
    w, n = param(o=2, init=1.0), wf.node("n", init=3.0, dtype="float64")
    y, z = w * 2.0, n * w

    @wf.cd
    def grow() -> None:
        w.accumulate("+", 1.0)

    @wf.cd
    def count() -> None:
        n[:] = n + w

    interp.compile(y.forward, keep=[z])()
    counting, growing = interp.compile(count()), interp.compile(grow())
    counting()
    assert (interp[y].tolist(), interp[z].tolist()) == ([2.0, 2.0], [4.0, 4.0])
    growing()
    assert (interp[y].tolist(), interp[z].tolist()) == ([4.0, 4.0], [8.0, 8.0])


def test_what_another_device_sent_makes_it_out_of_date() -> None:
    ctx = wf.Context("interp", devices=2)
    one, two = ctx.devices
    w = param(o=1, init=1.0)
    y = w * 2.0
    step = ctx.compile(y.forward)
    for device in ctx.devices:
        device.run(step)
    one[w] = 5.0
    two.receive(w, one)
    assert two[y].item() == 10.0
    with pytest.raises(wf.WeftError) as caught:
        two.receive(y, one)
    assert caught.value.what == "`mul` on device 0 is out of date: `w` was written after it was computed"
    assert caught.value.fix == "run what computes it on device 0 again, then transfer it"
    one.run(step)
    two.receive(y, one)
    assert two[wf.given(y)].item() == 10.0
    two[w] = 6.0
    assert two[y].item() == 12.0


def test_what_cannot_be_computed_anew_is_refused(interp: wf.Context) -> None:
    x, i = wf.data(np.arange(6.0).reshape(3, 2), batch=1, label="x"), wf.index("i", 3)
    row = (x[i] * 1.0).named("row")
    run = interp.compile(row.forward, bindings=[i])
    run(i=1)
    assert interp[row].tolist() == [2.0, 3.0]
    interp[x] = np.zeros((3, 2))
    with pytest.raises(wf.WeftError) as caught:
        interp[row]
    assert caught.value.what == (
        "`row` is out of date: `x` was written after it was computed, and since it depends on static index `i` "
        "it cannot be computed anew"
    )
    assert caught.value.fix == "run what computes it again; ctx[wf.given(t)] is the value as it was"
    assert row not in interp
    assert interp[wf.given(row)].tolist() == [2.0, 3.0]
    run(i=2)
    assert interp[row].tolist() == [0.0, 0.0]


def test_gradients_and_nodes_hold_what_code_assigned(interp: wf.Context) -> None:
    x, n = wf.data(np.ones(2), label="x"), wf.node("n", dtype="float64")
    w = param(o=2, init=2.0)
    loss = total(w * x)

    @wf.cd
    def note() -> None:
        n[:] = w * x

    interp.compile(wf.seq(wf.grad_update(loss), note()))()
    interp[x] = 5.0
    assert interp[w.grad].tolist() == [1.0, 1.0]
    assert interp[n].tolist() == [2.0, 2.0]
    assert interp[loss].item() == 20.0


def test_a_run_sees_what_is_written_into_an_array_it_shares(interp: wf.Context) -> None:
    array = np.ones(2)
    x = wf.data(array, label="x")
    y = x * 2.0
    run = interp.compile(y.forward)
    run()
    array[:] = 3.0
    assert interp[y].tolist() == [2.0, 2.0]  # what the run left: nobody told the context
    run()
    assert interp[y].tolist() == [6.0, 6.0]
    interp[x] = array
    array[:] = 4.0
    assert interp[x].tolist() == [3.0, 3.0]  # from now on it has values of its own


# Setting and asking


def test_data_is_set_as_it_was_given(interp: wf.Context) -> None:
    x = wf.data(np.zeros((16, 64)), batch=2, label="x")
    assert str(x.dims) == "16,64|1"
    interp[x] = np.ones((16, 64))
    assert interp[x].shape == (16, 64, 1)
    assert interp[x].all()
    interp[x] = np.full((16, 64, 1), 2.0)
    interp[x] = Producer(np.full(1024, 3, "int64"), (16, 64))
    assert (interp[x] == 3.0).all()
    interp[x] = np.full((16, 64), 4, "int8")
    assert (interp[x] == 4.0).all()
    with pytest.raises(wf.ShapeError, match=r"in memory \(16, 64, 1\), and cannot be set to an array of \(64, 16\)"):
        interp[x] = np.ones((64, 16))
    counted = wf.counted(np.arange(6.0).reshape(3, 2))
    shaped = counted + wf.data(np.zeros(6))
    interp[counted] = np.ones((3, 2))
    assert interp[shaped].tolist() == [1.0] * 6


def test_whether_there_is_a_value(interp: wf.Context) -> None:
    w, x, n, i = (
        param(o=2, init=1.0),
        wf.data(np.ones((3, 2)), batch=1),
        wf.node("n", dtype="float64"),
        wf.index("i", 3),
    )
    loss = total(w * x)
    assert w in interp
    assert x in interp
    assert loss in interp
    assert n not in interp
    assert w.grad not in interp
    assert w * n not in interp
    assert x[i] * 1.0 not in interp
    interp.compile(wf.grad_update(loss))()
    interp[n] = 3.0
    assert w.grad in interp
    assert n in interp
    assert w * n in interp
    assert w in interp.device(0)
    with pytest.raises(wf.WeftError, match="a context holds tensors, not str"):
        assert "w" in interp  # type: ignore[operator]


def test_asking_decides_no_shape(interp: wf.Context) -> None:
    w = wf.param("w")
    y = w + 1.0
    before = str(w.shape)
    assert w in interp
    assert y in interp
    assert str(w.shape) == before


# In part


@pytest.mark.parametrize("looked", [False, True])
@pytest.mark.parametrize(
    ("spec", "size", "wanted"),
    [
        ("a => a^b", 5, [1, 2, 9, 9, 9]),
        ("a => b^a", 5, [9, 9, 9, 1, 2]),
        ("i => ii", (2, 2), [[1, 9], [9, 2]]),
        ("i => i1", (2, 3), [[9, 1, 9], [9, 2, 9]]),
        ("i => 2*i", 4, [1, 9, 2, 9]),
        ("i => 2*i+1", 4, [9, 1, 9, 2]),
    ],
)
def test_a_write_to_some_cells_leaves_the_others(
    ctx: wf.Context, spec: str, size: object, wanted: list[object], looked: bool
) -> None:
    t, s = param("t", o=size, init=9.0), wf.data(np.array([1.0, 2.0]), label="s")
    if looked:
        ctx[t]
    ctx.compile(wf.parse_cd(f't =: s ~logic:"{spec}"', t=t, s=s))()
    assert ctx[t].tolist() == wanted


def test_cells_nobody_wrote_are_not_read(interp: wf.Context) -> None:
    n, s = wf.node("n", dtype="float64"), wf.data(np.array([1.0, 2.0]), label="s")
    half, other = 'n =: s ~logic:"i => 2*i"', 'n =: s ~logic:"i => 2*i+1"'
    with pytest.raises(wf.WeftError) as caught:
        interp.compile(wf.parse_cd(half, n=n, s=s))()
    assert caught.value.what.startswith("`n.s` is written in part only by a routine that starts with `n.s =: s")
    assert caught.value.what.endswith("and its other cells never got a value")
    assert "or give it init=…" in caught.value.fix
    interp.compile(wf.parse_cd(f"{half}; {other}", n=n, s=s))()
    assert interp[n].tolist() == [1.0, 1.0, 2.0, 2.0]
    interp[n] = 7.0
    interp.compile(wf.parse_cd(half, n=n, s=s))()
    assert interp[n].tolist() == [1.0, 7.0, 2.0, 7.0]


# By whom


def test_numpy_asks_the_context_that_holds_the_value(interp: wf.Context) -> None:
    w = param(o=2, init=3.0)
    assert np.asarray(w).tolist() == [3.0, 3.0]
    assert np.asarray(w * 2.0, dtype="float32").dtype == np.float32
    interp[w] = 7.0
    wf.tc.define("def f(float(N) x) -> (y) { y(i) = x(i) }").f(np.ones(2, "float32"))
    assert np.asarray(w).tolist() == [7.0, 7.0]
    wf.Context("interp")
    assert np.asarray(w * 2.0).tolist() == [14.0, 14.0]


def test_two_contexts_with_different_values_are_both_named(interp: wf.Context) -> None:
    w = param(o=2, init=3.0)
    interp[w] = 7.0
    other = wf.Context("interp")
    other[w] = 5.0
    for tensor in (w, w * 2.0):
        with pytest.raises(wf.WeftError) as caught:
            np.asarray(tensor)
        assert caught.value.what == f"two contexts hold different values of `{tensor.label}`"
        one, two = caught.value.notes
        assert one.startswith("<context on interp, 1 device> was made at test_runtime_values.py:")
        assert two.startswith("<context on interp, 1 device> was made at test_runtime_values.py:")
        assert one != two
        assert caught.value.fix == "say which: ctx[t]"
    other[w] = 7.0
    assert np.asarray(w * 2.0).tolist() == [14.0, 14.0]
    other[w] = 8.0
    other.close()
    assert np.asarray(w).tolist() == [7.0, 7.0]


# Memory


def test_memory_that_cannot_be_had(ctx: wf.Context) -> None:
    long = wf.data(np.ones(1 << 16), label="long")
    w = param(o=1, init=1.0)
    huge = wf.einsum("i; j; k => ijk", long, long, long * w, label="huge")
    ctx[w] = 2.0
    with pytest.raises(wf.OutOfMemory) as caught:
        ctx[huge]
    assert isinstance(caught.value, MemoryError)
    assert caught.value.what == "there is no memory for `huge`: 2 PiB"
    (note,) = caught.value.notes
    assert note.startswith("`huge` is 65536×65536×65536 of float64, 2 PiB, made at test_runtime_values.py:")
    assert 'huge = wf.einsum("i; j; k => ijk"' in note
    with pytest.raises(wf.OutOfMemory, match="there is no memory for `huge`"):
        ctx.compile(huge.forward)()
    with pytest.raises(wf.WeftError, match="never got a value"):
        ctx[wf.given(huge)]
    assert ctx[w].item() == 2.0
    assert ctx[long * w][0] == 2.0


def test_memory_for_what_lies_together(monkeypatch: pytest.MonkeyPatch) -> None:
    ctx = wf.Context("cc")
    a = wf.data(np.ones((64, 64)), label="a")
    first = wf.einsum("ij; jk => ik", a, a, label="first")
    last = wf.einsum("ij; jk => ik", first, wf.einsum("ij; jk => ik", first, a, label="second"))
    run = ctx.compile(last.forward)
    allocate = type(ctx._engine.backend).allocate

    def little(self: object, buffer: object, device: int) -> object:
        if buffer.name.startswith("arena"):  # type: ignore[attr-defined]
            raise MemoryError
        return allocate(self, buffer, device)  # type: ignore[arg-type]

    with monkeypatch.context() as patched:
        patched.setattr(type(ctx._engine.backend), "allocate", little)
        before = dict(ctx._engine.devices[0].memory.blocks)
        with pytest.raises(wf.OutOfMemory) as caught:
            run()
    assert caught.value.what.startswith("there is no memory for what a routine computes in between: ")
    assert any(
        "`first` is 64×64 of float64, 32 KiB, made at test_runtime_values.py:" in one for one in caught.value.notes
    )
    assert {buffer.name for buffer in set(ctx._engine.devices[0].memory.blocks) - set(before)} <= {"a"}
    run()
    assert ctx[last][0, 0] == 64.0**4


# Forgetting


def test_what_nobody_holds_is_forgotten() -> None:
    """Counted in a process of its own, which has few other objects to look through."""
    done = run_script(
        """
        import gc
        from collections import Counter
        from weft.assign import Node
        from weft.shape.cells import AxisCell, RowCell, ShapeVar

        KINDS = Node, ShapeVar, RowCell, AxisCell

        @wf.op
        def mlp(x, *, hidden):
            return wf.param("w2", o=1) @ wf.dropout(wf.relu("w1" @ x + wf.param("b", o=hidden)), 0.5, step=0)

        def measure(ctx):
            gc.collect()
            ctx[wf.number(1.0)]  # what is no more is let go when something is asked for
            gc.collect()
            alive = Counter(type(one).__name__ for one in gc.get_objects() if isinstance(one, KINDS))
            engine = ctx._engine
            alive |= Counter(blocks=len(engine.devices[0].memory.blocks), names=len(engine.layout._known),
                             programs=len(engine._computing), sources=len(engine._sources),
                             uses=len(engine.devices[0].hazards.uses))
            return alive

        def applications(ctx, times):
            for _ in range(times):
                ctx[model(wf.data(points, batch=1))]

        def routines(ctx, times):
            for _ in range(times):
                y = wf.einsum("ij; jk => ik", square, square)
                ctx.compile(wf.einsum("ij; jk => ik", y, y).forward)()

        for backend in ("interp", "cc"):
            ctx, model, points = wf.Context(backend), mlp(hidden=4, label="mlp"), np.ones((8, 3), "float32")
            square = wf.param("square", o=(40, 40), init=1.0)
            for work in (applications, routines):
                work(ctx, 4)
                before = measure(ctx)
                work(ctx, 100)  # shapes that are closed are let go by the dozen
                after = measure(ctx)
                grown = {kind: count - before[kind] for kind, count in after.items() if count > before[kind] + 80}
                assert not grown, (backend, work.__name__, grown)
        print("forgotten")
        """
    )
    assert (done.stdout, done.stderr) == ("forgotten\n", "")


def test_a_gradient_that_nothing_computes_is_not_kept() -> None:
    x = wf.data(np.ones(2))
    w, q = wf.param("w", o=2, init=1.0), wf.param("q", o=2, init=1.0)
    loss, ctx = wf.einsum("i => 0", w * x), wf.Context("interp")
    with pytest.raises(wf.WeftError, match=r"`w\.grad` is to be kept, and the code does not compute it") as caught:
        ctx.compile(loss.forward, keep=[w.grad])
    assert caught.value.fix == "compile what computes it: wf.grad_update(loss), of a loss that `w` goes into"
    ctx.compile(wf.grad_update(loss), keep=[w.grad])()
    assert ctx[w.grad].tolist() == [1.0, 1.0]

    @wf.cd
    def step() -> None:
        q.accumulate("-", q.grad)

    with pytest.raises(wf.WeftError, match=r"`q\.grad` is read") as caught:
        ctx.compile(wf.seq(wf.grad_update(loss), step()))()
    assert caught.value.fix == "run wf.grad_update(loss) before it, of a loss that `q` goes into"

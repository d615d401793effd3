"""State by name: what outlives a run, read and restored; a run that is resumed is the run that was not interrupted."""

from __future__ import annotations

import copy
import pickle
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft as wf
from test_house import run_python
from weft.assign import Data, File
from weft.backends.interp import Interp
from weft.loops import Buffer
from weft.runtime.footprint import footprint_of
from weft.runtime.variables import variables_of

State = dict[str, np.ndarray[Any, Any]]


@pytest.fixture(autouse=True)
def _the_seed_of_a_process() -> Iterator[None]:
    """Models are built under a seed; what other tests draw does not depend on it."""
    yield
    wf.seed(0)


def kinds(state: State) -> dict[str, str]:
    return {label: f"{array.dtype.name}{list(array.shape)}" for label, array in state.items()}


def same(one: State, other: State) -> None:
    assert list(one) == list(other)
    for label, array in one.items():
        assert array.tobytes() == other[label].tobytes(), label
        assert array.dtype == other[label].dtype, label


def batches(count: int) -> Iterable[tuple[Any, Any]]:
    random = np.random.default_rng(5)
    for at in range(count):
        points = random.normal(size=(4 + at % 2, 3)).astype("float32")
        yield points, (points.sum(1) > 0).astype("int32")


#: A classifier with dropout by a counter, trained with a rate that falls and momentum. Also run as a script.
MODEL = """
import numpy as np
import weft as wf

def build(context, seed=1):
    wf.seed(seed)

    @wf.op
    def mlp(x, *, n):
        h = wf.relu("w1" @ x + wf.param("b1", o=5, init=np.linspace(-1, 1, 5)))
        return wf.param("w2", o=2, i=5) @ wf.dropout(h, 0.25, step=n)

    n = wf.counter("n")
    x, y = wf.input("x", b="batch", o=3), wf.input("y", b="batch", dtype="int32")
    model = mlp(n=n, label="mlp")
    loss = wf.mean(wf.cross_entropy(model(x), y), "...|... => 0")
    code = wf.seq(wf.grad_update(loss), wf.optim.sgd(loss, lr=0.1 * 0.9**n, momentum=0.9))
    return context.function(x, y, code=code, returns=loss), loss, model
"""
built: dict[str, Any] = {}
exec(MODEL, built)
build: Callable[..., Any] = built["build"]

EXPECTED = {
    "mlp.w1": "float32[5, 3]",
    "mlp.b1": "float32[5]",
    "mlp.w2": "float32[2, 5]",
    "sgd.momentum.mlp.w1": "float32[5, 3]",
    "sgd.momentum.mlp.b1": "float32[5]",
    "sgd.momentum.mlp.w2": "float32[2, 5]",
    "n": "int64[]",
}


# What there is


def test_state_is_what_outlives_a_run_before_and_after_the_first() -> None:
    ctx = wf.Context("interp")
    step, loss, model = build(ctx)
    before = ctx.state(step)
    assert kinds(before) == EXPECTED
    assert before["n"] == 0
    assert not before[next(label for label in before if "momentum" in label)].any()
    np.testing.assert_array_equal(before["mlp.b1"], np.linspace(-1, 1, 5, dtype=np.float32))
    fresh = wf.Context("interp")
    again, *_ = build(fresh)
    for xs, ys in batches(2):  # two lengths
        again(xs, ys)
        step(xs, ys)
    same(ctx.state(step), fresh.state(again))
    assert kinds(ctx.state(step)) == EXPECTED
    assert ctx.state(step)["n"] == 2
    assert list(ctx.state(model)) == ["mlp.w1", "mlp.b1", "mlp.w2"]
    assert list(ctx.state(loss)) == ["mlp.w1", "mlp.b1", "mlp.w2", "n"]
    assert list(ctx.state([model, loss])) == ["mlp.w1", "mlp.b1", "mlp.w2", "n"]
    assert list(ctx.state(model.param("w2"))) == ["mlp.w2"]
    assert ctx.state([]) == {}


def test_arrays_of_a_state_are_the_callers_own() -> None:
    ctx = wf.Context("interp")
    step, *_ = build(ctx)
    state = ctx.state(step)
    kept = copy.deepcopy(state)
    for xs, ys in batches(1):
        step(xs, ys)
    same(state, kept)
    state["mlp.w1"][:] = 7.0
    assert not (ctx.state(step)["mlp.w1"] == 7.0).any()


def _programs() -> dict[str, Callable[[], Any]]:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)

    def trained(loss: wf.Tensor, optimise: Any = wf.optim.adam) -> Any:
        return wf.seq(wf.grad_update(loss), optimise(loss, lr=0.1))

    def model() -> wf.Tensor:
        return wf.sum((wf.param("w", o=1) @ wf.data(x, batch=1, label="x")) ** 2, "...|... => 0")

    def accumulated() -> Any:
        loss = model()
        return wf.seq(loss.forward, loss.backprop)

    def partly() -> Any:
        @wf.cd
        def code() -> None:
            kept = wf.node("kept", b=[], i=[], o=3)
            kept[1] = wf.number(2.0)

        return code()

    def scanned() -> Any:
        a = wf.param("a", init=0.5)
        hs, h = wf.scan(lambda h, one: a * h + one, wf.data(x, batch=1), init=wf.param("h0", o=3, init=0.0))
        return trained(wf.sum(hs, "...|... => 0") + wf.sum(h, "... => 0"))

    def averaged() -> Any:
        @wf.cd
        def code(p: wf.Tensor) -> None:
            mean = wf.node("mean", init=0.0)
            mean[:] = 0.9 * mean + 0.1 * p
            seen = wf.node("seen")
            seen += p
            last = wf.node("last")
            last[:] = p

        return code(wf.param("p", o=3))

    def updated_data() -> Any:
        @wf.cd
        def code() -> None:
            table = wf.data(x, label="table")
            table += wf.data(x, label="step")

        return code()

    return {
        "adam": lambda: trained(model()),
        "only used": lambda: model().forward,
        "accumulated gradients": accumulated,
        "written in part": partly,
        "a scan": scanned,
        "averages": averaged,
        "data that is written": updated_data,
        "a stored value": lambda: (wf.given(model()) * 2.0).forward,
    }


FOUND = {
    "adam": "w adam.m.w adam.v.w adam.weight1.w adam.weight2.w",
    "only used": "w",
    "accumulated gradients": "w w.grad",
    "written in part": "kept",
    "a scan": "a h0",
    "averages": "p mean.p seen.p",
    "data that is written": "table",
    "a stored value": "einsum",
}


@pytest.mark.parametrize("name", _programs())
def test_what_is_found_in_code_is_what_a_routine_needs(name: str) -> None:
    """The footprint of compiled code is the other way to find out."""
    ctx = wf.Context("interp")
    step = ctx.compile(_programs()[name]())
    found = variables_of(step, ctx._engine)
    work = footprint_of(step.code)
    keep = {node for node in work.needs if not isinstance(node.init, Data | File) or node in work.written}
    keep |= {node for node, why in work.leaves.items() if why == "keeps its value between runs"}
    assert set(found.nodes.values()) == keep
    assert {node for node in found.from_zero if node.init is None} == work.recurrent
    labels = set(found.nodes)
    assert labels >= set(FOUND[name].split())
    assert len(labels) == len(FOUND[name].split()) or name == "a scan"


def test_what_never_got_a_value_is_left_out_and_not_missed() -> None:
    """Gradients that add up from run to run are there once a run left some."""
    ctx = wf.Context("interp")
    w = wf.param("w", o=2, init=1.0)
    loss = wf.sum(w * w, "... => 0")
    first = ctx.compile(wf.grad_update(loss), keep=[w.grad])
    more = ctx.compile(wf.seq(loss.forward, loss.backprop))
    assert list(ctx.state(more)) == ["w"]
    ctx.restore(more, {"w": np.array([1, 2], np.float32)})
    first()
    more()
    state = ctx.state(more)
    np.testing.assert_array_equal(state["w.grad"], [4, 8])
    more()
    np.testing.assert_array_equal(ctx[w.grad], [6, 12])
    ctx.restore(more, state)
    more()
    np.testing.assert_array_equal(ctx[w.grad], [6, 12])


def test_a_value_read_as_stored_is_state() -> None:
    """A sequence in parts, each beginning where the last one ended, interrupted between end and beginning."""
    h = wf.node("h", o=2, init=0.0)
    end = wf.tanh(h + wf.data(np.ones(2, np.float32), label="x")).named("end")

    @wf.cd
    def carry() -> None:
        h[:] = wf.given(end)

    code = carry()
    ctx, fresh = wf.Context("interp"), wf.Context("interp")
    run, move = ctx.compile(end.forward), ctx.compile(code)
    assert set(ctx.state([run, move])) == {"h.end"}
    run()
    state = ctx.state([run, move])
    assert set(state) == {"h.end", "end"}
    np.testing.assert_allclose(state["end"], np.tanh([1, 1]), rtol=1e-6)
    moved = fresh.compile(code)
    fresh.restore([fresh.compile(end.forward), moved], state)
    moved()
    np.testing.assert_array_equal(fresh[h], state["end"])


def test_two_things_of_one_label_are_told_with_their_lines() -> None:
    ctx = wf.Context("interp")
    one = wf.param("w", o=2)
    other = wf.param("w", o=2)
    with pytest.raises(wf.WeftError) as caught:
        ctx.state(ctx.compile((one * other).forward))
    text = str(caught.value)
    assert "two things that outlive a run are called `w`" in text
    assert "one = wf.param(" in text
    assert "other = wf.param(" in text
    n = wf.counter("w")
    with pytest.raises(wf.WeftError, match="are called `w`"):
        ctx.state(one * n)
    assert list(ctx.state([one, one * 2.0])) == ["w"], "one thing may come twice"


def test_counters_that_a_run_is_given_are_not_of_the_context() -> None:
    ctx = wf.Context("interp")
    n = wf.counter("n")
    code = (wf.param("w", o=2) * n).forward
    assert list(ctx.state(ctx.compile(code))) == ["w", "n"]
    assert list(ctx.state(ctx.compile(code, bindings=[n]))) == ["w"]


# Restoring


def test_all_that_does_not_fit_is_told_at_once_and_nothing_is_changed() -> None:
    ctx = wf.Context("interp")
    step, *_ = build(ctx)
    for batch in batches(2):
        step(*batch)
    before = ctx.state(step)
    state = ctx.state(step)
    state["mlp.w_1"] = state.pop("mlp.w1")
    state["extra"] = np.zeros(2, np.int8)
    state["mlp.b1"] = np.zeros((5, 1), np.float32)
    state["mlp.w2"] = state["mlp.w2"].astype("float64")
    state["n"] = np.array(-1)
    with pytest.raises(wf.WeftError) as caught:
        ctx.restore(step, state)
    assert caught.value.what == "the state does not fit: 1 missing, 2 unknown, 3 of another kind; nothing was restored"
    origin = f", made at {step.code and next(iter(variables_of(step, ctx._engine).nodes.values())).origin}"
    assert list(caught.value.notes) == [
        f"missing: `mlp.w1`, float32 of shape (5, 3){origin}; is it `mlp.w_1`?",
        "unknown: `mlp.w_1`, float32 of shape (5, 3); is it `mlp.w1`?",
        "unknown: `extra`, int8 of shape (2,)",
        "`mlp.b1` is float32 of shape (5,), and the state has float32 of shape (5, 1)",
        "`mlp.w2` is float32 of shape (2, 5), and the state has float64 of shape (2, 5)",
        "counter `n` counts from 0 to 2147483647, and the state has -1",
    ]
    assert "strict=False" in caught.value.fix
    same(ctx.state(step), before)


def test_what_fits_is_restored_if_that_is_asked_for() -> None:
    ctx = wf.Context("interp")
    step, *_ = build(ctx)
    before = ctx.state(step)
    done = ctx.restore(step, {"mlp.b1": np.ones(5, np.float32), "b1": 0.0, "n": np.zeros(2)}, strict=False)
    assert done.restored == ("mlp.b1",)
    assert done.missing == tuple(label for label in before if label not in ("mlp.b1", "n"))
    assert done.unknown == ("b1",)
    assert done.misfits == {"n": "`n` is one int64, and the state has float64 of shape (2,)"}
    assert not done.complete
    assert str(done).startswith("1 restored\nmissing: mlp.w1, mlp.w2, ")
    assert str(done).endswith("\nunknown: b1\n`n` is one int64, and the state has float64 of shape (2,)")
    same(ctx.state(step), {**before, "mlp.b1": np.ones(5, np.float32)})
    assert str(ctx.restore(step, before)) == "7 restored"


def test_restoring_before_anything_ran_draws_no_first_values() -> None:
    ctx = wf.Context("interp")
    w = wf.param("w", o=2, init=wf.normal())
    ctx.restore(w, {"w": np.array([3, 4], np.float32)})
    np.testing.assert_array_equal(ctx[w * 2.0], [6, 8])
    assert ctx._engine._initial.get((w.node.id,)) is None


def test_wrong_use_is_told() -> None:
    ctx, other = wf.Context("interp"), wf.Context("interp")
    w = wf.param("w", o=2)
    step = ctx.compile((w * 2.0).forward)
    cases: list[tuple[Callable[[], object], str, str]] = [
        (lambda: ctx.state("step"), "state is that of steps, layers or tensors, not of str", "ctx.function(…)"),
        (lambda: other.state(step), "<routine()> was made for another context", "the context that it was made for"),
        (lambda: ctx.restore(step, "w.npz"), "a state is arrays by label, as ctx.state gives them, not str", "wf.load"),
        (
            lambda: ctx.restore(step, {"w": "x"}),
            "what the state calls 'w' is no array: data must be numbers",
            "float32",
        ),
        (lambda: ctx.restore(step, {}, strict="no"), "`restore` takes True or False for `strict`, not 'no'", ""),
    ]
    for wrong, what, fix in cases:
        with pytest.raises(wf.WeftError) as caught:
            wrong()
        assert what in caught.value.what
        assert fix in caught.value.fix
        assert caught.value.origin is not None
        assert caught.value.origin.file == __file__


def test_no_memory_for_one_leaves_all_as_they_were() -> None:
    class Small(Interp):
        def allocate(self, buffer: Buffer, device: int) -> Any:
            if buffer.name == "b" and not enough:
                raise MemoryError
            return super().allocate(buffer, device)

    enough = False
    ctx = wf.Context(Small())
    a, b = wf.param("a", o=2, init=1.0), wf.param("b", o=2, init=1.0)
    ctx[a]
    with pytest.raises(wf.OutOfMemory):
        ctx.restore([a, b], {"a": np.zeros(2, np.float32), "b": np.zeros(2, np.float32)})
    enough = True
    same(ctx.state([a, b]), {"a": np.ones(2, np.float32), "b": np.ones(2, np.float32)})


# Resuming


@pytest.mark.parametrize(("backend", "suffix"), [("interp", ".npz"), ("cc", ".safetensors")])
def test_a_resumed_run_is_the_uninterrupted_one(backend: str, suffix: str, tmp_path: Path) -> None:
    """In a fresh context and in a fresh process, bit for bit: dropout, schedule and momentum included."""
    data = list(batches(6))
    np.savez(tmp_path / "data.npz", *(array for batch in data for array in batch))
    ctx = wf.Context(backend)
    step, *_ = build(ctx)
    losses = [step(*batch) for batch in data[:3]]
    wf.save(tmp_path / f"half{suffix}", ctx.state(step), metadata={"batch": "3"})
    losses += [step(*batch) for batch in data[3:]]
    fresh = wf.Context(backend)
    again, *_ = build(fresh)
    again(*data[0])  # whatever ran before is forgotten
    fresh.restore(again, wf.load(tmp_path / f"half{suffix}"))
    rest = [again(*batch) for batch in data[3:]]
    assert [one.tobytes() for one in rest] == [one.tobytes() for one in losses[3:]]
    same(fresh.state(again), ctx.state(step))
    code = f"""
{MODEL}
ctx = wf.Context({backend!r})
step, *_ = build(ctx)
folder = {str(tmp_path)!r}
ctx.restore(step, wf.load(f"{{folder}}/half{suffix}"))
with np.load(f"{{folder}}/data.npz") as data:
    arrays = list(data.values())
for at in range(int(wf.load_metadata(f"{{folder}}/half{suffix}")["batch"]), 6):
    step(*arrays[2 * at : 2 * at + 2])
wf.save(f"{{folder}}/end{suffix}", ctx.state(step))
"""
    done = run_python(code, *(Path(one) for one in sys.path if one))
    assert done.returncode == 0, done.stderr
    found = wf.load(tmp_path / f"end{suffix}")
    same({label: found[label] for label in ctx.state(step)}, ctx.state(step))


# Pickling


def test_pickling_and_copying_say_how_to_save() -> None:
    ctx = wf.Context("interp")
    step, _, model = build(ctx)
    routine = ctx.compile(model.param("w1").forward)
    things = {
        "tensor `mlp.w1`": model.param("w1"),
        "layer `mlp`": model,
        "a context": ctx,
        "a device": ctx.devices[0],
        "a routine": routine,
        "a function": step,
    }
    for what, thing in things.items():
        for through in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(wf.WeftError) as caught:
                through(thing)
            assert (
                caught.value.what == f"{what} is neither pickled nor copied: it belongs to the program that is running"
            )
            assert "wf.save(path, ctx.state(step))" in caught.value.fix
            assert caught.value.origin is not None
            assert caught.value.origin.file == __file__


def test_the_state_of_a_layer_has_its_running_statistics() -> None:
    norm = wf.nn.batch_norm(label="bn")
    norm(wf.data(np.ones((5, 3), "float32"), batch=1)).dims
    assert [*wf.Context("interp").state(norm)] == ["bn.gamma", "bn.beta", "bn.running_mean", "bn.running_var"]
    assert [one.label for one in norm.statistics] == ["bn.running_mean", "bn.running_var"]

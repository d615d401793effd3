"""Training from beginning to end: the steps one would write, evaluation, early stopping, callbacks, Ctrl-C."""

from __future__ import annotations

import io
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import weft as wf
from train.models import classifier, cross_entropy, points, squares
from weft.train.progress import line

X, Y = points()


def adam(loss: wf.Tensor) -> Any:
    return wf.optim.adam(loss, lr=0.02)


def fitted(**options: Any) -> tuple[wf.train.History, Any]:
    model = classifier()
    options = {"epochs": 3, "batch_size": 8, "optimise": adam, "context": wf.Context("interp"), **options}
    return wf.train.fit(model, cross_entropy, options.pop("data", (X, Y)), **options), model


def test_fit_takes_the_steps_one_would_write() -> None:
    history, model = fitted(seed=5)
    again, ctx = classifier(), wf.Context("interp")
    step = wf.train.step(ctx, lambda x, y: cross_entropy(again(x), y), adam)
    batches = wf.data.batches(X, Y, batch_size=8, shuffle=True, seed=5)
    losses = [step(x, y) for _ in range(3) for x, y in batches]
    assert history.losses.tolist() == losses
    assert (len(history), history.stopped, [one.steps for one in history]) == (3, "epochs", [3, 6, 9])
    assert history[0].loss == pytest.approx(np.average(losses[:3], weights=[8, 8, 6]))
    for one, other in zip(model.params, again.params, strict=True):  # type: ignore[attr-defined]
        assert (history.context[one] == ctx[other]).all()


def test_it_learns_and_says_so() -> None:
    test = points(40, seed=1)
    metrics = {"accuracy": wf.train.accuracy}
    history, model = fitted(epochs=40, validation=test, metrics=metrics, context=wf.Context("cc"))
    assert history[-1].validation["accuracy"] > 0.9
    assert history[-1].loss < history[0].loss / 2
    found = wf.train.evaluate(model, test, metrics, context=history.context, batch_size=7)
    assert found["accuracy"] == pytest.approx(history[-1].validation["accuracy"])
    logits = wf.train.predict(model, test[0], batch_size=16, context=history.context)
    assert np.mean(logits.argmax(1) == test[1]) == pytest.approx(found["accuracy"])
    assert wf.train.evaluate(model, test, context=history.context)["accuracy"] == pytest.approx(found["accuracy"])


def test_a_history_prints_and_plots_itself(tmp_path: Path) -> None:
    history, _ = fitted(validation=(X, Y), metrics={"accuracy": wf.train.accuracy})
    lines = str(history).splitlines()
    assert lines[0].split() == ["epoch", "steps", "loss", "accuracy", "val_loss", "val_accuracy", "seconds"]
    assert lines[3].split()[:3] == ["2", "9", f"{history[2].loss:.4f}"]
    drawn = str(history.plot())
    assert "loss" in drawn
    assert "val_loss" in drawn
    assert str(history.plot("steps", height=3)) == str(wf.plot.curve({"steps": history.losses}, height=3))
    history.plot("accuracy").save(tmp_path / "h.png")
    assert (tmp_path / "h.png").read_bytes().startswith(b"\x89PNG")
    assert history.curve("val_loss") == [one.validation["loss"] for one in history]
    assert str(history[0]).startswith("epoch 0: loss ")
    with pytest.raises(wf.WeftError, match="the history has no `speed`"):
        history.curve("speed")


def test_the_loss_may_be_of_the_batch() -> None:
    w = wf.param("w", o=1, dtype="float64", init=0.0)
    x = np.linspace(-1, 1, 16)
    history = wf.train.fit(
        None,
        lambda x, y: squares(w * x, y),
        wf.data.batches(x, 3 * x, batch_size=4),
        epochs=20,
        optimise=lambda loss: wf.optim.sgd(loss, lr=0.5),
        metrics={"far": lambda x, y: wf.mean(wf.abs(w * x - y), "...|... => 0")},
        context=wf.Context("interp"),
    )
    assert history.context[w].item() == pytest.approx(3, abs=1e-3)
    assert history[-1].metrics["far"] < 0.01


def test_batches_may_come_from_a_function_or_a_list() -> None:
    seen: list[int] = []

    def epoch(number: int) -> Iterator[Any]:
        seen.append(number)
        yield X[:5], Y[:5]
        yield X[5:9], Y[5:9]

    one, _ = fitted(data=epoch, batch_size=None)
    other, _ = fitted(data=[(X[:5], Y[:5]), (X[5:9], Y[5:9])], batch_size=None)
    assert one.losses.tolist() == other.losses.tolist()
    assert seen == [0, 1, 2]


def test_early_stopping_leaves_the_best() -> None:
    """Validation asks for the opposite: it grows worse from the first epoch on."""
    kept, model = fitted(epochs=20, validation=(X, 1 - Y), early_stopping=2, keep_best=True)
    assert (kept.stopped, len(kept), kept.best) == ("early", 3, 0)
    one, first = fitted(epochs=1)
    assert all((kept.context[a] == one.context[b]).all() for a, b in zip(model.params, first.params, strict=True))


def test_callbacks_are_told_and_may_end_the_run() -> None:
    told: list[int] = []

    def watch(record: wf.train.EpochRecord) -> bool:
        told.append(record.epoch)
        return record.epoch == 1

    history, _ = fitted(callbacks=[watch, lambda record: None])
    assert (told, history.stopped, len(history)) == ([0, 1], "callback", 2)


@pytest.mark.parametrize("devices", [1, 2])
def test_compile_options_reach_everything_that_is_compiled(devices: int) -> None:
    """Rounded products are seen in what comes out: in losses, metrics and outputs."""
    random = np.random.default_rng(0)
    x, y = random.normal(size=(64, 48)).astype("float32"), random.integers(0, 8, 64).astype("int32")

    def found(options: wf.CompileOptions | None) -> list[Any]:
        wf.seed(0)
        ctx, model = wf.Context("cc", devices=devices), wf.nn.mlp(hid_dims=[32], o=8, label="mlp")
        where: dict[str, Any] = {"context": ctx, "options": options}
        made = wf.train.fit(model, wf.nn.cross_entropy, (x, y), validation=(x, y), batch_size=64, **where)
        fresh = wf.nn.mlp(hid_dims=[32], o=8, label="fresh")
        maker = wf.train.step if devices == 1 else wf.train.data_parallel
        step = maker(ctx, lambda x, y: wf.nn.cross_entropy(fresh(x), y), wf.optim.adam, options=options)
        tokens = wf.nn.gpt(vocab_size=8, max_len=64, d_model=32, num_layers=1, num_heads=2, label="gpt")
        generated = tokens.generate([1, 2, 3], max_new=1, temperature=1e-9, **where)
        return [
            *made.losses,
            made[0].validation["loss"],
            step(x, y),
            wf.train.evaluate(fresh, (x, y), wf.nn.cross_entropy, **where)["loss"],
            wf.train.predict(fresh, x, **where).tobytes(),
            len(generated),
        ]

    usual, rounded = found(None), found(wf.CompileOptions(products="bfloat16", machine=wf.config.machine))
    assert all(a != b for a, b in zip(usual[:-1], rounded[:-1], strict=True))
    with wf.config.using(products="bfloat16"):
        assert found(None) == rounded


def interrupting(number: int, act: Callable[[], object]) -> Callable[[int], Iterator[Any]]:
    """Batches among which something happens, before the one of a number."""

    def epoch(_: int) -> Iterator[Any]:
        for at in range(4):
            if at == number:
                act()
            yield X[:6], Y[:6]

    return epoch


def test_ctrl_c_ends_the_run_after_the_step_it_is_in() -> None:
    history, model = fitted(data=interrupting(2, lambda: signal.raise_signal(signal.SIGINT)), batch_size=None)
    assert (history.stopped, len(history.losses), len(history)) == ("interrupt", 3, 0)
    assert wf.train.predict(model, X, context=history.context).shape == (22, 2)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert str(history) == "no epoch is done; 3 steps"


def test_ctrl_c_twice_interrupts_at_once() -> None:
    def twice() -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        fitted(data=interrupting(1, twice), batch_size=None)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_interrupt_from_elsewhere_ends_the_run_too() -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    found: list[wf.train.History] = []
    thread = threading.Thread(target=lambda: found.append(fitted(data=interrupting(2, interrupt), batch_size=None)[0]))
    thread.start()
    thread.join()
    assert (found[0].stopped, len(found[0].losses)) == ("interrupt", 2)


def test_a_loss_that_is_no_number_ends_the_run() -> None:
    history, _ = fitted(data=(np.where(np.arange(22)[:, None] == 3, np.inf, X), Y), shuffle=False)
    assert (history.stopped, len(history.losses)) == ("not finite", 1)


def test_a_terminal_shows_a_line_and_a_pipe_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    fitted()
    assert capfd.readouterr() == ("", "")
    screen = io.StringIO()
    with line(True, 2, 10, Console(file=screen, force_terminal=True, width=100)) as shown:
        shown.step(1, 5, 0.25, 32)
    assert "epoch 2/2" in screen.getvalue()
    assert "loss 0.2500" in screen.getvalue()
    assert "examples/s" in screen.getvalue()


def test_a_model_is_found_in_the_context_that_holds_it() -> None:
    history, model = fitted()
    other = wf.Context("interp")
    assert wf.train.evaluate(model, (X, Y)) == wf.train.evaluate(model, (X, Y), context=history.context)
    other[model.params[0]] = np.zeros((8, 3))
    with pytest.raises(wf.WeftError, match="2 contexts hold parameters of the model"):
        wf.train.evaluate(model, (X, Y))


MISTAKES: dict[str, tuple[Callable[[], object], str]] = {
    "no data": (lambda: fitted(data=()), "there is no data"),
    "unequal": (lambda: fitted(data=(X, Y[:3])), "the arrays have different numbers of examples: 22, 3"),
    "one array": (lambda: fitted(data=X), "the data is one array, and a loss compares what the model gives"),
    "a generator": (
        lambda: fitted(data=iter([(X, Y)]), batch_size=None),
        "a list_iterator gives its batches once, and each epoch needs them",
    ),
    "a number": (lambda: fitted(data=3, batch_size=None), "data cannot be a int"),
    "two sizes": (
        lambda: fitted(data=wf.data.batches(X, Y)),
        "batch_size= cuts arrays into batches, and this data gives batches of its own",
    ),
    "no batches": (lambda: fitted(data=lambda epoch: [], batch_size=None), "epoch 0 has no batches"),
    "epochs": (lambda: fitted(epochs=-1), "epochs is a whole number from 0 on, not -1"),
    "patience": (lambda: fitted(early_stopping=0), "early_stopping is a whole number from 1 on, not 0"),
    "callback": (lambda: fitted(callbacks=[3]), "callbacks are functions of the record of an epoch, not [3]"),
    "a result": (lambda: fitted(callbacks=[lambda record: 3]), "callback `<lambda>` gave 3: True ends the run"),
    "metrics": (lambda: fitted(metrics={"accuracy": 3}), "metric `accuracy` is a function, not int"),
    "a metric": (lambda: fitted(metrics={"loss": squares}), "a metric cannot be called `loss`: the loss is"),
    "no metrics": (lambda: fitted(metrics=[]), "metrics are functions by name, not []"),
    "no model": (lambda: wf.train.fit(3, squares, (X, Y)), "a model is a function, not int"),  # type: ignore[arg-type]
    "no loss": (lambda: wf.train.fit(None, "mse", (X, Y)), "loss is a function, not str"),  # type: ignore[arg-type]
    "a loss": (
        lambda: wf.train.fit(lambda x: x, lambda y, t: 3, (X, Y), context=wf.Context("interp")),  # type: ignore[arg-type, return-value]
        "the loss gave int, not a tensor",
    ),
    "resume": (lambda: fitted(resume=True), "there is no folder of checkpoints to go on from, or to write to"),
    "a folder": (lambda: fitted(checkpoint=3), "checkpoint= takes a folder, not int"),
    "options": (lambda: fitted(options={"fast_math": True}), "options= takes wf.CompileOptions, not dict"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes_are_told(case: str) -> None:
    wrong, what = MISTAKES[case]
    with pytest.raises(wf.WeftError) as caught:
        wrong()
    assert caught.value.what.startswith(what)
    assert caught.value.fix
    assert caught.value.origin is not None
    assert caught.value.origin.file == __file__


def test_errors_call_the_arrays_of_a_batch_x_and_y() -> None:
    with pytest.raises(wf.WeftError) as caught:
        wf.train.fit(classifier(), wf.nn.cross_entropy, (X, X[:, 0] + 0.5), context=wf.Context("interp"))
    assert caught.value.what.startswith("cross_entropy takes whole numbers as ids, and `y` is float")


def test_no_metrics_may_be_said() -> None:
    assert fitted(metrics={})[0][0].metrics == {}


def test_habits_of_other_libraries_are_answered() -> None:
    model = classifier()
    model(wf.data(X, batch=1))
    for wrong, fix in (
        (lambda: model.fit, "wf.train.fit(model, loss, (x, y), epochs=10)"),  # type: ignore[attr-defined]
        (lambda: model.predict, "wf.train.evaluate(model, (x, y)), wf.train.predict(model, x)"),  # type: ignore[attr-defined]
        (lambda: wf.DataLoader, "wf.data.batches(x, y, batch_size=32, shuffle=True)"),  # type: ignore[attr-defined]
    ):
        with pytest.raises(wf.NoSuchName) as caught:
            wrong()
        assert caught.value.fix == fix


def test_sequences_have_two_batch_axes() -> None:
    """Ids `batch,time|1` are learned, measured and predicted token by token; labels of examples stay labels."""
    rows = np.random.default_rng(3).integers(0, 5, (12, 6)).astype("int32")
    after, ctx = (rows + 1) % 5, wf.Context("interp")
    model = wf.nn.embedding(vocab_size=5, o=5, label="next")
    options = {"batch_axes": 2, "context": ctx}
    history = wf.train.fit(
        model,
        wf.nn.cross_entropy,
        (rows, after),
        epochs=40,
        batch_size=12,
        optimise=adam_fast,
        progress=False,
        **options,
    )
    assert history.losses[-1] < 0.05 < history.losses[0]
    assert wf.train.evaluate(model, (rows, after), **options) == {"accuracy": 1.0}
    scores = wf.train.predict(model, rows, **options)
    assert scores.shape == (12, 6, 5)
    assert np.array_equal(scores.argmax(-1), after)
    seen: list[str] = []
    step = wf.train.step(ctx, lambda x, y: seen.append(f"{x} {y}") or cross_entropy(model(x), y), adam, batch_axes=2)
    with pytest.raises(wf.WeftError):
        step(rows, after[:, 0])
    assert seen == ["<x: batch,6|1 int32> <y: batch|1 int32>"]
    with pytest.raises(wf.WeftError, match="batch_axes"):
        wf.train.predict(model, rows, batch_axes=0, context=ctx)


@pytest.mark.parametrize("backend", ["interp", "cc"])
def test_accuracy_counts_the_labels_that_name_an_output(backend: str) -> None:
    scores, y = wf.input("scores", b="n", o=3), wf.input("y", b="n", dtype="int32")
    ctx, rows = wf.Context(backend), np.array([[0.1, 0.9, 0.0], [0.8, 0.2, 0.0], [0.0, 0.0, 1.0]])
    plain = ctx.function(scores, y, returns=wf.train.accuracy(scores, y))
    some = ctx.function(scores, y, returns=wf.train.accuracy(scores, y, ignore_index=-1))
    assert plain(rows, [1, 1, 2]).item() == some(rows, [1, 1, 2]).item() == pytest.approx(2 / 3)
    assert some(rows, [1, -1, 0]).item() == 0.5
    assert some(rows, [-1, -1, -1]).item() == 0.0
    for measure, labels, what in ((plain, [1, -1, 2], "`y[1]` is -1"), (some, [-1, 0, 3], "`y[2]` is 3")):
        with pytest.raises(wf.WeftError) as caught:
            measure(rows, labels)
        assert caught.value.what == f"{what}, and accuracy has 3 classes, 0 to 2"


def test_accuracy_of_one_output_is_refused() -> None:
    score = wf.data(np.ones((4, 1)), batch=1, label="score")
    with pytest.raises(wf.WeftError) as caught:
        wf.train.accuracy(score, wf.data(np.array([1, 0, 1, 1]), batch=1, label="y"))
    assert caught.value.what == "accuracy compares the largest output with the label, and `score` has one output"
    assert 'wf.mean(wf.equal(score > 0, y), "...|... => 0")' in caught.value.fix


def adam_fast(loss: wf.Tensor) -> Any:
    return wf.optim.adam(loss, lr=0.2)

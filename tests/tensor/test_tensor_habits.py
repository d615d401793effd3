"""Habits of other libraries get an answer: what to write here. Tracebacks end at the user's line."""

from __future__ import annotations

import inspect
import math
import operator
import os
import pickle
import re
import subprocess
import sys
import textwrap
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft import migration_hints

#: Where the functions are whose first argument is a tensor: those that others have as methods.
OF_TENSORS = ("activations", "elementary", "functions", "lookups", "shifts", "prefix", "reductions", "sorting")

X = wf.data(np.ones((3, 4), "float32"), batch=1, label="x")
W = wf.param("w", o=2)
LOSS = wf.einsum("...|... => 0", (W @ X) ** 2, label="loss")

LINEAR = wf.nn.linear(o=2, label="linear")
OUTER = wf.nn.residual(layer=wf.nn.linear(o=4, label="inner"), label="outer")
APPLIED = LINEAR(X), OUTER(X)
OPEN = wf.input("open", b="batch", o=3)

#: What somebody writes, what is said, and the beginning of the advice.
ANSWERS: dict[str, tuple[Callable[[], Any], str, str]] = {
    "backward": (
        lambda: LOSS.backward(),
        "a tensor has no `backward`",
        "weft compiles: step = ctx.compile(wf.grad_update(",
    ),
    "multinomial": (
        lambda: wf.multinomial,
        "weft has no `multinomial`",
        'wf.argmax(logits - wf.log(-wf.log(wf.random_uniform("u", step=n)))) draws one',
    ),
    "putting a layer into another": (
        lambda: OUTER.__setitem__("layer", LINEAR),
        "nothing is put into layer `outer` as `layer`: it has the layers that its function applies",
        "make a model with another layer there, and ctx.restore(model, state, strict=False) restores what fits",
    ),
    "a layer as an attribute": (
        lambda: setattr(OUTER, "head", LINEAR),
        "nothing is put into layer `outer` as `head`",
        "make a model with another layer there",
    ),
    "an array for a parameter": (
        lambda: setattr(LINEAR, "w", np.ones((2, 4))),
        "`w` of layer `linear` stays the tensor that it is",
        'set its values: ctx[layer["w"]] = …',
    ),
    "several tensors for one": (
        lambda: W @ (X, X),
        "`@` takes tensors and numbers, not tuple (<x: 3|4 float32>, <x: 3|4 float32>)",
        "take them apart, first, *others = …, or join them with wf.stack or wf.concat",
    ),
    "scan as others have it": (
        lambda: wf.scan(lambda h, x: h + x, 0.0, X),
        "wf.scan runs along the leftmost batch axis of `0`, and it is not known whether it has one",
        "what is run along comes before what it starts from: wf.scan(cell, xs, init=0.0)",
    ),
    "dims of what calls decide": (
        lambda: OPEN.dims,
        "the size `batch` of input `open` is decided by each call, and is needed before one",
        "make a function of it, step = ctx.function(open, …), and call that with arrays; print(t) shows a shape",
    ),
    "bf16": (
        lambda: wf.default_precision("bf16"),
        "'bf16' is not an element type",
        "use one of bool, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float8_e4m3fn, float8_e5m2, "
        "float16, bfloat16, float32, float64; did you mean 'bfloat16'?",
    ),
    "products in bf16": (
        lambda: wf.CompileOptions(products="bf16"),
        "config.products is one of 'float32', 'tf32', 'bfloat16', 'float16', not 'bf16'",
        "did you mean `bfloat16`?",
    ),
    "calling code": (lambda: wf.grad_update(LOSS)(), "code does nothing by itself", "step = ctx.compile(code); step()"),
    "calling a property": (lambda: LOSS.backprop(), "code does nothing by itself", "step = ctx.compile(code)"),
    "shape[0]": (lambda: X.shape[0], "`x.shape` is the shape as far as it is known", "t.dims is the closed shape"),
    "len(shape)": (lambda: len(X.shape), "`x.shape` is the shape as far", "t.dims is the closed shape"),
    "unpacked shape": (lambda: list(X.shape), "`x.shape` is the shape as far", "t.dims is the closed shape"),
    "dims[0]": (lambda: X.dims[0], "the shape 3|4 has three rows of axes, not one", "pick a row: .batch[0].size"),
    "a dimension as a number": (
        lambda: X / X.dims.output[0],
        "`/` takes tensors and numbers, not Dim",
        "a dimension has a",
    ),
    "np.exp": (lambda: np.exp(X), "np.exp works on arrays", "write wf.exp(…); np.exp(ctx[t]) works on its value"),
    "np.maximum": (lambda: np.maximum(X, 0), "np.maximum works on arrays", "write wf.maximum(…)"),
    "np.sum": (lambda: np.sum(X), "np.sum works on arrays", "write wf.sum(…)"),
    "np.mean": (lambda: np.mean(X), "np.mean works on arrays", "write wf.mean(…)"),
    "np.add.reduce": (lambda: np.add.reduce(X), "np.add works on arrays", "Python's operators do it"),
    "np.concatenate": (lambda: np.concatenate([X, X]), "np.concatenate works on arrays", "wf.concat(a, b)"),
    "np.where": (lambda: np.where(X, 1, 2), "np.where works on arrays", "write wf.where(…)"),
    "np.linalg.norm": (lambda: np.linalg.norm(X), "np.norm works on arrays", "write wf.norm(…)"),
    "an array in place": (lambda: np.ones((3, 4)).__iadd__(X), "np.add works on arrays", "Python's operators"),
    "array @ tensor": (
        lambda: np.ones((4, 4)) @ X,
        "`@` takes tensors and numbers, not an array",
        "wrap it: wf.data(",
    ),
    "==": (lambda: X == 1, "`x == 1` would not compare values", "write wf.equal(t, x)"),
    "!=": (lambda: X != 2, "`x != 2` would not compare values", "write wf.not_equal(t, x)"),
    "an array": (lambda: operator.eq(X, np.ones(4)), "`x == an array` would not compare values", "write wf.equal("),
    "round": (lambda: round(X), "`x` is a tensor to be computed, which Python does not round", "write wf.round(t)"),
    "round to digits": (
        lambda: round(X, 2),
        "`x` is a tensor to be computed, which Python does not round",
        "write wf.round(t * 100) / 100",
    ),
    "floor": (lambda: math.floor(X), "`x` is a tensor to be computed, which Python does not round", "write wf.floor"),
    "ceil": (lambda: math.ceil(X), "`x` is a tensor to be computed, which Python does not round", "write wf.ceil"),
    "trunc": (lambda: math.trunc(X), "`x` is a tensor to be computed, which Python does not round", "write wf.cast("),
    "complex": (lambda: complex(X), "`x` is a tensor to be computed", "its value is ctx[t]"),
    "divmod": (lambda: divmod(X, 2), "`x` is a tensor to be computed, which divmod does not", "write a // b, a % b"),
    "in": (lambda: 1 in X, "`x` is a tensor to be computed, and `in` does not", "whether a value is among those of a"),
    "a format": (
        lambda: f"{X:.2f}",
        "`x` is a tensor to be computed",
        "its value is ctx[t]: one number is ctx[t].item()",
    ),
    "a type of NumPy": (
        lambda: wf.cast(X, np.float32),
        "`cast` takes text for `dtype`, not <class 'numpy.float32'>",
        'element types are text: dtype="float32"',
    ),
    "a tensor for a type": (
        lambda: wf.cast(X, X),
        "`cast` takes text for `dtype`, not <x:",
        'element types are text: dtype="float32"',
    ),
    "a class for a type": (
        lambda: wf.cast(X, list),
        "`cast` takes text for `dtype`, not <class 'list'>",
        'element types are text: dtype="float32"',
    ),
    "an axis by its number": (
        lambda: wf.sum(X, 0),
        "`sum` takes text for `spec`, not 0",
        "axes have no numbers: a spec",
    ),
    "data of a type": (
        lambda: wf.data(np.ones(3), dtype="float32"),
        "`data` has no argument `dtype`",
        'an array is taken in the type it has: wf.data(x.astype("float32"))',
    ),
    "concat along an axis": (lambda: wf.concat(X, X, axis=1), "`concat` has no argument `axis`", 'kind="batch" joins'),
    "a device": (lambda: X.to("cuda"), "a tensor has no `to`", "where it is computed a context says, wf.Context("),
    "elements where a mask holds": (
        lambda: X[X > 2],
        "`x` cannot be indexed by the truths of `lt`",
        "wf.where(mask, x, 0) chooses and keeps all sizes",
    ),
    "elements where a mask of data holds": (
        lambda: X[0, wf.data(np.array([True, False, True, True]), label="m")],
        "`x` cannot be indexed by the truths of `m`",
        "wf.where(mask, x, 0) chooses and keeps all sizes",
    ),
    "int": (lambda: int(X), "`x` is a tensor to be computed", "its value is ctx[t]"),
    "np.linalg.det": (lambda: np.linalg.det(X), "np.det works on arrays", "np.det(ctx[t]) works on its value"),
    "wf.amax": (lambda: wf.amax(X), "weft has no `amax`", "wf.max(t); of two tensors wf.maximum(x, y)"),
    "wf.clamp": (lambda: wf.clamp(X, 0, 1), "weft has no `clamp`", "wf.clip(t, low, high)"),
    "wf.arctan2": (lambda: wf.arctan2(X, X), "weft has no `arctan2`", "wf.atan2(y, x)"),
    "wf.sum(axis=)": (lambda: wf.sum(X, axis=1), "a reduction has no argument `axis`", "name the axes, and leave out"),
    "wf.zeros": (lambda: wf.zeros(3), "weft has no `zeros`", "wf.constant(0.0) takes the shape its use needs"),
    "wf.matmul": (lambda: wf.matmul(X, X), "weft has no `matmul`", "a @ b"),
    "wf.Adam": (lambda: wf.Adam, "weft has no `Adam`", "wf.optim.sgd(loss, lr=0.1), wf.optim.adamw(loss)"),
    "wf.relo": (lambda: wf.relo(X), "weft has no `relo`", "did you mean wf.relu?"),
    "t.mean": (lambda: X.mean(), "a tensor has no `mean`", "wf.mean(t)"),
    "t.exp": (lambda: X.exp(), "a tensor has no `exp`", "wf.exp(t)"),
    "t.reshape": (lambda: X.reshape(4, 3), "a tensor has no `reshape`", "`@` and einsum take axes as they are"),
    "t.numpy": (lambda: X.numpy(), "a tensor has no `numpy`", "a tensor is computed by a context"),
    "t.item": (lambda: LOSS.item(), "a tensor has no `item`", "a tensor is computed by a context"),
    "t.size": (lambda: X.size(), "a tensor has no `size`", "t.dims has its sizes"),
    "t.astype": (lambda: X.astype("float16"), "a tensor has no `astype`", 'wf.cast(t, "float32")'),
    "t.lable": (lambda: X.lable, "a tensor has no `lable`", "did you mean t.label?"),
    "accum='sum'": (lambda: wf.einsum("i=>0", X, accum="sum"), "there is no accumulation 'sum'", 'write accum="+"'),
    "accum='avg'": (lambda: wf.einsum("i=>0", X, accum="avg"), "there is no accumulation 'avg'", 'write accum="mean"'),
    "accum='q'": (
        lambda: wf.einsum("i=>0", X, accum="q"),
        "there is no accumulation 'q'",
        "accumulate with one of +, *",
    ),
    "param(out=)": (lambda: wf.param("w", out=3), "`param` has no argument `out`", "did you mean `o=`?"),
    "param(intit=)": (lambda: wf.param("w", intit=3), "`param` has no argument `intit`", "did you mean `init=`?"),
    "param(o)": (lambda: wf.param("w", 3), "`param` was given too many arguments without a name", "call it param(name"),
    "adam(learning_rate=)": (
        lambda: wf.optim.adam(LOSS, learning_rate=0.1),
        "`adam` has no argument `learning_rate`",
        "did you mean `lr=`?",
    ),
    "sgd([w])": (
        lambda: wf.optim.sgd([W], lr=0.1),
        "an optimiser takes a loss, not list",
        "wf.optim.sgd(loss, lr=0.1)",
    ),
    "sgd without lr": (lambda: wf.optim.sgd(LOSS), "`sgd` needs the argument `lr`", "call it sgd(loss, lr=…"),
    "where with two": (lambda: wf.where(X, X), "`where` needs the argument `y`", "call it where(condition, x, y"),
    "where(a == b)": (
        lambda: wf.where(X == W, 1, 2),
        "where takes tensors and numbers, not the truth value",
        "`==` asks",
    ),
    "not(a == b)": (lambda: wf.logical_not(X == W), "not takes tensors and numbers, not the truth value", "`==` asks"),
    "positional indices": (
        lambda: wf.Context("interp").compile(LOSS.forward)(1),
        "static indices are given by name",
        "step(",
    ),
    "a list": (lambda: X * [1, 2], "`*` takes tensors and numbers, not list [1, 2]", "write the values out: wf.tensor"),
    "a layer as an operand": (
        lambda: X + LAYER,
        "`+` takes tensors and numbers, not Layer",
        "apply it to a tensor first",
    ),
    "a label that is none": (lambda: wf.relu(X, label=3), "`relu` takes text for `label`, not 3", ""),
    "a probability that is none": (
        lambda: wf.bernoulli("b", {}, step=0),
        "`bernoulli` takes a number for `probability`, not {}",
        "",
    ),
    "nothing to keep": (
        lambda: wf.Context("interp").compile(LOSS.forward, keep=None),
        "keep= takes a list, not NoneType",
        "",
    ),
    "the size of a list": (lambda: wf.dim([1], "i"), "`dim` takes a Tensor for `x`, not [1]", ""),
    "a kind of axis that is none": (
        lambda: wf.stack(X, X, kind=[]),
        "`stack` takes one of 'batch', 'input', 'output' for `kind`, not []",
        "",
    ),
    "wrong einsum size": (
        lambda: wf.einsum("...|i => 0", X, axis=1),
        "the spec has no label `axis`",
        "its labels are i",
    ),
}


@wf.op
def layer(x: wf.Tensor) -> wf.Tensor:
    return "w" @ x


LAYER = layer()


@pytest.mark.parametrize("name", ANSWERS)
def test_habits_of_other_libraries(name: str) -> None:
    habit, what, fix = ANSWERS[name]
    with pytest.raises(wf.WeftError) as caught:
        habit()
    assert caught.value.what.startswith(what), caught.value.what
    assert caught.value.fix.startswith(fix), caught.value.fix
    assert caught.value.origin is not None
    assert caught.value.origin.file == __file__


def test_names_that_are_missing_are_missing_attributes() -> None:
    assert not hasattr(wf, "matmul")
    assert not hasattr(X, "mean")
    assert not hasattr(X, "_repr_html_")
    assert getattr(X, "item", None) is None
    with pytest.raises(ImportError):
        from weft import summ  # noqa: F401


def test_every_function_has_a_name_that_habits_know() -> None:
    assert set(migration_hints.FUNCTIONS) <= set(wf.__all__)
    own = {name for name in wf.__all__ if wf._HOME[name].removeprefix("tensor.") in OF_TENSORS}
    assert own - {"cast", "interleave", "top_k"} | {"tril", "triu"} == set(migration_hints.FUNCTIONS)


def test_no_advice_speaks_of_what_there_is() -> None:
    """What weft has is not advised against, and what is advised is there."""
    for table in (migration_hints._MODULE, migration_hints._ANYWHERE):
        for name, advice in table.items():
            assert name not in wf.__all__, name
            for word in advice.replace("(", " ").replace(",", " ").replace(";", " ").split():
                if word.startswith("wf.") and word[3:].isidentifier():
                    assert word[3:] in wf.__all__, advice
    for name, advice in migration_hints._OPTIMISERS.items():
        assert name not in wf.optim.__all__, name
        assert all(one in wf.optim.__all__ for one in re.findall(r"wf\.optim\.(\w+)", advice)), advice
    assert not [name for name in migration_hints._TENSOR if name in dir(wf.Tensor)]
    assert not [name for name in migration_hints._LAYERS if name in dir(wf.Layer)]


def test_advised_specs_compute_what_is_said() -> None:
    ctx, t = wf.Context("interp"), wf.data(np.arange(8.0).reshape(2, 4), batch=1)
    value = ctx[t]
    split = wf.einsum("...|h&d => ...|hd", t, d=2)
    np.testing.assert_array_equal(ctx[split], value.reshape(2, 2, 2))
    np.testing.assert_array_equal(ctx[wf.einsum("...|hd => ...|h&d", split)], value)


@pytest.mark.parametrize("name", ["any", "all"])
def test_what_is_advised_computes_what_was_asked_for(name: str) -> None:
    with pytest.raises(wf.WeftError) as caught:
        getattr(wf, name)
    value = np.array([[1, 0, 2], [1, 1, 1], [0, 0, 0]])
    for rows in ({}, {"batch": 1}):
        names: dict[str, Any] = {"wf": wf, "t": wf.data(value, **rows)}
        found = wf.Context("interp")[eval(caught.value.fix or "", names)]
        np.testing.assert_array_equal(found, getattr(np, name)(value, axis=-1, keepdims=True))


def test_what_is_advised_turns_an_axis_round() -> None:
    with pytest.raises(wf.WeftError) as caught:
        wf.fliplr
    value = np.arange(6, dtype="float32").reshape(2, 3)
    names: dict[str, Any] = {"wf": wf, "t": wf.data(value, batch=1)}
    for advised in (caught.value.fix or "").split(", or "):
        np.testing.assert_array_equal(wf.Context("interp")[eval(advised, names)], value[:, ::-1])


def test_an_optimiser_by_the_name_others_give_it() -> None:
    with pytest.raises(AttributeError, match=r"wf\.optim has no `SGD`") as caught:
        wf.optim.SGD
    assert isinstance(caught.value, wf.WeftError)
    assert caught.value.fix == "write wf.optim.sgd(loss, lr=0.1), which is code"
    with pytest.raises(wf.WeftError, match=r"wf\.optim has no `OneCycleLR`") as caught:
        wf.optim.OneCycleLR
    assert caught.value.fix == "wf.optim.one_cycle(n, 0.1, steps=1000)"


def test_a_list_of_codes_and_options_that_are_no_labels() -> None:
    with pytest.raises(wf.WeftError, match="a list is not code") as caught:
        wf.seq([LOSS.forward, LOSS.forward])  # type: ignore[arg-type]
    assert caught.value.fix == "give what is in it one by one: wf.seq(*codes)"
    for wrong in ({"acum": "max"}, {"reduce": "max"}):
        with pytest.raises(wf.WeftError, match="the spec has no label") as caught:
            wf.einsum("...|...i => ...|...0", X, **wrong)  # type: ignore[arg-type]
        assert caught.value.fix == "did you mean accum=…? its labels are i"


def test_the_class_of_tensors_makes_none_of_values() -> None:
    with pytest.raises(wf.WeftError, match="a tensor is not made from list by its class") as caught:
        wf.Tensor([1.0, 2.0])  # type: ignore[arg-type]
    assert (caught.value.fix or "").startswith("wf.tensor([…])")


def test_advised_lookups_and_convolutions_run() -> None:
    ctx = wf.Context("interp")
    ids, table = np.array([[2], [0]]), np.arange(12.0).reshape(4, 3)
    rows = wf.einsum("v, d; ...|@v => ...|d", wf.data(table), wf.data(ids, batch=1))
    np.testing.assert_array_equal(ctx[rows], table[[2, 0]])
    x = wf.data(np.arange(16.0).reshape(1, 4, 4, 1), batch=1)
    pooled = wf.einsum("...|2*h<+p, 2*w<+q, c => ...|h, w, c", x, accum="max", p=2, q=2)
    assert ctx[pooled].ravel().tolist() == [5, 7, 13, 15]
    for name in ("embedding", "max_pool", "conv2d"):
        with pytest.raises(wf.WeftError) as caught:
            getattr(wf, name)
        assert "wf.einsum(" in (caught.value.fix or "")


# Tracebacks


ROUTINE = wf.Context("interp").compile(LOSS.forward)
PARALLEL = wf.train.data_parallel(wf.Context("interp"), wf.nn.mse, wf.optim.adam)
MISTAKES: dict[str, Callable[[], Any]] = {
    "a function": lambda: wf.einsum("ij=>", X),
    "an operator": lambda: X + wf.data(np.ones(7)),
    "a reflected operator": lambda: "w" @ X,
    "an attribute": lambda: X.mean,
    "a name": lambda: wf.matmul,
    "an argument": lambda: wf.param("w", out=3),
    "a property": lambda: wf.param("w").dims,
    "code": lambda: LOSS.forward(),
    "a shape": lambda: X.shape[0],
    "an optimiser": lambda: wf.optim.adam(LOSS, rate=1),
    "a context": lambda: wf.Context("interp")["x"],
    "a compilation": lambda: wf.Context("interp").compile(LOSS),
    "NumPy": lambda: np.exp(X),
    "an argument of another kind": lambda: wf.dim([1], "i"),
    "a run": lambda: ROUTINE(1),
    "a setting": lambda: setattr(wf.config, "products", "bf16"),
    "a layer": lambda: setattr(OUTER, "head", LINEAR),
    "a step on devices": lambda: PARALLEL(np.ones((3, 4)), np.ones((2, 4))),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_traceback_ends_at_the_user_s_line(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WEFT_TRACEBACK", raising=False)
    with pytest.raises(wf.WeftError) as caught:
        MISTAKES[name]()
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert [Path(frame.filename).name for frame in frames] == [Path(__file__).name] * 2
    assert frames[-1].name == "<lambda>"


def test_a_traceback_keeps_the_user_s_frames_between_weft_s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WEFT_TRACEBACK", raising=False)

    @wf.op
    def wide(x: wf.Tensor) -> wf.Tensor:
        return x + wf.data(np.ones(7))

    @wf.op
    def outer(x: wf.Tensor) -> wf.Tensor:
        with wf.comment("nothing"):
            return wide(x)

    @wf.cd
    def code() -> None:
        W.accumulate("nothing", 1.0)

    @wf.operator
    def odd(v: Any, v1: Any) -> None:
        v[:] = np.exp(v1)

    for call, names in (
        (lambda: wide(X), ["wide"]),
        (code, ["code"]),
        (lambda: odd(X), ["odd"]),
    ):
        with pytest.raises(wf.WeftError) as caught:
            call()
        frames = traceback.extract_tb(caught.value.__traceback__)
        assert {Path(frame.filename).name for frame in frames} == {Path(__file__).name}
        assert [frame.name for frame in frames][-len(names) :] == names


def test_the_whole_traceback_is_there_when_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_TRACEBACK", "full")
    with pytest.raises(wf.WeftError) as caught:
        MISTAKES["an operator"]()
    assert "infer.py" in "".join(traceback.format_tb(caught.value.__traceback__))


def test_a_cause_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WEFT_TRACEBACK", raising=False)
    with pytest.raises(wf.WeftError) as caught:
        wf.param("w", o=2, init=lambda shape: np.ones(shape))
    assert isinstance(caught.value.__cause__, TypeError)


def test_what_is_no_error_of_weft_keeps_its_traceback() -> None:
    @wf.op
    def broken(x: wf.Tensor) -> wf.Tensor:
        return x + 1 // 0

    with pytest.raises(ZeroDivisionError) as caught:
        broken(X)
    assert "layers.py" in "".join(traceback.format_tb(caught.value.__traceback__))


def test_code_of_one_s_own_called_wrongly_is_told_too() -> None:
    @wf.cd
    def wrong(p: wf.Tensor, *, lr: float) -> None:
        p -= lr

    with pytest.raises(wf.ArgumentError, match=r"`wrong` needs the argument `lr`[^§]*call it wrong\(p, lr=…\)"):
        wrong(W)


def test_a_script_shows_the_user_s_line_alone(tmp_path: Path) -> None:
    script = tmp_path / "model.py"
    script.write_text(
        textwrap.dedent("""\
            import numpy as np
            import weft as wf

            x = wf.data(np.ones((32, 3)), batch=1, label="x")
            w = wf.param("w", o=8, i=4)
            h = w @ x
        """)
    )
    env = {name: one for name, one in os.environ.items() if name != "WEFT_TRACEBACK"}
    env["PYTHONPATH"] = os.pathsep.join(sys.path)
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, env=env)
    head, _, said = done.stderr.partition("weft.errors.ShapeError: ")
    assert head.count("File ") == 1
    assert f'File "{script}", line 6, in <module>' in head
    assert said.startswith("model.py:6: the input axis of `w` cannot be both 4 and 3")


# What weft looks like from outside


def test_what_is_listed_is_public() -> None:
    assert dir(wf) == sorted(wf.__all__)
    assert all(hasattr(wf, name) for name in wf.__all__ if name != "torch")


def test_signatures_are_real() -> None:
    assert str(inspect.signature(wf.relu)).startswith("(x: ")
    assert [*inspect.signature(wf.where).parameters] == ["condition", "x", "y", "spec", "label"]
    assert [*inspect.signature(wf.maximum).parameters] == ["x", "y", "spec", "label"]
    assert wf.maximum.__name__ == "maximum"
    for name in wf.__all__:
        one = getattr(wf, name, None) if name != "torch" else None
        if inspect.isfunction(one):
            assert one.__doc__, name
            assert not any("args" in parameter for parameter in inspect.signature(one).parameters), name


def test_public_functions_pickle() -> None:
    for function in (wf.relu, wf.einsum, wf.where, wf.optim.sgd):
        assert pickle.loads(pickle.dumps(function)) is function


@pytest.mark.parametrize(
    ("get", "fix"),
    [
        (lambda: wf.data.DataLoader, "wf.data.batches(x, y, batch_size=32, shuffle=True)"),  # type: ignore[attr-defined]
        (lambda: wf.data.random_split, "wf.data.split(x, y, part=0.25)"),  # type: ignore[attr-defined]
        (lambda: wf.data.batche, "did you mean wf.data.batches?"),  # type: ignore[attr-defined]
        (lambda: wf.train.Trainer, "wf.train.fit(model, loss, (x, y), epochs=10)"),  # type: ignore[attr-defined]
        (lambda: wf.train.EarlyStopping, "early_stopping=3"),  # type: ignore[attr-defined]
        (lambda: wf.train.evaluat, "did you mean wf.train.evaluate?"),  # type: ignore[attr-defined]
        (lambda: wf.nn.Linear, "write wf.nn.linear"),
        (lambda: wf.nn.Module, "a model is a function under @wf.op"),
        (lambda: wf.nn.functional, "functions are under wf"),
        (lambda: wf.nn.DataParallel, "wf.train.data_parallel("),
        (lambda: wf.optim.Adam, "write wf.optim.adam(loss, lr=0.1)"),
        (lambda: wf.optim.zero_grad, "wf.grad_update(loss) begins with gradients of 0"),
        (lambda: wf.no_grad, "wf.stop_gradient(t)"),  # type: ignore[attr-defined]
        (lambda: wf.autocast, "wf.default_precision("),  # type: ignore[attr-defined]
        (lambda: wf.vmap, "wf.data(array, batch=1)"),  # type: ignore[attr-defined]
        (lambda: X.backward(), "wf.grad_update(loss)"),
        (lambda: X.to("cuda"), "wf.cast("),
        (lambda: X.item(), "ctx[t] is a NumPy array"),
        (lambda: X.detach(), "wf.stop_gradient(t)"),
        (lambda: X.masked_fill, "wf.where(mask, value, t)"),
    ],
)
def test_names_of_other_libraries_are_answered(get: Callable[[], object], fix: str) -> None:
    with pytest.raises(AttributeError) as caught:
        get()
    assert isinstance(caught.value, wf.WeftError)
    assert fix in caught.value.fix
    assert caught.value.origin is not None


def test_one_tensor_for_two_parts_of_a_carry_is_noticed() -> None:
    def forgets(carry: tuple[wf.Tensor, wf.Tensor], x: wf.Tensor) -> tuple[wf.Tensor, wf.Tensor]:
        h, c = carry
        h = wf.tanh(h + c + x)
        return h, h

    zero = wf.constant(0.0)
    with pytest.warns(wf.WeftWarning, match=r"leaves `tanh` for two parts of its carry, carry\[0\] and carry\[1\]"):
        wf.scan(forgets, X, init=(zero, zero))
    wf.scan(lambda carry, x: (carry[1], carry[0] + x), X, init=(zero, zero))
    wf.scan(lambda h, x: (h, h), X, init=zero)


def test_examples_looked_up_by_a_number_of_each_are_noticed() -> None:
    logp, a = wf.input("logp", b="batch", o=4), wf.input("a", b="batch", dtype="int32")
    with pytest.warns(wf.WeftWarning, match="`logp` is looked up along `batch`, its examples") as caught:
        logp[a]
    assert 'wf.einsum("...|v; ...|@v => ...|0", logp, a)' in str(caught[0].message)
    picked = wf.Context("interp").function(logp, a, returns=wf.einsum("...|v; ...|@v => ...|0", logp, a))
    assert picked(np.arange(8.0).reshape(2, 4), np.array([1, 3])).ravel().tolist() == [1.0, 7.0]
    logp[wf.input("others", b="some", dtype="int32")]

"""Wrong use that somebody met: told in words, at the line where it was made. `generators/misuse.py` draws more."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import weft as wf
from weft.cli import main

ctx = wf.Context("interp")
y = wf.data(np.ones(3), label="y") + 1.0
loss = wf.einsum("i => 0", wf.param("w", o=3, init=1.0) * y)

CASES: dict[str, tuple[Callable[[], object], str]] = {
    "a label that is a number": (
        lambda: wf.data(np.ones(3), label=5),  # type: ignore[arg-type]
        "`data` takes text for `label`, not 5",
    ),
    "a label that is nothing": (
        lambda: wf.data(np.ones(3), label=None),  # type: ignore[arg-type]
        "`data` takes text for `label`, not None",
    ),
    "a label of an operation": (lambda: wf.relu(y, label=["x"]), "`relu` takes text for `label`, not ['x']"),
    "a name that is a number": (lambda: y.named(3), "`named` takes text for `label`, not 3"),  # type: ignore[arg-type]
    "nothing to keep": (
        lambda: ctx.compile(y.forward, keep=None),  # type: ignore[arg-type]
        "keep= takes a list, not NoneType",
    ),
    "no bindings": (
        lambda: ctx.compile(y.forward, bindings=None),  # type: ignore[arg-type]
        "bindings= takes a list, not NoneType",
    ),
    "keeping a name": (lambda: ctx.compile(y.forward, keep="y"), "keep= takes a list, not str"),  # type: ignore[arg-type]
    "an optimiser of parameters": (
        lambda: wf.optim.sgd([loss], lr=0.1),  # type: ignore[arg-type]
        "an optimiser takes a loss, not list",
    ),
    "momentum that is an array": (
        lambda: wf.optim.sgd(loss, lr=0.1, momentum=np.ones(2)),  # type: ignore[arg-type]
        "`sgd` takes a number for `momentum`, not array([1., 1.])",
    ),
    "a probability that is none": (
        lambda: wf.bernoulli("b", "half", step=1),  # type: ignore[arg-type]
        "`bernoulli` takes a number for `probability`, not 'half'",
    ),
    "a file that is none": (lambda: wf.from_file(3), "a file is named by a path, not int"),  # type: ignore[arg-type]
    "an operator of an array": (
        lambda: wf.operator(np.ones(2), name="own"),  # type: ignore[call-overload]
        "an operator is defined by its forward function or a logic, not ndarray",
    ),
    "a size of an array": (
        lambda: wf.dim(np.ones(3), "i"),  # type: ignore[arg-type]
        "`dim` takes a Tensor for `x`, not array([1., 1., 1.])",
    ),
    "too many devices": (lambda: wf.Context("interp", devices=1 << 40), "backend 'interp' has 1024 devices here"),
    "a stage that is no text": (
        lambda: ctx.compile(y.forward).show(np.ones(2)),  # type: ignore[arg-type]
        "`show` takes text for `stage`, not array([1., 1.])",
    ),
    "training in no context": (
        lambda: wf.train.data_parallel("cc", lambda x: x, wf.optim.sgd),  # type: ignore[arg-type]
        "a training step needs a context, not str",
    ),
    "an initialiser that takes nothing": (
        lambda: wf.param("v", o=2, init=lambda: 1.0),  # type: ignore[arg-type, misc]
        "the initialiser of parameter `v` raised TypeError",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_told_where_it_is_made(case: str) -> None:
    wrong, what = CASES[case]
    with pytest.raises(wf.WeftError) as caught:
        wrong()
    assert caught.value.what.startswith(what)
    assert caught.value.origin is not None
    assert caught.value.origin.file == __file__


X = wf.data(np.ones((4, 3), "float32"), batch=1, label="x")
IDS = wf.data(np.zeros((2, 4), "int32"), batch=1, label="ids")
fixed, single = wf.input("fixed", b=32, o=3), wf.input("single", o=3)
#: What beginners write: what is wrong with it, and what to write instead.
FIXES: dict[str, tuple[Callable[[], object], str, str]] = {
    "a context that is called": (lambda: ctx(X), "a context is not called", "ctx[t] is the value of a tensor"),
    "a context that runs": (lambda: ctx.run(X), "a context has no `run`", "ctx[t] is the value of a tensor"),
    "a misspelt method": (lambda: ctx.functoin(X), "a context has no `functoin`", "did you mean ctx.function?"),
    "the name of a processor": (lambda: wf.Context("cpu"), "there is no backend 'cpu'", 'write "cc"'),
    "another name of a GPU": (lambda: wf.Context("gpu"), "there is no backend 'gpu'", 'write "cuda"'),
    "an array as a matrix": (
        lambda: X @ np.ones((3, 5)),
        "`@` takes tensors and numbers, not an array of shape (3, 5)",
        "wrap it: wf.data(x, batch=1), where batch= counts the first axes that hold examples; wf.data(x) if none do; a "
        "matrix to multiply by is wf.data(w, input=1)",
    ),
    "an array that is added": (lambda: X + np.ones(3), "`+` takes tensors and numbers, not an array of", "wrap it"),
    "a batch of another size": (
        lambda: ctx.function(fixed, returns=2.0 * fixed)(np.ones((10, 3))),
        "input `fixed` was given an array of shape (10, 3): declared is 32, not 10",
        'give it an array of [32, 3]; a size that each call decides has a name, b="batch"',
    ),
    "a batch to an input of one example": (
        lambda: ctx.function(single, returns=2.0 * single)(np.ones((10, 3))),
        "input `single` has 1 axis, and was given an array of shape (10, 3)",
        'give it an array of [3]; for batches declare it with b="batch"',
    ),
    "an array as an input": (
        lambda: ctx.function(np.ones((99, 9)), returns=X),
        "array([[1., 1., 1., 1., 1., 1., 1., 1., 1.], [1., 1., 1., 1… is not an input of a function",
        "inputs come first",
    ),
    "a gradient that is not kept": (
        lambda: ctx[loss.params[0].grad],
        "`w.grad` is not stored",
        "keep it: ctx.compile(code, keep=[t.grad]); of ctx.function return it: returns=wf.grad(loss, t)",
    ),
    "Python's max": (
        lambda: max(X, 0),  # type: ignore[call-overload]
        "`lt` is a tensor to be computed: it is neither true nor false",
        "wf.where chooses by a tensor, wf.logical_and and wf.maximum combine two; ctx[t] is its value",
    ),
    "Python's sum": (lambda: sum(X), "`x` cannot be iterated over", "t[0] is a slice of it, wf.sum(t) adds it up"),  # type: ignore[call-overload]
    "a shape instead of a name": (
        lambda: wf.random_standard_normal((3, 3), step=0),  # type: ignore[arg-type]
        "`random_standard_normal` takes text for `name`, not (3, 3)",
        "call it random_standard_normal(name, [step=…])",
    ),
    "operands before the spec": (
        lambda: wf.einsum(X, X, "ij; jk => ik"),  # type: ignore[arg-type]
        "`einsum` takes text for `spec`, not <x: 4|3 float32>",
        "call it einsum(spec, *operands, [accum=…]",
    ),
    "sizes by position": (
        lambda: wf.nn.embedding(10, 4),
        "`embedding` needs the configuration `vocab_size`",
        "call embedding(ids, vocab_size=…, o=…)",
    ),
    "a recurrence over nothing": (
        lambda: wf.nn.lstm(y, hid_dim=4),
        "a recurrence runs along the last batch axis of `add`, and it has none",
        "say which axes are batch axes: wf.data(x, batch=2)",
    ),
    "time that is no batch axis": (
        lambda: wf.nn.gpt(IDS, vocab_size=9, max_len=8, d_model=4, num_layers=1, num_heads=2),
        "gpt takes one token in each example, `batch,time|1`, and `ids` is 2|4",
        "make time a batch axis: wf.data(ids, batch=2)",
    ),
    "heads that do not divide": (
        lambda: wf.nn.gpt(IDS[..., :1], vocab_size=9, max_len=8, d_model=9, num_layers=1, num_heads=2),
        "a language model cannot share d_model=9 among 2 heads",
        "d_model=10, or other heads",
    ),
    "a cell of the carry alone": (
        lambda: wf.scan(lambda h: h, X, init=0.0),  # type: ignore[arg-type, misc]
        "the cell of wf.scan is called with a carry and a step's input, and takes (h)",
        "write it as def cell(carry, x), or lambda carry, x: …",
    ),
    "a window over nothing": (
        lambda: wf.einsum("i=+k => i", wf.data(np.ones(0), label="none"), k=3),
        "the axis that `i=+k` reads is empty, and 1 place of it is needed",
        "give it elements; a window needs some to run along",
    ),
    "a data loader": (lambda: wf.data.DataLoader(X), "wf.data has no `DataLoader`", "wf.data.batches("),  # type: ignore[attr-defined]
    "an array instead of a tensor": (
        lambda: wf.stop_gradient(np.ones((9, 9))),  # type: ignore[arg-type]
        "array([[1., 1., 1., 1., 1., 1., 1., 1., 1.], [1., 1., 1., 1… is not a tensor",
        "wrap it",
    ),
    "a name instead of a tensor": (
        lambda: ctx["w"],  # type: ignore[call-overload]
        "a context holds tensors, not str",
        'ctx[t] takes the tensor itself, such as ctx[model.param("w")]',
    ),
    "the name of a batch": (
        lambda: wf.data(np.ones(3), batch="b"),  # type: ignore[arg-type]
        "batch= counts axes of the array, and is 'b'",
        "write batch=1 for one axis; a size is said by b=",
    ),
    "rows of different lengths": (
        lambda: wf.data([[1, 2], [3]]),
        "the values do not form an array of numbers",
        "give rows of one length; wf.data.buckets pads sequences",
    ),
    "training that is true": (
        lambda: wf.nn.training(True),
        "a step is a number, a static index or a tensor that counts, not True",
        'n = wf.counter("n"); step=n',
    ),
    "a kernel of two sizes": (
        lambda: wf.nn.conv2d(wf.data(np.ones((2, 8, 8, 3)), batch=1), out_channels=4, kernel_size=(3, 3)),
        "conv2d takes a whole number from 1 on for `kernel_size`, not (3, 3)",
        "kernel_size=3, the same along every axis",
    ),
    "a picture": (lambda: wf.show(X), "weft has no `show`", "print(ctx.show(t))"),  # type: ignore[attr-defined]
    "the angle of other libraries": (lambda: wf.arctan2(X, X), "weft has no `arctan2`", "wf.atan2(y, x)"),  # type: ignore[attr-defined]
}


@pytest.mark.parametrize("case", FIXES)
def test_beginners_are_told_what_to_write(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """At their line, where the traceback ends."""
    monkeypatch.delenv("WEFT_TRACEBACK", raising=False)
    wrong, what, fix = FIXES[case]
    with pytest.raises(wf.WeftError) as caught:
        wrong()
    assert caught.value.what.startswith(what)
    assert caught.value.fix.startswith(fix)
    assert caught.value.origin is not None
    assert caught.value.origin.file == __file__
    assert caught.traceback[-1].path == Path(__file__)


def test_the_sides_of_an_angle_have_their_names() -> None:
    """`atan2(y, x)`, by name as by place."""
    up, right = wf.data(np.array([1.0, 0.0])), wf.data(np.array([0.0, -1.0]))
    np.testing.assert_allclose(ctx[wf.atan2(y=up, x=right)], [np.pi / 2, np.pi])
    np.testing.assert_allclose(ctx[wf.atan2(up, right)], [np.pi / 2, np.pi])


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["--sizes", "M=4", "K=3", "N=5", "--seed", "-1"], 2, "--seed"),
        (
            ["--sizes", "M=4", "K=3", "N=99999999999999999999"],
            2,
            "there is no memory for `B` of 3×99999999999999999999",
        ),
        (["--sizes", "M=4", "K=3", "N=5", "--times", "9999999999"], 2, "'9999999999' is not a whole number"),
        (["--def", "__init__"], 2, "there is no definition `__init__`"),
        (["--def", "_definitions"], 2, "there is no definition `_definitions`"),
        (["--backend", "tpu", "--sizes", "M=4", "K=3", "N=5"], 2, "there is no backend 'tpu'"),
    ],
)
def test_told_on_the_command_line(
    arguments: list[str], status: int, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mm.tc"
    path.write_text("def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }")
    try:
        found = main(["tc", "run", str(path), *arguments])
    except SystemExit as ended:
        found = int(str(ended.code))
    out, err = capsys.readouterr()
    assert (found, out) == (status, "")
    assert message in err
    assert "Traceback" not in err


def test_a_label_of_another_kind_is_named_whatever_else_is_declared() -> None:
    """Also by functions whose declarations only type checkers can read, and by layers of the user's."""
    ids = wf.data(np.array([1, 2]), label="ids")
    with pytest.raises(wf.WeftError, match="`bincount` takes str for `label`, not 5"):
        wf.bincount(ids, 3, label=5)  # type: ignore[arg-type]

    @wf.op
    def doubled(x: wf.Tensor) -> wf.Tensor:
        return x * 2.0

    with pytest.raises(wf.WeftError, match="`doubled` takes str for `label`, not 5"):
        doubled(ids, label=5)

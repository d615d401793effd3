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

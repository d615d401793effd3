"""`wf.summary`: parameters by layer, what a step keeps, what a run costs."""

from __future__ import annotations

import numpy as np
import pytest

import weft as wf


@wf.op
def dense(x: wf.Tensor, *, width: int) -> wf.Tensor:
    return wf.relu("w" @ x + wf.param("b", o=width))


@wf.op
def mlp(x: wf.Tensor) -> wf.Tensor:
    hidden = dense(dense(x, width=4, label="L1"), width=300, label="L2")
    return wf.param("w", o=2, dtype="float16") @ hidden


TABLE = """\
layer   parameter   shape  type     numbers     memory
mlp.L1  w            3->4  float32       12   48 bytes
        b               4  float32        4   16 bytes
mlp.L2  w          4->300  float32    1 200  4.688 KiB
        b             300  float32      300  1.172 KiB
mlp     w          300->2  float16      600  1.172 KiB
all                                   2 116  7.094 KiB"""


def build() -> tuple[wf.Tensor, wf.Layer, wf.Tensor]:
    x = wf.input("x", b="batch", o=3)
    model = mlp(label="mlp")
    return x, model, wf.sum(model(x), "...|... => 0")


def test_the_parameters_of_a_model_and_of_a_loss_are_a_table() -> None:
    _, model, loss = build()
    found = wf.summary(model)
    assert str(found) == str(wf.summary(loss)) == repr(found) == TABLE
    assert (found.parameters, found.bytes) == (2116, 4 * (12 + 4 + 1200 + 300) + 2 * 600)


def test_a_step_has_state_and_a_run_has_a_cost() -> None:
    x, _, loss = build()
    ctx = wf.Context("cc")
    step = ctx.function(x, code=wf.seq(wf.grad_update(loss), wf.optim.sgd(loss, lr=0.1, momentum=0.9)), returns=loss)
    before = wf.summary(step)
    kept = 4 * before.parameters  # a momentum for each number, in single precision
    assert before.kept == kept
    assert str(before).splitlines()[-2:] == [
        f"kept between runs beside these: {kept / 1024:.4g} KiB",
        "what a run costs depends on its sizes: wf.summary(step, batch=…)",
    ]
    found = wf.summary(step, batch=8)
    assert found.run is not None
    assert found.run.flops == step.cost(batch=8).total.flops
    assert found.run.moved == step.cost(batch=8).total.footprint
    assert found.run.scratch == step.memory(batch=8).size
    flops = f"{found.run.flops:,}".replace(",", " ")
    assert str(found).splitlines()[-1].startswith(f"a run: {flops} flops, ")
    with pytest.raises(wf.WeftError, match="what runs depends on batch=…"):
        wf.summary(step, rows=8)


def test_a_routine_is_summed_up_without_sizes() -> None:
    w = wf.param("w", o=2, i=3)
    code = (w @ wf.data(np.ones((5, 3), np.float32), batch=1)).forward
    found = wf.summary(wf.Context("cc").compile(code))
    assert found.run is not None
    assert found.run.flops == 5 * 2 * 3 * 2
    told = str(wf.summary(wf.Context("interp").compile(code)))
    assert told.endswith("what a run costs is not counted where code is not cut into kernels")


def test_what_is_not_known_yet_is_a_question_mark_and_stays_open() -> None:
    w = wf.param("w")
    found = wf.summary(w * 2.0)
    assert str(found).splitlines()[1].split() == ["w", "...->...", "float32", "?", "?"]
    assert found.parameters == 0
    assert repr(w) == "<w: ...->...>"


def test_notebooks_get_a_table_that_is_escaped() -> None:
    html = wf.summary(wf.param("<b>", o=2))._repr_html_()
    assert "<td>&lt;b&gt;</td><td>2</td><td>float32</td><td>2</td><td>8 bytes</td>" in html
    assert "<b>" not in html


def test_wrong_use_is_told() -> None:
    with pytest.raises(wf.WeftError, match="there is no summary of int"):
        wf.summary(3)  # type: ignore[arg-type]
    with pytest.raises(wf.WeftError, match="batch is a size of a function alone"):
        wf.summary(wf.param("w", o=2), batch=3)
    with pytest.raises(wf.WeftError, match="`mlp` has no parameters yet"):
        wf.summary(mlp(label="mlp"))

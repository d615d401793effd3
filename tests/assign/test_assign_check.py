"""What code cannot mean is refused when it is compiled; what is hardly meant is warned of."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.assign import Code

HERE = Path(__file__).name


def compiled(code: Code, **options: Any) -> wf.Routine:
    return wf.Context("interp").compile(code, **options)


def refused(make: Callable[[], object]) -> wf.WeftError:
    with pytest.raises(wf.WeftError) as caught:
        make()
    return caught.value


def sums(*tensors: wf.Tensor) -> wf.Tensor:
    return wf.einsum(";".join(["i"] * len(tensors)) + "=>0", *tensors)


# A loss is one number


def test_a_loss_of_several_numbers() -> None:
    x = wf.data(np.ones((4, 3)), batch=1, label="x")
    loss = (wf.param("w", o=2) @ x).named("loss")
    update = wf.grad_update(loss)
    error = refused(lambda: compiled(update))
    assert str(error).splitlines() == [
        f"{HERE}:{error.origin.line if error.origin else 0}: the loss `loss` is 4|2, 8 numbers, and a gradient starts "
        "from one",
        "    update = wf.grad_update(loss)",
        f"  it was made at {HERE}:{loss.node.origin.line if loss.node.origin else 0}: "
        'loss = (wf.param("w", o=2) @ x).named("loss")',
        '  fix: reduce it: wf.mean(loss, "...|...->... => 0"), or wf.sum; '
        "or ask for the gradient of the sum: wf.grad_update(loss, sum=True), wf.grad(loss, x, d=1)",
    ]


def test_a_loss_is_checked_when_its_shape_closes() -> None:
    """Making code closes nothing, and a shape may still become one number."""
    w = wf.param("w", init=2.0)
    loss = w * w
    update = wf.grad_update(loss)
    assert str(loss.shape) == "...->..."
    w + wf.tensor([1.0])
    compiled(update)()


def test_backpropagation_from_several_numbers() -> None:
    p = wf.param("p", o=3)
    assert "is 3, 3 numbers, and a gradient starts from one" in refused(lambda: compiled((p * p).backprop)).what


# Whole numbers


@pytest.mark.parametrize("dtype", ["int32", "uint8", "bool"])
def test_a_parameter_of_whole_numbers_is_not_differentiated(dtype: str) -> None:
    p = wf.param("p", o=3, init=2, dtype=dtype)
    loss = sums(p * 0.5, wf.data(np.ones(3)))
    for code in (wf.grad_update(loss), wf.optim.sgd(loss, lr=0.4)):
        error = refused(lambda code=code: compiled(code))
        assert error.what == f"`p` holds whole numbers ({dtype}), and nothing is differentiated by those"
        assert error.origin == p.node.origin
    compiled(loss.forward)()
    compiled(wf.grad_update(sums(wf.param("q", o=3) * wf.stop_gradient(p))))()


# A gradient that is read before it is computed


def penalised(p: wf.Tensor) -> tuple[wf.Tensor, wf.Tensor]:
    loss = sums(p * p, p)
    return loss, loss + 0.1 * sums(p.grad, p.grad)


def test_a_loss_that_reads_what_its_update_clears() -> None:
    p = wf.param("p", o=3, init=2.0)
    _, total = penalised(p)
    error = refused(lambda: wf.grad_update(total.named("total")))
    assert error.what == "`total` is computed from `p.grad`, which its own gradient update clears"
    assert error.notes[0].endswith('return wf.einsum(";".join(["i"] * len(tensors)) + "=>0", *tensors)')
    assert error.fix.startswith("a gradient is read after the update: in an optimiser")


def test_a_loss_that_reads_the_gradient_of_something_inside() -> None:
    p = wf.param("p", o=3, init=2.0)
    h = p * 2
    error = refused(lambda: wf.grad_update(sums(h, h) + sums(h.grad, wf.data(np.ones(3)))))
    assert "is computed from `mul.grad`, which its own gradient update clears" in error.what


def by_hand(total: wf.Tensor) -> Code:
    return wf.seq(total.zero_grads, total.forward, total.backprop)


def test_the_same_joined_by_hand() -> None:
    p = wf.param("p", o=3, init=2.0)
    _, total = penalised(p)
    error = refused(lambda: compiled(by_hand(total)))
    assert error.what == "`p.grad` is cleared, and read before it is computed: it would be zero"
    assert error.notes[0].startswith("it is read by einsum =:+ p.grad * p.grad")

    @wf.cd
    def norm(p: wf.Tensor) -> None:
        wf.node("norm")[:] = sums(p.grad, p.grad)

    loss = sums(p * p, p)
    early = wf.seq(loss.zero_grads, norm(p), loss.forward, loss.backprop)
    assert "read before it is computed" in refused(lambda: compiled(early)).what


def test_gradients_that_may_be_read() -> None:
    """After they are computed, in a later loss, added up over several losses, and where none ever comes."""
    p, q = wf.param("p", o=3, init=2.0), wf.param("q", o=3, init=1.0)
    loss, _ = penalised(p)
    ctx = wf.Context("interp")
    # A later loss of another parameter, and what follows it.
    later = sums(q * p.grad, q)
    ctx.compile(wf.seq(wf.grad_update(loss), wf.grad_update(later)), keep=[q.grad])()
    assert ctx[q.grad].tolist() == [24.0] * 3
    # Gradients of two losses added up, read by an optimiser.
    other = sums(p, p)
    added = wf.seq(loss.zero_grads, loss.forward, loss.backprop, other.forward, other.backprop)
    compiled(wf.seq(added, wf.optim.sgd(loss, lr=0.1)))()
    # Two updates in a row, each read after it was computed.
    step = wf.seq(wf.grad_update(loss), wf.optim.sgd(loss, lr=0.1, momentum=0.9))
    compiled(wf.seq(step, step))()
    # What another device sent is not what was cleared.
    merged, total = wf.node("merged"), sums(p * p, p)

    @wf.cd
    def merge(p: wf.Tensor) -> None:
        merged[:] = p.grad.merge

    compiled(wf.seq(total.zero_grads, merge(p), total.forward, total.backprop))
    # A gradient that nothing is ever added to stays zero, and may be read.
    flat = wf.einsum("i=>0", wf.floor(p)) + wf.einsum("i=>0", q)
    compiled(wf.seq(wf.grad_update(flat), wf.optim.sgd(flat, lr=0.1)))()


# Examples that are mixed


def warned(code: Code) -> list[warnings.WarningMessage]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        compiled(code)
    return found


def batched(*shape: int, batch: int = 1, label: str = "x") -> wf.Tensor:
    return wf.data(np.ones(shape), batch=batch, label=label)


UNWRITTEN = {
    "attention": (
        lambda: wf.einsum("s|d; t|d => s|t", batched(2, 5, 4, batch=2), batched(2, 5, 4, batch=2)),
        2,
        "`x` is 2,5|4, and the spec does not write its batch axis of 2, which mixes all examples",
        "write `...s|d;...t|d=>...s|t` to keep them apart, `...s|d;...t|d=>s|t` to reduce them on purpose",
    ),
    "a layer": (
        lambda: wf.einsum("i->o; i => o", wf.param("w", o=2), batched(32, 3)),
        1,
        "`x` is 32|3, and the spec does not write its batch axis of 32, which mixes all examples",
        "write `i->o;...|i=>...|o` to keep them apart, `i->o;...|i=>o` to reduce them on purpose",
    ),
    "several axes": (
        lambda: wf.einsum("rows, cols => rows", batched(2, 3, 4, 5, batch=2), accum="max"),
        1,
        "`x` is 2,3|4,5, and the spec does not write its batch axes of 2,3, which mixes all examples",
        "write `...|rows, cols => ...|rows` to keep them apart, `...|rows, cols => rows` to reduce them on purpose",
    ),
    "a batch that was not said": (
        lambda: wf.einsum("i->o; ...|i => ...|o", wf.param("w", o=2), batched(32, 3, batch=0)),
        1,
        "`x` is 32,3, without a batch axis, and the spec does not write its output axis of 32, which is reduced",
        "if it holds examples, say so: wf.data(…, batch=1); if not, write it in the spec",
    ),
    "an assignment": (
        lambda: assigned("ij => i", batched(2, 3, 4)),
        1,
        "`x` is 2|3,4, and the spec does not write its batch axis of 2, which mixes all examples",
        "write `...|ij=>...|i` to keep them apart, `...|ij=>i` to reduce them on purpose",
    ),
}


def assigned(spec: str, x: wf.Tensor) -> Code:
    @wf.cd
    def code() -> None:
        wf.assign(wf.node("n"), "+", "id", x, init=True, logic=spec)

    return code()


@pytest.mark.parametrize("name", UNWRITTEN)
def test_batch_axes_that_a_spec_does_not_write(name: str) -> None:
    make, count, what, fix = UNWRITTEN[name]
    made = make()
    code = made.forward if isinstance(made, wf.Tensor) else made
    found = warned(code)
    assert len(found) == count
    lines = str(found[0].message).splitlines()
    assert (lines[0], lines[-1]) == (what, f"  fix: {fix}")
    assert found[0].category is wf.WeftWarning
    assert found[0].filename == __file__
    with wf.config.using(strict=True):
        error = refused(lambda: compiled(code))
    assert isinstance(error, wf.ShapeError)
    assert (error.what, error.fix) == (what, fix)
    assert error.origin is not None
    assert (error.origin.file, error.origin.line) == (__file__, found[0].lineno)


def test_what_is_advised_for_a_batch_axis_works() -> None:
    q = wf.data(np.arange(40.0).reshape(2, 5, 4), batch=2)
    w, x = wf.param("w", o=2), batched(32, 3)
    ctx = wf.Context("interp")
    assert str(wf.einsum("...s|d;...t|d=>...s|t", q, q).dims) == "2,5|5"
    np.testing.assert_allclose(ctx[wf.einsum("...s|d;...t|d=>s|t", q, q)], np.einsum("bsd,btd->st", ctx[q], ctx[q]))
    assert str(wf.einsum("i->o;...|i=>...|o", w, x).dims) == "32|2"
    assert str(wf.einsum("i->o;...|i=>o", w, x).dims) == "2"


WRITTEN = {
    "reduced by `...`": lambda: wf.einsum("...|i => 0", batched(2, 3)),
    "reduced by a name": lambda: wf.einsum("b|i => i", batched(2, 3)),
    "kept": lambda: wf.einsum("...|i => ...|0", batched(2, 3)),
    "one example": lambda: wf.einsum("i => i", batched(1, 3)),
    "output axes": lambda: wf.einsum("i => i", batched(2, 3, batch=0)),
    "input axes": lambda: wf.einsum("b|o => b|o", wf.data(np.ones((2, 3, 4)), batch=1, input=1)),
    "all of it": lambda: wf.einsum("...|...->... => 0", batched(2, 3)),
    "moved": lambda: wf.einsum("..v..|i => i..v..", batched(2, 3)),
    "stacked": lambda: wf.stack(batched(2, 3), batched(2, 3)),
    "composed": lambda: wf.param("w", o=2) @ batched(2, 3),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_batch_axes_that_are_written(name: str) -> None:
    assert warned(WRITTEN[name]().forward) == []


def test_an_operation_is_doubted_once() -> None:
    """Its gradients run in the same loops; Python shows the same warning of a line once."""
    w = wf.param("w", o=2)
    loss = wf.einsum("o => 0", wf.einsum("i->o; i => o", w, batched(4, 3)))
    assert len(warned(wf.grad_update(loss))) == 1
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("default")
        for _ in range(3):
            compiled(wf.grad_update(loss))
    assert len(found) == 1


# One for each example beside as many for all


def test_an_unbatched_tensor_that_stretches_a_batch() -> None:
    score = (wf.param("w", o=1) @ batched(5, 3)).named("score")
    y = wf.data(np.ones(5), label="y")
    (found,) = warned((score - y).forward)
    assert str(found.message).splitlines() == [
        "`y` has no batch axis, so each of the 5 examples of `score` meets all its 5 numbers: 5|1 and 5",
        "  fix: if it has one number for each example, make it 5|1: wf.data(…, batch=1); "
        "if all examples meet all of it, give it a batch axis of 1: 1|5",
    ]
    with wf.config.using(strict=True), pytest.raises(wf.ShapeError, match="`y` has no batch axis"):
        compiled((score * y).forward)


BESIDE = {
    "with a batch axis": lambda: batched(5, 1) - batched(5, 1, label="y"),
    "with a batch axis of one": lambda: batched(5, 1) - batched(1, 5),
    "another length": lambda: batched(5, 1) - wf.data(np.ones(4)),
    "several numbers an example": lambda: batched(5, 5) - wf.data(np.ones(5)),
    "compared": lambda: wf.equal(batched(5, 1), wf.data(np.arange(5.0))),
    "one example": lambda: batched(1, 1) - wf.data(np.ones(1)),
}


@pytest.mark.parametrize("name", BESIDE)
def test_tensors_that_may_stretch(name: str) -> None:
    assert warned(BESIDE[name]().forward) == []


def test_data_without_a_batch_that_a_parameter_takes_whole_is_noticed() -> None:
    x, w = wf.data(np.ones((100, 3)), label="x"), wf.param("w", o=2)
    (told,) = warned((w @ x).forward)
    assert str(told.message).startswith(
        "`x` is 100,3, without a batch axis, and `w` maps all of it at once: one example"
    )
    assert "say so: wf.data(…, batch=1); if it is one example, give `w` its inputs: i=(100, 3)" in str(told.message)
    (told,) = warned(wf.nn.linear(x, o=2, label="layer").forward)
    assert "`layer.w` maps all of it" in str(told.message)


def test_what_is_one_example_by_its_looks_is_not_noticed() -> None:
    quiet = [
        wf.param("given", i=(100, 3), o=2) @ wf.data(np.ones((100, 3))),
        wf.param("examples", o=2) @ wf.data(np.ones((100, 3)), batch=1),
        wf.param("row", o=2) @ wf.data(np.ones(3)),
        wf.param("one", o=2) @ wf.data(np.ones((1, 3))),
        wf.data(np.ones((2, 4, 3)), input=2) @ wf.data(np.ones((4, 3))),
    ]
    assert not any(warned(one.forward) for one in quiet)

"""Which parameters are updated, with which options, and what is refused."""

from __future__ import annotations

import doctest
import io
from collections.abc import Callable

import numpy as np
import pytest

import weft as wf


def model() -> tuple[dict[str, wf.Tensor], wf.Tensor]:
    """Parameters of two layers, each a single number, with a loss whose gradient is 1 in each."""

    @wf.op
    def layer(x: wf.Tensor) -> wf.Tensor:
        return x * wf.param("w", o=1, init=1.0, dtype="float64") + wf.param("bias", o=1, init=1.0, dtype="float64")

    one = wf.data(np.ones(1), label="one")
    loss = (layer(label="first")(one) + layer(label="second")(one)).named("loss")
    return {p.label: p for p in loss.params}, loss


def updated(code: Callable[[wf.Tensor], object]) -> dict[str, float]:
    """The parameters after two runs of an update."""
    params, loss = model()
    ctx = wf.Context("interp")
    step = ctx.compile(wf.seq(wf.grad_update(loss), code(loss)))  # type: ignore[arg-type]
    step()
    step()
    return {label: round(ctx[p].item(), 9) for label, p in params.items()}


def test_groups_have_options_of_their_own_and_the_last_decides() -> None:
    groups = {"*.bias": {"lr": 0.2}, "second.*": {"lr": 0.3, "momentum": 0.5}}
    assert updated(lambda loss: wf.optim.sgd(loss, lr=0.1, groups=groups)) == {
        "first.w": 0.8,
        "first.bias": 0.6,
        "second.w": 0.25,
        "second.bias": 0.25,
    }


@pytest.mark.parametrize("exclude", ["second.*", ["second.w", "second.b*"], ("second.?", "second.bias")])
def test_what_is_excluded_stays(exclude: str | list[str]) -> None:
    assert updated(lambda loss: wf.optim.sgd(loss, lr=0.1, exclude=exclude)) == {
        "first.w": 0.8,
        "first.bias": 0.8,
        "second.w": 1.0,
        "second.bias": 1.0,
    }


def test_two_optimisers_update_what_each_is_given() -> None:
    def both(loss: wf.Tensor) -> object:
        return wf.seq(wf.optim.sgd(loss, lr=0.1, only="*.w"), wf.optim.adam(loss, lr=0.05, exclude="*.w", eps=0.0))

    found = updated(both)
    assert found == {"first.w": 0.8, "first.bias": 0.9, "second.w": 0.8, "second.bias": 0.9}


def test_parameters_are_one_by_one_too() -> None:
    _, loss = model()
    whole = wf.optim.adagrad(loss, lr=0.1, init=0.1)
    parts = wf.seq(*(wf.optim.adagrad_one(p, lr=0.1, init=0.1) for p in loss.params))
    assert str(whole) == str(parts)


@pytest.mark.parametrize("name", [one for one in wf.optim.__all__ if one.islower() and not one.endswith("_one")])
def test_a_function_shows_an_example(name: str) -> None:
    w, b, table = wf.param("net.w", o=2, i=3), wf.param("net.b", o=2), wf.param("embedding.t", o=(4, 3))
    loss = wf.einsum("...|... => 0", w @ table[0] + b)
    names = {"wf": wf, "loss": loss}
    found = doctest.DocTestParser().get_doctest(getattr(wf.optim, name).__doc__, names, name, None, None)
    assert any(f"wf.optim.{name}(" in one.source for one in found.examples)
    printed = io.StringIO()
    doctest.DocTestRunner().run(found, out=printed.write)
    assert not printed.getvalue(), printed.getvalue()


PARAMS, LOSS = model()
LABELS = "the parameters are " + ", ".join(PARAMS)
WRONG: dict[str, tuple[Callable[[], object], str, str]] = {
    "a pattern of nothing": (
        lambda: wf.optim.adamw(LOSS, exclude="embedding.*"),
        "the pattern 'embedding.*' matches no parameter",
        "a pattern matches whole labels: `*.bias` what ends in .bias",
    ),
    "the end of a label": (
        lambda: wf.optim.adamw(LOSS, only="bias"),
        "the pattern 'bias' matches no parameter",
        'did you mean "*.bias"?',
    ),
    "the beginning of a label": (
        lambda: wf.optim.adamw(LOSS, exclude=["first"]),
        "the pattern 'first' matches no parameter",
        'did you mean "first.*"?',
    ),
    "a label that is not quite one": (
        lambda: wf.optim.adamw(LOSS, only=["first.bia"]),
        "the pattern 'first.bia' matches no parameter",
        'did you mean "first.bias"?',
    ),
    "a group of nothing": (
        lambda: wf.optim.sgd(LOSS, lr=0.1, exclude="*.bias", groups={"*.bias": {"lr": 0.2}}),
        "the pattern '*.bias' matches no parameter",
        "a pattern matches whole labels: `*.bias` what ends in .bias",
    ),
    "a group with another option": (
        lambda: wf.optim.adamw(LOSS, groups={"*.w": {"weight_decy": 0.0}}),
        "the group '*.w' has an option `weight_decy`, which there is not",
        "did you mean `weight_decay`?",
    ),
    "a group with an option of nobody": (
        lambda: wf.optim.sgd(LOSS, lr=0.1, groups={"*.w": {"rho": 0.0}}),
        "the group '*.w' has an option `rho`, which there is not",
        "the options are lr, momentum, weight_decay, nesterov",
    ),
    "groups that are a list": (
        lambda: wf.optim.sgd(LOSS, lr=0.1, groups=["*.w"]),  # type: ignore[arg-type]
        "groups= takes options by pattern, not ['*.w']",
        'write groups={"*.bias": dict(lr=0.01)}',
    ),
    "a pattern that is a parameter": (
        lambda: wf.optim.sgd(LOSS, lr=0.1, only=[3]),  # type: ignore[list-item]
        "only= takes patterns of labels, not [3]",
        'write only=["*.bias"]',
    ),
    "nothing left": (
        lambda: wf.optim.sgd(LOSS, lr=0.1, exclude="*"),
        "only= and exclude= leave no parameter of `loss`",
        "leave one of them out, or say less",
    ),
    "nothing to learn": (
        lambda: wf.optim.sgd(wf.data(np.ones(1), label="x") + 1.0, lr=0.1),
        "`add` does not depend on any parameter, so there is nothing to update",
        "build the loss from parameters: wf.param, or strings inside @wf.op",
    ),
    "a rate that is text": (
        lambda: wf.optim.sgd(LOSS, lr="0.1"),  # type: ignore[arg-type]
        "lr is a number, an expression of a counter or a tensor, not '0.1'",
        "write lr=1e-3, or a schedule: lr=wf.optim.cosine(n, 1e-3, steps=1000)",
    ),
    "a rate below zero": (
        lambda: wf.optim.adam(LOSS, lr=-0.1),
        "lr is -0.1, and a step goes down the gradient",
        "write lr=0.1",
    ),
    "a mean that grows": (
        lambda: wf.optim.lion(LOSS, beta2=1.0),
        "beta2 is at least 0 and below 1, not 1.0",
        "write beta2=0.9, or the like",
    ),
    "decay below zero": (
        lambda: wf.optim.lamb(LOSS, weight_decay=-1.0),
        "weight_decay is a number from 0 on, not -1.0",
        "leave it out, or write weight_decay=0.0",
    ),
    "nesterov alone": (
        lambda: wf.optim.sgd(LOSS, lr=0.1, nesterov=True),
        "nesterov looks ahead along the momentum, and there is none",
        "write momentum=0.9 as well",
    ),
    "no matrix": (
        lambda: wf.optim.muon(LOSS),
        "`loss` has no parameter with two axes for muon",
        "write wf.optim.adamw(loss)",
    ),
    "one that is no matrix": (
        lambda: wf.optim.muon_one(PARAMS["first.w"]),
        "muon updates matrices, and `first.w` is 1",
        "write wf.optim.adamw_one(first.w), or wf.optim.muon(loss), which does that",
    ),
    "other's argument": (
        lambda: wf.optim.rmsprop(LOSS, alpha=0.9),  # type: ignore[call-arg]
        "`rmsprop` has no argument `alpha`",
        "did you mean `beta=`? Its arguments are loss, lr, beta, eps, momentum, centered, weight_decay, only, exclude, "
        "groups",
    ),
    "another spelling": (
        lambda: wf.optim.adagrd,
        "wf.optim has no `adagrd`",
        "did you mean wf.optim.adagrad?",
    ),
    "clipping elsewhere": (
        lambda: wf.optim.clip_grad_norm_,
        "wf.optim has no `clip_grad_norm_`",
        "wf.optim.clip_by_norm(loss, 1.0)",
    ),
    "one there is not": (
        lambda: wf.optim.lbfgs,
        "wf.optim has no `lbfgs`",
        "there are sgd, adam, adamw, rmsprop, adagrad, lion, lamb, muon; others are a few lines under @wf.cd "
        "(docs/code.md)",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_use_is_told(case: str) -> None:
    wrong, what, fix = WRONG[case]
    with pytest.raises(wf.WeftError) as caught:
        wrong()
    assert (caught.value.what, caught.value.fix) == (what, fix)


def test_a_pattern_that_matches_nothing_lists_the_labels() -> None:
    with pytest.raises(wf.WeftError) as caught:
        wf.optim.adamw(LOSS, exclude="head.*")
    assert tuple(caught.value.notes) == (LABELS,)

"""One thing, one name: the parameters of what users call, side by side."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatch
from itertools import combinations
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.arguments import ALSO_CALLED

ROOMS = {"wf": wf, **{f"wf.{name}": getattr(wf, name) for name in ("nn", "optim", "train", "data", "tc")}}

_LABEL = "a label is shown, and may be left out; a name is what something is known by"
_ITSELF = "of a function that is named after it"
#: Names that mean something else in these functions than where `ALSO_CALLED` has another name for them.
MEANS: Mapping[str, tuple[str, str]] = {
    "alpha": ("wf.elu", "where it levels off"),
    "batch": ("wf.Shape wf.data wf.from_dlpack", "the rows of a shape"),
    "batch_size": (
        "wf.data.batches wf.data.buckets wf.data.windows wf.train.evaluate wf.train.fit wf.train.predict",
        "examples in a batch, not the sizes of a row",
    ),
    "device": ("wf.Stream", "the device itself"),
    "dropout_rate": (
        "wf.nn.TransformerStyle wf.nn.cross_attention wf.nn.llama wf.nn.mobilenet wf.nn.multi_head_attention wf.nn.vgg",
        "a part of a block",
    ),
    "input": ("wf.Shape wf.data wf.from_dlpack", "the rows of a shape"),
    "inputs": ("wf.Function", "tensors"),
    "label": ("*", _LABEL),
    "n": ("wf.arange wf.eye wf.linspace wf.repeat wf.data.permutation", "how many"),
    "name": ("*", _LABEL),
    "output": ("wf.Shape", "the rows of a shape"),
    "p": ("*_one", "a parameter"),
    "rate": ("wf.dropout wf.nn.dropout", _ITSELF),
    "reduction": ("*", "what becomes of the numbers of examples: a mean, a sum"),
    "size": ("wf.Dim wf.bincount wf.StaticIndex wf.counter wf.index", "of an axis, and of what counts along one"),
    "target": ("wf.nn.transformer*", "the sequence that is written, beside its source"),
    "value": ("wf.constant wf.number", "what is to be a tensor"),
    "vocabulary": ("wf.data.BytePairTokenizer wf.data.CharacterTokenizer", "the tokens themselves"),
}
#: What is first in a function of a result and what it depends on, by mathematics' order.
OTHER_ORDER = {("y", "x"): "wf.atan2 wf.grad wf.gradcheck wf.jvp", ("target", "source"): "wf.nn.transformer*"}


def named(name: str, patterns: str) -> bool:
    return any(fnmatch(name, one) for one in patterns.split())


def signatures() -> Iterator[tuple[str, inspect.Signature]]:
    for room, module in ROOMS.items():
        for name in module.__all__:
            found: Callable[..., Any] = getattr(module, name)
            error = isinstance(found, type) and issubclass(found, Exception)
            if callable(found) and not error:
                yield f"{room}.{name}", inspect.signature(found)


def test_one_thing_has_one_name() -> None:
    """What a parameter is called elsewhere, or was called, no other function calls it."""
    others = {other for also in ALSO_CALLED.values() for other in also.split()}
    found = {(name, one) for name, signature in signatures() for one in signature.parameters if one in others}
    assert sorted((name, one) for name, one in found if not named(name, MEANS.get(one, ("", ""))[0])) == []
    assert {one for _, one in found} == set(MEANS), "what no function is called by any more"


def test_one_order() -> None:
    """Two operands that several functions take stand in the same order in all of them."""
    before: dict[tuple[str, str], list[str]] = {}
    for name, signature in signatures():
        kinds = {one.name: one.kind for one in signature.parameters.values() if name.rpartition(".")[2].islower()}
        places = [one for one, kind in kinds.items() if kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
        for pair in combinations(places, 2):
            if not named(name, OTHER_ORDER.get(pair, "")):
                before.setdefault(pair, []).append(name)
    assert {pair: names for pair, names in before.items() if pair[::-1] in before} == {}


def test_a_spec_is_given_by_place_wherever_it_can_be() -> None:
    """Functions that reduce take it after their operands; layers, whose arguments by name configure, by name."""
    by_name = {
        name
        for name, signature in signatures()
        if "spec" in signature.parameters and signature.parameters["spec"].kind is inspect.Parameter.KEYWORD_ONLY
    }
    elementwise = {
        name
        for name, signature in signatures()
        if "spec" in signature.parameters and signature.parameters["spec"].default == ""
    }
    assert by_name - elementwise == {
        "wf.scan",
        "wf.nn.batch_norm",
        "wf.nn.layer_norm",
        "wf.nn.rms_norm",
        "wf.nn.softmax",
    }


X = wf.data([[1.0, 2.0]], batch=1, label="x")
FORMER: Mapping[str, tuple[Callable[[], object], str]] = {
    "an optimiser": (lambda: wf.optim.adam(wf.sum(X), epsilon=1e-8), "did you mean `eps=`?"),  # type: ignore[call-arg]
    "a schedule": (
        lambda: wf.optim.cosine(wf.counter("n"), rate=0.1, steps=3),  # type: ignore[call-arg]
        "did you mean `lr=`?",
    ),
    "batches": (lambda: wf.data.batches(np.ones(4), size=2), "did you mean `batch_size=`?"),  # type: ignore[call-arg]
    "a recurrent layer": (lambda: wf.nn.lstm(X, hidden_size=2), "did you mean `hid_dim=`?"),
    "a model": (
        lambda: wf.nn.gpt(vocabulary=9, max_len=4, d_model=4, num_layers=1, num_heads=1),
        "did you mean `vocab_size=`?",
    ),
    "a width": (
        lambda: wf.nn.gpt(vocab_size=9, max_len=4, width=4, num_layers=1, num_heads=1),
        "did you mean `d_model=`?",
    ),
    "channels": (lambda: wf.nn.conv2d(X, channels=3), "did you mean `out_channels=`?"),
    "a dropout": (lambda: wf.nn.dropout(X, p=0.5), "did you mean `rate=`?"),
    "a mask": (lambda: wf.nn.causal_mask(size=3), "did you mean `seq_len=`?"),  # type: ignore[call-arg]
    "a pool": (lambda: wf.nn.max_pool2d(X, pool_size=2), "did you mean `kernel_size=`?"),
    "classes": (lambda: wf.one_hot([1], n=3), "did you mean `num_classes=`?"),  # type: ignore[call-arg]
    "a style": (lambda: wf.nn.TransformerStyle(ffn="relu"), "did you mean `activation=`?"),  # type: ignore[call-arg]
    "a perceptron": (lambda: wf.nn.feed_forward(X, d_ff=4, kind="gelu"), "its configuration is d_ff, activation,"),
    "frequencies": (
        lambda: wf.nn.rope_frequencies(half_d=2),  # type: ignore[call-arg]
        "d= is the size of the axis that is turned",
    ),
}


@pytest.mark.parametrize("what", FORMER)
def test_another_name_is_answered_by_the_one_there_is(what: str) -> None:
    wrong, fix = FORMER[what]
    with pytest.raises(wf.WeftError) as caught:
        wrong()
    assert caught.value.fix.startswith(fix)
    assert caught.value.origin is not None
    assert caught.value.origin.file == __file__

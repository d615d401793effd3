"""States under other names, by a table, there and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft as wf

TABLE: dict[str, Any] = {
    "h.{n}.attn.c_attn.weight": ("gpt.block{n}.qkv", "T"),
    "h.{n}.ln_{m}.weight": "gpt.block{n}.norm{m}",
    "h.{n}.attn.bias": None,
    "wte.weight": "gpt.table",
}


def published() -> dict[str, Any]:
    random = np.random.default_rng(0)
    return {
        "wte.weight": random.normal(size=(5, 3)),
        "h.0.attn.c_attn.weight": random.normal(size=(3, 9)),
        "h.0.attn.bias": np.tril(np.ones((4, 4))),
        "h.0.ln_1.weight": random.normal(size=3),
        "h.11.ln_2.weight": random.normal(size=3),
        "other": np.array(1),
    }


def test_a_table_gives_names_and_turns_matrices() -> None:
    state = published()
    found = wf.relabel(state, TABLE)
    assert list(found) == ["gpt.table", "gpt.block0.qkv", "gpt.block0.norm1", "gpt.block11.norm2", "other"]
    np.testing.assert_array_equal(found["gpt.block0.qkv"], state["h.0.attn.c_attn.weight"].T)
    np.testing.assert_array_equal(found["gpt.block11.norm2"], state["h.11.ln_2.weight"])


def test_a_table_is_read_backwards_too() -> None:
    state = published()
    again = wf.relabel(wf.relabel(state, TABLE), TABLE, back=True)
    del state["h.0.attn.bias"]
    assert list(again) == list(state)
    for label, array in state.items():
        np.testing.assert_array_equal(again[label], array)


def test_braces_stand_for_text_without_a_dot_and_all_else_for_itself() -> None:
    state = {"h.0.w": 1.0, "h.0.1.w": 2.0, "hx0.w": 3.0, "h..w": 4.0}
    assert list(wf.relabel({"{0}": 1.0}, {"{0}": "{1}"})) == ["{1}"], "a number in braces is no name"
    assert list(wf.relabel(state, {"h.{n}.w": "w{n}"})) == ["w0", "h.0.1.w", "hx0.w", "h..w"]


def test_the_first_row_that_speaks_of_a_label_decides() -> None:
    assert list(wf.relabel({"a.w": 1.0, "b.w": 2.0}, {"a.w": "first", "{n}.w": "w.{n}"})) == ["first", "w.b"]


def test_published_weights_go_into_a_model() -> None:
    @wf.op
    def mlp(x: wf.Tensor) -> wf.Tensor:
        return wf.param("w2", o=2) @ wf.relu(wf.param("w1", o=4) @ x + wf.param("b1", o=4))

    random = np.random.default_rng(1)
    weights = {
        "net.0.weight": random.normal(size=(4, 3)).astype("float32"),
        "net.0.bias": random.normal(size=4).astype("float32"),
        "net.2.kernel": random.normal(size=(4, 2)).astype("float32"),
    }
    table: dict[str, Any] = {"net.0.weight": "mlp.w1", "net.0.bias": "mlp.b1", "net.2.kernel": ("mlp.w2", "T")}
    ctx, model = wf.Context("interp"), mlp(label="mlp")
    x = random.normal(size=(5, 3)).astype("float32")
    y = model(wf.data(x, batch=1))
    ctx.restore(model, wf.relabel(weights, table))
    hidden = np.maximum(x @ weights["net.0.weight"].T + weights["net.0.bias"], 0)
    np.testing.assert_allclose(ctx[y], hidden @ weights["net.2.kernel"], rtol=1e-5, atol=1e-6)
    back = wf.relabel(ctx.state(model), table, back=True)
    for label, array in weights.items():
        np.testing.assert_array_equal(back[label], array)


WRONG: dict[str, tuple[tuple[Any, ...], str, str]] = {
    "no state": (("a.npz", {}), "a state is arrays by label, not str", "wf.load(path)"),
    "no table": (({}, [("a", "b")]), "a table is labels by label, not list", '{"fc.weight": "mlp.w"}'),
    "no label": (({}, {"a": 3}), "'a' becomes 3 in the table, which is no label", '("new", "T")'),
    "another letter": (({}, {"a": ("b", "X")}), "'a' becomes ('b', 'X') in the table, which is no label", "None"),
    "a number": (({}, {3: "a"}), "3 becomes 'a' in the table, which is no label", "None"),
    "braces": (({}, {"a{n}": "b"}), "'a{n}' and 'b' of the table do not have the same names in braces", "block{n}.w"),
    "twice": (({}, {"a{n}{n}": "b{n}{n}"}), "do not have the same names in braces, each once", "block{n}.w"),
    "twice and left out": (({}, {"a{n}{n}": None}), "do not have the same names in braces, each once", "block{n}.w"),
    "one name": (({"a": 1.0, "b": 2.0}, {"a": "b"}), "`a` and `b` would both be called `b`", "None"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_use_is_told(case: str) -> None:
    arguments, what, fix = WRONG[case]
    with pytest.raises(wf.WeftError) as caught:
        wf.relabel(*arguments)
    assert what in caught.value.what
    assert fix in caught.value.fix
    assert caught.value.origin is not None
    assert caught.value.origin.file == __file__

"""Layers that return several tensors, operands by name, and parameters by path."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import weft as wf


class State(NamedTuple):
    h: wf.Tensor
    c: wf.Tensor


@dataclass(frozen=True)
class Output:
    out: wf.Tensor
    state: State


@wf.op
def dense(x: wf.Tensor, *, size: int) -> wf.Tensor:
    return wf.relu("w" @ x + wf.param("b", o=size))


@wf.op
def cell(x: wf.Tensor, h: wf.Tensor, c: wf.Tensor, *, size: int) -> tuple[wf.Tensor, wf.Tensor]:
    both = "w" @ x + "u" @ h + wf.param("b", o=size)
    c = wf.sigmoid(both) * c
    h = wf.tanh(c)
    return h, c


@wf.op
def attention(x: wf.Tensor, mask: wf.Tensor | None = None, *, size: int) -> wf.Tensor:
    kept = x if mask is None else x * mask
    return wf.param("q", o=size) * kept + dense(x, size=size)


@wf.op
def block(x: wf.Tensor, *, size: int) -> wf.Tensor:
    return dense(attention(x, size=size, label="attn"), size=size) + dense(x, size=size)


def data(*shape: int, batch: int = 0, label: str = "data") -> wf.Tensor:
    return wf.data(np.arange(float(np.prod(shape))).reshape(shape) / 10, batch=batch, label=label)


def applied(make: Any, **config: Any) -> wf.Layer:
    layer: wf.Layer = make(**config)
    layer(data(2))
    return layer


def test_a_tuple_comes_back_as_it_is_and_its_parts_are_called_by_the_variables() -> None:
    lstm = cell(size=2, label="lstm")
    h, c = lstm(data(3, label="x"), data(2, label="h"), data(2))
    assert (h.label, c.label) == ("lstm.h", "lstm.c")
    assert cell(data(3, label="x"), data(2), data(2), size=2)[0].label == "cell.h"
    ctx = wf.Context("interp")
    np.testing.assert_allclose(ctx[h], np.tanh(ctx[c]), rtol=1e-6)


@pytest.mark.parametrize(
    ("returned", "labels"),
    [
        (lambda y, z: {"out": y, "weights": z}, ["L.out", "L.weights"]),
        (lambda y, z: [y, z], ["L.0", "L.1"]),
        (lambda y, z: State(y, z), ["L.h", "L.c"]),
        (lambda y, z: Output(y, State(z, z + 1)), ["L.out", "L.state.h", "L.state.c"]),
        (lambda y, z: {"all": (y, [z])}, ["L.all.0", "L.all.1.0"]),
        (lambda y, z: {0: y, 1: z}, ["L.0", "L.1"]),
        (lambda y, z: (y, ()), ["L.0"]),
    ],
)
def test_every_kind_of_structure(returned: Any, labels: list[str]) -> None:
    @wf.op
    def several(x: wf.Tensor) -> Any:
        return returned("w" * x, x + 1)

    made = several(data(3), label="L")
    assert type(made) is type(returned(data(1), data(1)))
    assert [part.label for part in flat(made)] == labels


def flat(value: Any) -> list[wf.Tensor]:
    """The tensors in a structure, found without weft."""
    if isinstance(value, wf.Tensor):
        return [value]
    inner = value.values() if isinstance(value, dict) else vars(value).values() if isinstance(value, Output) else value
    return [one for part in inner for one in flat(part)]


def test_variables_of_the_return_name_parts_at_any_depth() -> None:
    @wf.op
    def nested(x: wf.Tensor) -> Any:
        def other() -> Any:
            return x, x, x

        y, h, c = x * 2, x * 3, x * 4
        state = (h, c)
        if x is None:
            return other()
        return y, [h + 0, c], {"state": state, "also": (y, c)}

    y, (first, c), found = nested(data(3), label="N")
    assert [one.label for one in (y, first, c)] == ["N.y", "N.1.0", "N.c"]
    assert found["state"][0].label == "N.2.state.0"

    @wf.op
    def disagreeing(x: wf.Tensor, *, flip: bool) -> Any:
        a, b = x * 2, x * 3
        if flip:
            return b, a
        return a, b

    assert [one.label for one in disagreeing(data(3), flip=True)] == ["disagreeing.0", "disagreeing.1"]


def test_a_function_whose_source_cannot_be_read_counts_its_parts() -> None:
    names: dict[str, Any] = {}
    exec("def pair(x):\n    a, b = x * 2, x * 3\n    return a, b", names)
    assert [one.label for one in wf.op(names["pair"])(data(3))] == ["pair.0", "pair.1"]


def test_what_has_a_name_keeps_it() -> None:
    @wf.op
    def several(x: wf.Tensor, y: wf.Tensor) -> Any:
        inner = dense(x, size=2)
        return inner, (x * 2).named("mine"), x, y

    y = data(3) + 1
    inner, mine, same, given = several(data(3, label="x"), y, label="S")
    assert [one.label for one in (inner, mine, same)] == ["S.dense.x", "mine", "x"]
    assert given is y
    assert y.label == "add", "an argument is not the layer's to name"


def test_several_results_share_parameters_and_gradients() -> None:
    lstm = cell(size=2, label="lstm")
    x, h, c = data(4, 3, batch=1), wf.constant(0.0), wf.constant(1.0)
    for _ in range(3):
        h, c = lstm(x, h, c)
    loss = wf.einsum("...|... => 0", h + c)
    assert {one.label for one in loss.params} == {"lstm.w", "lstm.u", "lstm.b"}
    ctx = wf.Context("interp")
    ctx.compile(wf.grad_update(loss), keep=[p.grad for p in lstm.params])()
    assert all(np.abs(ctx[p.grad]).sum() > 0 for p in lstm.params)


# Operands by name


def test_operands_by_name_at_any_time() -> None:
    ctx, x, mask = wf.Context("interp"), data(2), wf.data(np.array([1.0, 0.0]))
    layer = attention(size=2, label="A")
    plain, masked = layer(x), layer(x, mask=mask)
    at_once = attention(x=x, mask=mask, size=2, label="B")
    assert isinstance(at_once, wf.Tensor)
    assert (layer(mask=mask, x=x).params, masked.params) == (plain.params, plain.params)
    q, w, b = (ctx[layer.param(name)] for name in ("q", "dense.w", "dense.b"))
    np.testing.assert_allclose(ctx[masked], q * ctx[x] * [1, 0] + np.maximum(w @ ctx[x] + b, 0), rtol=1e-6)


def test_any_number_of_operands_by_name() -> None:
    @wf.op
    def together(*, scale: float, **tensors: wf.Tensor) -> dict[str, wf.Tensor]:
        return {name: scale * one for name, one in tensors.items()}

    made = together(a=data(2), b=data(3), scale=2.0)
    assert [(name, one.label, str(one.dims)) for name, one in made.items()] == [
        ("a", "together.a", "2"),
        ("b", "together.b", "3"),
    ]


def test_a_tensor_among_the_keywords_belongs_to_its_application() -> None:
    @wf.op
    def scaled(x: wf.Tensor, *, by: wf.Tensor | None = None, twice: bool = False) -> wf.Tensor:
        y = x if by is None else x * by
        return 2 * y if twice else y

    @wf.op
    def outer(x: wf.Tensor, by: wf.Tensor, twice: bool = False) -> wf.Tensor:
        return scaled(x, by=by, twice=twice) + scaled(by=by)(x)

    ctx, model, x = wf.Context("interp"), outer(), data(3)
    np.testing.assert_allclose(ctx[model(x, wf.constant(2.0))], 4 * ctx[x])
    np.testing.assert_allclose(ctx[model(x, wf.constant(5.0))], 10 * ctx[x], err_msg="not that of the first")
    np.testing.assert_allclose(ctx[model(x, wf.constant(5.0), True)], 15 * ctx[x], err_msg="nor its configuration")
    assert model["scaled"].config == {"twice": True}, "a layer does not hold what it was applied to"


def test_operands_and_configuration_do_not_meet() -> None:
    layer = attention(size=2)
    with pytest.raises(wf.WeftError) as caught:
        layer(data(2), size=3)
    assert caught.value.what == "`size` is configuration of `attention`, which is configured"
    assert caught.value.fix.startswith("configure another layer, attention(size=…), or make `size` an operand")
    with pytest.raises(wf.WeftError) as caught:
        attention(mask=3, size=2)
    assert caught.value.what == "`mask` is an operand of `attention`, not configuration"
    assert caught.value.fix.startswith("for configuration write it after a `*`, def attention(…, *, mask)")
    with pytest.raises(wf.WeftError) as caught:
        attention(data(2), maks=data(2), size=2)
    assert caught.value.what == "`attention` has no configuration `maks`"
    assert caught.value.fix == "did you mean `mask=`? its configuration is size"
    with pytest.raises(wf.WeftError) as caught:
        layer(data(2), masks=data(2))
    assert caught.value.what.startswith("`attention` cannot be applied: got an unexpected keyword argument 'masks'")
    assert caught.value.fix == "apply it as layer(x, [mask])"
    with pytest.raises(wf.WeftError, match="`attention` cannot be applied: missing a required argument: 'x'"):
        attention(mask=data(2), size=2)


def test_configuration_by_position_is_told_to_have_names() -> None:
    with pytest.raises(wf.WeftError) as caught:
        wf.nn.linear(data(2), 64)
    assert caught.value.what == "`linear` cannot be applied: too many positional arguments"
    assert caught.value.fix == "apply it as layer(x), and configure it by name: o, i, bias"


def test_arrays_are_refused_wherever_they_stand_among_operands_and_taken_as_configuration() -> None:
    @wf.op
    def first(state: tuple[wf.Tensor, wf.Tensor], *, init: Any = 0.0) -> wf.Tensor:
        return state[0] * wf.param("w", init=init)

    with pytest.raises(wf.WeftError, match=r"`state` is an array of shape \(4, 3\)"):
        first()((data(3), np.ones((4, 3))))
    ctx = wf.Context("interp")
    np.testing.assert_allclose(ctx[first((data(3), data(3)), init=np.full(3, 2.0))], 2 * ctx[data(3)])


# Parameters by path


def test_parameters_by_path() -> None:
    model = applied(block, size=2, label="M")
    paths = ["attn.q", "attn.dense.w", "attn.dense.b", "dense.w", "dense.b", "dense2.w", "dense2.b"]
    assert [one.label for one in model.params] == [f"M.{path}" for path in paths]
    assert tuple(model.param(path) for path in paths) == model.params
    assert model["attn"]["q"] is model.param("attn.q")
    assert model["attn"]["dense"].params == model.params[1:3]
    assert isinstance(model["dense2"], wf.Layer)
    assert [name in model for name in ("attn", "dense2", "q", "attn.q")] == [True, True, False, False]


def test_a_layer_inside_can_be_applied_by_itself() -> None:
    model, ctx = applied(block, size=2), wf.Context("interp")
    w, b = (ctx[one] for one in model["dense2"].params)
    np.testing.assert_allclose(ctx[model["dense2"](data(2))], np.maximum(w @ ctx[data(2)] + b, 0), rtol=1e-6)
    assert len(model.params) == 7


def test_layers_given_as_configuration_are_reached_by_their_keyword() -> None:
    @wf.op
    def both(x: wf.Tensor, *, encoder: wf.Layer, decoder: wf.Layer) -> wf.Tensor:
        return decoder(encoder(x)) * "s"

    first, second = dense(size=3, label="first"), dense(size=2, label="second")
    model = applied(both, encoder=first, decoder=second)
    assert model["encoder"] is first
    assert model.param("decoder.w") is second["w"]
    assert repr(model) == (
        "<layer both(encoder=<layer first>, decoder=<layer second>)\n  s: 2\n"
        "  encoder.w: 2->3\n  encoder.b: 3\n  decoder.w: 3->2\n  decoder.b: 2>"
    )


def test_a_layer_and_a_parameter_of_one_name() -> None:
    @wf.op
    def alike(x: wf.Tensor) -> wf.Tensor:
        return "w" * dense(x, size=2, label="w")

    model = applied(alike)
    assert isinstance(model["w"], wf.Layer)
    assert (model.param("w").label, model.param("w.w").label) == ("alike.w", "alike.w.w")


def test_a_layer_prints_its_parameters_once_it_has_some() -> None:
    layer = dense(size=4, label="L")
    assert repr(layer) == "<layer L(size=4)>"
    layer(data(3))
    assert repr(layer) == "<layer L(size=4)\n  w: 3->4\n  b: 4>"

    @wf.op
    def open_ended(x: wf.Tensor) -> wf.Tensor:
        return "w" @ x

    layer = open_ended()
    layer(data(3))
    assert repr(layer) == "<layer open_ended()\n  w: ...,3->...>"


def test_names_that_are_not_there() -> None:
    model = applied(block, size=2, label="M")
    cases: list[tuple[Any, str, str, str]] = [
        (
            lambda: model.param("attn.p"),
            "`M` has no parameter `attn.p`",
            "it has attn.q, attn.dense.w, attn.dense.b, dense.w, dense.b, dense2.w, dense2.b",
            'did you mean "attn.q"?',
        ),
        (lambda: model["atn"], "`M` has no layer or parameter `atn`", "it has attn, dense, dense2", '"attn"?'),
        (lambda: model["attn.q"], "`M` has no layer or parameter `attn.q`", "it has", 'write layer.param("attn.q")'),
        (lambda: model.param("attn"), "`M` has no parameter `attn`", "it has", 'layer["attn"] is a layer'),
        (
            lambda: model["attn"]["zzz"],
            "`M.attn` has no layer or parameter `zzz`",
            "it has q, dense",
            'write layer["q"]',
        ),
    ]
    for wrong, what, note, fix in cases:
        with pytest.raises(wf.WeftError) as caught:
            wrong()
        assert (caught.value.what, caught.value.notes[0].startswith(note)) == (what, True), str(caught.value)
        assert fix in caught.value.fix
        assert caught.value.origin is not None
    with pytest.raises(wf.WeftError, match="takes text for `path`"):
        model.param(3)  # type: ignore[arg-type]
    with pytest.raises(wf.WeftError, match="takes text for `name`, not 0"):
        model[0]  # type: ignore[index]
    with pytest.raises(wf.WeftError, match="takes text for `name`, not 0"):
        list(model)  # type: ignore[call-overload]
    with pytest.raises(wf.NoSuchName) as attribute:
        _ = model.attn
    assert attribute.value.fix == 'write layer["attn"]'
    with pytest.raises(wf.WeftError, match="`B` has no parameters yet"):
        block(size=2, label="B").param("attn.q")
    with pytest.raises(wf.WeftError, match="`B` has no parameters yet"):
        block(size=2, label="B")["attn"]


def test_a_layer_with_many_parameters_lists_some() -> None:
    @wf.op
    def many(x: wf.Tensor) -> wf.Tensor:
        for n in range(30):
            x = x + wf.param(f"w{n}", o=2)
        return x

    with pytest.raises(wf.WeftError) as caught:
        applied(many).param("w30")
    assert caught.value.notes == (f"it has {', '.join(f'w{n}' for n in range(12))}, …",)

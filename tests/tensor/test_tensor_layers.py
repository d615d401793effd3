"""Layers: configured once, applied often; whose parameters are whose, and what everything is called."""

from __future__ import annotations

import numpy as np
import pytest

import weft as wf


@wf.op
def dense(x: wf.Tensor, *, size: int) -> wf.Tensor:
    return wf.relu("w" @ x + wf.param("b", o=size))


@wf.op
def plain(x: wf.Tensor) -> wf.Tensor:
    return "w" @ x


def data(*shape: int, batch: int = 0) -> wf.Tensor:
    return wf.data(np.arange(float(np.prod(shape))).reshape(shape) / 10, batch=batch)


def labels(layer: wf.Layer) -> list[str]:
    return [param.label for param in layer.params]


def test_a_layer_infers_its_parameters() -> None:
    layer = dense(size=8, label="L1")
    result = layer(data(4, 3, batch=1))
    w, b = layer.params
    assert (str(result.dims), str(w.dims), str(b.dims)) == ("4|8", "3->8", "8")
    assert labels(layer) == ["L1.w", "L1.b"]
    assert result.label == "L1"


def test_a_layer_computes_what_it_says() -> None:
    ctx, layer = wf.Context("interp"), dense(size=2)
    x = data(4, 3, batch=1)
    result = layer(x)
    w, b = (ctx[param] for param in layer.params)
    np.testing.assert_allclose(ctx[result], np.maximum(ctx[x] @ w.T + b, 0), rtol=1e-5)


def test_one_layer_shares_its_parameters_between_batch_ranks() -> None:
    layer = dense(size=2)
    one, many, more = layer(data(3)), layer(data(4, 3, batch=1)), layer(data(5, 4, 3, batch=2))
    assert [str(result.dims) for result in (one, many, more)] == ["2", "4|2", "5,4|2"]
    assert len(layer.params) == 2
    assert one.params == many.params == more.params == layer.params
    ctx = wf.Context("interp")
    np.testing.assert_allclose(ctx[more][0], ctx[many], rtol=1e-6)
    np.testing.assert_allclose(ctx[many][0], ctx[one], rtol=1e-6)


def test_the_same_function_configured_twice_shares_nothing() -> None:
    first, second = dense(size=2, label="A"), dense(size=2, label="B")
    x = data(3)
    result = first(x) + second(x)
    assert len(result.params) == 4
    assert not set(first.params) & set(second.params)
    ctx = wf.Context("interp")
    assert (ctx[first.params[0]] != ctx[second.params[0]]).all()


def test_applied_to_inputs_of_two_sizes_it_is_refused() -> None:
    layer = plain()
    layer(data(3))
    with pytest.raises(wf.ShapeError):
        layer(data(4))


def test_configuring_and_applying_at_once() -> None:
    result = dense(data(3), size=2)
    assert isinstance(result, wf.Tensor)
    assert [param.label for param in result.params] == ["dense.w", "dense.b"]


def test_nested_layers_own_their_parameters() -> None:
    @wf.op
    def perceptron(x: wf.Tensor, *, sizes: tuple[int, ...]) -> wf.Tensor:
        first = dense(size=sizes[0], label="first")
        return dense(size=sizes[1], label="second")(first(x))

    model = perceptron(sizes=(5, 2), label="M")
    assert str(model(data(3)).dims) == "2"
    assert labels(model) == ["M.first.w", "M.first.b", "M.second.w", "M.second.b"]
    again = model(data(4, 3, batch=1))
    assert len(again.params) == 4
    assert set(again.params) == set(model.params)


def test_python_loops_give_each_place_its_own() -> None:
    @wf.op
    def deep(x: wf.Tensor, *, sizes: list[int]) -> wf.Tensor:
        for size in sizes:
            x = dense(size=size)(x)
        return x

    model = deep(sizes=[4, 5, 2])
    result = model(data(3))
    assert [str(param.dims) for param in model.params] == ["3->4", "4", "4->5", "5", "5->2", "2"]
    assert labels(model) == [
        f"deep.{name}" for name in ["dense.w", "dense.b", "dense2.w", "dense2.b", "dense3.w", "dense3.b"]
    ]
    assert set(model(data(3)).params) == set(result.params)


def test_a_string_is_one_parameter_wherever_it_stands() -> None:
    @wf.op
    def steps(x: wf.Tensor) -> wf.Tensor:
        b = wf.param("b", o=3)
        for _ in range(3):
            x = wf.tanh("w" @ x + b)
        return x * "b" + "w" @ x

    model = steps(label="S")
    assert str(model(data(3)).dims) == "3"
    model(data(5, 3, batch=1))
    assert labels(model) == ["S.b", "S.w"]


def test_a_name_declared_twice_in_one_application_is_refused_with_both_lines() -> None:
    @wf.op
    def looped(x: wf.Tensor) -> wf.Tensor:
        for _ in range(2):
            x = x + wf.param("b", o=3)
        return x

    @wf.op
    def after_a_string(x: wf.Tensor) -> wf.Tensor:
        x = "w" * x
        return x + wf.param("w", o=3)

    @wf.op
    def twice(x: wf.Tensor) -> wf.Tensor:
        w = wf.param("w", o=3)
        return x * w + wf.param("w", o=3)

    first = {"looped": 'x = x + wf.param("b", o=3)', "after_a_string": 'x = "w" * x', "twice": 'w = wf.param("w", o=3)'}
    for function in (looped, after_a_string, twice):
        name = function.__name__
        with pytest.raises(wf.WeftError) as caught:
            function(label="L")(data(3))
        assert (
            caught.value.what == f"`L.{'b' if name == 'looped' else 'w'}` is declared twice in one application of `L`"
        )
        assert caught.value.notes[0].startswith("first at test_tensor_layers.py:")
        assert caught.value.notes[0].endswith(f": {first[name]}")
        assert caught.value.fix.startswith("for the same parameter write the string")


def test_labels_inside_a_layer_never_meet() -> None:
    @wf.op
    def body(x: wf.Tensor) -> wf.Tensor:
        x = dense(x, size=2, label="dense2")
        return dense(dense(x, size=2), size=2)

    model = body(label="M")
    model(data(3))
    assert labels(model) == [f"M.{name}.{part}" for name in ("dense2", "dense", "dense3") for part in "wb"]


def test_two_parameters_of_one_model_that_are_called_alike_are_refused() -> None:
    first, second = dense(size=2, label="same"), dense(size=2, label="same")
    x = data(3)
    result = first(x) + second(x)
    assert labels(first) == labels(second) == ["same.w", "same.b"]
    with pytest.raises(wf.WeftError, match=r"two parameters of one model are called `same\.w`") as caught:
        wf.optim.sgd(wf.einsum("i=>0", result), lr=0.1)
    assert len(caught.value.notes) == 2
    assert caught.value.fix.startswith("give them different names: label=…")

    @wf.op
    def both(x: wf.Tensor, *, parts: wf.Layer) -> wf.Tensor:
        return parts(x) + second(x)

    model = both(parts=first)
    model(x)
    with pytest.raises(wf.WeftError, match=r"two parameters of one model are called `same\.w`"):
        labels(model)


def test_the_parameters_of_a_layer_that_was_not_applied() -> None:
    model = dense(size=2, label="L1")
    with pytest.raises(wf.WeftError) as caught:
        _ = model.params
    assert caught.value.what == "`L1` has no parameters yet: they are made when it is first applied"
    assert caught.value.fix == "apply it first: model(x)"

    @wf.op
    def nothing(x: wf.Tensor) -> wf.Tensor:
        return x + 1

    model = nothing()
    model(data(3))
    assert model.params == ()


def test_tensors_may_be_given_by_name() -> None:
    @wf.op
    def both(x: wf.Tensor, y: wf.Tensor, *, scale: float) -> wf.Tensor:
        return (x - y) * scale

    model, x, y = both(scale=2.0), data(3), data(3) * 3
    np.testing.assert_allclose(wf.Context("interp")[model(y=y, x=x)], wf.Context("interp")[2 * (x - y)])
    with pytest.raises(wf.WeftError, match="`scale` is configuration of `both`, which is configured"):
        model(x, y, scale=3.0)


def test_a_layer_is_a_function_of_tensors() -> None:
    model = plain(label="L")
    with pytest.raises(wf.WeftError) as caught:
        model(np.ones((4, 3)))
    assert caught.value.what == "`plain` is a function of tensors, and `x` is an array of shape (4, 3)"
    assert caught.value.fix.startswith("wrap it: wf.data(x, batch=1)")
    with pytest.raises(wf.WeftError, match="a layer has no `parameters`") as caught:
        model.parameters()
    assert caught.value.fix == "model.params"
    with pytest.raises(wf.WeftError, match="a layer has no `scop`"):
        _ = model.scop


def test_a_layer_made_outside_is_shared_by_its_users() -> None:
    inner = plain(label="inner")

    @wf.op
    def outer(x: wf.Tensor) -> wf.Tensor:
        return inner(x) + inner(x) * "s"

    model = outer(label="outer")
    result = model(data(3))
    assert [param.label for param in result.params] == ["inner.w", "outer.s"]


def test_strings_on_either_side_of_an_operator() -> None:
    @wf.op
    def mixed(x: wf.Tensor) -> wf.Tensor:
        return ("a" + x) * (x - "b") / ("c" - (x * "d"))

    model = mixed()
    model(data(3))
    assert labels(model) == ["mixed.a", "mixed.b", "mixed.d", "mixed.c"]


def test_strings_as_operands_of_functions() -> None:
    @wf.op
    def mixed(x: wf.Tensor) -> wf.Tensor:
        return wf.maximum(x, "floor") + wf.einsum("i;i=>i", x, "scale")

    model = mixed()
    assert str(model(data(3)).dims) == "3"
    assert labels(model) == ["mixed.floor", "mixed.scale"]


def test_a_layer_of_two_tensors() -> None:
    @wf.op
    def both(x: wf.Tensor, y: wf.Tensor) -> wf.Tensor:
        return "w" @ x + "u" @ y

    model = both()
    result = model(data(3), data(4)) * wf.data(np.ones(2))
    assert [str(param.dims) for param in result.params] == ["3->2", "4->2"]


def test_a_function_may_take_its_label() -> None:
    @wf.op
    def named(x: wf.Tensor, *, label: str) -> wf.Tensor:
        return wf.param(f"{label}_w", o=2) * x

    model = named(label="N")
    assert [param.label for param in model(data(2)).params] == ["N.N_w"]


def test_what_a_layer_returns_is_named_after_it() -> None:
    assert plain()(data(3)).label == "plain"
    assert plain(label="head")(data(3)).label == "head"


def test_a_layer_that_returns_its_argument_leaves_its_name() -> None:
    @wf.op
    def nothing(x: wf.Tensor) -> wf.Tensor:
        return x

    x = data(3)
    assert nothing()(x) is x
    assert x.label == "data"


def test_how_a_layer_prints() -> None:
    assert repr(dense(size=8, label="L1")) == "<layer L1(size=8)>"
    assert repr(plain()) == "<layer plain()>"


def test_a_layer_keeps_the_function_s_name_and_text() -> None:
    @wf.op
    def documented(x: wf.Tensor) -> wf.Tensor:
        """Says what it does."""
        return x

    assert (documented.__name__, documented.__doc__) == ("documented", "Says what it does.")


def test_an_error_in_the_body_leaves_the_layer_usable() -> None:
    @wf.op
    def fragile(x: wf.Tensor, fails: bool) -> wf.Tensor:
        result = "w" * x
        if fails:
            raise RuntimeError("not today")
        return result

    model = fragile()
    with pytest.raises(RuntimeError, match="not today"):
        model(data(3), True)
    model(data(3), False)
    assert labels(model) == ["fragile.w"]
    with pytest.raises(wf.WeftError, match=r"only inside a function under @wf\.op"):
        "w" * data(3)


def test_unknown_and_missing_configuration_are_refused() -> None:
    with pytest.raises(wf.WeftError) as caught:
        dense(size=2, width=3)
    assert caught.value.what == "`dense` has no configuration `width`"
    assert caught.value.fix == "its configuration is size"
    with pytest.raises(wf.WeftError) as caught:
        dense()
    assert caught.value.what == "`dense` needs the configuration `size`"
    assert caught.value.fix == "call dense(x, size=…)"
    with pytest.raises(wf.WeftError, match="its configuration is empty"):
        plain(size=3)


def test_layers_that_were_made_elsewhere_belong_to_the_layer_that_applies_them() -> None:
    @wf.op
    def body(x: wf.Tensor) -> wf.Tensor:
        return wf.relu(wf.nn.batch_norm(wf.nn.linear(x, o=4, label="first"), label="norm"))

    old = body(label="old")
    x, ctx = wf.data(np.ones((3, 2)), batch=1), wf.Context("interp")
    old(x)

    @wf.op
    def tuned(x: wf.Tensor) -> wf.Tensor:
        h = old["norm"](old["first"](x)) + old["first"](2.0 * x)
        return wf.nn.linear(h, o=5, label="head")

    new = tuned(label="new")
    y = new(x)
    assert {*new.params} == {*y.params}
    assert [p.label for p in new.params[:2]] == ["new.head.w", "new.head.b"]
    assert {*ctx.state(new)} == {*ctx.state(y)} > {"old.norm.running_mean", "old.first.w"}
    assert new["old.first"] is old["first"]
    assert new.param("old.first.w") is old["first"]["w"]
    assert str(new).count("old.first.w") == 1


def test_layers_that_apply_each_other_end() -> None:
    times = []

    @wf.op
    def first(x: wf.Tensor) -> wf.Tensor:
        times.append(x)
        y = wf.param("w", o=2) @ x
        return other(y) if len(times) < 2 else y

    @wf.op
    def second(x: wf.Tensor) -> wf.Tensor:
        return one(x) + wf.param("b", o=2)

    one, other = first(label="one"), second(label="other")
    one(wf.data(np.ones((3, 2)), batch=1))
    assert [p.label for p in one.params] == ["one.w", "other.b"]
    assert [p.label for p in other.params] == ["other.b", "one.w"]


def test_a_layer_that_is_reached_twice_is_there_once() -> None:
    inner = wf.nn.linear(o=2, bias=False, label="inner")

    @wf.op
    def tied(x: wf.Tensor, *, layer: wf.Layer) -> wf.Tensor:
        return layer(x) + inner(x)

    @wf.op
    def model(x: wf.Tensor) -> wf.Tensor:
        return tied(x, layer=inner) + inner(x)

    made = model(label="model")
    made(wf.data(np.ones((3, 2)), batch=1))
    assert [p.label for p in made.params] == ["inner.w"]

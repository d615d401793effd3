"""Shapes of expressions: leaves as large as their uses allow, code that changes nothing, mistakes that stay put."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import weft as wf

Change = Callable[[wf.Tensor], wf.Tensor]

UNARY: dict[str, Change] = {
    "itself": lambda t: t,
    "cast": lambda t: wf.cast(t, "float32"),
    "scaled": lambda t: 2 * t,
    "tanh": wf.tanh,
    "relu": wf.relu,
    "scaled by a number": lambda t: wf.number(2.0) * t,
    "scaled by an array of one": lambda t: t * wf.data(np.array([2.0])),
    "divided by its norm": lambda t: t / wf.sqrt(wf.einsum("...|...->... => 0", t * t)),
    "copied": lambda t: wf.einsum("...|...->... => ...|...->...", t),
}

OPTIMISERS: dict[str, Callable[[wf.Tensor], wf.Code]] = {
    "sgd": lambda loss: wf.optim.sgd(loss, lr=0.1),
    "sgd by a number": lambda loss: wf.optim.sgd(loss, lr=wf.number(0.1)),
    "sgd by an array of one": lambda loss: wf.optim.sgd(loss, lr=wf.data(np.array([0.1]))),
    "sgd by a schedule": lambda loss: wf.optim.sgd(loss, lr=0.1 / (1 + wf.constant(3.0)), momentum=0.9),
    "adam": lambda loss: wf.optim.adam(loss, lr=0.1),
}


def examples(count: int = 5, width: int = 3) -> wf.Tensor:
    return wf.data(np.ones((count, width)), batch=1, label="x")


def total(tensor: wf.Tensor) -> wf.Tensor:
    return wf.einsum("...|... => 0", tensor)


# A leaf takes the greatest shape that all its uses allow.


@pytest.mark.parametrize("change", UNARY.values(), ids=UNARY)
def test_what_stands_between_a_parameter_and_its_use_does_not_shrink_it(change: Change) -> None:
    image = wf.data(np.ones((2, 8, 8, 3), "float32"), batch=1)
    kernel, dense = wf.param("kernel"), wf.param("dense", o=8)
    features = wf.einsum("...|h=+p, w=+q, c; f, p, q, c => ...|h, w, f", image, change(kernel), f=4, p=3, q=3)
    assert (str(features.dims), str(kernel.dims)) == ("2|8,8,4", "4,3,3,3")
    result = wf.einsum("i->o; ...|i => ...|o", change(dense), examples())
    assert (str(result.dims), str(dense.dims)) == ("5|8", "3->8")


@pytest.mark.parametrize("change", UNARY.values(), ids=UNARY)
@pytest.mark.parametrize("spec", ["...|h, d => ...|h", "...|h, ..., d => ...|h", "...|..., h, d => ...|h"])
def test_what_a_spec_says_of_an_intermediate_reaches_the_parameter_below_it(spec: str, change: Change) -> None:
    weight = wf.param("w")
    query = change(weight @ examples())
    wf.einsum(spec, query, h=4, d=5).dims
    assert str(weight.dims) == "3->4,5"


SUMS: dict[str, tuple[Callable[[wf.Tensor, wf.Tensor, wf.Tensor], wf.Tensor], list[str]]] = {
    "of two that have fewer": (lambda x, u, v: (x + u) + (x * v), ["2,4", "2,4"]),
    "behind something pointwise": (lambda x, u, v: wf.tanh((x + u) - 2 * (x * v)), ["2,4", "2,4"]),
    "of three": (lambda x, u, v: wf.where(u < x, x * v, x - v), ["2,4", "2,4"]),
    "beside a constant": (lambda x, u, v: ((x + u) * v + 1.0) / wf.constant(3.0), ["4", "2,4"]),
    "beside nothing but a constant": (lambda x, u, v: wf.constant(1.0) + (x + u) * (x - v), ["2,4", "2,4"]),
    "of one that is used with fewer elsewhere": (lambda x, u, v: x * u - (u + v * x), ["2,4", "4"]),
    "of one that may have more": (lambda x, u, v: (x + u) + v, ["4", "2,4"]),
    "of one that has more": (lambda x, u, v: (x + u) + wf.data(np.ones((2, 4))) * v, ["4", "2,4"]),
    "through a spec that keeps the axes": (
        lambda x, u, v: wf.einsum("..., i => ..., 2*i", x + u) + wf.einsum("..., i => ..., 2*i+1", x + v),
        ["2,4", "2,4"],
    ),
}


@pytest.mark.parametrize(("build", "shapes"), SUMS.values(), ids=SUMS)
def test_axes_a_sum_must_have_come_from_its_open_operands_unless_one_has_them(
    build: Callable[[wf.Tensor, wf.Tensor, wf.Tensor], wf.Tensor], shapes: list[str]
) -> None:
    u, v = wf.param("u"), wf.param("v")
    assert str(wf.einsum("h, i => h", build(wf.data(np.ones(4)), u, v), h=2).dims) == "2"
    assert [str(u.dims), str(v.dims)] == shapes


@pytest.mark.parametrize("change", UNARY.values(), ids=UNARY)
@pytest.mark.parametrize("update", OPTIMISERS.values(), ids=OPTIMISERS)
def test_code_that_updates_never_changes_the_model(update: Callable[[wf.Tensor], wf.Code], change: Change) -> None:
    hidden, last = wf.param("w1", o=8), wf.param("w2")
    out = change(last) @ wf.relu(change(hidden) @ examples())
    loss = total((out - wf.data(np.ones((5, 1)), batch=1)) ** 2)
    step = wf.Context("interp").compile(wf.seq(wf.grad_update(loss), update(loss)))
    assert [str(t.shape) for t in (hidden, last, out)] == ["3->8", "8->1", "5|1"]
    step()


def test_a_constant_does_not_tie_its_uses_together() -> None:
    one, wide, narrow = wf.constant(1.0), wf.param("wide", o=16), wf.param("narrow")
    out = (narrow @ wf.relu((wide @ examples()) * one)) * one
    loss = total((out - wf.data(np.ones((5, 1)), batch=1)) ** 2)
    assert (str(narrow.dims), str(out.dims), str(loss.dims)) == ("16->1", "5|1", "1")


def test_a_random_tensor_has_the_shape_of_what_it_meets_whether_or_not_that_was_looked_at() -> None:
    for look in (False, True):
        hidden = wf.einsum("b|i; i->o => b|o", wf.data(np.ones((6, 4)), batch=1), wf.data(np.ones((5, 4)), input=1))
        noise = wf.random_uniform("u", step=0)
        if look:
            assert (str(hidden.dims), str(noise.dims)) == ("6|5", "1")
        assert str((hidden * noise).dims) == str(noise.dims) == "6|5"
    image, kernel = wf.data(np.ones((2, 8, 8, 3)), batch=1), wf.param("kernel", init=1.0)
    spec = "...|2*h<+p, 2*w<+q, c; f, p, q, c => ...|h, w, f"
    features = wf.relu(wf.einsum(spec, image, kernel, f=4, p=2, q=2))
    dropped = wf.Context("interp")[wf.dropout(features, 0.5, step=0)]
    assert not (dropped == dropped[:, :1, :1]).all()
    assert not (dropped == dropped[:1]).all()


def test_noise_scaled_before_it_meets_the_data_is_as_large_as_the_data() -> None:
    for scale in (wf.param("s", o=1), wf.param("s"), wf.number(0.1), wf.data(np.full(4, 0.1))):
        noise = wf.random_uniform("u", step=0)
        assert str((examples(5, 4) + scale * noise).dims) == str(noise.dims) == "5|4"


# Nodes.


def test_a_node_takes_its_shape_from_what_is_assigned_not_from_where_it_is_read() -> None:
    weight = wf.param("w", o=3, init=1.0)
    loss = total(weight * weight)

    @wf.cd
    def clip(*, most: float) -> None:
        norm = wf.node("norm2")
        norm[:] = 0.0
        norm += wf.einsum("...|...->... => 0", weight.grad * weight.grad)
        weight.grad *= wf.minimum(1, most / (wf.sqrt(norm) + 1e-6))
        found.append(norm)

    found: list[wf.Tensor] = []
    ctx = wf.Context("interp")
    ctx.compile(wf.seq(wf.grad_update(loss), clip(most=0.5)), keep=[weight.grad])()
    assert (found[0].label, str(found[0].shape)) == ("norm2.w", "1")
    np.testing.assert_allclose(np.linalg.norm(ctx[weight.grad]), 0.5, rtol=1e-5)


def test_a_node_nobody_assigned_to_takes_the_shape_of_its_use() -> None:
    read, written = wf.node("read"), wf.node("written")

    @wf.cd
    def copy() -> None:
        written[:] = read * wf.data(np.ones(3))

    code = copy()
    ctx = wf.Context("interp")
    ctx[read] = np.arange(3.0)
    ctx.compile(code)()
    assert ctx[written].tolist() == [0.0, 1.0, 2.0]


def test_a_parameter_that_only_code_uses_is_shaped_by_the_code() -> None:
    weight, result = wf.param("w", o=2, init=1.0), wf.node("result")

    @wf.cd
    def apply() -> None:
        result[:] = weight @ wf.data(np.ones(3))

    ctx = wf.Context("interp")
    ctx.compile(apply())()
    assert str(weight.shape) == "3->2"
    assert ctx[result].tolist() == [3.0, 3.0]


def test_code_that_contradicts_the_model_is_an_error() -> None:
    weight = wf.param("w", o=2)
    loss = total(weight @ examples())

    @wf.cd
    def wrong() -> None:
        weight.grad[:] = wf.data(np.ones((4, 2)))

    with pytest.raises(wf.WeftError, match="needs at least 2 axes but can have at most 1 axis"):
        wf.Context("interp").compile(wf.seq(wf.grad_update(loss), wrong()))


# Labels.


def labelled(size: int, label: str) -> wf.Tensor:
    return wf.tensor(wf.labelled(label, [1.0] * size))


def test_a_labelled_one_lends_its_label_to_what_is_open_below_it() -> None:
    hey = wf.param("hey")
    result = hey @ wf.number(2.0, basis="q") + wf.number(1.0, basis="p")
    assert (str(result.dims), str(hey.dims)) == ("p=1", "q=1->p=1")
    written, through = wf.param("written", o=1), wf.param("through")
    assert str((written + wf.number(1.0, basis="p")).dims) == "p=1"
    assert str(written.dims) == "1"
    assert str((wf.tanh(2 * through) + wf.number(1.0, basis="p")).dims) == str(through.dims) == "p=1"


def test_what_broadcasts_elsewhere_is_lent_no_label() -> None:
    both = wf.param("both")
    one, many = both + wf.number(1.0, basis="p"), both + wf.data(np.ones(3))
    assert [str(t.dims) for t in (both, one, many)] == ["1", "p=1", "3"]


@pytest.mark.parametrize(("make", "shape"), [
    (lambda: wf.concat(labelled(2, "x"), labelled(3, "x")), "x=5"),
    (lambda: wf.concat(labelled(2, "x"), wf.data(np.ones(3))), "x=5"),
    (lambda: wf.einsum("2*i => i", labelled(4, "x")), "x=2"),
    (lambda: wf.einsum("i => 2*i", labelled(4, "x")), "x=8"),
    (lambda: wf.einsum("o<+k; k => o", labelled(6, "x"), wf.data(np.ones(3))), "x=4"),
    (lambda: wf.einsum("2*o=+k; k => o", labelled(6, "x"), wf.data(np.ones(3))), "x=3"),
])  # fmt: skip
def test_labels_travel_through_computed_axes(make: Callable[[], wf.Tensor], shape: str) -> None:
    assert str(make().dims) == shape


@pytest.mark.parametrize("make", [
    lambda: wf.einsum("a; b => a^b", labelled(2, "x"), labelled(3, "y")),
    lambda: wf.einsum("2*i; i => i", labelled(4, "x"), labelled(2, "y")),
    lambda: wf.einsum("o<+k; o => k", labelled(4, "x"), labelled(2, "y")),
])  # fmt: skip
def test_labels_that_clash_in_a_computed_axis(make: Callable[[], wf.Tensor]) -> None:
    with pytest.raises(wf.WeftError, match="cannot be labelled both 'x' and 'y'"):
        make()


# Sizes found backwards, and sizes of row variables.


def test_sizes_are_found_backwards_through_strides_under_broadcasting() -> None:
    weight, frequencies = wf.param("w_q"), wf.data(np.ones(8), label="frequencies")
    query = weight @ examples()
    even, odd = (wf.einsum(f"...|2*i{offset} => ...|i", query) for offset in ("", "+1"))
    assert (str((even * frequencies - odd * frequencies).dims), str(weight.dims)) == ("5|8", "3->16")


def test_the_open_part_of_a_concatenation_is_what_is_left() -> None:
    two, three = wf.data(np.ones(2)), wf.data(np.ones(3))
    rest = wf.param("rest")
    assert str((wf.einsum("i; j; k => i^j^k", two, three, rest) + wf.data(np.ones(7))).dims) == "7"
    assert str(rest.dims) == "2"
    other = wf.param("other")
    assert str((wf.concat(two, other) + wf.concat(three, two, wf.data(np.ones(1)))).dims) == "6"
    assert str(other.dims) == "4"


@pytest.mark.parametrize("change", [lambda t: t, wf.tanh, lambda t: wf.cast(t, "float64") * 2])
def test_an_open_part_beside_a_single_cell_is_what_is_left(change: Callable[[wf.Tensor], wf.Tensor]) -> None:
    bias, weight, turned = wf.param("bias"), wf.param("weight"), wf.param("turned")
    one, three = wf.data(np.zeros(1)), wf.data(np.ones(3), label="three")
    assert str((wf.concat(change(bias), one) + three).dims) == "3"
    assert str((wf.concat(change(weight) @ examples(), wf.data(np.zeros((5, 1)), batch=1)) + three).dims) == "5|3"
    assert str((wf.einsum("a^b => b^a", change(turned), a=1) + three).dims) == "3"
    assert (str(bias.dims), str(weight.dims), str(turned.dims)) == ("2", "3->2", "3")


def test_a_row_variable_has_a_size() -> None:
    x = wf.data(np.arange(24.0).reshape(2, 3, 4), batch=1)
    mean = wf.einsum("...|..d.. => ...|0", x)
    np.testing.assert_allclose(np.asarray(mean / wf.dim(mean, "d")).ravel(), [5.5, 17.5])
    kernel = wf.param("kernel")
    assert str(wf.einsum("...|..i..; ..i..->..o.. => ...|..o..", x, kernel, o=5).dims) == "2|5"
    assert str(kernel.dims) == "3,4->5"


def one_row(size: int) -> object:
    return wf.einsum("i, ..o.. => i, ..o..", wf.data(np.ones((2, 3)), label="x"), o=size)


def two_sizes(size: int) -> object:
    w = wf.param("w")
    return wf.einsum("..p.. => ..p..", wf.einsum("..o.. => ..o..", w, o=size), p=3).dims


def through_broadcasting(size: int) -> object:
    w = wf.param("w")
    wf.einsum("..o.. => ..o..", w, o=size)
    return wf.Context("interp")[w + wf.data(np.ones((2, 3)), label="x")]


@pytest.mark.parametrize(
    ("make", "axes", "product"),
    [
        (lambda size: wf.einsum("..o.. => ..o..", wf.data(np.ones((2, 3)), label="x"), o=size), "2,3", 6),
        (lambda size: wf.plan("..o.. => ..o..", (2, 3), o=size), "2,3", 6),
        (lambda size: wf.einsum("..o.. => ..o..", wf.param("w", o=(2, 3)), o=size), "2,3", 6),
        (one_row, "3", 3),
        (two_sizes, "3", 3),
        (through_broadcasting, "2,3", 6),
    ],
)
def test_a_size_of_a_row_variable_is_the_product_of_its_sizes(
    make: Callable[[int], object], axes: str, product: int
) -> None:
    make(product)
    with pytest.raises(wf.ShapeError) as caught:
        make(7)
    assert caught.value.what == f"`..o..` cannot be 7, the product of its sizes, where it is {axes}"
    assert caught.value.fix == f"give o={product}, or change what it is used with"
    assert any(note.startswith("o=7 comes from test_tensor_inference.py:") for note in caught.value.notes)
    assert any(note.startswith(f"{axes} comes from test_tensor_inference.py:") for note in caught.value.notes)


def test_a_row_variable_cannot_be_labelled() -> None:
    with pytest.raises(wf.ShapeError, match=r"`\.\.o\.\.` stands for any number of axes"):
        wf.einsum("..o.. => ..o..", wf.data(np.ones((2, 3))), o=wf.Dim(6, "rgb"))


def test_a_square_parameter() -> None:
    mixing = wf.param("mixing", square=True)
    assert str((mixing @ examples()).dims) == "5|3"
    assert str(mixing.dims) == "3->3"
    with pytest.raises(wf.WeftError):
        wf.param("w", square=True, i=3, o=4)


# What is joined broadcasts like any array.


def test_what_is_joined_broadcasts_on_the_left() -> None:
    values = np.array([1.0, 2.0, 3.0])
    parts = [wf.data(values[at : at + 1]) for at in range(3)]
    ones = [wf.einsum("i => 0", part) for part in parts]
    ctx = wf.Context("interp")
    for joined in (
        wf.concat(*parts),
        wf.einsum("i, j => i", wf.stack(*ones)),
        wf.concat(wf.concat(*parts[:2]), parts[2]),
    ):
        assert str(joined.dims) == "3"
        np.testing.assert_array_equal(ctx[wf.data(np.zeros((4, 3))) + joined], np.broadcast_to(values, (4, 3)))
        with pytest.raises(wf.WeftError, match="cannot be both 4 and 3"):
            (wf.data(np.zeros((3, 4))) + joined).dims
    rows = wf.tensor([wf.data(values), wf.data(values)])
    assert str((wf.data(np.zeros((5, 2, 3))) + rows).dims) == "5,2,3"


def test_what_is_joined_along_a_batch_axis_broadcasts_against_more_axes() -> None:
    more = wf.data(np.ones((4, 1, 2)), batch=2)
    row = wf.relu(wf.data(np.ones((1, 2)), batch=1))
    assert str((more * wf.concat(row, row, kind="batch")).dims) == "4,2|2"


def test_a_shape_that_grows_elsewhere_shows_where() -> None:
    frame = wf.einsum("i...j => i...j", wf.data(np.ones((2, 3))))
    assert [str(t.dims) for t in (frame, wf.relu(frame), frame + frame, frame.T)] == [
        "2...3",
        "2...3",
        "2...3",
        "2...3->1",
    ]


# Looking decides nothing, deciding says where, and mistakes stay where they were made.


def test_looking_decides_nothing() -> None:
    weight, noise = wf.param("w", o=2), wf.random_uniform("u", step=0)
    assert (str(weight.dims), str(noise.dims), repr(weight)) == ("2", "1", "<w: ...->2>")
    assert str((weight @ examples() + noise).dims) == "5|2"
    assert (str(weight.dims), str(noise.dims)) == ("3->2", "5|2")


def test_a_value_that_was_asked_for_decides_and_the_later_error_names_the_line() -> None:
    noise = wf.random_uniform("u", step=0)
    wf.Context("interp")[noise + wf.data(np.ones(3))]
    with pytest.raises(wf.WeftError, match=r"3 was decided for test_tensor_inference.py:\d+: wf.Context"):
        noise + wf.data(np.ones(4))


def test_asking_for_one_value_leaves_what_it_does_not_need_open() -> None:
    hidden = wf.param("w1", o=4, init=1.0) @ examples()
    noise = wf.random_uniform("u", step=0)
    noisy = hidden + noise
    wf.Context("interp")[hidden]
    assert noise.shape.closed is None
    assert str((wf.data(np.ones((7, 5, 4)), batch=2) * noisy).dims) == "7,5|4"


def test_a_mistake_found_when_shapes_close_does_not_poison_what_is_connected_to_it() -> None:
    ctx = wf.Context("interp")
    one, two = wf.random_uniform("one", step=0), wf.random_uniform("two", step=0)
    good = one + wf.data(np.ones(3))
    two + wf.data(np.ones(5))
    wrong = one + two  # three or five
    for _ in range(2):
        with pytest.raises(wf.WeftError, match="cannot be both 3 and 5"):
            wrong.dims
    assert (str(good.dims), str(one.dims), str(two.dims)) == ("3", "3", "5")
    assert ctx[good].shape == (3,)
    assert str((one * 2).dims) == "3"
    with pytest.raises(wf.WeftError, match="cannot be both 3 and 5"):
        ctx[wrong * 2]


def test_a_result_has_no_axes_that_its_operands_do_not_have() -> None:
    """As `x` itself has not: a spec does not stretch what is computed from it."""
    column = wf.data(np.ones((4, 1)), batch=1)
    for operand in (column, wf.relu(column), column + column):
        with pytest.raises(wf.WeftError, match="`i` cannot be both 1 and 5"):
            wf.einsum("...|i; i => ...|0", operand, wf.data(np.ones(5)))
        with pytest.raises(wf.WeftError, match="needs at least 2 axes"):
            wf.einsum("...|i, j => ...|i", operand)

"""Wrong use: what each error says, where it points, what it advises."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import weft as wf

ADVICE = "  fix: wrap arrays with wf.data(…), nested lists with wf.tensor(…)"
WRITTEN_OUT = "  fix: write the values out: wf.tensor([1.0, 2.0]); join tensors with wf.stack or wf.concat"


def text(caught: pytest.ExceptionInfo[wf.WeftError]) -> list[str]:
    """The message, which must name the line of the test it was raised at; that line is written `@`."""
    where = f"{Path(__file__).name}:{caught.tb.tb_lineno}"
    assert str(caught.value).startswith(where + ": "), str(caught.value)
    return str(caught.value).replace(where, "@").splitlines()


def vector(size: int, label: str = "x") -> wf.Tensor:
    return wf.data(np.ones(size), label=label)


MADE = f"{Path(__file__).name}:{vector.__code__.co_firstlineno + 1}: return wf.data(np.ones(size), label=label)"

OTHER_KINDS = {
    "None": (None, "NoneType None"),
    "a list": ([1, 2], "list [1, 2]"),
    "a dict": ({"a": 1}, "dict {'a': 1}"),
    "a complex number": (1j, "complex 1j"),
}


@pytest.mark.parametrize("name", OTHER_KINDS)
def test_operands_of_other_kinds(name: str) -> None:
    value, shown = OTHER_KINDS[name]
    x, advice = vector(2), WRITTEN_OUT if isinstance(value, list) else ADVICE
    with pytest.raises(wf.WeftError) as caught:
        x + value
    assert text(caught) == [f"@: `+` takes tensors and numbers, not {shown}", "    x + value", advice]
    with pytest.raises(wf.WeftError) as caught:
        value / x
    assert text(caught) == [f"@: `/` takes tensors and numbers, not {shown}", "    value / x", advice]
    with pytest.raises(wf.WeftError) as caught:
        x @ value
    assert text(caught) == [f"@: `@` takes tensors and numbers, not {shown}", "    x @ value", advice]
    with pytest.raises(wf.WeftError) as caught:
        wf.relu(value)
    assert text(caught) == [f"@: relu takes tensors and numbers, not {shown}", "    wf.relu(value)", advice]
    with pytest.raises(wf.WeftError) as caught:
        wf.einsum("i=>i", value)
    assert text(caught)[0] == f"@: einsum takes tensors and numbers, not {shown}"


def test_the_wrong_number_of_operands() -> None:
    x = vector(2)
    with pytest.raises(wf.WeftError) as caught:
        wf.where(x, x)
    assert text(caught) == [
        "@: `where` needs the argument `y`",
        "    wf.where(x, x)",
        "  fix: call it where(condition, x, y, [spec=…], [label=…])",
    ]
    with pytest.raises(wf.EinsumError) as caught:
        wf.einsum("i;j=>ij", x)
    assert text(caught)[:4] == [
        "@: the spec has 2 operands and was given 1",
        '    wf.einsum("i;j=>ij", x)',
        "    i;j=>ij",
        "    ^ ^",
    ]
    assert caught.value.fix


def test_operations_that_are_none() -> None:
    x = vector(2)
    with pytest.raises(wf.WeftError) as caught:
        wf.einsum("i=>0", x, accum="sum")
    assert text(caught) == [
        "@: there is no accumulation 'sum'",
        '    wf.einsum("i=>0", x, accum="sum")',
        '  fix: write accum="+"',
    ]
    with pytest.raises(wf.WeftError) as caught:
        wf.einsum("i;i=>0", x, x, op="plus")
    assert text(caught)[0] == "@: there is no operation 'plus'"
    with pytest.raises(wf.WeftError) as caught:
        wf.einsum("i=>0", x, accum="-")
    assert text(caught) == [
        "@: '-' cannot accumulate: it has no neutral element",
        '    wf.einsum("i=>0", x, accum="-")',
        "  fix: accumulate with one of +, *, max, min, or, and, logsumexp, mean, var, argmax, argmin",
    ]


def test_a_concatenation_combines_nothing() -> None:
    x, y = vector(2, "x"), vector(3, "y")
    with pytest.raises(wf.WeftError) as caught:
        wf.einsum("a;b=>a^b", x, y, op="-")
    assert text(caught)[:2] == [
        "@: a concatenation copies its parts, so `op='-'` has nothing to combine",
        '    wf.einsum("a;b=>a^b", x, y, op="-")',
    ]


def test_an_exponent_that_is_a_tensor() -> None:
    x = vector(2)
    with pytest.raises(wf.WeftError) as caught:
        x**x
    assert text(caught) == [
        "@: the exponent of ** must be a number",
        "    x**x",
        "  fix: for a power with a tensor exponent write wf.exp(y * wf.log(x))",
    ]
    with pytest.raises(wf.WeftError) as caught:
        2**x
    assert text(caught)[:2] == ["@: the exponent of ** must be a number", "    2**x"]
    with pytest.raises(wf.WeftError) as caught:
        np.float32(2) ** x
    assert text(caught)[:2] == ["@: the exponent of ** must be a number", "    np.float32(2) ** x"]


def test_a_tensor_is_neither_true_nor_iterable_nor_long() -> None:
    x = vector(2)
    with pytest.raises(wf.WeftError) as caught:
        bool(x)
    assert text(caught) == [
        "@: `x` is a tensor to be computed: it is neither true nor false",
        "    bool(x)",
        "  fix: wf.where chooses by a tensor, wf.logical_and and wf.maximum combine two; ctx[t] is its value",
    ]
    with pytest.raises(wf.WeftError) as caught:
        list(x)
    advice = "  fix: t[0] is a slice of it, wf.sum(t) adds it up, wf.max(t) is its greatest element"
    assert text(caught) == ["@: `x` cannot be iterated over", "    list(x)", advice]
    with pytest.raises(wf.WeftError) as caught:
        len(x)
    assert text(caught) == ["@: `x` has no length", "    len(x)", "  fix: t.dims has its sizes"]


def test_truths_have_no_operators_of_bits() -> None:
    x, ways = vector(2), {"&": "wf.logical_and(a, b)", "|": "wf.logical_or(a, b)", "^": "wf.not_equal(a, b)"}
    for sign, instead in ways.items():
        for written in (f"(x > 0) {sign} (x < 1)", f"True {sign} x"):
            with pytest.raises(wf.WeftError) as caught:
                eval(written)
            what = f"tensors have no `{sign}`: truths are the numbers 0 and 1"
            assert (caught.value.what, caught.value.fix) == (what, f"write {instead}")
    with pytest.raises(wf.WeftError) as caught:
        ~x
    assert text(caught) == [
        "@: tensors have no `~`: truths are the numbers 0 and 1",
        "    ~x",
        "  fix: write wf.logical_not(a)",
    ]


def test_shapes_that_clash_are_refused_where_they_meet() -> None:
    x, y = vector(2, "x"), vector(3, "y")
    with pytest.raises(wf.ShapeError) as caught:
        x + y
    assert text(caught) == [
        "@: the output axis of `add` cannot be both 2 and 3",
        "    x + y",
        "  x is 2",
        "  y is 3",
        f"  2 comes from {MADE}",
        "    through @: x + y",
        f"  3 comes from {MADE}",
        "    through @: x + y",
        "  fix: make both 2 or both 3; only an unlabelled 1 broadcasts",
    ]
    assert wf.Context("interp")[x * 2.0].tolist() == [2.0, 2.0]


ROWS = [(2, 0), (1, 0), (1, 1)]  # of which no two broadcast


@pytest.mark.parametrize(("left", "right"), list(itertools.permutations(ROWS, 2)), ids=str)
def test_sizes_in_other_rows_are_told_how_to_be_laid_out_as_one_another(
    left: tuple[int, int], right: tuple[int, int]
) -> None:
    """Whatever rows the sizes 2, 3, 4 lie in, the spec that the error advises makes both of one shape."""
    array = np.arange(24.0).reshape(2, 3, 4)
    x, y = (
        wf.data(array, batch=batch, input=inputs, label=name)
        for name, (batch, inputs) in zip("xy", (left, right), strict=True)
    )
    with pytest.raises(wf.ShapeError) as caught:
        x + y
    advice = text(caught)[-1]
    assert "their sizes are the same, in other rows" in advice
    turned = eval(advice[advice.index("wf.einsum") :], {"wf": wf, "x": x, "y": y})
    total = x + turned
    assert str(total.dims) == str(x.dims)
    np.testing.assert_array_equal(wf.Context("interp")[total], 2 * array)


def test_shapes_that_clash_in_a_product() -> None:
    w, x = wf.param("w", i=3, o=2), vector(4)
    with pytest.raises(wf.ShapeError) as caught:
        w @ x
    lines = text(caught)
    assert lines[:4] == ["@: the input axis of `w` cannot be both 3 and 4", "    w @ x", "  w is 3->2", "  x is 4"]
    assert f"  4 comes from {MADE}" in lines
    assert lines[-1] == "  fix: make both 3 or both 4; only an unlabelled 1 broadcasts"


def test_shapes_that_clash_in_a_spec() -> None:
    a, b = wf.data(np.ones((2, 3)), label="a"), wf.data(np.ones((4, 5)), label="b")
    with pytest.raises(wf.ShapeError) as caught:
        wf.einsum("ij;jk=>ik", a, b)
    lines = text(caught)
    assert lines[0] == "@: `j` cannot be both 3 and 4"
    assert lines[2:4] == ["    ij;jk=>ik", "     ^ ^"]


def test_shapes_that_clash_inside_a_layer_point_into_its_body() -> None:
    @wf.op
    def layer(x: wf.Tensor) -> wf.Tensor:
        return x + vector(3, "bias")

    with pytest.raises(wf.ShapeError) as caught:
        layer()(vector(2))
    assert str(caught.value).splitlines()[1] == '    return x + vector(3, "bias")'


def test_a_node_that_is_read_before_it_has_a_value() -> None:
    n = wf.node("n")
    other = wf.node("other")

    @wf.cd
    def code() -> None:
        other[:] = n + vector(2)

    ctx = wf.Context("interp")
    run = ctx.compile(code())
    with pytest.raises(wf.WeftError) as caught:
        run()
    lines = text(caught)
    assert lines[0].startswith("@: `n` is read by a routine that starts with `")
    assert lines[0].endswith("` but never got a value")
    assert lines[1] == "    run()"
    assert lines[2].endswith(': n = wf.node("n")')
    assert lines[3] == "  fix: set it first: ctx[n] = …, or give it init=…"


def test_a_static_index_makes_the_axis_of_data_that_is_only_counted() -> None:
    x, i = wf.counted(np.arange(12.0), label="x"), wf.index("i", 4)
    ctx, part = wf.Context("interp"), wf.param("w", i=3, o=1, init=1.0) @ x[i]
    ctx.compile(part.forward, bindings=[i])(i=2)
    assert str(x.dims) == "4|3"
    assert ctx[part].tolist() == [21.0]
    with pytest.raises(wf.ShapeError, match="static index `j` has 5 positions"):
        x[wf.index("j", 5)]


def test_a_parameter_used_in_two_incompatible_ways() -> None:
    w = wf.param("w", o=2)
    w @ vector(3)
    with pytest.raises(wf.ShapeError) as caught:
        w @ vector(4)
    first = f"{Path(__file__).name}:{caught.tb.tb_lineno - 2}: w @ vector(3)"
    assert text(caught) == [
        "@: the input axis of `w` cannot be both 3 and 4",
        "    w @ vector(4)",
        "  w is ...,3->2",
        "  x is 4",
        f"  3 comes from {MADE}",
        f"    through {first}",
        f"  4 comes from {MADE}",
        "    through @: w @ vector(4)",
        "  fix: make both 3 or both 4; only an unlabelled 1 broadcasts",
    ]


def test_the_shapes_stay_as_they_were_after_a_clash() -> None:
    w = wf.param("w", o=2)
    with pytest.raises(wf.ShapeError):
        wf.param("v", o=3) + w
    assert str((w * 1.0).dims) == "2"


RETURNED: dict[str, tuple[Callable[[], object], str, str]] = {
    "nothing": (lambda: None, "None", "end every way through the function with a `return`"),
    "a number": (lambda: 3, "3", "wf.constant(…) is a tensor of one number"),
    "a number in a list": (lambda: [1], "1 as `0`", "wf.constant(…) is a tensor of one number"),
    "a name": (lambda: "w", "'w'", "wf.param('w') is a parameter"),
    "nothing beside a tensor": (lambda: (vector(2), None), "None as `1`", "end every way through the function"),
    "a truth value": (lambda: {"out": vector(2), "done": True}, "True as `done`", "wf.constant(…) is a tensor"),
    "a generator": (lambda: (vector(n) for n in (1, 2)), "a generator", "return tuple(…) of it"),
    "a generator inside": (lambda: {"all": iter([vector(2)])}, "a list_iterator as `all`", "return tuple(…) of it"),
    "a set": (lambda: {vector(2)}, "a set", "a set has no order: return a tuple or a dict"),
    "an array": (lambda: [vector(2), np.ones(2)], "a ndarray as `1`", "wrap it: wf.data(x, batch=1)"),
    "a function": (lambda: (wf.relu,), "a function as `0`", "apply it to a tensor first"),
    "code": (lambda: vector(2).forward, "a ", "return tensors: one, or a tuple, list, dict"),
    "something else": (lambda: (vector(2), (vector(2), 1j)), "a complex as `1.1`", "return tensors: one, or a tuple"),
}


@pytest.mark.parametrize("case", RETURNED)
def test_a_layer_that_returns_no_tensor(case: str) -> None:
    make, shown, fix = RETURNED[case]

    @wf.op
    def empty(x: wf.Tensor) -> object:
        if x is None:
            return x
        return make()

    layer = empty()
    x = vector(2)
    with pytest.raises(wf.WeftError) as caught:
        layer(x)
    what, line, one, other, instead = text(caught)
    assert what.startswith(f"@: `empty` returned {shown}")
    assert what.endswith(", not a tensor")
    assert line == "    layer(x)"
    assert re.sub(r":\d+:", ":", one) == "  it returns at test_tensor_errors.py: return x"
    assert re.sub(r":\d+:", ":", other) == "  it returns at test_tensor_errors.py: return make()"
    assert fix in instead


def test_a_layer_that_returns_no_tensors_at_all() -> None:
    turns: list[object] = []
    turns.append(turns)
    cases: list[tuple[object, str]] = [
        ((), "`empty` returned an empty tuple"),
        ({"state": []}, "`empty` returned an empty dict"),
        ({(1, 2): vector(2)}, "`empty` returned a dict with the key (1, 2)"),
        (turns, "a list contains itself, so its tensors have no end"),
    ]
    for value, what in cases:

        @wf.op
        def empty(x: wf.Tensor, value: object = value) -> object:
            return value

        with pytest.raises(wf.WeftError) as caught:
            empty(vector(2))
        assert caught.value.what == what
        assert caught.value.origin is not None
        assert caught.value.origin.code == "empty(vector(2))"


def test_a_string_outside_a_layer() -> None:
    x = vector(2)
    with pytest.raises(wf.WeftError) as caught:
        "w" @ x
    assert text(caught) == [
        "@: the string 'w' stands for a parameter only inside a function under @wf.op",
        '    "w" @ x',
        "  fix: write wf.param('w'), or move the expression into a function under @wf.op",
    ]


def test_a_loss_without_parameters() -> None:
    x = vector(2)
    with pytest.raises(wf.WeftError) as caught:
        wf.grad_update(x)
    assert text(caught) == [
        "@: `x` does not depend on any parameter, so there is nothing to update",
        "    wf.grad_update(x)",
        "  fix: build the loss from parameters: wf.param, or strings inside @wf.op",
    ]


def test_a_parameter_nothing_determines() -> None:
    w = wf.param("w")
    loss = wf.einsum("ij=>0", w)
    with pytest.raises(wf.UnderdeterminedShapeError) as caught:
        wf.Context("interp").compile(wf.grad_update(loss))
    assert caught.value.what.startswith("nothing says how big output axis ")
    assert caught.value.what.endswith(" of parameter `w` is")
    assert str(caught.value).splitlines()[1] == '    w = wf.param("w")'
    assert caught.value.fix == "give it: o=… on `w`, or use it with something of a size other than 1, which fits any"


def test_an_accumulation_without_a_gradient() -> None:
    w = wf.param("w", o=2)
    loss = wf.einsum("i=>0", w, accum="or")
    with pytest.raises(wf.WeftError, match="accumulating with 'or' has no gradient"):
        wf.grad_update(loss)


def test_the_ways_out_of_a_window_that_does_not_tile_work() -> None:
    x = wf.data(np.arange(7.0))
    with pytest.raises(wf.ShapeError) as caught:
        wf.einsum("2*o<+k => o", x, k=2)
    assert caught.value.fix == "make the axis 6 or 8 long, or leave out its end first: `a^1 => a`"
    cut = wf.einsum("a^1 => a", x)
    assert wf.Context("interp")[wf.einsum("2*o<+k => o", cut, k=2)].tolist() == [1.0, 5.0, 9.0]
    even = wf.data(np.arange(6.0))
    with pytest.raises(wf.ShapeError) as caught:
        wf.einsum("2*o<+k => o", even, k=3)
    assert caught.value.fix == "make the axis 5 or 7 long, or pad: `2*o=+k`"
    assert wf.Context("interp")[wf.einsum("2*o=+k => o", even, k=3)].tolist() == [1.0, 6.0, 12.0]

"""What an error says, and that it leaves everything as it was."""

from __future__ import annotations

import linecache
import os
import re
from collections.abc import Callable

import pytest
from hypothesis import given, settings

import weft
from effort import tries
from shape.pool import blank, closed, compose, counted, einsum, first_at, kind_of, known, param, pointwise, varying
from shape.problems import Problem, problems, settled
from weft.einsum import parse_spec
from weft.errors import ShapeError, UnderdeterminedShapeError, WeftError, user_origin as here
from weft.shape import ShapeVar, as_shape, close, infer
from weft.shape.logic import Compose, Einsum, Literal, Pointwise

HERE = os.path.basename(__file__)
WEFT = os.path.dirname(os.path.abspath(weft.__file__))


def caught(run: Callable[[], object]) -> WeftError:
    with pytest.raises(WeftError) as caught:
        run()
    return caught.value


def told(error: WeftError) -> list[str]:
    """The error's lines, with each line of this file written as `@` and the comment at its end."""
    text = str(error)
    for number in sorted({int(found) for found in re.findall(rf"{re.escape(HERE)}:(\d+)", text)}, reverse=True):
        code = linecache.getline(__file__, number).strip()
        tag = "@" + code.split("# ")[-1]
        text = text.replace(f"{HERE}:{number}: {code}", tag).replace(f"    {code}", f"    {tag}")
        text = text.replace(f"{HERE}:{number}", tag)
    assert ".py" not in text, "a line of another file is named"
    return text.splitlines()


# Exact texts: each `here()` is a line of the user's code.


def test_two_sizes_of_a_label() -> None:
    a = known("3,4", "A", here())  # first of two
    b = known("5,6", "B", here())  # second of two
    error = caught(lambda: einsum("ij;jk=>ik", a, b, origin=here()))  # a product
    assert told(error) == [
        "@a product: `j` cannot be both 4 and 5",
        "    @a product",
        "    ij;jk=>ik",
        "     ^ ^",
        "  A is 3,4",
        "  B is 5,6",
        "  solved so far: i=3 k=6",
        "  4 comes from @first of two",
        "    through @a product",
        "  5 comes from @second of two",
        "    through @a product",
        "  fix: make both 4 or both 5; only an unlabelled 1 broadcasts",
    ]


def test_two_sizes_meet_far_from_where_they_were_written() -> None:
    x = known("3", "x", here())  # the three
    y = pointwise(x, origin=here())  # the way
    z = known("5", "z", here())  # the five
    error = caught(lambda: pointwise(y, z, origin=here()))  # the meeting
    assert told(error) == [
        "@the meeting: the output axis of `result` cannot be both 3 and 5",
        "    @the meeting",
        "  result is 3",
        "  z is 5",
        "  3 comes from @the three",
        "    through @the meeting",
        "  5 comes from @the five",
        "    through @the meeting",
        "  fix: make both 3 or both 5; only an unlabelled 1 broadcasts",
    ]


def test_a_long_way_is_cut_short() -> None:
    shape = known("3", "x", here())  # the start
    for _ in range(5):
        shape = pointwise(shape, known("1"), origin=here())  # all the same line
    shape = pointwise(shape, known("1"), origin=here())  # penultimate
    last = pointwise(shape, known("1"), origin=here())  # ultimate
    error = caught(lambda: einsum("i;i=>", last, known("5"), origin=here()))  # the end
    assert [note for note in told(error) if "through" in note or "  3" in note] == [
        "  3 comes from @the start",
        "    through @ultimate",
        "    through @the end",
    ]


def test_labels_that_clash() -> None:
    a = known("rgb=3", "a", here())  # in colour
    b = known("pos=3", "b", here())  # in space
    error = caught(lambda: pointwise(a, b, origin=here()))  # both at once
    assert told(error) == [
        "@both at once: the output axis of `result` cannot be labelled both 'rgb' and 'pos'",
        "    @both at once",
        "  a is rgb=3",
        "  b is pos=3",
        "  'rgb' comes from @in colour",
        "    through @both at once",
        "  'pos' comes from @in space",
        "    through @both at once",
        "  fix: use one label for both, or leave one side unlabelled",
    ]


def test_composing_with_what_has_no_inputs() -> None:
    w = known("3", "w", here())  # no inputs
    x = known("5", "x", here())  # outputs
    error = caught(lambda: compose(w, x, origin=here()))  # composed
    assert told(error) == [
        "@composed: the input row of `w` needs at least 1 axis but can have at most no axes",
        "    @composed",
        "  w is 3",
        "  x is 5",
        "  at least 1 comes from @composed",
        "  at most 0 comes from @no inputs",
        "  fix: `@` feeds the right's outputs to the left's inputs: write `weights @ x`, give the left input axes, "
        "or use `*` for pointwise",
    ]


def test_too_few_axes_for_a_spec() -> None:
    x = known("3", "x", here())  # only one axis
    error = caught(lambda: einsum("ij=>ji", x, origin=here()))  # two axes
    assert error.what == "the output row of `x` needs at least 2 axes but can have at most 1 axis"
    assert error.fix == "write `...` where further axes may stand, or name every axis"
    assert told(error)[-2] == "  at most 1 comes from @only one axis"


def test_windows_that_do_not_tile() -> None:
    x = known("10", "x", here())  # ten long
    k = known("3", "k", here())  # three wide
    error = caught(lambda: einsum("2*o<+k;k=>o", x, k, origin=here()))  # a strided window
    assert told(error) == [
        "@a strided window: windows of 3 with stride 2 do not tile an axis of 10: 10 - 3 is not a multiple of 2",
        "    @a strided window",
        "    2*o<+k;k=>o",
        "    ^^^^^^",
        "  x is 10",
        "  k is 3",
        "  solved so far: k=3",
        "  10 comes from @ten long",
        "    through @a strided window",
        "  fix: make the axis 9 or 11 long, or pad: `2*o=+k`",
    ]


def test_parts_that_do_not_add_up() -> None:
    whole = known("9", "whole", here())  # nine
    error = caught(lambda: einsum("a^10=>a", whole, origin=here()))  # ten of nine
    assert told(error) == [
        "@ten of nine: the parts of the axis make 10, but the axis has size 9",
        "    @ten of nine",
        "    a^10=>a",
        "    ^^^^",
        "  whole is 9",
        "  9 comes from @nine",
        "    through @ten of nine",
        "  fix: the parts of a concatenation must add up to the whole axis",
    ]


def test_a_position_outside_its_axis() -> None:
    x = known("4,2", "x", here())  # two wide
    error = caught(lambda: einsum("i2=>i", x, origin=here()))  # the third
    assert told(error) == [
        "@the third: position 2 is outside the axis, which has size 2",
        "    @the third",
        "    i2=>i",
        "     ^",
        "  x is 4,2",
        "  size 2 comes from @two wide",
        "    through @the third",
        "  fix: name a position from 0 to 1",
    ]


def test_a_label_nothing_sizes() -> None:
    x = known("4", "x", here())  # sized
    result = einsum("i=>ij", x, origin=here()).result  # unsized
    error = caught(lambda: close(result))
    assert isinstance(error, UnderdeterminedShapeError)
    assert told(error) == [
        "@unsized: nothing says how big `j` is",
        "    @unsized",
        "    i=>ij",
        "        ^",
        "  x is 4",
        "  solved so far: i=4",
        "  fix: give its size, j=…",
    ]


def test_a_forgotten_hidden_size() -> None:
    x = known("5|4", "x", here())
    w1 = param("w1", origin=here())  # inner weight
    w2 = param("w2", output="2", origin=here())
    hidden = pointwise(compose(w1, x, origin=here()))  # inner use
    result = compose(w2, hidden, origin=here())
    error = caught(lambda: close(result))
    assert isinstance(error, UnderdeterminedShapeError)
    assert told(error) == [
        "@inner weight: nothing says how big the output axis of parameter `w1` is",
        "    @inner weight",
        "  `w1` is 4->?",
        "  used at @inner use",
        "  used at @result = compose(w2, hidden, origin=here())",
        "  fix: give it: o=… on `w1`, or use it with something of a size other than 1, which fits any",
    ]


def test_data_that_fits_no_layout() -> None:
    data = counted(40, "data", here())  # forty
    result = pointwise(data, known("5|4"), origin=here())
    error = caught(lambda: close(result))  # closing forty
    assert error.what == "`data` has 40 elements, which cannot fill the shape 5|4"
    assert told(error)[1] == "    @closing forty"
    assert error.fix == "give data of a matching length, or change the sizes it is used with"


def test_data_with_many_layouts() -> None:
    data = counted(6, "data", here())  # six
    einsum("ij=>ji", data)
    error = caught(lambda: close(data))
    assert told(error) == [
        "@six: `data` has 6 elements, and nothing says how they lie in the shape ?,?",
        "    @six",
        "  fix: give its shape, or use it with something of known size",
    ]


def test_rows_in_a_cycle() -> None:
    one, two, three = blank("one"), blank("two"), blank("three")
    pointwise(einsum("..v..|=>..v.._|", one).result, result=two, origin=here())  # one up
    pointwise(einsum("..v..|=>..v.._|", two).result, result=three, origin=here())  # two up
    above = einsum("..v..|=>..v.._|", three).result
    error = caught(lambda: pointwise(above, result=one, origin=here()))  # and round
    assert " would need more than 64 axes: rows that each out-rank the next form a cycle" in error.what
    assert told(error)[1] == "    @and round"
    (cycle,) = [text for text in told(error) if text.startswith("  the cycle runs through ")]
    assert set(cycle.removeprefix("  the cycle runs through ").split(", ")) == {"@one up", "@two up", "@and round"}
    assert error.fix == "give one of these tensors its shape, or drop the extra axis on one side"


def test_the_wrong_number_of_operands() -> None:
    error = caught(lambda: einsum("ij;jk=>ik", known("3,4"), origin=here()))  # one operand
    assert told(error) == [
        "@one operand: einsum takes 2 operands and was given 1",
        "    @one operand",
        "    ij;jk=>ik",
        "  fix: give one operand for each part between `;`",
    ]
    for logic, operands in ((Pointwise(2), 1), (Compose(), 3), (first_at("i", 3), 0), (Literal(as_shape(3)), 1)):
        with pytest.raises(ShapeError, match=f"was given {operands}"):
            infer(logic, [known("3|3") for _ in range(operands)])


def fails(problem: Problem) -> ShapeError | None:
    pool = problem.shapes()
    try:
        for use in problem.uses:
            use.apply(pool)
        for shape in pool:
            close(shape)
    except ShapeError as error:
        return error
    return None


@settings(max_examples=tries(75))
@given(problems("ttbbeesr"))
def test_no_error_ever_points_into_weft(problem: Problem) -> None:
    error = fails(problem)
    if error is not None:
        assert error.what
        assert error.fix
        assert error.origin is None or not error.origin.file.startswith(WEFT)
        assert WEFT not in str(error)
        assert all(0 <= span.start <= span.end <= len(error.text) for span in error.spans)


# A failed operation leaves every shape as it was.


def snapshot(shapes: list[ShapeVar]) -> list[object]:
    """All that is known of the shapes: more than they print."""
    facts: list[object] = []
    for shape in shapes:
        store = shape.store.find()
        facts += [str(shape), shape.marks, len(store.axes), len(store.rows), len(store.demands)]
        for row in (shape.batch, shape.input, shape.output):
            facts += [row.lo, row.hi, len(row.watchers), len(row.front), len(row.back)]
            for axis in [*(row.axes or ()), *row.front, *row.back]:
                facts += [axis.size, axis.cap, axis.least, axis.basis, axis.plain, axis.claim, len(axis.watchers)]
    return facts


@settings(max_examples=tries(80))
@given(problems("ttbbeesr"))
def test_an_operation_that_fails_changes_nothing(problem: Problem) -> None:
    pool = problem.shapes()
    for use in problem.uses:
        before = snapshot(pool)
        if kind_of(lambda use=use: use.apply(pool)) != "fine":
            assert snapshot(pool) == before
    before = snapshot(pool)
    for shape in pool:
        if kind_of(lambda shape=shape: close(shape)) != "underdetermined" or shape.store.find().broken:
            return
        assert snapshot(pool) == before


@settings(max_examples=tries(60))
@given(problems("ttbbeesr", most=8))
def test_operations_that_failed_might_never_have_been_tried(problem: Problem) -> None:
    """Rules, too, are as they were: what follows comes out as if the failed operations had not been there."""
    pool = problem.shapes()
    good = [at for at, use in enumerate(problem.uses) if kind_of(lambda use=use: use.apply(pool)) == "fine"]
    assert settled(pool) == problem.outcome(tuple(good))


def test_after_a_failed_operation_rows_are_still_tied_together() -> None:
    one, two = blank("one"), blank("two")
    einsum("..v..|=>..v..|", one, result=two)
    with pytest.raises(ShapeError):
        einsum("ab|;ab|=>", one, known("3,4|1"), sizes={"b": 5})
    einsum("ab|;ab|=>", one, known("3,4|1"))
    assert str(two.batch) == "...,3,4"


def test_after_a_failed_operation_the_next_one_works() -> None:
    left, right = varying("left"), known("3,4", "right")
    result = pointwise(left, right)
    before = [str(left), str(right), str(result)]
    for wrong in ("5", "3,5", "7|2,2"):
        assert kind_of(lambda wrong=wrong: einsum("ij;ij=>", result, known(wrong))) == "conflict"
        assert [str(left), str(right), str(result)] == before
    pointwise(result, known("3,1"))
    assert closed(left, result) == ["3,4", "3,4"]


def test_a_failed_operation_does_not_join_two_graphs() -> None:
    one, two = varying("one"), varying("two")
    left, right = pointwise(one, known("3")), pointwise(two, known("5"))
    stores = [shape.store.find() for shape in (one, two)]
    with pytest.raises(ShapeError):
        pointwise(left, right)
    assert [shape.store.find() for shape in (one, two)] == stores
    close(left)
    assert str(one) == "3"
    assert two.closed is None
    assert closed(two, right) == ["5", "5"]


def test_a_failed_operation_leaves_no_rule_waiting() -> None:
    """A rule the failed run had queued must run again when its cells change."""
    inner = blank("inner")
    below = varying("below")
    pointwise(below, result=inner)
    assert kind_of(lambda: einsum("i;ij=>", inner, known("3,4"), sizes={"i": 4, "j": 5})) == "conflict"
    pointwise(known("6"), result=inner)
    assert closed(below, inner) == ["6", "6"]


# Printing commits nothing.


def test_printing_shows_what_is_known_and_commits_nothing() -> None:
    leaf = varying()
    assert str(leaf) == "...|...->..."
    einsum("...|a->...b=>", leaf, sizes={"b": 3})
    assert str(leaf) == "...|...,?->...,3"
    for _ in range(3):
        str(leaf), repr(leaf), leaf.closed
    pointwise(leaf, result=known("7|2,4->5,3"))
    assert str(leaf) == "...|...,?->...,3"
    assert closed(leaf) == ["7|2,4->5,3"]


@given(problems("ttbbeesr"))
def test_printing_between_operations_makes_no_difference(problem: Problem) -> None:
    order = tuple(range(len(problem.uses)))

    def outcome(peek: bool) -> object:
        pool = problem.shapes()
        try:
            for at in order:
                problem.uses[at].apply(pool)
                if peek:
                    assert [(str(shape), shape.closed, repr(shape)) for shape in pool]
            return [str(close(shape)) for shape in pool]
        except ShapeError as error:
            return type(error), error.what

    assert outcome(peek=True) == outcome(peek=False)


# Stores.


def test_stores_merge_on_contact() -> None:
    one, two, three = varying("one"), varying("two"), varying("three")
    assert len({id(shape.store.find()) for shape in (one, two, three)}) == 3
    both = pointwise(one, two)
    assert one.store.find() is two.store.find() is both.store.find()
    assert three.store.find() is not one.store.find()
    einsum("i;i=>", both, three)
    assert three.store.find() is one.store.find()


@pytest.mark.parametrize("swap", [False, True])
def test_a_merged_store_closes_all_of_its_shapes(swap: bool) -> None:
    """Whichever store is absorbed, its unknowns live on in the other."""
    leaves, ends = [], []
    for length in (1, 3):
        leaves.append(varying("leaf"))
        ends.append(leaves[-1])
        for _ in range(length):
            ends[-1] = pointwise(ends[-1])
    result = pointwise(*(ends[::-1] if swap else ends))
    pointwise(result, known("3"))
    close(result)
    assert [str(leaf) for leaf in leaves] == ["3", "3"]


def test_a_merged_store_keeps_its_demands() -> None:
    demanding = einsum("i=>ij", known("2")).result
    for _ in range(3):
        other = pointwise(varying(), known("3,4,5"))
        einsum("ij;...=>", demanding, other)
    assert kind_of(lambda: close(demanding)) == "underdetermined"
    einsum("ij;j=>", demanding, known("9"))
    assert closed(demanding) == ["2,9"]


def test_closing_one_graph_leaves_another_alone() -> None:
    shared = Einsum(parse_spec("i=>ij"))
    one = infer(shared, [known("2")], origin=None).result
    two = infer(shared, [known("3")], origin=None).result
    pointwise(one, result=known("2,5"))
    before = snapshot([two])
    assert closed(one) == ["2,5"]
    assert snapshot([two]) == before
    assert kind_of(lambda: close(two)) == "underdetermined"

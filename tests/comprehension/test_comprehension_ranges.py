"""How far indices run and how large tensors are: the documented cases, the traps, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import pytest
from hypothesis import given, strategies as st

from weft.comprehension import ComprehensionError, check, infer, parse
from weft.comprehension.gather_checks import Indirect, unproved
from weft.comprehension.nodes import Comprehension
from weft.comprehension.piecewise import Range
from weft.comprehension.ranges import Called, Loops, Ranges
from weft.comprehension.signature import Template
from weft.errors import WeftError

CONV = "def f(float(N) I, float(K) W) -> (O) { O(i) +=! I(i + k) * W(k) }"


def ranges(text: str, **shapes: Sequence[int]) -> Ranges:
    program = parse(text)
    return infer(check(program), program.definitions[-1].name.name, shapes)


def found(text: str, **shapes: Sequence[int]) -> dict[str, str]:
    """The ranges of the last statement."""
    last = ranges(text, **shapes).body[-1]
    assert isinstance(last, Loops)
    return {name: str(range) for name, range in last.indices}


def watched(text: str, **shapes: Sequence[int]) -> list[Indirect]:
    """The subscripts that are checked while the last definition runs on tensors of these shapes."""
    program = check(parse(text))
    template = Template(program, list(program.definitions)[-1])
    left = unproved(template.indirect, template.extents([shapes[one] for one in template.flat.params]))
    return [one for ones in left.values() for one in ones]


def refused(text: str, **shapes: Sequence[int]) -> tuple[str, str, str]:
    """The characters marked, what is said of them and the fix, of the one mistake."""
    with pytest.raises(ComprehensionError) as raised:
        ranges(text, **shapes)
    (one,) = raised.value.mistakes
    return text[one.span.start : one.span.end], one.what, one.fix


def test_a_matrix_product() -> None:
    text = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(m, n) +=! A(m, r) * B(r, n) }"
    one = ranges(text, A=(2, 3), B=(3, 4))
    assert one.sizes == {"M": 2, "K": 3, "N": 4}
    assert one.shapes == {"A": (2, 3), "B": (3, 4), "C": (2, 4)}
    assert one.results == ((2, 4),)
    (loops,) = one.body
    assert isinstance(loops, Loops)
    assert loops.indices == (("m", Range(0, 2)), ("n", Range(0, 4)), ("r", Range(0, 3)))
    assert loops["r"] == Range(0, 3)


# The documented cases


def test_the_kernel_is_resolved_before_the_image() -> None:
    assert found(CONV, I=(10,), W=(3,)) == {"i": "0:8", "k": "0:3"}


def test_an_offset_backwards_leaves_cells_that_nothing_defines() -> None:
    text = "def f(float(N) B, float(M) C) -> (A) { A(i) = B(i) + C(i - 2) }"
    assert refused(text, B=(8,), C=(20,)) == (
        "i",
        "`i` begins at 2, so nothing defines `A` below 2",
        "let it begin at 0: write `i + 2` for `i` on the right",
    )
    mended = "def f(float(N) B, float(M) C) -> (A) { A(i) = B(i + 2) + C(i) }"
    assert found(mended, B=(8,), C=(20,)) == {"i": "0:6"}


def test_inverted() -> None:
    text = "def f(float(I) B) -> (A) { A(i) = B(10 - i) }"
    assert found(text, B=(11,)) == {"i": "0:11"}
    assert found(text, B=(20,)) == {"i": "0:11"}
    assert refused(text, B=(5,))[1] == "`i` runs over 6:11, so nothing defines `A` below 6"


@pytest.mark.parametrize(("size", "half"), [(0, 0), (1, 1), (4, 2), (5, 3)])
def test_strided(size: int, half: int) -> None:
    assert found("def f(float(I) B) -> (A) { A(i) = B(2 * i) }", B=(size,)) == {"i": f"0:{half}"}


@pytest.mark.parametrize("size", [0, 1, 2, 5, 8])
def test_strided_with_offsets(size: int) -> None:
    unrolled = "def f(float(I) B) -> (A) { A(i) = B(2 * i) + B(2 * i + 1) }"
    rolled = "def f(float(I) B) -> (A) { A(i) +=! B(2 * i + k) where k in 0:2 }"
    assert found(unrolled, B=(size,))["i"] == found(rolled, B=(size,))["i"] == f"0:{size // 2}"


def test_a_stride_from_data_is_refused_without_where() -> None:
    text = "def f(float(I) B, int(1) S) -> (A) { A(i) = B(S(0) * i) }"
    assert refused(text, B=(5,), S=(1,)) == (
        "i",
        "`B(S(0) * i)` does not say how far `i` runs: the subscript depends on what tensors hold",
        "give its range: `where i in 0:I`",
    )
    given = watched(text.replace(" }", " where i in 0:3 }"), B=(5,), S=(1,))
    assert [(one.tensor, one.axis) for one in given] == [("B", 0)]


def test_exists_bounds_without_reading() -> None:
    text = "def f(float(N) A, float c) -> (B) { B(i) = c where exists A(i) }"
    assert found(text, A=(5,), c=()) == {"i": "0:5"}
    same = "def f(float(N) A, float c) -> (B) { B(i) = true ? c : A(i) }"
    assert found(same, A=(5,), c=()) == {"i": "0:5"}


def test_two_indices_of_one_tensor_do_not_meet() -> None:
    assert found("def f(float(N) B) -> (A) { A(i, j) = B(i) + B(j + 3) }", B=(10,)) == {"i": "0:10", "j": "0:7"}


def test_preconditions_are_proved_for_the_sizes_given() -> None:
    text = "def f(float(I) B, float(J) C, float(K) D) -> (A) { A(i, j) = B(i) * C(i + j) * D(j) }"
    assert found(text, B=(5,), C=(8,), D=(4,)) == {"i": "0:5", "j": "0:4"}
    assert refused(text, B=(5,), C=(7,), D=(4,)) == (
        "i + j",
        "`i + j` takes the values 0 to 7, and axis 0 of `C` is 7",
        "stay in 0:7: give a range by `where`, or choose: `i + j < 7 ? … : …`",
    )


# Rounds


def test_ranges_are_intersected() -> None:
    text = "def f(float(N) A, float(M) B) -> (C) { C(i) = A(i) + B(i) + B(i + 1) }"
    assert found(text, A=(9,), B=(6,)) == {"i": "0:5"}


def test_three_rounds() -> None:
    text = "def f(float(N) A, float(M) B, float(K) C) -> (D) { D(i) +=! A(i + j) * B(j + k) * C(k) }"
    assert found(text, A=(20,), B=(9,), C=(3,)) == {"i": "0:14", "j": "0:7", "k": "0:3"}


def test_only_left_indices_begin_at_zero() -> None:
    text = "def f(float(N) A) -> (s) { s +=! A(j + 3) }"
    assert found(text, A=(5,)) == {"j": "-3:2"}


def test_what_bounds_each_other_is_refused() -> None:
    assert refused("def f(float(N) A) -> (C) { C(i) +=! A(i + k) }", A=(5,)) == (
        "i",
        "`A(i + k)` does not say how far each of `i` and `k` runs",
        "give the range of one: `where k in 0:N`",
    )


def test_what_nothing_bounds_is_refused() -> None:
    assert refused("def f(float(N) A) -> (C) { C(i) = 1 }", A=(5,)) == (
        "i", "nothing says how far `i` runs", "give its range: `where i in 0:N`"
    )  # fmt: skip
    text = "def f(float(N) A, float alpha) -> (C) { C +=! alhpa * A(i) }"
    assert refused(text, A=(5,), alpha=())[1:] == ("nothing says how far `alhpa` runs", "did you mean `alpha`?")
    assert refused("def f(float(N) A) -> (C) { C(i) = A(i % 3) }", A=(5,))[1] == (
        "`A(i % 3)` does not bound `i` on both sides"
    )
    assert refused("def f(float(N) A) -> (C) { C(j) +=! A(i * j) * A(j) }", A=(5,))[1] == (
        "`A(i * j)` does not say how far `i` runs: the subscript is not affine"
    )


def test_values_that_are_not_one_range_are_refused() -> None:
    text = "def f(float(N) A, float(M) B) -> (C) { C(i) = A(i) * B(i % 4) }"
    assert found(text, A=(3,), B=(3,)) == {"i": "0:3"}
    assert refused(text, A=(9,), B=(3,)) == (
        "i",
        "the values of `i` at which `A(i)` and `B(i % 4)` stays inside are not one range",
        "say which: `where i in …:…`",
    )


QUASI_AFFINE = {
    "A(i / 3)": "0:15",
    "A(i / 3) + A((i + 1) / 3)": "0:14",
    "A(min(i, 3)) + A(i / 2)": "0:10",
    "A(max(i, 3))": "0:5",
    "A(abs(i))": "0:5",
    "A(N - 1 - i)": "0:5",
    "A(i + A.0 - N)": "0:5",
    "A(-(-i))": "0:5",
    "A(int32(i))": "0:5",
    "A(x) ": "0:4",
    "A(i > 2 ? i - 3 : 0)": "0:8",
}


@pytest.mark.parametrize(("value", "range"), QUASI_AFFINE.items(), ids=list(QUASI_AFFINE))
def test_subscripts_beyond_plain_ones(value: str, range: str) -> None:
    assert found(f"def f(float(N) A) -> (C) {{ C(i) = {value} where x = i + 1 }}", A=(5,)) == {"i": range}


# where


def test_where_may_be_made_of_sizes() -> None:
    text = "def f(float(M,N) A) -> (C) { C(i, j) = 1 where i in 0:M * N / 2, j in 0:max(A.0, A.1) + -1 }"
    assert found(text, A=(4, 3)) == {"i": "0:6", "j": "0:3"}
    assert refused("def f(float(N) A) -> (C) { C(i) = A(0) where i in 0:N/0 }", A=(4,)) == (
        "N/0", "`N / 0` is no whole number known beforehand", "use sizes, whole numbers and `+ - * / % min max`"
    )  # fmt: skip


def test_where_is_taken_at_its_word() -> None:
    text = "def f(float(N) A) -> (C) { C(i) = A(i) where i in 0:7 }"
    assert found(text, A=(9,)) == {"i": "0:7"}
    assert refused(text, A=(5,))[1] == "`i` takes the values 0 to 6, and axis 0 of `A` is 5"
    back = "def f(float(N) A) -> (C) { C(i) = A(3 - i) where i in 0:N }"
    assert refused(back, A=(5,)) == (
        "3 - i",
        "`3 - i` takes the values -1 to 3, and axis 0 of `A` is 5",
        "stay in 0:5: give a range by `where`, or choose: `3 - i >= 0 ? … : …`",
    )


def test_an_empty_range_reads_nothing() -> None:
    assert found("def f(float(N) A) -> (s) { s +=! A(i + 100) where i in 3:2 }", A=(5,)) == {"i": "3:3"}


@pytest.mark.parametrize("kernel", [5, 6, 9])
def test_a_kernel_as_large_as_the_image_or_larger(kernel: int) -> None:
    one = ranges(CONV, I=(5,), W=(kernel,))
    assert one.results == ((max(0, 6 - kernel),),)


def test_sizes_of_zero() -> None:
    text = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(m, n) +=! A(m, k) * B(k, n) }"
    assert ranges(text, A=(2, 0), B=(0, 3)).results == ((2, 3),)
    assert ranges(text, A=(0, 4), B=(4, 3)).results == ((0, 3),)


# Guards


def test_what_a_guard_rules_out_does_not_bound() -> None:
    concat = "def f(float(N) A, float(M) B) -> (C) { C(i) = i < N ? A(i) : B(i - N) }"
    assert found(concat, A=(3,), B=(4,)) == {"i": "0:7"}
    edge = "def f(float(N) A) -> (C) { C(i) = A(i) + (i > 0 ? A(i - 1) : 0) }"
    assert found(edge, A=(5,)) == {"i": "0:5"}
    same = (
        "def f(float(N) A, float(3) W) -> (C) { "
        "C(i) +=! i + k >= 1 && i + k <= N ? A(i + k - 1) * W(k) : 0 where i in 0:N }"
    )
    assert found(same, A=(5,), W=(3,)) == {"i": "0:5", "k": "0:3"}


def test_what_a_guard_rules_out_bounds_where_nothing_else_gives_one_range() -> None:
    text = "def f(float(N) A, float(M) B, float(K) D) -> (C) { C(i) = (i < 3 ? A(i) : B(i % 4)) + D(i) }"
    assert found(text, A=(3,), B=(3,), D=(9,)) == {"i": "0:3"}


def test_a_guard_bounds_nothing_itself() -> None:
    assert found("def f(float(N) A) -> (C) { C(i) = i < 5 ? A(i) : 0 }", A=(10,)) == {"i": "0:10"}


def test_a_guard_that_depends_on_data_proves_nothing() -> None:
    text = "def f(float(N) A, bool(N) m) -> (C) { C(i) = m(i) ? A(i + 1) : 0 where i in 0:N }"
    assert refused(text, A=(5,), m=(5,))[1] == "`i + 1` takes the values 1 to 5, and axis 0 of `A` is 5"


# Reads that depend on data


CHECKED = {
    "T(I(b))": [("T", 0)],
    "T(I(b) + 1)": [("T", 0)],
    "T(max(min(I(b), E - 1), 0))": [],
    "T(I(b) % E)": [],
    "T(U(b))": [],
    "T(int32(U(b)))": [],
    "T(U(b) / 2 + 100)": [],
    "T(U(b) + 1)": [("T", 0)],
    "T(B(b) ? 3 : U(b))": [],
    "T(int32(min(max(F(b), 0), 3)))": [("T", 0)],
    "T(int32(B(b)))": [],
    "T(b * b)": [],
    "T(b * b * 100)": [("T", 0)],
    "T(I(I(b)))": [("T", 0), ("I", 0)],
    "T(x)": [("T", 0)],
    "T(min(max(min(max(min(b, 3), 1), 3), 1), 3))": [],
}


@pytest.mark.parametrize(("value", "checks"), CHECKED.items(), ids=list(CHECKED))
def test_reads_that_cannot_be_proved_are_listed(value: str, checks: list[tuple[str, int]]) -> None:
    params = "float(E) T, int32(N) I, uint8(N) U, bool(N) B, float(N) F"
    text = f"def f({params}) -> (C) {{ C(b) = {value} where b in 0:N, x = I(b) }}"
    found = watched(text, T=(256,), I=(4,), U=(4,), B=(4,), F=(4,))
    assert [(one.tensor, one.axis) for one in found] == checks


# Left sides


def test_later_statements_write_a_part() -> None:
    text = "def f(float(N) A) -> (C) { C(i) = 0 where i in 0:N C(i) = A(i) where i in 1:N-1 }"
    one = ranges(text, A=(6,))
    assert one.shapes["C"] == (6,)
    assert found(text, A=(6,)) == {"i": "1:5"}


def test_what_is_defined_bounds_what_is_written_to_it() -> None:
    assert found("def f(float(N) A) -> (C) { C(i) = A(i) C(i) += 1 }", A=(6,)) == {"i": "0:6"}
    assert found("def f(float(N) A, float(M) y) -> (y) { y(i) += A(i) }", A=(6,), y=(4,)) == {"i": "0:4"}
    given = "def f(float(N) A) -> (C) { C(i) += 2 }"
    assert found(given, A=(6,), C=(4,)) == {"i": "0:4"}


def test_writing_outside_is_refused() -> None:
    text = "def f(float(N) A) -> (C) { C(i) = A(i) C(i) += 1 where i in 0:N+1 }"
    assert refused(text, A=(6,)) == (
        "i", "`i` runs over 0:7, and axis 0 of `C` is 6", "stay inside: `where i in 0:6`"
    )  # fmt: skip


def test_starting_afresh_covers_all() -> None:
    text = "def f(float(N) A) -> (C) { C(i) = A(i) C(i) +=! A(i) where i in 0:2 }"
    assert refused(text, A=(6,)) == (
        "i", "`+=!` starts `C` afresh, and `i` covers 0:2 of 0:6", "cover all of it, or write `+=`"
    )  # fmt: skip


def test_a_first_statement_begins_at_zero() -> None:
    text = "def f(float(N) A) -> (C) { C(i) = A(i + 1) where i in -1:N-1 }"
    assert refused(text, A=(6,)) == (
        "i", "`i` runs over -1:5, and `C` begins at 0", "let it begin at 0: `where i in 0:5`"
    )  # fmt: skip


# Sizes


def test_sizes_that_disagree_name_both_sides() -> None:
    text = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(m, n) +=! A(m, k) * B(k, n) }"
    with pytest.raises(ComprehensionError) as raised:
        ranges(text, A=(2, 3), B=(5, 4))
    raised.value.origin = None
    assert str(raised.value) == (
        "line 1, column 28: `K` is 3 as axis 1 of `A` and 5 as axis 0 of `B`\n"
        "    def mm(float(M,K) A, float(K,N) B) -> (C) { C(m, n) +=! A(m, k) * B(k, n) }\n"
        "                               ^\n"
        "  fix: make them equal, or give the axes different names"
    )


def test_shapes_that_do_not_fit_are_refused() -> None:
    text = "def f(float(3,N) A) -> (double(N) C) { C(i) = A(0, i + 1) }"
    assert refused(text, A=(2, 4))[1] == "axis 0 of `A` is 2, and its type says 3"
    assert refused(text, A=(3,))[1] == "`A` has 2 axes, and what is given is one axis of 3"
    assert refused(text, A=())[1] == "`A` has 2 axes, and what is given is a single number"
    assert refused(text)[1] == "no shape is given for `A`"
    assert refused(text, A=(3, 4))[1] == "`N` is 4 as a parameter and 3 as axis 0 of `C`"
    assert refused("def f(float(N) A) -> (C) { C(i) += A(i) }", A=(3,), C=(3, 2))[1] == (
        "`C` has 1 axis, and what is given is 3×2"
    )


def test_a_size_that_only_a_result_names_is_what_it_is() -> None:
    assert ranges("def f(float(N) A) -> (float(K) C) { C(i) = A(i + 1) }", A=(4,)).results == ((3,),)


def test_an_unknown_definition() -> None:
    program = check(parse(CONV))
    with pytest.raises(WeftError, match="there is no definition `g`"):
        infer(program, "g", {})


def test_calls_are_inferred_for_the_shapes_they_pass() -> None:
    text = """
    def g(float(N) A) -> (B) { B(i) = A(i) + A(i + 1) }
    def f(float(N) A) -> (C) { t = g(A) C = g(t) }
    """
    one = ranges(text, A=(5,))
    assert one.shapes == {"A": (5,), "t": (4,), "C": (3,)}
    assert [inner.ranges.sizes["N"] for inner in one.body if isinstance(inner, Called)] == [5, 4]


def test_a_mistake_in_a_call_is_shown_where_it_is() -> None:
    text = "def g(float(N) A, float(N) B) -> (C) { C(i) = A(i) } def f(float(N) A, float(M) B) -> (D) { D = g(A, B) }"
    assert refused(text, A=(5,), B=(4,))[1] == "`N` is 5 as axis 0 of `A` and 4 as axis 0 of `B`"


# Against counting


numbers = st.integers(-4, 4)
reads = st.lists(st.tuples(numbers, numbers, st.integers(0, 7)), min_size=1, max_size=3)


@given(reads)
def test_ranges_are_as_large_as_counting_says(reads: list[tuple[int, int, int]]) -> None:
    """`A(i) = T0(a*i + b) + …`: every value at which all reads stay inside, from 0 on."""
    params = ", ".join(f"float(S{at}) T{at}" for at in range(len(reads)))
    value = " + ".join(f"T{at}({a} * i + {b})" for at, (a, b, _) in enumerate(reads))
    shapes = {f"T{at}": (size,) for at, (_, _, size) in enumerate(reads)}
    text = f"def f({params}) -> (A) {{ A(i) = {value} }}"
    allowed = [i for i in range(100) if all(0 <= a * i + b < size for a, b, size in reads)]
    low = max([-(b // a) for a, b, _ in reads if a > 0], default=0)
    if any(a < 0 and b < 0 for a, b, _ in reads):
        assert not allowed
        with pytest.raises(ComprehensionError, match="from `i = 0` on, so nothing of `A` is written"):
            ranges(text, **shapes)
    elif low > 0:
        assert refused(text, **shapes)[1] == f"`i` begins at {low}, so nothing defines `A` below {low}"
    elif allowed and allowed[0] > 0:
        assert f"runs over {allowed[0]}:{allowed[-1] + 1}, so nothing" in refused(text, **shapes)[1]
    elif allowed and allowed[-1] == 99:
        with pytest.raises(ComprehensionError):
            ranges(text, **shapes)
    else:
        assert allowed == list(range(len(allowed)))
        assert found(text, **shapes) == {"i": f"0:{len(allowed)}"}


subscripts = st.recursive(
    st.sampled_from(["i", "j", "k", "0", "1", "2", "3", "N"]),
    lambda inner: st.one_of(
        st.builds("({} {} {})".format, inner, st.sampled_from("+-"), inner),
        st.builds("({} * {})".format, st.sampled_from("123"), inner),
        st.builds("({} {} {})".format, inner, st.sampled_from("/%"), st.sampled_from("123")),
        st.builds("{}({}, {})".format, st.sampled_from(["min", "max"]), inner, inner),
        st.builds("({} < {} ? {} : {})".format, inner, inner, inner, inner),
    ),
    max_leaves=5,
)
conditions = st.builds("{} {} {}".format, subscripts, st.sampled_from(["<", ">=", "==", "!="]), subscripts)
terms = st.one_of(
    st.builds("A({}, {})".format, subscripts, subscripts),
    st.builds("({} ? A({}, {}) : A({}, {}))".format, conditions, *[subscripts] * 4),
    st.builds("({} && {} ? A({}, {}) : 0)".format, conditions, conditions, subscripts, subscripts),
)


@given(st.lists(terms, min_size=1, max_size=2), st.booleans())
def test_what_passes_stays_inside(terms: list[str], given: bool) -> None:
    where = "where i in 0:3, j in -1:3, k in 1:2" if given else "where exists A(i, j), exists A(k, 0)"
    text = f"def f(float(N,M) A) -> (C) {{ C(i) +=! {' + '.join(terms)} {where} }}"
    try:
        (loops,) = ranges(text, A=(4, 5)).body
    except ComprehensionError:
        return
    assert isinstance(loops, Loops)
    _assert_inside(loops, watched(text, A=(4, 5)))


def _assert_inside(loops: Loops, watched: list[Indirect]) -> None:
    """Every read that happens, at every point, by plain Python."""
    from comprehension.points import reads_at

    statement: Comprehension = loops.statement
    names = [name for name, _ in loops.indices]
    trusted = {(one.axis, one.subscript) for one in watched}
    for point in product(*(range(one.low, one.high) for _, one in loops.indices)):
        env = dict(zip(names, point, strict=True)) | {"N": 4, "M": 5}
        for read, places in reads_at(statement.value, env):
            for axis, (place, size) in enumerate(zip(places, (4, 5), strict=True)):
                assert 0 <= place < size or (axis, read.subscripts[axis]) in trusted, (env, read)

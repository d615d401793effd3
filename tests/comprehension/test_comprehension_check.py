"""What a definition's tensors are: their types, ranks, who comes in, who goes out, and who must be given."""

from __future__ import annotations

import numpy as np
import pytest

from weft.comprehension import check, parse
from weft.comprehension.builtins import BUILTINS
from weft.comprehension.scope import Checked
from weft.comprehension.types import row_of, type_of
from weft.ops import OPS
from weft.ops.dtypes import UNKNOWN, WEAK_FLOAT, WEAK_INT

PARAMS = (
    "float(N) f, double(N) d, half(N) h, bfloat16(N) bf, int8(N) i8, uint8(N) u8, int32(N) i32, int64(N) i64, "
    "uint32(N) u32, uint64(N) u64, bool(N) b"
)


def checked(body: str, params: str = PARAMS, results: str = "C") -> Checked:
    return check(parse(f"def fun({params}) -> ({results}) {{ {body} }}"))["fun"]


def temporaries(found: Checked) -> list[str]:
    """The tensors that neither come in nor go out."""
    outside = {one.name.name for one in (*found.definition.params, *found.definition.results)}
    return [one for one in found.ranks if one not in outside]


TYPES = {
    "f(n)": "float32",
    "f(n) * 2": "float32",
    "h(n) * 2.5": "float16",
    "h(n) * bf(n)": "float32",
    "h(n) * i32(n)": "float16",
    "f(n) + d(n)": "float64",
    "i8(n) + u8(n)": "int16",
    "i32(n) + u32(n)": "int64",
    "u32(n) + 1": "uint32",
    "i32(n) * 2": "int32",
    "i32(n) * 2.0": "float32",
    "u8(n) / 2": "int32",
    "u8(n) - 128": "int32",
    "100 + i8(n)": "int32",
    "u8(n) + u8(n)": "uint8",
    "u8(n) + 3000000000": "int64",
    "min(u8(n), 3)": "int32",
    "u64(n) * 3000000000": "uint64",
    "3000000000": "int64",
    "h(n) + 1": "float16",
    "i32(n) / i64(n)": "int64",
    "i32(n) / f(n)": "float32",
    "u8(n) % 3": "int32",
    "u64(n) + 1": "uint64",
    "n": "int32",
    "n * N": "int32",
    "i8(n) + n": "int32",
    "1 + b.0": "int32",
    "1": "int32",
    "1.0": "float32",
    "1 / 2": "int32",
    "true": "bool",
    "f(n) < i32(n)": "bool",
    "b(n) && n > 1": "bool",
    "!b(n)": "bool",
    "b(n) + b(n)": "int32",
    "-b(n)": "int32",
    "b(n) ? f(n) : 0": "float32",
    "b(n) ? u8(n) : 1": "int32",
    "b(n) ? b(n) : true": "bool",
    "exp(i32(n))": "float32",
    "exp(h(n))": "float16",
    "max(i32(n), 0)": "int32",
    "fmax(f(n), 0)": "float32",
    "pow(d(n), 2)": "float64",
    "ceil(f(n))": "float32",
    "fdivide(i32(n), 2)": "float32",
    "double(i32(n))": "float64",
    "bfloat16(f(n))": "bfloat16",
    "int8(f(n))": "int8",
    "x + h(n)": "float16",
}


@pytest.mark.parametrize(("value", "dtype"), TYPES.items(), ids=list(TYPES))
def test_a_result_has_the_type_of_its_right_side(value: str, dtype: str) -> None:
    assert checked(f"C(n) = {value} where exists f(n), x = 0.5").types["C"] == dtype


@pytest.mark.parametrize(
    ("statement", "dtype"),
    [
        ("C +=! i8(n)", "int8"), ("C +=! b(n)", "int32"), ("C *=! b(n)", "int32"), ("C max=! b(n)", "bool"),
        ("C min=! b(n)", "bool"), ("C +=! h(n)", "float16"), ("C max=! u64(n)", "uint64"),
    ],
)  # fmt: skip
def test_reductions_keep_the_type(statement: str, dtype: str) -> None:
    assert checked(statement).types["C"] == dtype


def test_the_type_holds_what_every_statement_puts_into_it() -> None:
    assert checked("C(n) = 0 where n in 0:N C(n) += f(n)").types["C"] == "float32"
    assert checked("C(n) = i8(n) C(n) += i32(n)").types["C"] == "int32"


def test_types_flow_through_temporaries_however_often() -> None:
    body = "T(n) = 0 where n in 0:N S(n) = T(n) T(n) = d(n) C(n) = S(n) S(n) = T(n)"
    found = checked(body + " D(n) = S(n)", results="C, D")
    assert {found.types[one] for one in ("T", "S", "C", "D")} == {"float64"}


def test_declared_results_keep_their_type() -> None:
    found = checked("C(n) = f(n) D(n) = i8(n)", results="double(N) C, float(N) D")
    assert (found.types["C"], found.types["D"]) == ("float64", "float32")


def test_what_comes_in_goes_out_and_stays() -> None:
    found = checked("T(n) = f(n) U +=! T(n) C(n) = U * T(n) d(n) += T(n)", results="C, d")
    assert temporaries(found) == ["T", "U"]
    assert found.accumulates == ()
    assert (found.ranks["T"], found.ranks["U"], found.ranks["C"]) == (1, 0, 1)


def test_results_that_go_on_from_what_they_hold_must_be_given() -> None:
    assert checked("C += f(n)").accumulates == ("C",)
    assert checked("C max= f(n) D +=! f(n)", results="C, D").accumulates == ("C",)
    assert checked("C = 0 C += f(n)").accumulates == ()
    assert checked("C(n) = f(n) C(n) += d(n)").accumulates == ()
    assert checked("d(n) += f(n)", results="d").accumulates == ()


def test_a_result_may_be_read_in_the_cell_that_is_written() -> None:
    checked("C(n) +=! f(n) C(n) = fmax(C(n) + f(n), 0) C(n) += C(n) * 2")


def test_calls_give_the_types_and_ranks_of_results() -> None:
    text = """
    def f(float(M,N) x) -> (C) { a, b = g(x) C(m) = a(m) * b }
    def g(float(M,N) x) -> (r, t) { r(m) +=! x(m, n) t max=! int32(x(m, n)) }
    """
    found = check(parse(text))
    assert (found["f"].types["a"], found["f"].types["b"]) == ("float32", "int32")
    assert (found["f"].ranks["a"], found["f"].ranks["b"]) == (1, 0)
    assert temporaries(found["f"]) == ["a", "b"]
    assert list(found.definitions) == ["f", "g"]


def test_where_names_may_be_used_by_later_clauses() -> None:
    checked("C(n) = y * f(n) where x = f(n), y = x + 1")


def test_whole_numbers_divide_to_whole_numbers() -> None:
    assert row_of("/", "int32", WEAK_INT) == "floordiv"
    assert row_of("/", "int32", WEAK_FLOAT) == "div"
    assert row_of("/", "bool", "float16") == "div"
    assert row_of(">", "int32", "int32") == row_of("<", "int32", "int32") == "lt"


def test_an_unknown_tensor_has_an_unknown_type() -> None:
    program = parse("def f(float s) -> (C) { C = T(0) T(i) = s where i in 0:3 }")
    (first, _) = program.definitions[0].body
    assert type_of(first.value, {}, {}) == UNKNOWN  # type: ignore[union-attr]


def test_builtins_are_made_of_the_table_of_operations() -> None:
    for name, builtin in BUILTINS.items():
        args = ["f(n)"] * builtin.arity
        assert checked(f"C(n) = {name}({', '.join(args)})").types["C"] == "float32", name
    assert OPS["recip_sqrt"].arity == 1


ORACLE = {
    "ceil": np.ceil, "trunc": np.trunc, "tan": np.tan, "sinh": np.sinh, "cosh": np.cosh, "exp10": lambda x: 10.0**x,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "fabs": np.abs, "exp": np.exp, "floor": np.floor,
}  # fmt: skip


@pytest.mark.parametrize("name", ORACLE)
def test_what_builtins_mean(name: str) -> None:
    from comprehension.oracle import run

    x = np.array([-2.5, -1.2, -0.5, 0.0, 0.5, 1.7, 2.5])
    program = check(parse(f"def f(double(N) x) -> (y) {{ y(i) = {name}(x(i)) }}"))
    np.testing.assert_allclose(run(program, "f", {"x": x})["y"], ORACLE[name](x), rtol=1e-12)


def test_halves_round_away_from_zero_and_fmod_takes_the_sign_of_its_first() -> None:
    from comprehension.oracle import run

    x = np.array([-2.5, -1.2, -0.5, 0.5, 1.7, 2.5])
    program = check(parse("def f(double(N) x) -> (r, m) { r(i) = round(x(i)) m(i) = fmod(x(i), 2.0) }"))
    found = run(program, "f", {"x": x})
    np.testing.assert_array_equal(found["r"], [-3, -1, -1, 1, 2, 3])
    np.testing.assert_allclose(found["m"], np.fmod(x, 2.0))

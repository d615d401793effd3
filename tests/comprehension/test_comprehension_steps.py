"""Definitions as steps: calls written out, values put in for names, a tensor of its own for what is written again."""

from __future__ import annotations

from weft.comprehension import check, parse
from weft.comprehension.ranges import infer
from weft.comprehension.steps import Flat, flatten, measure, show_step


def flat(text: str, name: str = "f") -> Flat:
    return flatten(check(parse(text)), name)


def steps(text: str) -> list[str]:
    return [show_step(step) for step in flat(text).steps]


def test_a_statement_is_a_step() -> None:
    text = "def f(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }"
    assert steps(text) == ["C(m, n) +=! A(m, k) * B(k, n)"]
    assert flat(text).params == ("A", "B")
    assert flat(text).results == ("C",)


def test_names_of_values_are_put_in() -> None:
    text = "def f(float(N) x) -> (y) { y(i) = b * b where a = x(i) + 1, b = 2 * a }"
    assert steps(text) == ["y(i) = 2 * (x(i) + 1) * (2 * (x(i) + 1))"]


def test_calls_are_written_out() -> None:
    text = """def g(float(N) x) -> (y) { t(i) = x(i) * N
            y(i) = t(i) + 1 }
        def f(float(N) x) -> (z) { a = g(x)
            z = g(a) }"""
    assert steps(text) == [
        "g1_t(i) = x(i) * g1.N",
        "g1_y(i) = g1_t(i) + 1",
        "g2_t(i) = g1_y(i) * g2.N",
        "g2_y(i) = g2_t(i) + 1",
    ]
    assert flat(text).results == ("g2_y",)


def test_what_is_written_again_after_it_was_read_is_another_tensor() -> None:
    text = "def f(float(N) x) -> (y) { y(i) = x(i)\n z(i) = y(i) * 2\n y(i) += z(i) }"
    assert steps(text) == ["y(i) = x(i)", "z(i) = y(i) * 2", "y_2(i0) = y(i0)", "y_2(i) += z(i)"]
    assert flat(text).results == ("y_2",)


def test_what_nothing_has_read_is_written_in_place() -> None:
    text = "def f(float(N) x) -> (y) { y(i) = x(i)\n y(i) += x(i) where i in 0:1\n y(i) = 3 where i in 1:2 }"
    assert steps(text) == ["y(i) = x(i)", "y(i) += x(i)", "y(i) = 3"]


def test_a_maximum_is_never_written_over() -> None:
    text = "def f(float(N) x) -> (m) { m max=! x(i)\n m += x(i) }"
    assert steps(text) == ["m max=! x(i)", "m_2 = m", "m_2 += x(i)"]


def test_parameters_are_never_written() -> None:
    text = "def f(float(N) x) -> (x) { x(i) = x(i) * 2 }"
    assert steps(text) == ["x_2(i0) = x(i0)", "x_2(i) = x(i) * 2"]


def test_results_that_are_accumulated_into_come_in_after_the_parameters() -> None:
    found = flat("def f(float(N) x) -> (y, z) { z(i) += x(i)\n y = 1\n y += x(i) }")
    assert found.params == ("x", "z")
    assert found.results == ("y", "z_2")


def test_names_are_told_apart() -> None:
    text = "def f(float(N) C_2) -> (C) { C(i) = C_2(i)\n C(i) = C(i) * C_2(i) }"
    assert [step.target for step in flat(text).steps] == ["C", "C_3", "C_3"]


def test_extents_of_calls_and_copies() -> None:
    text = "def g(float(N) x) -> (y) { y(i) = x(i + 1) }\ndef f(float(N) x) -> (z) { a = g(x)\n z = g(a) }"
    program = check(parse(text))
    extents = measure(flatten(program, "f"), infer(program, "f", {"x": (7,)}))
    assert extents.shapes == {"x": (7,), "g1_y": (6,), "g2_y": (5,)}
    assert extents.sizes == {"N": 7, "g1.N": 7, "g2.N": 6}
    assert [[str(range) for range in loops.values()] for loops in extents.loops] == [["0:6"], ["0:5"]]

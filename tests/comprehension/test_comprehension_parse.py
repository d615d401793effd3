"""Text to nodes: every construct, what names stand for, the spans, and that parsing costs nothing before it is used."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest

import weft
from comprehension.corpus import CORPUS
from weft.comprehension import ComprehensionError, parse
from weft.comprehension.nodes import (
    Apply,
    Between,
    Binary,
    Cast,
    Choose,
    Comprehension,
    Definition,
    Dim,
    Exists,
    Expr,
    Ident,
    Index,
    Int,
    Invoke,
    Let,
    Local,
    Param,
    Program,
    Read,
    Real,
    Result,
    Size,
    TensorType,
    Truth,
    Unary,
    indices,
    reduced,
)
from weft.errors import Span, WeftError

HEAD = "def f(float(M,N) A, float(N) B, float s, int32(M) I) -> (C) {"
i, j, k = Index("i"), Index("j"), Index("k")


def statement(text: str, head: str = HEAD) -> Comprehension:
    """The one statement of a definition with the parameters of HEAD."""
    (one,) = parse(f"{head} {text} }}").definitions[0].body
    assert isinstance(one, Comprehension)
    return one


def value(text: str) -> Expr:
    return statement(f"C(i) = {text}").value


def names(*texts: str) -> tuple[Ident, ...]:
    return tuple(map(Ident, texts))


def test_a_definition() -> None:
    text = "def mm(float(M,K) A, half(K,3) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }"
    product = Binary("*", Read("A", (Index("m"), k)), Read("B", (k, Index("n"))))
    assert parse(text) == Program((
        Definition(
            Ident("mm"),
            (
                Param(TensorType("float32", names("M", "K")), Ident("A")),
                Param(TensorType("float16", (Ident("K"), Int(3))), Ident("B")),
            ),
            (Result(Ident("C")),),
            (Comprehension(Ident("C"), (Index("m"), Index("n")), "add", True, product),),
        ),
    ))  # fmt: skip


def test_results_with_a_type_and_without_brackets() -> None:
    assert parse("def f(float(N) A) -> (double(N) C, int d) {}").definitions[0].results == (
        Result(Ident("C"), TensorType("float64", names("N"))),
        Result(Ident("d"), TensorType("int32")),
    )
    assert parse("def f(float(N) A) -> C { C(i) = A(i) }").definitions[0].results == (Result(Ident("C")),)


TYPES = {
    "float": "float32", "double": "float64", "half": "float16", "bfloat16": "bfloat16", "int": "int32",
    "int8": "int8", "int16": "int16", "int32": "int32", "int64": "int64", "uint8": "uint8", "uint16": "uint16",
    "uint32": "uint32", "uint64": "uint64", "byte": "uint8", "bool": "bool", "float16": "float16",
    "float32": "float32", "float64": "float64", "long": "int64",
}  # fmt: skip


@pytest.mark.parametrize(("written", "meant"), TYPES.items())
def test_element_types(written: str, meant: str) -> None:
    (definition,) = parse(f"def f({written}(N) x) -> (y) {{ y(i) = {written}(x(i)) }}").definitions
    assert definition.params[0].type.dtype == meant
    (one,) = definition.body
    assert isinstance(one, Comprehension)
    assert one.value == Cast(meant, Read("x", (i,)))


@pytest.mark.parametrize(
    ("sign", "reduction", "resets"),
    [
        ("=", None, False), ("+=", "add", False), ("+=!", "add", True), ("*=", "mul", False), ("*=!", "mul", True),
        ("min=", "min", False), ("min=!", "min", True), ("max=", "max", False), ("max=!", "max", True),
    ],
)  # fmt: skip
def test_signs(sign: str, reduction: str | None, resets: bool) -> None:
    one = statement(f"C(i) {sign} A(i, j)")
    assert (one.reduction, one.resets) == (reduction, resets)


VALUES: dict[str, Expr] = {
    "i": i,
    "N": Size("N"),
    "s": Read("s"),
    "s()": Read("s"),
    "C(i)": Read("C", (i,)),
    "A.1": Dim("A", 1),
    "A . 0": Dim("A", 0),
    "3": Int(3),
    "0x1F": Int(31),
    "1.5": Real(1.5),
    ".5": Real(0.5),
    "3.": Real(3.0),
    "1e-3": Real(1e-3),
    "2.5f": Real(2.5),
    "5E7": Real(5e7),
    "true": Truth(True),
    "false": Truth(False),
    "trueish": Index("trueish"),
    "2x": Index("2x"),
    "max(i, 1)": Apply("max", (i, Int(1))),
    "rsqrt(s)": Apply("rsqrt", (Read("s"),)),
    "unknown(i)": Apply("unknown", (i,)),
    "A(I(i), j)": Read("A", (Read("I", (i,)), j)),
    "-i": Unary("-", i),
    "!-i": Unary("!", Unary("-", i)),
    "-i * j": Binary("*", Unary("-", i), j),
    "i - j - k": Binary("-", Binary("-", i, j), k),
    "i - (j - k)": Binary("-", i, Binary("-", j, k)),
    "i + j * k": Binary("+", i, Binary("*", j, k)),
    "(i + j) * k": Binary("*", Binary("+", i, j), k),
    "i / j % k": Binary("%", Binary("/", i, j), k),
    "i < j == k": Binary("==", Binary("<", i, j), k),
    "i + 1 <= j": Binary("<=", Binary("+", i, Int(1)), j),
    "i != j && k >= 0": Binary("&&", Binary("!=", i, j), Binary(">=", k, Int(0))),
    "i || j && k": Binary("||", i, Binary("&&", j, k)),
    "i ? j : k": Choose(i, j, k),
    "i ? 3 : j ? 3 : 4": Choose(i, Int(3), Choose(j, Int(3), Int(4))),
    "i ? j ? 1 : 2 : 3": Choose(i, Choose(j, Int(1), Int(2)), Int(3)),
    "i > 0 ? s : 0 # why": Choose(Binary(">", i, Int(0)), Read("s"), Int(0)),
}


@pytest.mark.parametrize(("text", "node"), VALUES.items(), ids=list(VALUES))
def test_expressions(text: str, node: Expr) -> None:
    assert value(text + "\n") == node


def test_kinds_of_numbers_differ() -> None:
    assert len({Int(1), Real(1.0), Truth(True)}) == 3


NUMBERS = {
    **dict.fromkeys(("10", "10L", "10l", "10u", "10UL", "10ull", "10LLU", "010", "0xA", "0XAu", "0xaL"), Int(10)),
    **dict.fromkeys(("10.", "1e1", "10.0f", "10F", "1.0E+1", "10.0L", "0x1.4p3", "0x5P1f", "0xA.p0"), Real(10.0)),
    "0x1p3": Real(8.0),
    ".5": Real(0.5),
    "0x.8p0": Real(0.5),
    "9223372036854775807u": Int(2**63 - 1),
}


@pytest.mark.parametrize("written", NUMBERS)
def test_numbers_are_written_as_in_c(written: str) -> None:
    assert statement(f"C = {written}").value == NUMBERS[written]


@pytest.mark.parametrize("written", ["10x", "0xg", "1e", "10Lq", "1_0", "10uuuu"])
def test_what_only_begins_with_digits_is_a_name(written: str) -> None:
    assert statement(f"C +=! {written}").value == Index(written)


@pytest.mark.parametrize("written", ["9223372036854775808L", "0xFFFFFFFFFFFFFFFFu", "1e999", "0x1p99999"])
def test_numbers_that_are_too_large(written: str) -> None:
    with pytest.raises(ComprehensionError, match="is too large"):
        statement(f"C = {written}")


def test_numbers_on_the_left_and_arguments_that_are_no_tensors() -> None:
    one = statement("C(0, i) +=! B(i) <=> sum(B(i), s) where i in 0:3")
    assert one.at == (Int(0), Index("i"))
    assert one.equivalent == Apply("sum", (Read("B", (Index("i"),)), Read("s")))
    call = parse(HEAD + "C, _ = g(A, N, 2.5 * s) _ = h(A) }").definitions[0].body
    assert call[0] == Invoke(names("C", "_"), Ident("g"), (Read("A"), Size("N"), Binary("*", Real(2.5), Read("s"))))
    assert call[1] == Invoke(names("_"), Ident("h"), (Read("A"),))


def test_clauses() -> None:
    one = statement("C(i) +=! x * B(j) where j in 0:N - 1, exists A(i, j), x = s + 1, k in i ? 1 : 2:3")
    assert one.where == (
        Between(Ident("j"), Int(0), Binary("-", Size("N"), Int(1))),
        Exists(Read("A", (i, j))),
        Let(Ident("x"), Binary("+", Read("s"), Int(1))),
        Between(Ident("k"), Choose(i, Int(1), Int(2)), Int(3)),
    )
    assert one.value == Binary("*", Local("x"), Read("B", (j,)))


def test_a_single_number_has_no_indices() -> None:
    assert statement("C +=! B(i)").at == ()
    assert statement("C() +=! B(i)") == statement("C +=! B(i)")


def test_statements_end_where_the_next_begins() -> None:
    body = parse(HEAD + "C(i) = s D = s where x = 1 E, F = g(A) G = s }").definitions[0].body
    assert [type(one).__name__ for one in body] == ["Comprehension", "Comprehension", "Invoke", "Comprehension"]


def test_calls_of_definitions() -> None:
    text = """
    def g(float(N) A) -> (B) { B(i) = A(i) }
    def f(float(N) A, float s) -> (C, D) {
        C = g(A)
        x, y = h(A, C)
        D = exp(s)
    }"""
    first, second, third = parse(text)["f"].body
    assert first == Invoke(names("C"), Ident("g"), (Read("A"),))
    assert second == Invoke(names("x", "y"), Ident("h"), (Read("A"), Read("C")))
    assert third == Comprehension(Ident("D"), (), None, False, Apply("exp", (Read("s"),)))


def test_comments_may_stand_anywhere() -> None:
    plain = "def f(float(N) A) -> (B) { B(i) = A(i) }"
    noted = "# one\ndef f( # two }\nfloat(N) A) -> (B) { # def ->\nB(i) # x\n = A(i)\n}\n# end"
    assert parse(plain) == parse(noted)


def test_indices_come_left_first_then_as_they_appear() -> None:
    one = statement("C(k, i) +=! A(i, j) * B(k) * s where q in 0:3")
    assert indices(one) == ("k", "i", "j", "q")
    assert reduced(one) == ("j", "q")


def test_the_same_text_is_read_once() -> None:
    text = "def f(float(N) A) -> (B) { B(i) = A(i) }"
    assert parse(text) is parse("".join(text))


def _nodes(node: object) -> Iterator[object]:
    if is_dataclass(node) and not isinstance(node, Span):
        yield node
        for one in fields(node):
            yield from _nodes(getattr(node, one.name))
    elif isinstance(node, tuple):
        for one in node:
            yield from _nodes(one)


@pytest.mark.parametrize("text", [one.text for one in CORPUS], ids=[one.name for one in CORPUS])
def test_spans_show_what_was_written(text: str) -> None:
    for node in _nodes(parse(text).definitions):
        span: Span = node.span  # type: ignore[attr-defined]
        shown = text[span.start : span.end]
        match node:
            case Ident(name=name) | Index(name=name) | Size(name=name) | Local(name=name):
                assert shown == name
            case Read(tensor=name) | Apply(function=name) | Dim(tensor=name):
                assert shown.startswith(name)
            case Comprehension(target=Ident(name=name)):
                assert shown.startswith(name)
            case Binary(op=op):
                assert op in shown
            case Definition():
                assert shown.startswith("def")
                assert shown.endswith("}")
            case _:
                assert shown.strip() == shown != ""


def test_only_text_is_read() -> None:
    with pytest.raises(WeftError, match="comprehensions are text, not int"):
        parse(3)  # type: ignore[arg-type]


def test_the_grammar_is_loaded_by_the_first_text() -> None:
    code = "import weft.comprehension; from weft.notation import parser; print(parser.cache_info().currsize)"
    env = {**os.environ, "PYTHONPATH": str(Path(weft.__file__).parent.parent)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "0", done.stderr

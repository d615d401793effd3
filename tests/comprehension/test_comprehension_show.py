"""Nodes to text: random programs come back equal, and no brackets are there without need."""

from __future__ import annotations

from typing import cast

import pytest
from hypothesis import given, strategies as st

from weft.comprehension import parse, show
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
    Where,
)
from weft.comprehension.show import show_expr, show_statement
from weft.ops.dtypes import ELEMENT_TYPES

TENSORS, SIZES, LOCALS, INDICES = ("A", "B", "out", "t_1"), ("M", "N"), ("x", "y2"), ("i", "j", "kk", "_", "2q")
BINARY = ("||", "&&", "==", "!=", "<", "<=", ">", ">=", "+", "-", "*", "/", "%")
names = st.sampled_from

_outside = st.one_of(
    st.builds(Int, st.integers(0, 2**63 - 1)),
    st.builds(Real, st.floats(0, 1e300).map(float)),
    st.builds(Truth, st.booleans()),
    st.builds(Index, names(INDICES)),
    st.builds(Size, names(SIZES)),
    st.builds(Dim, names(TENSORS), st.integers(0, 5)),
    st.builds(Read, names(TENSORS)),
)
_leaves = st.one_of(_outside, st.builds(Local, names(LOCALS)))


def _larger(parts: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    some = st.lists(parts, min_size=1, max_size=3).map(tuple)
    return st.one_of(
        st.builds(Read, names(TENSORS), some),
        st.builds(Apply, names(("exp", "fmax", "nonsense")), some),
        st.builds(Cast, names(ELEMENT_TYPES), parts),
        st.builds(Unary, names(("-", "!")), parts),
        st.builds(Binary, names(BINARY), parts, parts),
        st.builds(Choose, parts, parts, parts),
    )


exprs: st.SearchStrategy[Expr] = st.recursive(_leaves, _larger, max_leaves=12)
plain_exprs: st.SearchStrategy[Expr] = st.recursive(_outside, _larger, max_leaves=4)
idents = st.builds(Ident, names(INDICES))
clauses: st.SearchStrategy[Where] = st.one_of(st.builds(Between, idents, exprs, exprs), st.builds(Exists, exprs))


@st.composite
def comprehensions(draw: st.DrawFn) -> Comprehension:
    reduction, resets = draw(
        names([(None, False), *((one, b) for one in ("add", "mul", "min", "max") for b in (0, 1))])
    )
    where = [*draw(st.lists(clauses, max_size=2)), *(Let(Ident(name), draw(exprs)) for name in LOCALS)]
    left = tuple(draw(st.lists(st.builds(Index, names(INDICES)) | st.builds(Int, st.integers(0, 9)), max_size=3)))
    target = Ident(draw(names(TENSORS)))
    same = draw(st.none() | st.builds(Apply, names(("exp", "nonsense")), st.lists(exprs, max_size=2).map(tuple)))
    return Comprehension(target, left, reduction, resets, draw(exprs), tuple(draw(st.permutations(where))), same)


invokes = st.builds(
    Invoke,
    st.lists(st.builds(Ident, names((*TENSORS, "_"))), min_size=1, max_size=3).map(tuple),
    st.builds(Ident, names(("f0", "f1"))),
    st.lists(plain_exprs, max_size=3).map(tuple),
)
types = st.builds(
    TensorType,
    names(ELEMENT_TYPES),
    st.lists(st.one_of(st.builds(Ident, names(SIZES)), st.builds(Int, st.integers(0, 99))), max_size=3).map(tuple),
)


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """Programs that may be nonsense, but in which every name is of the kind its definition says."""
    made = []
    for number in range(2):
        params = [Param(draw(types), Ident(name)) for name in TENSORS]
        params.append(Param(TensorType("float32", tuple(map(Ident, SIZES))), Ident("last")))
        results = tuple(Result(Ident(name), draw(st.none() | types)) for name in draw(st.lists(names(TENSORS))))
        body = tuple(draw(st.lists(st.one_of(comprehensions(), invokes), max_size=4)))
        made.append(Definition(Ident(f"f{number}"), tuple(params), results, body))
    return Program(tuple(made))


@given(programs())
def test_programs_come_back(program: Program) -> None:
    assert parse(show(program)) == program


@given(exprs)
def test_printing_twice_prints_the_same(expr: Expr) -> None:
    text = show_expr(expr)
    head = "def f(float(M,N) A, float B, float t_1) -> (out) { out = 1 where x = 1, y2 = 2, exists "
    (again,) = parse(f"{head}{text} }}").definitions[0].body
    assert isinstance(again, Comprehension)
    assert show_expr(cast(Exists, again.where[-1]).value) == text


a, b, c = Index("a"), Index("b"), Index("c")


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (Binary("+", Binary("+", a, b), c), "a + b + c"),
        (Binary("+", a, Binary("+", b, c)), "a + (b + c)"),
        (Binary("*", Binary("+", a, b), c), "(a + b) * c"),
        (Binary("||", Binary("&&", a, b), c), "a && b || c"),
        (Unary("-", Binary("*", a, b)), "-(a * b)"),
        (Binary("*", Unary("-", a), b), "-a * b"),
        (Unary("-", Unary("-", a)), "--a"),
        (Choose(a, b, Choose(b, c, a)), "a ? b : b ? c : a"),
        (Choose(Choose(a, b, c), b, c), "(a ? b : c) ? b : c"),
        (Binary("+", Choose(a, b, c), a), "(a ? b : c) + a"),
        (Cast("float32", Choose(a, b, c)), "float(a ? b : c)"),
        (Real(1e22), "1e+22"),
        (Read("s"), "s"),
    ],
)
def test_brackets_only_where_they_are_needed(expr: Expr, text: str) -> None:
    assert show_expr(expr) == text


def test_a_whole_text() -> None:
    text = "def f(float(M,3)A,half s)->(B,double(M)c){B(i)max=!A(i,j)*s where j in 0:2,exists A(i,0),x=1 c(i)=B(i)}"
    assert show(parse(text)) == (
        "def f(float(M, 3) A, half s) -> (B, double(M) c) {\n"
        "    B(i) max=! A(i, j) * s where j in 0:2, exists A(i, 0), x = 1\n"
        "    c(i) = B(i)\n"
        "}"
    )


def test_statements() -> None:
    call = Invoke((Ident("x"), Ident("_")), Ident("f"), (Read("A"), Binary("*", Int(2), Size("N"))))
    assert show_statement(call) == "x, _ = f(A, 2 * N)"
    equal = Comprehension(Ident("O"), (Int(0), Index("i")), "add", True, Read("x"), (), Apply("sum", (Read("x"),)))
    assert show_statement(equal) == "O(0, i) +=! x <=> sum(x)"
    assert show_statement(Comprehension(Ident("s"), (), "add", False, Int(1))) == "s += 1"

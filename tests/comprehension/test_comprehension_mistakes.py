"""What is said about each mistake: where it is, what it is, and how to mend it."""

from __future__ import annotations

import inspect
import sys

import pytest

from weft.comprehension import ComprehensionError, check, infer, parse, read, show
from weft.comprehension.build import MAX_DEPTH
from weft.comprehension.show import show_definition
from weft.comprehension.signature import Template
from weft.tc.call import gradient_definition

HEAD = "def f(float(M,N) A, float(N) B, float alpha, int32(M) I) -> (C) { "


def mistakes(text: str) -> list[tuple[str, str, str]]:
    """The characters marked, what is said of them, and the fix, for each mistake of a text."""
    with pytest.raises(ComprehensionError) as raised:
        check(parse(text))
    return [(text[one.span.start : one.span.end], one.what, one.fix) for one in raised.value.mistakes]


def one_mistake(statement: str) -> tuple[str, str, str]:
    """The one mistake of a statement, in a definition with the parameters of HEAD."""
    (found,) = mistakes(f"{HEAD}{statement} }}")
    return found


SYNTAX = {
    "C(i) = B(i);": (";", "statements are not separated by `;`", "remove it; a statement ends where the next begins"),
    "C(i) = B(i) // x": ("//", "a comment begins with `#`", "write `#` for `//`"),
    "C(i) = B(i) ** 2": ("**", "there is no operator `**`", "write `pow(x, y)`, or `x * x`"),
    "C(i) = B(i) /* x */": ("/*", "a comment begins with `#`", "write `#` before each line of it"),
    "/* x */ C(i) = B(i)": ("/*", "a comment begins with `#`", "write `#` before each line of it"),
    "C(i) = i =< 2 ? B(i) : 0": ("=<", "there is no operator `=<`", "write `<=`"),
    "C(i) = i => 2 ? B(i) : 0": ("=>", "there is no operator `=>`", "write `>=`"),
    "C(i) = B(i) where i in 0..2": ("..", "a range is written with `:`", "write `0:N`"),
    "C(i) = B(i) <=> 3": ("3", "`3` cannot stand here", "write a name here"),
    "C(i) = B[i]": ("[", "subscripts are written in round brackets", "write `A(i, j)` for `A[i, j]`"),
    "C(i) -= B(i)": ("-=", "there is no `-=`", "accumulate the negative: `+= -(…)`"),
    "C(i) := B(i)": (":=", "an assignment is `=`, not `:=`", "write `=`"),
    "C(i) == B(i)": ("==", "`==` compares", "write `=` to assign"),
    "C(i) sum= B(i)": (
        "sum=", "that reduction is `+=` or `*=`", "write `+=!` to sum from 0, `*=!` to multiply from 1"
    ),
    "C(i) = B(i) > 0 and true": ("and", "there is no operator `and`", "write `&&`"),
    "C(i) = B(i) & 1": ("&", "there is no operator `&`", "write `&&`"),
    "C(i) = if alpha > 0 1 else 2": ("if", "there is no `if`", "choose with `condition ? yes : no`"),
    "C(i) = B(i) where": ("}", "`}` cannot stand here", "write `exists` or a name here"),
    "C(i) = B(i": ("}", "`}` cannot stand here", "write `)` or `,` here"),
    "C(i) = @": ("@", "`@` has no meaning here", "remove it"),
    "C(i + 1) = B(i)": (
        "i + 1",
        "`i + 1` is computed, and `=` does not say what becomes of points where it is the same",
        "say how they combine: `C(i + 1) +=! …`, or `*=!`, `min=!`, `max=!`; "
        "or write an index there, and choose on the right",
    ),
    "C(i) = float(B(i), 2)": ("float(B(i), 2)", "`float` converts one value, not 2 values", "write `float(x)`"),
    "C(i) = 99999999999999999999": (
        "99999999999999999999",
        "`99999999999999999999` is too large",
        "write a number below 2**63, or a real number",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("statement", "said"), SYNTAX.items(), ids=list(SYNTAX))
def test_syntax(statement: str, said: tuple[str, str, str]) -> None:
    assert one_mistake(statement) == said


HEADS = {
    "def f(A) -> (C) { C = 1 }": [("A", "the parameter `A` has no type", "say what it is: `float(N) A`")],
    "def f(flaot(N) A) -> (C) { C(i) = A(i) }": [
        ("flaot", "there is no element type `flaot`", "did you mean `float`?")
    ],
    "def f(float(2.5) A) -> (C) { C(i) = A(i) }": [
        ("2.5", "a size is a whole number", "write a name or a whole number")
    ],
    "def f(float(N) A) { C(i) = A(i) }": [
        ("{", "a definition says what comes out", "write `-> (C)` before the `{`")
    ],
    "deff f(float(N) A) -> (C) { C(i) = A(i) }": [
        ("deff", "a definition begins with `def`, not `deff`", "did you mean `def`?")
    ],
    "C(i) = A(i)": [
        ("C", "a definition begins with `def`, not `C`", "write `def name(…) -> (…) { … }`")
    ],
    "def f(float(N) A) -> (C) { C(i) = A(i)": [(")", "the text ends too early", "close the definition with `}`")],
    "def f(float(N) A) -> () { }": [("f", "`f` has no result", "write `-> (C)` before the `{`")],
    "def f(float(N) A, float A) -> (C) { C(i) = A(i) }": [
        ("A", "the parameter `A` is there twice", "give one of them another name")
    ],
    "def f(float(N) N) -> (C) { C(i) = 1 where i in 0:3 }": [
        ("N", "`N` is both a tensor and a size", "sizes, tensors and indices share one set of names: rename one")
    ],
    "def f(float(N) exp) -> (C) { C(i) = exp(i) }": [
        ("exp", "`exp` is a builtin and cannot name a tensor", "rename it")
    ],
    "def f(float(N) A) -> (C, C) { C(i) = A(i) }": [("C", "the result `C` is there twice", "remove one")],
    "def f(float(N) A) -> (Out) { out(i) = A(i) }": [
        ("Out", "nothing defines the result `Out`", "did you mean `out`?"),
    ],
    "def f(float(N) A) -> (double(N) A) { A(i) += 1 }": [
        ("double(N)", "`A` comes in as float(N) and goes out as double(N)", "leave out the type of the result")
    ],
    "def exp(float(N) A) -> (C) { C(i) = A(i) }": [("exp", "`exp` is a builtin", "give the definition another name")],
    "def f(float s) -> (C) { C = s } def f(float s) -> (C) { C = s }": [
        ("f", "`f` is defined twice", "give one of the definitions another name")
    ],
    "def f(float s) -> (C) { C = f(s) }": [
        ("f", "`f` is called in a circle: f → f", "definitions cannot call themselves")
    ],
    "def f(float s) -> (C) { C = g(s) } def g(float s) -> (C) { C = f(s) }": [
        ("f", "`f` is called in a circle: f → g → f", "definitions cannot call themselves")
    ],
    "def g(float s) -> (C) { C = s } def f(float(N) A, int32 n) -> (x, y, z) { x = g(A) y = g(n) z, w = g(n, n) }": [
        ("A", "`g` takes `s` with 0 axes, and `A` has 1", "pass another tensor"),
        ("n", "`g` takes `s` as float, and `n` is int32", "convert it: `float(n)`"),
        ("z", "`g` gives 1 tensor, not 2", "its results are C; write `_` for one that is not wanted"),
        ("g", "`g` takes 1 tensor, not 2", "its parameters are s"),
        ("n", "`g` takes `s` as float, and `n` is int32", "convert it: `float(n)`"),
    ],
    "def g(float(N) A) -> (C) { C(i) = A(i) } def f(double(N) A) -> (B) { B = g(A) }": [
        (
            "A",
            "`g` takes `A` as float, and `A` is double",
            "convert it in a statement before, and pass that: `A_float(i) = float(A(i))`",
        ),
    ],
    "def f(float(N) a) -> (b) { b = g(a) }": [
        ("g", "there is no definition `g` in the text", "define it with `def`"),
    ],
    "def fun(float s) -> (C) { C, D = fn(s) }": [
        ("fn", "there is no definition `fn` in the text", "did you mean `fun`?"),
    ],
    "def g(uint8 s, float t) -> (C) { C = s } def f(float(N) A) -> (B) { B = g(300, 1) x = g(-1, N) y = g(1.5, 1) }": [
        ("300", "`s` is uint8, which has no 300", "pass another number, or change the type of the parameter"),
        ("-1", "`s` is uint8, which has no -1", "pass another number, or change the type of the parameter"),
        ("1.5", "`g` takes `s` as uint8, and `1.5` is float", "convert it: `uint8(1.5)`"),
    ],
    "def g(float s) -> (C) { C = s } def f(float(N) A) -> (B) { B = g(i) x = g(i + 1) y = g(A(0)) z = g(A) }": [
        ("i", "there is no tensor `i`", "the tensors here are `A`"),
        ("i", "`i` is an index, and a call has none", "pass whole tensors, sizes and numbers"),
        ("A", "`g` takes `s` with 0 axes, and `A` has 1", "pass another tensor"),
    ],
    "def f(float s) -> (C) { C += s } def g(float s) -> (x) { y = f(s) _ = f(s) x = y }": [
        (
            "y",
            "`f` goes on from what `y` holds, and nothing has defined it",
            "define it before, or write `!` after the `=` in `f`",
        ),
        ("_", "`f` accumulates into `C`, and nothing says from what", "give it the name of a tensor that is defined"),
    ],
    "def g(float s) -> (C) { C = s } def f(float s) -> (x) { x = s x = g(s) }": [
        ("x", "`x` is already defined, and a call fills a new tensor", "give the result of the call another name"),
    ],
    "def f(float b, float(M,N) A) -> (C) { C(i,j) = b * C(i,j) + A(i,j) }": [
        (
            "C",
            "`C` is read by the statement that defines it",
            "go on from what the caller passes: `C(i, j) *= …`, or make `C` a parameter too",
        ),
    ],
    "def f(float(T) x) -> (h) { h(t) = x(t) + h(t) }": [
        (
            "h",
            "`h` is read by the statement that defines it",
            "go on from what the caller passes: `h(t) += …`, or make `h` a parameter too",
        ),
    ],
    "def f(float(T) x) -> (h) { h(0) = h(1) + x(0) }": [
        (
            "h",
            "`h` is read by the statement that defines it",
            "a recurrence is one statement: `h(t, i) = t > 0 ? … : …`",
        ),
    ],
    "def f(float(T) x) -> (h) { h(t) = t > 0 ? h(t - 1, 0) : x(t) }": [
        ("h(t - 1, 0)", "`h` has 1 axis and is read with 2 subscripts", "write as many as in `h(t)`"),
    ],
}  # fmt: skip


@pytest.mark.parametrize(("text", "said"), HEADS.items(), ids=list(HEADS))
def test_definitions(text: str, said: list[tuple[str, str, str]]) -> None:
    assert mistakes(text) == said


ONE_SET = "sizes, tensors and indices share one set of names: rename one"

STATEMENTS = {
    "C(i) = A(i, j)": (
        "j",
        "`j` is not on the left, and `=` does not say how to reduce it",
        "write `C(i) +=! …` to sum over it, or `*=!`, `min=!`, `max=!`",
    ),
    "C(i) = A(i, n)": (
        "n",
        "`n` is not on the left, and `=` does not say how to reduce it",
        "write `C(i) +=! …` to sum over it, or `*=!`, `min=!`, `max=!`",
    ),
    "C(i) = alhpa * B(i)": (
        "alhpa", "`alhpa` is not on the left, and `=` does not say how to reduce it", "did you mean `alpha`?"
    ),
    "T(i) += A(i, j) C(i) = T(i)": (
        "T", "`+=` goes on from what `T` holds, and nothing has defined it", "write `+=!` to start afresh"
    ),
    "T(i) max= A(i, j) C(i) = T(i)": (
        "T", "`max=` goes on from what `T` holds, and nothing has defined it", "write `max=!` to start afresh"
    ),
    "C(i) = B(i) C(i, j) = A(i, j)": (
        "C", "`C` is first defined with 1 axis and has 2 here", "use as many indices, or another name"
    ),
    "C(i) = A(i)": ("A(i)", "`A` has 2 axes and is read with 1 subscript", "write `A(i, j)`"),
    "C(i) = B + i": ("B", "`B` has 1 axis and is read with 0 subscripts", "write `B(i)`"),
    "C(i) = alpha(i)": ("alpha(i)", "`alpha` has 0 axes and is read with 1 subscript", "write `alpha`"),
    "C(i) = Bb(i)": ("Bb", "`Bb` is neither a tensor nor a builtin", "did you mean `B`?"),
    "C(i) = Zzz(i)": (
        "Zzz",
        "`Zzz` is neither a tensor nor a builtin",
        "the tensors here are `A`, `B`, `alpha` and `I`",
    ),
    "C(i) = sqtr(B(i))": ("sqtr", "`sqtr` is neither a tensor nor a builtin", "did you mean `sqrt`?"),
    "C(i) = fmax(B(i))": ("fmax(B(i))", "`fmax` takes 2 arguments, not 1", "write `fmax(x, y)`"),
    "C(i) = f(B(i))": (
        "f",
        "`f` is a definition: it takes whole tensors and fills whole ones",
        "call it in a statement of its own: `x = f(A, B)`",
    ),
    "C(i) = N(i)": ("N", "`N` is a size and cannot be read", "write `N`"),
    "C(i) = B(i) + A.2": ("A.2", "`A` has 2 axes, counted from 0", "write `A.0` or `A.1`"),
    "C(i) = B(i) + Q.0": ("Q.0", "there is no tensor `Q`", "the tensors here are `A`, `B`, `alpha` and `I`"),
    "C(i) = D(i) D(i) = B(i)": (
        "D", "`D` is read before it is defined", "put the statement that defines it before this"
    ),
    "C(i, i) = B(i)": (
        "i", "the index `i` is on the left twice", "write two indices and choose: `C(i, j) = i == j ? … : 0`"
    ),
    "C(N) = B(N)": ("N", "`N` is a size and cannot be an index", ONE_SET),
    "C(alpha) = B(0) where alpha in 0:3": ("alpha", "`alpha` is a tensor and cannot be an index", ONE_SET),
    "B(i) = 0 C = alpha": (
        "B",
        "`B` comes in and does not go out, so it cannot be written",
        "write to a result, or make `B` one: `-> (…, B)`",
    ),
    "M(i) = B(i) C = alpha": ("M", "`M` is a size and cannot be written", ONE_SET),
    "C(i) = B(i) * B(alpha)": (
        "alpha", "a subscript is a whole number, and this is float", "convert it: `int32(alpha)`"
    ),
    "C(i) = B(i) && true": ("B(i)", "`&&` joins truth values, and this is float", "compare it: `B(i) != 0`"),
    "C(i) = !I(i)": ("I(i)", "`!` negates truth values, and this is int32", "compare it: `I(i) != 0`"),
    "C(i) = I(i) ? 1 : 2": ("I(i)", "`?` chooses by truth values, and this is int32", "compare it: `I(i) != 0`"),
    "C(i) = B(i) where i in 0:n": ("n", "`n` is no size, and a range is made of sizes", "did you mean `N`?"),
    "C(i) = B(i) where i in 0:I(0)": (
        "I(0)", "a range cannot depend on what a tensor holds", "use a size, such as `I.0`"
    ),
    "C(i) = B(i) where i in 0:alpha": (
        "alpha",
        "a range cannot depend on what a tensor holds",
        "pass a tensor of that length for the number `alpha`, and use its size",
    ),
    "C(i) = B(i) where foo = B(i), foo in 1:2": (
        "foo", "`foo` is a value and has no range", "give the range of an index"
    ),
    "C(i) = B(i) where N in 0:3": ("N", "`N` is a size and cannot be an index", ONE_SET),
    "C(i) = B(i) where i in 0:2.5": (
        "2.5", "the end of a range is a whole number, and this is float", "convert it: `int32(2.5)`"
    ),
    "C(i) = B(i) where i in 0:3, i in 0:4": ("i", "`i` is given two ranges", "keep one of them"),
    "C(i) = x * B(i) where x = y, y = 3": (
        "y", "`y` is used before it has a value", "put the clause that gives it before this one"
    ),
    "C(i) = x * B(i) where x = x + 1": (
        "x", "`x` is used before it has a value", "put the clause that gives it before this one"
    ),
    "C(i) = x * B(i) where x = 1, x = 2": ("x", "`x` is given two values", "give one of them another name"),
    "C(i) = B(i) where N = 3": ("N", "`N` is a size already", ONE_SET),
    "C(i) = B(i) where exists 3": ("3", "`exists` needs a tensor that is read", "write `exists A(i)`"),
    "C(i) = B(i) C(i) = C(i + 1)": (
        "C(i + 1)",
        "`C` is read while it is written, in another cell than `C(i)`",
        "write to a tensor of another name; a recurrence is the statement that defines its tensor",
    ),
    "C(i) = B(i) C(i) += C(i) * A(j, i)": (
        "C(i)", "`C` is read while it is accumulated", "accumulate into a tensor of another name"
    ),
    "C(i) = I(i) / uint64(1) + int64(2)": (
        "I(i) / uint64(1)", "no whole-number type holds both uint64 and int32", "convert one of them: `int64(x)`"
    ),
}  # fmt: skip


@pytest.mark.parametrize(("statement", "said"), STATEMENTS.items(), ids=list(STATEMENTS))
def test_statements(statement: str, said: tuple[str, str, str]) -> None:
    assert one_mistake(statement) == said


def test_declared_types_must_hold_what_is_put_into_them() -> None:
    text = "def f(float(N) A) -> (int32(N) C, double(M,N) D) { C(i) = A(i) D(i) = A(i) }"
    assert mistakes(text) == [
        ("double(M,N)", "`D` is declared with 2 axes and defined with 1", "make both the same, or leave out the type"),
        ("C", "`C` is declared int32, and this is float", "convert the right side: `int32(…)`"),
    ]


SEVERAL = """\
def first(flaot(N) A) -> (B) {
    B(i) = A(i) ** 2
    C(i) = A[i]
    D(i) = A(i   # nothing closes it
    E(i) = A(i)
}
def second(float(N) A) -> (B) {
    B(i) = A(i) +
}
"""


def test_every_mistake_of_a_text_is_listed() -> None:
    with pytest.raises(ComprehensionError) as raised:
        parse(SEVERAL)
    error = raised.value
    error.origin = None
    assert (
        str(error)
        == """\
5 mistakes in the comprehensions
line 1, column 11: there is no element type `flaot`
    def first(flaot(N) A) -> (B) {
              ^^^^^
  fix: did you mean `float`?
line 2, column 17: there is no operator `**`
    B(i) = A(i) ** 2
                ^^
  fix: write `pow(x, y)`, or `x * x`
line 3, column 13: subscripts are written in round brackets
    C(i) = A[i]
            ^
  fix: write `A(i, j)` for `A[i, j]`
line 5, column 5: `E` cannot stand here
    E(i) = A(i)
    ^
  fix: write `)` or `,` here
line 9, column 1: `}` cannot stand here
    }
    ^
  fix: write `(`, a name or a number here"""
    )


def test_one_mistake_names_the_line_of_the_caller() -> None:
    with pytest.raises(ComprehensionError) as raised:
        parse("def f(float(N) A) -> (B) {\n    B(i) = A(i) ;\n}")
    lines = str(raised.value).splitlines()
    assert lines[0].startswith("test_comprehension_mistakes.py:")
    assert lines[0].endswith(": line 2, column 17: statements are not separated by `;`")
    assert lines[-3:] == [
        "    B(i) = A(i) ;",
        "                ^",
        "  fix: remove it; a statement ends where the next begins",
    ]


def test_a_long_line_is_shown_in_part() -> None:
    text = "def f(float(N) A) -> (B) { B(i) = " + "A(i) + " * 50 + "Q(i) }"
    with pytest.raises(ComprehensionError) as raised:
        check(parse(text))
    raised.value.origin = None
    shown, marks = str(raised.value).splitlines()[1:3]
    assert len(shown) <= 164
    assert shown[marks.index("^")] == "Q"


def test_no_definition() -> None:
    assert mistakes("# nothing")[0][1:] == (
        "there is no definition in the text",
        "write one: `def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }`",
    )


def test_deep_nesting_is_refused_and_shallower_is_not() -> None:
    def text(depth: int) -> str:
        return f"def f(float s) -> (C) {{ C = {'(' * depth}s{' + 1)' * depth} }}"

    program = parse(text(MAX_DEPTH - 1))
    assert parse(show(program)) == program
    assert infer(check(program), "f", {"s": ()}).results == ((),)
    for deep in (text(MAX_DEPTH), text(20000), "def f(float s) -> (C) { C = " + "-" * 5000 + "s }", _sum(5000)):
        with pytest.raises(ComprehensionError, match="nested deeper than 150 levels"):
            parse(deep)


def test_a_long_text_with_a_mistake_is_answered_soon() -> None:
    lines = "\n".join(f"C{n}(i) = A(i) + {n} where x = 1, y = 2" for n in range(400))
    names = ", ".join(["a"] * 4000)
    for text in (f"def f(float(N) A) -> (C) {{ {lines} ; }}", f"def f(float(N) A) -> (C) {{ {names} }}"):
        assert len(mistakes(text)) >= 1


def _sum(terms: int) -> str:
    return f"def f(float s) -> (C) {{ C = {' + '.join(['s'] * terms)} }}"


def test_a_chain_of_many_calls_is_refused() -> None:
    text = "def f0(float s) -> (C) { C = s }\n" + "\n".join(
        f"def f{n}(float s) -> (C) {{ C = f{n - 1}(s) }}" for n in range(1, 60)
    )
    with pytest.raises(ComprehensionError, match="calls are nested deeper than 50"):
        check(parse(text))


def test_many_calls_of_the_same_definition_are_inferred_once() -> None:
    text = "def f0(float s) -> (C) { C = s }\n" + "\n".join(
        f"def f{n}(float s) -> (C) {{ a = f{n - 1}(s) b = f{n - 1}(a) C = a + b }}" for n in range(1, 40)
    )
    assert infer(check(parse(text)), "f39", {"s": ()}).results == ((),)


BOTH = """
def f(float(N) x) -> (y) { y(i) = x(i) + }
def g(float(N) x) -> (y) { y(i) = z(i) }
def h(float(N) x) -> (y) { y = f(x) }
"""


def test_mistakes_of_syntax_and_of_meaning_are_told_together() -> None:
    """What calls a definition that cannot be read is not blamed for that."""
    with pytest.raises(ComprehensionError) as caught:
        read(BOTH)
    assert [one.what for one in caught.value.mistakes] == [
        "`}` cannot stand here",
        "`z` is neither a tensor nor a builtin",
    ]


def test_nothing_here_is_deep_where_a_program_is_long() -> None:
    """Hundreds of statements, and an expression of many levels, differentiated and written on a short stack."""
    lines = [f"t{n}(i) = t{n - 1}(i) + {n}" for n in range(1, 200)]
    nested = "sin(" * 60 + "x(i)" + ")" * 60
    text = f"def f(float(N) x) -> (y) {{ t0(i) = x(i) {' '.join(lines)} y(i) = t199(i) * {nested} }}"
    program = check(parse(text))
    template = Template(program, "f")
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack()) + 60)
    try:
        written = show_definition(gradient_definition("g", template, [(3,)], template.flat.results, ["x"]))
    finally:
        sys.setrecursionlimit(limit)
    assert written.count("\n") > 200

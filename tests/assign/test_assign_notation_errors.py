"""Text that is no code gets an error that points at it; no text gets anything else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import weft as wf
from assign.samples import by_label, matrices, perceptron
from effort import tries
from weft.errors import WeftError


def told(text: str, **options: Any) -> str:
    """The error a text gets, without the line of this file that asked."""
    a, b, x = matrices()
    names = {**by_label(a, b, x), "p": wf.param("p", o=3, i=3), "learning_rate": 0.1, "i": wf.index("i", 2)}
    with pytest.raises(WeftError) as caught:
        wf.parse_cd(text, names, **options)
    error = caught.value
    assert error.origin is not None
    assert error.origin.file == __file__
    return str(WeftError(error.what, origin=None, text=error.text, spans=error.spans, notes=error.notes, fix=error.fix))


ERRORS = [
    """
{ t; init = b } =: a
line 1, column 6: a node starts at a number
    { t; init = b } =: a
         ^^^^^^^^
  fix: for example `init = 0.5`
""",
    """
{ t; o = -3 } =: a
line 1, column 10: a size is a whole number from 1 on
    { t; o = -3 } =: a
             ^^
  fix: for example `o = [3; 4]`
""",
    """
{ p; init = 2 } =: a
line 1, column 1: `p` does not start at 2.0
    { p; init = 2 } =: a
    ^^^^^^^^^^^^^^^
  fix: leave the init out, or give a node made so
""",
    """
p =: a ~at_least:"float64"
line 1, column 8: `p` was not made with at_least='float64'
    p =: a ~at_least:"float64"
           ^^^^^^^^^^^^^^^^^^^
  fix: leave it out, or give a node made so
""",
    """
p =: a + (a *. a ~at_least:"float64")
line 1, column 18: only a node is bounded by ~at_least
    p =: a + (a *. a ~at_least:"float64")
                     ^^^^^^^^^^^^^^^^^^^
  fix: assign it to a name of its own
""",
    """
p =- lerning_rate *. a
line 1, column 6: `lerning_rate` is not a name
    p =- lerning_rate *. a
         ^^^^^^^^^^^^
  fix: did you mean `learning_rate`?
""",
    """
p =: q.grad
line 1, column 6: `q.grad` is not a name
    p =: q.grad
         ^^^^^^
  fix: the names are a, b, x, p, learning_rate, i
""",
    """
delta =: a
line 1, column 1: `delta` is not a name: quote it to declare a node
    delta =: a
    ^^^^^
  fix: write `"delta"` on the left side
""",
    """
p =: a * p
line 1, column 6: `*` alone does not say which loops run
    p =: a * p
         ^^^^^
  fix: write `*.` for the pointwise product, or say ~logic:"." or ~logic:"@"
""",
    """
p =: a / p ~logic:"@"
line 1, column 6: logic "@" with '/' reads like a matrix inverse or power and computes neither
    p =: a / p ~logic:"@"
         ^^^^^
  fix: use logic "." for pointwise, or an explicit einsum spec
""",
    """
p =: a.grad + a
line 1, column 6: `a` has no gradient
    p =: a.grad + a
         ^^^^^^
  fix: only parameters, wf.require_grad and what is computed from them have gradients
""",
    """
learning_rate =: 1
line 1, column 1: `learning_rate` is a number and cannot be assigned to
    learning_rate =: 1
    ^^^^^^^^^^^^^
  fix: give a tensor by this name
""",
    """
p.merge =: a
`p.merge` cannot be assigned to
  in the code, line 1, column 1: p.merge =: a
  fix: assign to the tensor itself
""",
    """
"p" =: a
line 1, column 1: `p` is given, so it cannot be declared
    "p" =: a
    ^^^
  fix: leave out the quotes to assign to it, or declare another name
""",
    """
"x.grad" =: a
line 1, column 1: a node cannot be called `x.grad`
    "x.grad" =: a
    ^^^^^^^^
  fix: choose a name without an accessor at its end
""",
    """
p =: "q" + a
line 1, column 6: a string on the right side declares nothing
    p =: "q" + a
         ^^^
  fix: declare it on the left side of an assignment, `"q" =: …`, and use it without quotes
""",
    """
p =:+ a ~logic:"ij;jk=>ik"
line 1, column 7: logic "ij;jk=>ik" takes 2 operands and the right side has 1
    p =:+ a ~logic:"ij;jk=>ik"
          ^
""",
    """
p =: rleu(a)
line 1, column 6: there is no function `rleu`
    p =: rleu(a)
         ^^^^^^^
  fix: did you mean `relu`?
""",
    """
p =: relu(a, a)
line 1, column 6: `relu` takes one operand, not 2
    p =: relu(a, a)
         ^^^^^^^^^^
""",
    """
p =: a *-b
line 1, column 8: there is no operator `*-`
    p =: a *-b
           ^^
  fix: put a space between `*` and `-`
""",
    """
p =: !.a
line 1, column 6: `a` is a tensor, and `!.` makes a constant of a number
    p =: !.a
         ^^^
  fix: write `a`
""",
    """
p =: x @| a
line 1, column 11: `a` is not a static index
    p =: x @| a
              ^
  fix: give one: a=wf.index("a", size)
""",
    """
p += a
line 1, column 3: an assignment starts with `=`, not `+=`
    p += a
      ^^
  fix: write `=+`
""",
    """
p = a
line 1, column 3: `=` alone assigns nothing
    p = a
      ^
  fix: write `=:` to overwrite, `=+` to add, `=:+` to sum afresh
""",
    """
p =:% a
line 1, column 3: `=:%` has nothing to start from
    p =:% a
      ^^^
  fix: write `=%` to go on from the old value, or a space after `=:`
""",
    """
p =: max a
line 1, column 6: `max` takes 2 operands, not 1
    p =: max a
         ^^^^^
""",
    """
p =: max (a, b) a
line 1, column 17: there is no operator between two operands
    p =: max (a, b) a
                    ^
  fix: write one, for example `*.` for the pointwise product
""",
    """
p =: relu(a) b
line 1, column 14: there is no operator between two operands
    p =: relu(a) b
                 ^
  fix: write one, for example `*.` for the pointwise product
""",
    """
{ t; c = 3 } =: a
line 1, column 6: a node has no row `c`
    { t; c = 3 } =: a
         ^^^^^
  fix: its rows are b (batch), i (input) and o (output); `scalar` makes it one number, `init = 0.5` sets it
""",
    """
{ t; o = 3; o = 4 } =: a
line 1, column 13: `o` is given twice
    { t; o = 3; o = 4 } =: a
                ^^^^^
  fix: its rows are b (batch), i (input) and o (output); `scalar` makes it one number, `init = 0.5` sets it
""",
    """
{ t; o = [3; 0] } =: a
line 1, column 14: a size is a whole number from 1 on
    { t; o = [3; 0] } =: a
                 ^
  fix: for example `o = [3; 4]`
""",
    """
p =: a b
line 1, column 8: there is no operator between two operands
    p =: a b
           ^
  fix: write one, for example `*.` for the pointwise product
""",
    """
p =: (a + b
line 1, column 11: the code ends too early
    p =: (a + b
              ^
  fix: write `)` here
""",
    """
p =: a) + b
line 1, column 7: there is no `(` for this `)`
    p =: a) + b
          ^
  fix: remove it
""",
    """
p =: x[0]
line 1, column 7: `[` has no meaning in code
    p =: x[0]
          ^
  fix: slice with `x @| i`
""",
    """
p =: a ~logic "@"
line 1, column 15: an option and its text are joined by `:`
    p =: a ~logic "@"
                  ^^^
  fix: write ~logic:"…"
""",
    """
p =: a ~logics:"@"
line 1, column 8: there is no option `~logics`
    p =: a ~logics:"@"
           ^^^^^^^^^^^
  fix: the options are ~logic:"…", ~slots:"…", ~sizes:"…", ~type:"…", ~at_least:"…" and ~outside:"…"
""",
    """
p =+ a ~logic:b ~slots:"0=>1"
line 1, column 15: the operation of `b` is there only if an operation computes it
    p =+ a ~logic:b ~slots:"0=>1"
                  ^
  fix: say which of its slots are filled: ~logic:joined ~slots:"0=>2"
""",
    """
"n" =: a *. b; p =+ a ~logic:n
line 1, column 30: the operation of `n` needs ~slots, and has its sizes
    "n" =: a *. b; p =+ a ~logic:n
                                 ^
  fix: say which of its slots are filled: ~logic:joined ~slots:"0=>2"
""",
    """
p =: a ~type:b
line 1, column 14: `~type` takes a text
    p =: a ~type:b
                 ^
  fix: write ~type:"b"
""",
    """
~let n = a; ~let n = b; p =: n
line 1, column 18: `n` is said twice
    ~let n = a; ~let n = b; p =: n
                     ^
  fix: write `~let part = …;` before the statement it is part of
""",
    """
~let n =+ a; p =: n
line 1, column 6: a part is said with `=`, not `=+`
    ~let n =+ a; p =: n
         ^
  fix: write `~let part = …;` before the statement it is part of
""",
    """
~let m = n + a; ~let n = b; p =: m
line 1, column 10: `n` is not said before `m`
    ~let m = n + a; ~let n = b; p =: m
             ^^^^^
  fix: say it first, under a new name
""",
    """
p =+ a ~slots:"1,2=>0"
line 1, column 8: ~slots names 2 operands and the right side has 1
    p =+ a ~slots:"1,2=>0"
           ^^^^^^^^^^^^^^^
  fix: give the slot of each tensor in the order they are written
""",
    """
p =+ a ~logic:"@" ~slots:"0=>2"
line 1, column 19: nothing fills slot 1, and the loops depend on its shape
    p =+ a ~logic:"@" ~slots:"0=>2"
                      ^^^^^^^^^^^^^
  fix: mention a tensor in every slot of the operation
""",
    """
p =+ a ~logic:"i;j=>i" ~slots:"0=>1"
line 1, column 24: nothing fills slot 2, and the loops depend on its shape
    p =+ a ~logic:"i;j=>i" ~slots:"0=>1"
                           ^^^^^^^^^^^^^
  fix: mention a tensor in every slot of the operation
""",
    """
p =+ a ~logic:"T" ~slots:"0=>5"
line 1, column 19: there is no slot 5: the operation has slots 0 to 1
    p =+ a ~logic:"T" ~slots:"0=>5"
                      ^^^^^^^^^^^^^
""",
    """
x =: data float32[5, 3]
line 1, column 6: `data …` stands for values that the text does not hold
    x =: data float32[5, 3]
         ^^^^^^^^^^^^
  fix: give the tensor by name and leave out the statement that fills it
""",
    """
p =: range
line 1, column 6: `range` stands for numbers that the text does not hold
    p =: range
         ^^^^^
  fix: give the tensor by name
""",
    """
p =: dim(k) *. a
line 1, column 6: `dim(…)` stands for numbers that the text does not hold
    p =: dim(k) *. a
         ^^^^^^
  fix: give the tensor by name
""",
    """
p =: a + (=+ b)
line 1, column 10: a tensor without a name has no old value
    p =: a + (=+ b)
             ^^^^^^
  fix: start it afresh: `=:`, `=:+` …
""",
    """
p =:+ a ~logic:"ij=>i=>"
a specification has one `=>`
    ij=>i=>
         ^^
  in the code, line 1, column 1: p =:+ a ~logic:"ij=>i=>"
  fix: separate the operands with `;`, as in `a;b=>c`
""",
]


@pytest.mark.parametrize("case", ERRORS, ids=[case.split("\n")[1] for case in ERRORS])
def test_error(case: str) -> None:
    _, text, *lines = case.rstrip("\n").split("\n")
    assert told(text) == "\n".join(lines)


def test_error_on_a_later_line() -> None:
    text = "p =: a;\n\tp =+ a +\n    q;\np =: b"
    assert told(text) == (
        "line 3, column 5: `q` is not a name\n        q;\n        ^\n  fix: the names are a, b, x, p, learning_rate, i"
    )


def test_missing_semicolon() -> None:
    for second in ("p =+ b", "p =: b", '"d" =: b', "{ e } =: b", "~~(p)", "relu b"):
        error = told(f"p =: a\n{second}")
        assert error.startswith("line 1, column 6: statements are separated by `;`\n    p =: a\n         ^\n"), second


def test_shapes_that_do_not_fit_say_where() -> None:
    text = 'p =: a;\np =:+ a * b ~logic:"ijk;jk=>ik"'
    a, b, _ = matrices()
    with pytest.raises(wf.ShapeError, match="needs at least 3 axes") as caught:
        wf.parse_cd(text, p=wf.param("p"), a=a, b=b)
    assert caught.value.notes[-1] == 'in the code, line 2, column 1: p =:+ a * b ~logic:"ijk;jk=>ik"'


def test_tensors_in_one_slot_have_one_shape() -> None:
    p, v = wf.param("p", o=3), wf.data(np.ones(4, "float32"), label="v")
    w = wf.data(np.ones(3, "float32"), label="w")
    with pytest.raises(wf.ShapeError):
        wf.parse_cd('p =+ v *. w ~slots:"0,0=>1"', p=p, v=v, w=w)


@pytest.mark.parametrize("text", ["p =: " + "(" * 5000, "p =: " + "- " * 5000 + "a", "p =: " + "a ** " * 5000 + "a"])
def test_depth_is_bounded(text: str) -> None:
    assert "the code is nested too deeply" in told(text)


@pytest.mark.parametrize("value", ["text", None, 1j, object(), [1.0]])
def test_names_stand_for_tensors_and_numbers(value: object) -> None:
    with pytest.raises(WeftError, match=r"`q` is given as \w+, and code is about tensors and numbers"):
        wf.parse_cd("", {"q": value})  # type: ignore[dict-item]


def test_text_is_text() -> None:
    with pytest.raises(WeftError, match="`parse_cd` takes text for `text`, not 3"):
        wf.parse_cd(3)  # type: ignore[arg-type]


def test_nothing_is_no_code() -> None:
    assert str(wf.parse_cd("  \n")) == ""


TOKENS = (
    *("a", "b", "x", "p", "p.grad", "p.merge", "q", "i", "learning_rate", '"d"', "{ e }", "d", "e", "`w 1`"),
    *("{ f; o = [3; 3] }", "{ f; i = 3 }", "max", "relu", "where", "[", "]", "=:-", "=?/", "=:**"),
    *("=:", "=+", "=:+", "=-", "=*", "=:@^", "=", ";", ";\n", "~~(", '"text"', "(", ")", ",", "!.", "!.."),
    *(
        "+",
        "-",
        "*",
        "*.",
        "/",
        "**",
        "@|",
        "<",
        "<=",
        "&&",
        "-?/",
        "@^",
        "++",
        "+*",
        "*+",
        "relu(",
        "where(",
        "given(",
    ),
    *('"i->j => j->i"', '"i->j; j->k => i->k"', '~logic:"@"', '~logic:"T"', '~logic:"."', '~logic:"@| i"'),
    *('~logic:"i->j; j->k => i->k"', '~slots:"0,2=>1"', '~slots:"0=>1"', '~slots:"1=>0"', '~sizes:"i=3"', "1", "0.5"),
)


@settings(max_examples=250)
@given(st.lists(st.sampled_from(TOKENS), max_size=16).map(" ".join) | st.text(), st.booleans())
def test_any_text_is_read_or_refused(text: str, declare: bool) -> None:
    a, b, x = matrices()
    try:
        code = wf.parse_cd(
            text, by_label(a, b, x, wf.param("p"), i=wf.index("i", 2), learning_rate=0.1), declare=declare
        )
    except WeftError as error:
        str(error)
    else:
        str(code)


@settings(max_examples=tries(80))
@given(st.data())
def test_damaged_code_is_read_or_refused(data: st.DataObject) -> None:
    loss, names = perceptron()
    text = str(wf.seq(wf.grad_update(loss), wf.optim.sgd(loss, lr=0.1, momentum=0.9)))
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 12)))
    damaged = text[:start] + data.draw(st.sampled_from(("", *TOKENS))) + text[end:]
    try:
        again = str(wf.parse_cd(damaged, names, declare=True))
    except WeftError as error:
        str(error)
    else:
        assert str(wf.parse_cd(again, names, declare=True)) == again

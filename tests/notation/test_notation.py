"""What the notations share: places in a text, and mistakes said in words."""

from __future__ import annotations

import pickle

import pytest

from test_house import run_python
from weft.errors import Span, WeftError
from weft.notation import Known, Mistake, Source, Stop


def stop(text: str, at: int, kind: str = "NAME", accepts: frozenset[str] = frozenset()) -> Stop:
    return Stop(text, Span(at, at + 1), kind, accepts)


@pytest.mark.parametrize(
    ("text", "span", "where", "shown"),
    [
        ("a = b", Span(4, 5), "line 1, column 5", ("a = b", Span(4, 5))),
        ("a = b\n  c = d", Span(8, 9), "line 2, column 3", ("  c = d", Span(2, 3))),
        ("a\tb", Span(2, 3), "line 1, column 3", ("a b", Span(2, 3))),
        ("a = \nb", Span(0, 6), "line 1, column 1", ("a =", Span(0, 3))),
        ("", Span(0, 0), "line 1, column 1", ("", Span(0, 1))),
        ("x" * 500 + "y", Span(500, 501), "line 1, column 501", ("x" * 80 + "y", Span(80, 81))),
    ],
)
def test_a_place_in_a_text(text: str, span: Span, where: str, shown: tuple[str, Span]) -> None:
    assert Source(text).where(span.start) == where
    assert Source(text).window(span) == shown


def test_lines_may_be_shown_without_their_indentation() -> None:
    assert Source("a\n  c = d", dedented=True).window(Span(4, 5)) == ("c = d", Span(0, 1))


def test_a_mistake_becomes_an_error_that_points() -> None:
    with pytest.raises(WeftError) as told, Source("a = b\nc = d").pointing():
        raise Mistake("`d` is not known", Span(10, 11), "write `b`")
    assert str(told.value).splitlines()[1:] == [
        '    with pytest.raises(WeftError) as told, Source("a = b\\nc = d").pointing():',
        "    c = d",
        "        ^",
        "  fix: write `b`",
    ]
    assert told.value.what == "line 2, column 5: `d` is not known"


def test_equal_mistakes_are_one_and_survive_a_pickle() -> None:
    one, other = (Mistake("it is wrong", Span(0, 1), "mend it", notes=("so",)) for _ in range(2))
    assert len({one, other}) == 1
    assert pickle.loads(pickle.dumps(one)) == one


@pytest.mark.parametrize(
    ("known", "at", "found"),
    [
        (Known(r"\*\*", "no `{all}`", "use pow"), 2, Mistake("no `**`", Span(2, 4), "use pow")),
        (Known(r"\*\*", "no `{all}`", "use pow"), 3, Mistake("no `**`", Span(2, 4), "use pow")),
        (Known(r"\*\*", "no `{all}`", "use pow"), 4, None),
        (Known(r"(?P<a>\w) (?P<at>\*+)", "no `{at}` after {a}", ""), 3, Mistake("no `**` after a", Span(2, 4), "")),
        (Known("", "no `{all}`", "", lambda stop: stop.kind == "NAME"), 0, Mistake("no `a`", Span(0, 1), "")),
        (Known("", "no `{all}`", "", lambda stop: stop.kind == "OP"), 0, None),
    ],
)
def test_a_known_mistake_covers_the_stop(known: Known, at: int, found: Mistake | None) -> None:
    assert known(stop("a ** b", at)) == found


def test_lark_waits_for_the_first_text() -> None:
    code = """
import sys, weft.assign, weft.comprehension, weft.einsum, weft.loops
print("lark" in sys.modules)
from weft.einsum import parse_spec
parse_spec("ij=>ji")
print("lark" in sys.modules)
"""
    assert run_python(code).stdout.split() == ["False", "True"]

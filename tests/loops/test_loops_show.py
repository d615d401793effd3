"""How loop programs print."""

from __future__ import annotations

from weft.affine import Affine
from weft.loops import Buffer, Fill, For, If, Inside, Program, Read, Remark, Store, Update, show, show_scalar
from weft.ops import Num, call

A, V = Buffer(0, "A", (3, 4), "float32"), Buffer(1, "V", (4,), "float32")
AT_I, AT_J = Affine(((1, "i"),)), Affine(((1, "j"),))


def test_places() -> None:
    shown = [
        Affine(()),
        Affine((), 3),
        AT_I,
        Affine(((2, "i"), (1, "j")), 1),
        Affine(((-1, "i"),), 3),
        Affine(((1, "i"), (-2, "j")), -1),
    ]
    assert [show_scalar(one) for one in shown] == ["0", "3", "i", "2*i + j + 1", "-i + 3", "i - 2*j - 1"]


def test_scalars() -> None:
    read = Read(A, (AT_I, Read(V, (AT_J,))))
    assert show_scalar(read) == "A[i, V[j]]"
    assert show_scalar(call("mul", read, Num(0.5)) + 1) == "((A[i, V[j]] * 0.5) + 1)"
    assert (
        show_scalar(call("where", AT_I < AT_J, call("exp", AT_I), call("max", AT_J, 2)))
        == "where((i < j), exp(i), max(j, 2))"
    )
    assert show_scalar(Num(True)) == "True"


def test_a_sum_of_loops_inside_an_expression_is_kept_together() -> None:
    place = Affine(((2, "i"),), 1)
    assert show_scalar(Num(3) * place) == "(3 * (2*i + 1))"
    assert show_scalar(call("exp", place)) == "exp(2*i + 1)"
    assert show_scalar(Read(V, (place,))) == "V[2*i + 1]"


def test_statements() -> None:
    body = (
        Remark("what it is", (Store(A, (AT_I, AT_J), Read(V, (AT_J,)) * 2),)),
        If((Inside(Affine(((1, "i"), (-1, "j"))), 3), Inside(AT_J, 2)), (Update(V, (AT_J,), "add", Num(1)),)),
        Update(V, (AT_J,), "max", AT_I + AT_J),
        Update(V, (AT_J,), "div", AT_I),
        Fill(V, 0),
    )
    assert show(Program((For("i", 3, (For("j", 4, body),)), Fill(A, 1.5)))).splitlines() == [
        "for i in range(3):",
        "    for j in range(4):",
        "        # what it is",
        "        A[i, j] = V[j] * 2",
        "        if 0 <= i - j < 3 and 0 <= j < 2:",
        "            V[j] += 1",
        "        V[j] max= i + j",
        "        V[j] /= i",
        "        V[...] = 0",
        "A[...] = 1.5",
    ]


def test_nothing_prints_as_nothing() -> None:
    assert show(Program(())) == ""

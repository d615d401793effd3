"""Long sums in double precision, before and after."""

from __future__ import annotations

from textwrap import dedent

import pytest

from loops.written import program, text
from weft.optimise.wide_sums import widened

CASES = {
    "a long sum in a variable": (
        """
        t: float32 = 0.0
        for i in range(4):
            for j in range(3):
                t = t + X[i, j]
        V[0] = t
        """,
        """
        t: float64 = 0.0
        for i in range(4):
            for j in range(3):
                t = t + float64(X[i, j])
        V[0] = float32(t)
        """,
    ),
    "a long sum in one cell": (
        """
        for i in range(24):
            for j in range(3):
                V[s] += A[i, j]
        """,
        """
        V.sum[s] = float64(V[s])
        for i in range(24):
            for j in range(3):
                V.sum[s] += float64(A[i, j])
        V[s] = float32(V.sum[s])
        """,
    ),
    "long sums in many cells, which are read as well": (
        """
        for i in range(24):
            for j in range(3):
                for k in range(4):
                    V[k] += A[i, j] * V[k]
        """,
        """
        for at0 in range(4):
            V.sum[at0] = float64(V[at0])
        for i in range(24):
            for j in range(3):
                for k in range(4):
                    V.sum[k] += float64(A[i, j] * float32(V.sum[k]))
        for at0 in range(4):
            V[at0] = float32(V.sum[at0])
        """,
    ),
    "a long sum in each iteration, which starts it anew": (
        """
        for i in range(4):
            for k in range(4):
                V[k] = 0.0
            for j in range(24):
                for l in range(3):
                    for k in range(4):
                        V[k] += A[j, l] * B[i, k]
            for k in range(4):
                A[i, k] = V[k]
        """,
        """
        for i in range(4):
            for k in range(4):
                V[k] = 0.0
            for at0 in range(4):
                V.sum[at0] = float64(V[at0])
            for j in range(24):
                for l in range(3):
                    for k in range(4):
                        V.sum[k] += float64(A[j, l] * B[i, k])
            for at0 in range(4):
                V[at0] = float32(V.sum[at0])
            for k in range(4):
                A[i, k] = V[k]
        """,
    ),
    "a sum of sums, whose terms were rounded before": (
        """
        for i in range(24):
            t: float32 = 0.0
            for j in range(3):
                t = t + A[i, j]
            u: float32 = t * 2
            D[0] += u
        """,
        """
        D.sum[0] = float64(D[0])
        for i in range(24):
            t: float32 = 0.0
            for j in range(3):
                t = t + A[i, j]
            u: float32 = t * 2
            D.sum[0] += float64(u)
        D[0] = float32(D.sum[0])
        """,
    ),
}


def lines(text: str) -> str:
    return "\n" + dedent(text).strip() + "\n"


STAYING = {
    "a short sum": "for i in range(4):\n    for j in range(3):\n        V[i] += X[i, j]",
    "as many terms as a partial accumulator takes": (
        "for i in range(2):\n    for k in range(22):\n        for j in range(40):\n            C[j] += A[i + k, j]"
    ),
    "a short sum in each of many iterations": (
        "for i in range(24):\n    for k in range(4):\n        V[k] = 0.0\n    for j in range(4):\n"
        "        for k in range(4):\n            V[k] += A[i, j]\n    for k in range(4):\n        A[i, k] = V[k]"
    ),
    "a long product": "for i in range(4):\n    for j in range(3):\n        V[0] *= X[i, j]",
    "a sum at cells that values say": "for i in range(4):\n    for j in range(3):\n        V[K[i]] += X[i, j]",
    "a sum that is filled on the way": (
        "for i in range(4):\n    for j in range(3):\n        V[0] += X[i, j]\n    V[...] = 0.0"
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_before_and_after(name: str) -> None:
    before, after = CASES[name]
    assert text(widened(program(before).body)) == lines(after)


@pytest.mark.parametrize("name", STAYING)
def test_what_stays(name: str) -> None:
    body = program(STAYING[name]).body
    assert widened(body) == body

"""Gradients of gradients of comprehensions in tensor expressions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import weft as wf
from tensor.differences import Differences, check_second_order, double, total

DEFINED = wf.tc.define(
    """
    def product(double(M,K) A, double(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }
    def softmax(double(N,D) X) -> (Y) {
        largest(n) max=! X(n,d)
        sums(n) +=! exp(X(n,d) - largest(n))
        Y(n,d) = exp(X(n,d) - largest(n)) / sums(n)
    }
    def factors(double(N,M) X) -> (P) { P(n) *=! tanh(X(n,m)) }
    def smallest(double(N,M) X) -> (P) { P(n) min=! X(n,m) * X(n,m) }
    def convolved(double(N) X, double(K) W) -> (Y) { Y(n) +=! X(n + k) * W(k) }
    def looked_up(double(V,D) E, int32(N) I) -> (Y) { Y(n,d) = E(I(n),d) * E(I(n),d) }
    def twice(double(N) X) -> (Y, Z) {
        Y(n) = X(n) * X(n)
        Z(n) = Y(n) * X(n)
    }
    def in_parts(double(N) X) -> (Y) {
        Y(n, m) = X(n) * X(m)
        Y(n, 0) +=! X(n) * X(m) * X(m)
    }
    def added(double(N) X, double(N) Y) -> (Z) {
        Z(n) = X(n) * Y(n)
        Z(n) += X(n) * X(n)
    }
    """
)
X, W, E = double("x", o=(3, 4)), double("w", o=3), double("e", o=(5, 2))
V = double("v", o=7)
A, B = double("a", o=(3, 3)), double("b", o=(3, 2))
POSITIONS = wf.data(np.array([1, 4, 1], np.int32))


def both() -> wf.Tensor:
    first, second = DEFINED.twice(V)
    return total(first) * 1.5 + total(second * first)


CASES: dict[str, tuple[Callable[[], wf.Tensor], list[wf.Tensor]]] = {
    "product": (lambda: total(DEFINED.product(A, B)), [A, B]),
    "product of a tensor with itself": (lambda: total(DEFINED.product(A, A) * A), [A]),
    "softmax": (lambda: total(DEFINED.softmax(X)), [X]),
    "product of factors": (lambda: total(DEFINED.factors(X)), [X]),
    "minimum": (lambda: total(DEFINED.smallest(X)), [X]),
    "convolution": (lambda: total(DEFINED.convolved(V, W)), [V, W]),
    "lookup": (lambda: total(DEFINED.looked_up(E, POSITIONS)), [E]),
    "two results": (both, [V]),
    "accumulated": (lambda: total(DEFINED.added(V, wf.sin(V))), [V]),
    "a part written again": (lambda: total(DEFINED.in_parts(W)), [W]),
    "one after another": (lambda: total(DEFINED.softmax(DEFINED.product(A, B))), [A, B]),
}


@pytest.mark.parametrize("name", CASES)
def test_against_differences(name: str) -> None:
    loss, params = CASES[name]
    found = Differences(loss(), params)
    found.check()
    check_second_order(found)


def test_a_gradient_is_stopped_at_one_of_two_parameters_that_are_the_same_tensor() -> None:
    ctx = wf.Context("interp")
    loss = wf.einsum("...|... => 0", DEFINED.product(A, wf.stop_gradient(A)))
    np.testing.assert_allclose(ctx[wf.grad(loss, A)], np.ones((3, 3)) @ ctx[A].T)


@pytest.mark.parametrize("backend", ["interp", "cc"])
def test_both_backends(backend: str) -> None:
    ctx = wf.Context(backend)
    slope = wf.grad(total(DEFINED.softmax(X)), X)
    bend = wf.grad(total(slope), X)
    ctx[X] = np.linspace(-1, 1, 12).reshape(3, 4)
    other = wf.Context("interp")
    other[X] = ctx[X]
    np.testing.assert_allclose(ctx[bend], other[bend], rtol=1e-12, atol=1e-14)

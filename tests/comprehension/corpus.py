"""Programs of the comprehension language, with inputs to run them on and what NumPy makes of them.

An entry's sizes come in two variants. Inputs follow from the types in the text: numbers around zero for floats, small
ones for whole numbers; `special` makes those that must be something else, such as rows of a table.
"""

# ruff: noqa: E741  # an input called `I` is the custom of this language

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from weft.comprehension import parse
from weft.comprehension.nodes import Ident
from weft.ops.dtypes import numpy_type

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Rng: TypeAlias = np.random.Generator
Sizes: TypeAlias = Mapping[str, int]


@dataclass(frozen=True)
class Entry:
    """A text, the definition of it to run, what it gives, and the inputs it can be differentiated by."""

    name: str
    text: str
    sizes: Mapping[str, tuple[int, int]]
    reference: Callable[..., Any]
    differentiable: tuple[str, ...] = ()
    special: Mapping[str, Callable[[Rng, Sizes], Array]] = field(default_factory=dict)
    entry: str = ""

    def make(self, rng: Rng, variant: int) -> dict[str, Array]:
        """Inputs for one of the two variants of sizes, by name."""
        sizes = {name: pair[variant] for name, pair in self.sizes.items()}
        made = {}
        for param in parse(self.text)[self.definition].params:
            name, dtype = param.name.name, numpy_type(param.type.dtype)
            shape = tuple(sizes[dim.name] if isinstance(dim, Ident) else dim.value for dim in param.type.dims)
            if name in self.special:
                made[name] = self.special[name](rng, sizes).astype(dtype)
            elif dtype.kind == "b":
                made[name] = rng.random(shape) < 0.5
            elif dtype.kind in "iu":
                made[name] = rng.integers(0 if dtype.kind == "u" else -5, 10, shape).astype(dtype)
            else:
                made[name] = rng.standard_normal(shape).astype(dtype)
        return made

    @property
    def definition(self) -> str:
        return self.entry or parse(self.text).definitions[-1].name.name

    def expected(self, inputs: Mapping[str, Array]) -> tuple[Array, ...]:
        """What NumPy makes of some inputs, for each result."""
        given = {name: one.astype(np.float64) if one.dtype.kind == "f" else one for name, one in inputs.items()}
        results = self.reference(**given)
        return tuple(map(np.asarray, results if isinstance(results, tuple) else (results,)))


def below(size: str, *shape: str) -> Callable[[Rng, Sizes], Array]:
    """Whole numbers that index an axis of that size."""
    return lambda rng, sizes: rng.integers(0, sizes[size], [sizes[one] for one in shape])


def positive(*shape: str) -> Callable[[Rng, Sizes], Array]:
    return lambda rng, sizes: rng.random([sizes[one] for one in shape]) + 0.5


def _windows(x: Array, *sizes: int, dilation: int = 1) -> Array:
    """Every window over the last axes, dilated."""
    spans = tuple((size - 1) * dilation + 1 for size in sizes)
    axes = tuple(range(x.ndim - len(sizes), x.ndim))
    found = np.lib.stride_tricks.sliding_window_view(x, spans, axes)
    return found[(..., *(slice(None, None, dilation) for _ in sizes))]


def _softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _relu(x: Array) -> Array:
    return np.maximum(x, 0)


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


MNK = {"M": (3, 5), "N": (4, 2), "K": (6, 3)}
BMNK = {"B": (2, 3), **MNK}
IMAGE = {"N": (2, 1), "C": (3, 2), "H": (7, 6), "W": (6, 8), "O": (4, 3), "KH": (3, 2), "KW": (2, 3)}

PRODUCTS = [
    Entry(
        "matmul",
        "def mm(float(M,K) A, float(K,N) B) -> (C) { C(m, n) +=! A(m, k) * B(k, n) }",
        MNK, lambda A, B: A @ B, ("A", "B"),
    ),
    Entry(
        "matmul_ta",
        "def tmm(float(K,M) A, float(K,N) B) -> (C) { C(m, n) +=! A(k, m) * B(k, n) }",
        MNK, lambda A, B: A.T @ B, ("A", "B"),
    ),
    Entry(
        "matmul_tb",
        "def mmt(float(M,K) A, float(N,K) B) -> (C) { C(m, n) +=! A(m, k) * B(n, k) }",
        MNK, lambda A, B: A @ B.T, ("A", "B"),
    ),
    Entry(
        "matmul_tt",
        "def tmmt(float(K,M) A, float(N,K) B) -> (C) { C(m, n) +=! A(k, m) * B(n, k) }",
        MNK, lambda A, B: A.T @ B.T, ("A", "B"),
    ),
    Entry(
        "matmul_double",
        "def mm(double(M,K) A, double(K,N) B) -> (C) { C(m, n) +=! A(m, k) * B(k, n) }",
        MNK, lambda A, B: A @ B, ("A", "B"),
    ),
    Entry(
        "matvec",
        "def mv(float(M,K) A, float(K) x) -> (y) { y(m) +=! A(m, k) * x(k) }",
        MNK, lambda A, x: A @ x, ("A", "x"),
    ),
    Entry(
        "dot",
        "def dot(float(K) x, float(K) y) -> (s) { s +=! x(k) * y(k) }",
        MNK, lambda x, y: np.dot(x, y), ("x", "y"),
    ),
    Entry(
        "outer",
        "def outer(float(M) x, float(N) y) -> (C) { C(m, n) = x(m) * y(n) }",
        MNK, lambda x, y: np.outer(x, y), ("x", "y"),
    ),
    Entry(
        "bilinear",
        "def bilinear(float(M) x, float(M,N) A, float(N) y) -> (s) { s +=! x(m) * A(m, n) * y(n) }",
        MNK, lambda x, A, y: x @ A @ y, ("x", "A", "y"),
    ),
    Entry(
        "trace",
        "def trace(float(N,N) A) -> (s) { s +=! A(i, i) }",
        {"N": (4, 6)}, lambda A: np.trace(A), ("A",),
    ),
    Entry(
        "transpose",
        "def transpose(float(M,N) A) -> (B) { B(n, m) = A(m, n) }",
        MNK, lambda A: A.T, ("A",),
    ),
    Entry(
        "batch_matmul",
        "def bmm(float(B,M,K) X, float(B,K,N) Y) -> (Z) { Z(b, m, n) +=! X(b, m, k) * Y(b, k, n) }",
        BMNK, lambda X, Y: X @ Y, ("X", "Y"),
    ),
    Entry(
        "batch_matmul_shared",
        "def bmm(float(B,M,K) X, float(N,K) W) -> (Z) { Z(b, m, n) +=! X(b, m, k) * W(n, k) }",
        BMNK, lambda X, W: X @ W.T, ("X", "W"),
    ),
    Entry(
        "contraction_4d",
        """
        def tc4(float(A,B,I,J) X, float(I,J,C,D) Y) -> (Z) {
            Z(a, b, c, d) +=! X(a, b, i, j) * Y(i, j, c, d)
        }""",
        {"A": (2, 3), "B": (3, 2), "C": (2, 4), "D": (3, 1), "I": (2, 3), "J": (4, 2)},
        lambda X, Y: np.einsum("abij,ijcd->abcd", X, Y), ("X", "Y"),
    ),
    Entry(
        "contraction_permuted",
        "def tc(float(B,M,K) X, float(K,N,B) Y) -> (Z) { Z(n, b, m) +=! Y(k, n, b) * X(b, m, k) }",
        BMNK, lambda X, Y: np.einsum("bmk,knb->nbm", X, Y), ("X", "Y"),
    ),
    Entry(
        "tensor_dot_gradient",
        """
        def tensordot(float(N, C1, C2, H, W) I0, float(N, C2, C3, H, W) I1) -> (O) {
            O(n, c1, c3, h, w) +=! I0(n, c1, r_c2, h, w) * I1(n, r_c2, c3, h, w)
        }""",
        {"N": (2, 1), "C1": (2, 3), "C2": (3, 2), "C3": (2, 4), "H": (3, 2), "W": (2, 3)},
        lambda I0, I1: np.einsum("nabhw,nbchw->nachw", I0, I1), ("I0", "I1"),
    ),
    Entry(
        "kronecker_2",
        """
        def kron(float(M,N) A, float(P,Q) B) -> (C) {
            C(i, j) = A(i / P, j / Q) * B(i % P, j % Q) where i in 0:M*P, j in 0:N*Q
        }""",
        {"M": (2, 3), "N": (3, 2), "P": (2, 4), "Q": (4, 1)}, lambda A, B: np.kron(A, B), ("A", "B"),
    ),
    Entry(
        "kronecker_chain",
        """
        def kron3(float(D0,N0) W0, float(D1,N1) W1, float(D2,N2) W2, float(M,N0,N1,N2) X) -> (Y, XW1, XW2) {
            XW2(m, n0, n1, d2) +=! X(m, n0, n1, n2) * W2(d2, n2)
            XW1(m, n0, d1, d2) +=! XW2(m, n0, n1, d2) * W1(d1, n1)
            Y(m, d0, d1, d2) +=! XW1(m, n0, d1, d2) * W0(d0, n0)
        }""",
        {"D0": (2, 3), "D1": (3, 2), "D2": (2, 2), "N0": (3, 2), "N1": (2, 3), "N2": (4, 2), "M": (2, 1)},
        lambda W0, W1, W2, X: (
            np.einsum("mabc,da,eb,fc->mdef", X, W0, W1, W2),
            np.einsum("mabc,eb,fc->maef", X, W1, W2),
            np.einsum("mabc,fc->mabf", X, W2),
        ),
        ("W0", "W1", "W2", "X"),
    ),
    Entry(
        "block_diagonal",
        """
        def blocks(float(G,M,K) A, float(N,G,K) X) -> (Y) {
            Y(n, i) +=! A(i / M, i % M, k) * X(n, i / M, k) where i in 0:G*M
        }""",
        {"G": (2, 3), "M": (3, 2), "K": (2, 4), "N": (2, 3)},
        lambda A, X: np.einsum("gmk,ngk->ngm", A, X).reshape(len(X), -1), ("A", "X"),
    ),
    Entry(
        "permuted_matrix",
        "def permuted(float(M,N) A, int32(M) P, int32(N) Q) -> (B) { B(m, n) = A(P(m), Q(n)) }",
        MNK, lambda A, P, Q: A[np.ix_(P, Q)], ("A",),
        {"P": lambda rng, s: rng.permutation(s["M"]), "Q": lambda rng, s: rng.permutation(s["N"])},
    ),
]  # fmt: skip

CONVOLUTIONS = [
    Entry(
        "conv_1d",
        "def conv(float(N) I, float(K) W) -> (O) { O(i) +=! I(i + k) * W(k) }",
        {"N": (9, 6), "K": (3, 2)}, lambda I, W: np.correlate(I, W, "valid"), ("I", "W"),
    ),
    Entry(
        "conv_1d_channels",
        """
        def conv(float(N,C,L) I, float(O,C,K) W) -> (R) {
            R(n, o, l) +=! I(n, c, l + k) * W(o, c, k)
        }""",
        {"N": (2, 1), "C": (3, 2), "L": (8, 5), "O": (2, 3), "K": (3, 2)},
        lambda I, W: np.einsum("nclk,ock->nol", _windows(I, W.shape[2]), W), ("I", "W"),
    ),
    Entry(
        "conv_2d",
        """
        def conv(float(N,C,H,W) I, float(O,C,KH,KW) F) -> (R) {
            R(n, o, h, w) +=! I(n, c, h + kh, w + kw) * F(o, c, kh, kw)
        }""",
        IMAGE, lambda I, F: np.einsum("nchwij,ocij->nohw", _windows(I, *F.shape[2:]), F), ("I", "F"),
    ),
    Entry(
        "conv_2d_bias_relu",
        """
        def conv(float(N,C,H,W) I, float(O,C,KH,KW) F, float(O) b) -> (R) {
            T(n, o, h, w) +=! I(n, c, h + kh, w + kw) * F(o, c, kh, kw)
            R(n, o, h, w) = fmax(T(n, o, h, w) + b(o), 0)
        }""",
        IMAGE,
        lambda I, F, b: _relu(np.einsum("nchwij,ocij->nohw", _windows(I, *F.shape[2:]), F) + b[:, None, None]),
        ("I", "F", "b"),
    ),
    Entry(
        "conv_2d_strided",
        """
        def conv(float(N,C,H,W) I, float(O,C,KH,KW) F) -> (R) {
            R(n, o, h, w) +=! I(n, c, 2 * h + kh, 3 * w + kw) * F(o, c, kh, kw)
        }""",
        IMAGE,
        lambda I, F: np.einsum("nchwij,ocij->nohw", _windows(I, *F.shape[2:])[:, :, ::2, ::3], F),
        ("I", "F"),
    ),
    Entry(
        "conv_2d_dilated",
        """
        def conv(float(N,C,H,W) I, float(O,C,KH,KW) F) -> (R) {
            R(n, o, h, w) +=! I(n, c, h + 2 * kh, w + 2 * kw) * F(o, c, kh, kw)
        }""",
        IMAGE,
        lambda I, F: np.einsum("nchwij,ocij->nohw", _windows(I, *F.shape[2:], dilation=2), F),
        ("I", "F"),
    ),
    Entry(
        "conv_2d_grouped",
        """
        def group_conv(float(N,G,C,H,W) I, float(G,F,C,KH,KW) W1, float(G,F) B) -> (O) {
            O(n, g, f, h, w) +=! I(n, g, c, h + kh, w + kw) * W1(g, f, c, kh, kw)
            O(n, g, f, h, w) = O(n, g, f, h, w) + B(g, f)
        }""",
        {**IMAGE, "G": (2, 3), "F": (2, 1)},
        lambda I, W1, B: np.einsum("ngchwij,gfcij->ngfhw", _windows(I, *W1.shape[3:]), W1) + B[:, :, None, None],
        ("I", "W1", "B"),
    ),
    Entry(
        "conv_2d_depthwise",
        """
        def depthwise(float(N,C,H,W) I, float(C,KH,KW) F) -> (R) {
            R(n, c, h, w) +=! I(n, c, h + kh, w + kw) * F(c, kh, kw)
        }""",
        IMAGE, lambda I, F: np.einsum("nchwij,cij->nchw", _windows(I, *F.shape[1:]), F), ("I", "F"),
    ),
    Entry(
        "conv_2d_padded",
        """
        def conv_same(float(N,C,H,W) I, float(O,C,3,3) F) -> (R) {
            R(n, o, h, w) +=!
                (h + kh >= 1 && h + kh <= H && w + kw >= 1 && w + kw <= W)
                    ? I(n, c, h + kh - 1, w + kw - 1) * F(o, c, kh, kw) : 0
                where h in 0:H, w in 0:W
        }""",
        IMAGE,
        lambda I, F: np.einsum(
            "nchwij,ocij->nohw", _windows(np.pad(I, ((0, 0), (0, 0), (1, 1), (1, 1))), 3, 3), F
        ),
        ("I", "F"),
    ),
    Entry(
        "conv_3d",
        """
        def conv(float(N,C,D,H,W) I, float(O,C,KD,KH,KW) F) -> (R) {
            R(n, o, d, h, w) +=! I(n, c, d + kd, h + kh, w + kw) * F(o, c, kd, kh, kw)
        }""",
        {"N": (1, 2), "C": (2, 1), "D": (4, 3), "H": (4, 5), "W": (5, 4), "O": (2, 3), "KD": (2, 3), "KH": (3, 2),
         "KW": (2, 2)},
        lambda I, F: np.einsum("ncdhwxyz,ocxyz->nodhw", _windows(I, *F.shape[2:]), F), ("I", "F"),
    ),
    Entry(
        "max_pool",
        """
        def maxpool(float(N,C,H,W) I) -> (O) {
            O(n, c, h, w) max=! I(n, c, 2 * h + kh, 2 * w + kw) where kh in 0:2, kw in 0:2
        }""",
        IMAGE, lambda I: _windows(I, 2, 2)[:, :, ::2, ::2].max((-1, -2)), ("I",),
    ),
    Entry(
        "average_pool",
        """
        def avgpool(float(B,C,H,W) input) -> (output) {
            output(b, c, h, w) +=! input(b, c, h * 1 + r_kh, w * 1 + r_kw) / (2 * 3)
                where r_kh in 0:2, r_kw in 0:3
        }""",
        {"B": (2, 1), "C": (2, 3), "H": (4, 5), "W": (5, 6)},
        lambda input: _windows(input, 2, 3).mean((-1, -2)), ("input",),
    ),
    Entry(
        "min_pool_1d",
        "def minpool(float(N) I) -> (O) { O(i) min=! I(3 * i + k) where k in 0:3 }",
        {"N": (9, 11)}, lambda I: _windows(I, 3)[::3].min(-1), ("I",),
    ),
    Entry(
        "average_pairs",
        "def average(float(I) B) -> (A) { A(i) = 0.5 * (B(2 * i) + B(2 * i + 1)) }",
        {"I": (8, 9)}, lambda B: 0.5 * (B[: len(B) // 2 * 2 : 2] + B[1::2]), ("B",),
    ),
    Entry(
        "global_average_pool",
        "def gap(float(N,C,H,W) I) -> (O) { O(n, c) +=! I(n, c, h, w) / (H * W) }",
        IMAGE, lambda I: I.mean((2, 3)), ("I",),
    ),
    Entry(
        "upsample_nearest",
        "def upsample(float(H,W) I) -> (O) { O(h, w) = I(h / 2, w / 3) where h in 0:2*H, w in 0:3*W }",
        {"H": (3, 2), "W": (2, 4)}, lambda I: I.repeat(2, 0).repeat(3, 1), ("I",),
    ),
]  # fmt: skip

NETWORKS = [
    Entry(
        "fc_relu",
        """
        def fcrelu(float(B,M) I, float(N,M) W1, float(N) B1) -> (O1) {
            O1(b, n) +=! I(b, m) * W1(n, m)
            O1(b, n) = O1(b, n) + B1(n)
            O1(b, n) = fmax(O1(b, n), 0)
        }""",
        BMNK, lambda I, W1, B1: _relu(I @ W1.T + B1), ("I", "W1", "B1"),
    ),
    Entry(
        "fc_relu_2",
        """
        def mlp2(float(B,M) I, float(N,M) W1, float(N) B1, float(K,N) W2, float(K) B2) -> (O1, O2) {
            O1(b, n) +=! I(b, m) * W1(n, m)
            O1(b, n) = relu(O1(b, n) + B1(n))
            O2(b, k) +=! O1(b, n) * W2(k, n)
            O2(b, k) = relu(O2(b, k) + B2(k))
        }""",
        BMNK,
        lambda I, W1, B1, W2, B2: (h := _relu(I @ W1.T + B1), _relu(h @ W2.T + B2)),
        ("I", "W1", "B1", "W2", "B2"),
    ),
    Entry(
        "fc_relu_3_called",
        """
        def layer(float(B,M) X, float(N,M) W, float(N) C) -> (Y) {
            T(b, n) +=! X(b, m) * W(n, m)
            Y(b, n) = fmax(T(b, n) + C(n), 0)
        }
        def mlp3(float(B,M) I, float(N,M) W1, float(N) B1, float(K,N) W2, float(K) B2, float(M,K) W3, float(M) B3)
            -> (O3) {
            O1 = layer(I, W1, B1)
            O2 = layer(O1, W2, B2)
            O3 = layer(O2, W3, B3)
        }""",
        BMNK,
        lambda I, W1, B1, W2, B2, W3, B3: _relu(_relu(_relu(I @ W1.T + B1) @ W2.T + B2) @ W3.T + B3),
        ("I", "W1", "B1", "W2", "B2", "W3", "B3"),
    ),
    Entry(
        "fc_relu_4",
        """
        def mlp4(float(B,M) I, float(O,N) W2, float(O) B2, float(P,O) W3, float(P) B3, float(Q,P) W4, float(Q) B4,
                 float(N,M) W1, float(N) B1) -> (O1, O2, O3, O4) {
            O1(b, n) +=! I(b, m) * W1(n, m)
            O1(b, n) = fmax(O1(b, n) + B1(n), 0)
            O2(b, o) +=! O1(b, n) * W2(o, n)
            O2(b, o) = fmax(O2(b, o) + B2(o), 0)
            O3(b, p) +=! O2(b, o) * W3(p, o)
            O3(b, p) = fmax(O3(b, p) + B3(p), 0)
            O4(b, q) +=! O3(b, p) * W4(q, p)
            O4(b, q) = fmax(O4(b, q) + B4(q), 0)
        }""",
        {"B": (2, 3), "M": (4, 2), "N": (3, 4), "O": (2, 5), "P": (3, 2), "Q": (2, 1)},
        lambda I, W2, B2, W3, B3, W4, B4, W1, B1: (
            a := _relu(I @ W1.T + B1), b := _relu(a @ W2.T + B2), c := _relu(b @ W3.T + B3), _relu(c @ W4.T + B4)
        ),
        ("I", "W1", "B1", "W2", "B2", "W3", "B3", "W4", "B4"),
    ),
    Entry(
        "fc_sigmoid_tanh",
        """
        def gates(float(B,M) X, float(N,M) W, float(N) b1) -> (S, T) {
            Z(b, n) +=! X(b, m) * W(n, m)
            S(b, n) = sigmoid(Z(b, n) + b1(n))
            T(b, n) = tanh(Z(b, n) + b1(n))
        }""",
        BMNK,
        lambda X, W, b1: (_sigmoid(X @ W.T + b1), np.tanh(X @ W.T + b1)), ("X", "W", "b1"),
    ),
    Entry(
        "embedding",
        "def lut(float(E,D) T, int32(B) I) -> (O) { O(b, d) = T(I(b), d) }",
        {"E": (6, 9), "D": (3, 2), "B": (4, 5)}, lambda T, I: T[I], ("T",), {"I": below("E", "B")},
    ),
    Entry(
        "embedding_bag",
        "def lut(float(E,D) T, int32(B,L) I) -> (O) { O(b, d) +=! T(I(b, l), d) }",
        {"E": (6, 9), "D": (3, 2), "B": (4, 5), "L": (3, 2)}, lambda T, I: T[I].sum(1), ("T",),
        {"I": below("E", "B", "L")},
    ),
    Entry(
        "embedding_bag_2",
        """
        def lut2(float(E1,D) T1, int32(B,L1) I1, float(E2,D) T2, int64(B,L2) I2) -> (O1, O2) {
            O1(b, d) +=! T1(I1(b, l1), d)
            O2(b, d) +=! T2(I2(b, l2), d)
        }""",
        {"E1": (6, 9), "E2": (5, 3), "D": (3, 2), "B": (4, 5), "L1": (3, 2), "L2": (2, 4)},
        lambda T1, I1, T2, I2: (T1[I1].sum(1), T2[I2].sum(1)), ("T1", "T2"),
        {"I1": below("E1", "B", "L1"), "I2": below("E2", "B", "L2")},
    ),
    Entry(
        "embedding_bag_concat",
        """
        def lut_concat(float(E1,D) T1, int32(B,L1) I1, float(E2,D) T2, int32(B,L2) I2) -> (O) {
            P(b, d) +=! T1(I1(b, l1), d)
            Q(b, d) +=! T2(I2(b, l2), d)
            O(b, d) = d < D ? P(b, d) : Q(b, d - D) where b in 0:P.0, d in 0:2*D
        }""",
        {"E1": (6, 9), "E2": (5, 3), "D": (3, 2), "B": (4, 5), "L1": (3, 2), "L2": (2, 4)},
        lambda T1, I1, T2, I2: np.concatenate([T1[I1].sum(1), T2[I2].sum(1)], 1), ("T1", "T2"),
        {"I1": below("E1", "B", "L1"), "I2": below("E2", "B", "L2")},
    ),
    Entry(
        "weighted_embedding_bag",
        "def lut(float(E,D) T, int32(B,L) I, float(B,L) w) -> (O) { O(b, d) +=! w(b, l) * T(I(b, l), d) }",
        {"E": (6, 9), "D": (3, 2), "B": (4, 5), "L": (3, 2)},
        lambda T, I, w: (w[..., None] * T[I]).sum(1), ("T", "w"), {"I": below("E", "B", "L")},
    ),
    Entry(
        "embedding_clamped",
        "def lut(float(E) T, int32(B) I) -> (O) { O(b) = T(max(min(I(b), E - 1), 0)) }",
        {"E": (6, 3), "B": (4, 5)}, lambda T, I: T[np.clip(I, 0, len(T) - 1)], ("T",),
    ),
    Entry(
        "product_codes",
        "def codes(float(M,256) L, uint8(N,M) C) -> (S) { S(n) +=! L(m, int32(C(n, m))) }",
        {"M": (3, 2), "N": (4, 6)},
        lambda L, C: L[np.arange(L.shape[0]), C].sum(1), ("L",),
        {"C": lambda rng, s: rng.integers(0, 256, (s["N"], s["M"]))},
    ),
    Entry(
        "one_hot",
        "def onehot(int32(N) I, float(C) w) -> (O) { O(n, c) = I(n) == c ? w(c) : 0 }",
        {"N": (4, 6), "C": (3, 5)}, lambda I, w: (I[:, None] == np.arange(len(w))) * w, ("w",),
        {"I": below("C", "N")},
    ),
    Entry(
        "attention_scores",
        """
        def scores(float(B,H,S,D) Q, float(B,H,T,D) K) -> (P) {
            Z(b, h, s, t) +=! Q(b, h, s, d) * K(b, h, t, d) * rsqrt(float(D))
            top(b, h, s) max=! Z(b, h, s, t)
            E(b, h, s, t) = exp(Z(b, h, s, t) - top(b, h, s))
            total(b, h, s) +=! E(b, h, s, t)
            P(b, h, s, t) = E(b, h, s, t) / total(b, h, s)
        }""",
        {"B": (2, 1), "H": (2, 3), "S": (3, 4), "T": (4, 2), "D": (3, 5)},
        lambda Q, K: _softmax(np.einsum("bhsd,bhtd->bhst", Q, K) / np.sqrt(Q.shape[-1])), ("Q", "K"),
    ),
    Entry(
        "attention_causal",
        """
        def causal(float(S,D) Q, float(S,D) K, float(S,D) V) -> (O) {
            Z(s, t) +=! Q(s, d) * K(t, d)
            M(s, t) = t <= s ? Z(s, t) : -1e30
            top(s) max=! M(s, t)
            E(s, t) = exp(M(s, t) - top(s))
            total(s) +=! E(s, t)
            O(s, d) +=! E(s, t) * V(t, d) / total(s)
        }""",
        {"S": (4, 3), "D": (3, 2)},
        lambda Q, K, V: _softmax(np.where(np.tri(len(Q), dtype=bool), Q @ K.T, -np.inf)) @ V, ("Q", "K", "V"),
    ),
    Entry(
        "wavenet_block",
        """
        def wavenet(float(B,C,T) X, float(C,C,2) Wf, float(C,C,2) Wg, float(C,C) R) -> (Y) {
            F(b, o, t) +=! X(b, c, t + 2 * k) * Wf(o, c, k)
            G(b, o, t) +=! X(b, c, t + 2 * k) * Wg(o, c, k)
            Z(b, o, t) = tanh(F(b, o, t)) * sigmoid(G(b, o, t))
            S(b, o, t) +=! Z(b, c, t) * R(o, c)
            Y(b, o, t) = S(b, o, t) + X(b, o, t + 2)
        }""",
        {"B": (2, 1), "C": (2, 3), "T": (6, 8)},
        lambda X, Wf, Wg, R: (
            np.einsum(
                "bct,oc->bot",
                np.tanh(np.einsum("bctk,ock->bot", _windows(X, 2, dilation=2), Wf))
                * _sigmoid(np.einsum("bctk,ock->bot", _windows(X, 2, dilation=2), Wg)),
                R,
            )
            + X[:, :, 2:]
        ),
        ("X", "Wf", "Wg", "R"),
    ),
    Entry(
        "lstm_gates",
        """
        def lstm(float(B,H) c, float(B,4,H) Z) -> (C, O) {
            C(b, h) = sigmoid(Z(b, 0, h)) * c(b, h) + sigmoid(Z(b, 1, h)) * tanh(Z(b, 2, h))
            O(b, h) = sigmoid(Z(b, 3, h)) * tanh(C(b, h))
        }""",
        {"B": (2, 3), "H": (4, 2)},
        lambda c, Z: (
            n := _sigmoid(Z[:, 0]) * c + _sigmoid(Z[:, 1]) * np.tanh(Z[:, 2]), _sigmoid(Z[:, 3]) * np.tanh(n)
        ),
        ("c", "Z"),
    ),
]  # fmt: skip

STATISTICS = [
    Entry(
        "sum_all",
        "def total(float(M,N) A) -> (s) { s +=! A(m, n) }",
        MNK, lambda A: A.sum(), ("A",),
    ),
    Entry(
        "product",
        "def product(float(M,N) A) -> (p) { p(m) *=! A(m, n) }",
        MNK, lambda A: A.prod(1), ("A",),
    ),
    Entry(
        "moments",
        """
        def moments(float(N,K) I) -> (mean, var) {
            mean(n) +=! I(n, k)
            mean(n) = mean(n) / K
            var(n) +=! I(n, k) * I(n, k)
            var(n) = var(n) / K - mean(n) * mean(n)
        }""",
        {"N": (3, 2), "K": (5, 8)}, lambda I: (I.mean(1), I.var(1)), ("I",),
    ),
    Entry(
        "batch_norm",
        """
        def batchnorm(float(N,C,H,W) I, float(C) gamma, float(C) beta) -> (O, mean, var) {
            mean(c) +=! I(n, c, h, w)
            mean(c) = mean(c) / (N * H * W)
            var(c) +=! (I(n, c, h, w) - mean(c)) * (I(n, c, h, w) - mean(c))
            var(c) = var(c) / (N * H * W)
            O(n, c, h, w) = gamma(c) * (I(n, c, h, w) - mean(c)) * rsqrt(var(c) + 1e-5) + beta(c)
        }""",
        IMAGE,
        lambda I, gamma, beta: (
            (I - (m := I.mean((0, 2, 3)))[:, None, None])
            / np.sqrt((v := I.var((0, 2, 3))) + 1e-5)[:, None, None]
            * gamma[:, None, None]
            + beta[:, None, None],
            m,
            v,
        ),
        ("I", "gamma", "beta"),
    ),
    Entry(
        "batch_norm_running",
        """
        def running(float(N,C) I, float(C) rMeanIn, float momentum) -> (rMeanOut, mean) {
            mean(c) +=! I(n, c)
            mean(c) = mean(c) / N
            rMeanOut(c) = (1 - momentum) * rMeanIn(c) + momentum * mean(c)
        }""",
        {"N": (4, 6), "C": (3, 2)},
        lambda I, rMeanIn, momentum: ((1 - momentum) * rMeanIn + momentum * I.mean(0), I.mean(0)),
        ("I", "rMeanIn", "momentum"),
    ),
    Entry(
        "layer_norm",
        """
        def layernorm(float(T,B,C) I) -> (O, mean, centered, var) {
            mean(t, b) +=! I(t, b, c) / C
            centered(t, b, c) = I(t, b, c) - mean(t, b)
            var(t, b) +=! centered(t, b, c) * centered(t, b, c)
            var(t, b) = (var(t, b) + 1e-5) / C
            O(t, b, c) = centered(t, b, c) * rsqrt(var(t, b))
        }""",
        {"T": (2, 3), "B": (3, 1), "C": (5, 4)},
        lambda I: (
            (d := I - (m := I.mean(2))[..., None]) / np.sqrt(v := ((d * d).sum(2) + 1e-5) / I.shape[2])[..., None],
            m, d, v,
        ),
        ("I",),
    ),
    Entry(
        "group_norm",
        """
        def groupnorm(float(N,G,D,H,W) I, float(G,D) gamma, float(G,D) beta) -> (O, Sum, SumSq) {
            Sum(n, g) +=! I(n, g, d, h, w)
            SumSq(n, g) +=! I(n, g, d, h, w) * I(n, g, d, h, w)
            O(n, g, d, h, w) = gamma(g, d) * (I(n, g, d, h, w) - Sum(n, g) / (D * H * W))
                * rsqrt(SumSq(n, g) / (D * H * W) - Sum(n, g) * Sum(n, g) / (float(D * H * W) * (D * H * W)) + 1e-5)
                + beta(g, d)
        }""",
        {"N": (2, 1), "G": (2, 3), "D": (3, 2), "H": (2, 3), "W": (3, 2)},
        lambda I, gamma, beta: (
            (I - I.mean((2, 3, 4), keepdims=True))
            / np.sqrt(I.var((2, 3, 4), keepdims=True) + 1e-5)
            * gamma[:, :, None, None]
            + beta[:, :, None, None],
            I.sum((2, 3, 4)),
            (I * I).sum((2, 3, 4)),
        ),
        ("I", "gamma", "beta"),
    ),
    Entry(
        "softmax_plain",
        """
        def softmax(float(N,D) I) -> (O, expsum) {
            expsum(n) +=! exp(I(n, d))
            O(n, d) = exp(I(n, d)) / expsum(n)
        }""",
        {"N": (3, 2), "D": (4, 6)}, lambda I: (_softmax(I), np.exp(I).sum(1)), ("I",),
    ),
    Entry(
        "softmax_stable",
        """
        def softmax(float(N,D) I) -> (O, dmax, expsum) {
            dmax(n) max=! I(n, d)
            expsum(n) +=! exp(I(n, d) - dmax(n))
            O(n, d) = exp(I(n, d) - dmax(n)) / expsum(n)
        }""",
        {"N": (3, 2), "D": (4, 6)},
        lambda I: (_softmax(I), I.max(1), np.exp(I - I.max(1, keepdims=True)).sum(1)), ("I",),
    ),
    Entry(
        "log_softmax",
        """
        def logsoftmax(float(N,D) I) -> (O) {
            top(n) max=! I(n, d)
            total(n) +=! exp(I(n, d) - top(n))
            O(n, d) = I(n, d) - top(n) - log(total(n))
        }""",
        {"N": (3, 2), "D": (4, 6)}, lambda I: np.log(_softmax(I)), ("I",),
    ),
    Entry(
        "cross_entropy",
        """
        def xent(float(N,D) I, int32(N) y) -> (loss) {
            top(n) max=! I(n, d)
            total(n) +=! exp(I(n, d) - top(n))
            loss +=! (log(total(n)) + top(n) - I(n, y(n))) / N
        }""",
        {"N": (3, 5), "D": (4, 6)},
        lambda I, y: -np.log(_softmax(I))[np.arange(len(I)), y].mean(), ("I",), {"y": below("D", "N")},
    ),
    Entry(
        "log_sum_exp",
        "def lse(float(N,D) I) -> (O) { S(n) +=! exp(I(n, d)) O(n) = log(S(n)) }",
        {"N": (3, 5), "D": (4, 6)}, lambda I: np.log(np.exp(I).sum(1)), ("I",),
    ),
    Entry(
        "cosine_similarity",
        """
        def cosine(float(M,D) I1, float(M,D) I2) -> (O, sumI1, sumI2) {
            sumI1(m) +=! I1(m, d) * I1(m, d)
            sumI2(m) +=! I2(m, d) * I2(m, d)
            O(m) +=! (I1(m, d) * I2(m, d)) * rsqrt(sumI1(m)) * rsqrt(sumI2(m))
        }""",
        {"M": (3, 2), "D": (4, 6)},
        lambda I1, I2: (
            (I1 * I2).sum(1) / np.sqrt((I1 * I1).sum(1) * (I2 * I2).sum(1)), (I1 * I1).sum(1), (I2 * I2).sum(1)
        ),
        ("I1", "I2"),
    ),
    Entry(
        "mean_squared_error",
        "def mse(float(N) x, float(N) y) -> (s) { s +=! d * d / N where d = x(n) - y(n) }",
        {"N": (4, 9)}, lambda x, y: ((x - y) ** 2).mean(), ("x", "y"),
    ),
    Entry(
        "nearest_distance",
        """
        def nearest(float(N,D) A, float(M,D) B) -> (best, where_) {
            dist(n, m) +=! (A(n, d) - B(m, d)) * (A(n, d) - B(m, d))
            best(n) min=! dist(n, m)
            where_(n) min=! dist(n, m) == best(n) ? m : M
        }""",
        {"N": (4, 3), "M": (5, 2), "D": (3, 2)},
        lambda A, B: (
            (d := ((A[:, None] - B) ** 2).sum(2)).min(1), d.argmin(1)
        ),
        ("A", "B"),
    ),
    Entry(
        "argmin",
        """
        def mindis(float(M, 256) L, uint8(N, M) Codes) -> (S, v, min_idx) {
            S(n) +=! L(r_m, int32(Codes(n, r_m)))
            v min=! S(r_n)
            min_idx min=! (S(r_n) == v) ? r_n : N
        }""",
        {"M": (3, 2), "N": (5, 4)},
        lambda L, Codes: (s := L[np.arange(L.shape[0]), Codes].sum(1), s.min(), s.argmin()), ("L",),
    ),
    Entry(
        "prefix_sums",
        "def prefix(float(N) A) -> (S) { S(i) +=! j <= i ? A(j) : 0 where exists A(i) }",
        {"N": (5, 8)}, lambda A: np.cumsum(A), ("A",),
    ),
    Entry(
        "histogram",
        "def histogram(int32(N) I) -> (H) { H(b) +=! I(n) == b ? 1 : 0 where b in 0:8 }",
        {"N": (12, 20)}, lambda I: np.array([(b == I).sum() for b in range(8)]),
    ),
]  # fmt: skip

POINTWISE = [
    Entry(
        "scalar_times",
        "def scale(float a, float(N) x, float(N) y) -> (z) { z(i) = a * x(i) + y(i) }",
        {"N": (4, 7)}, lambda a, x, y: a * x + y, ("a", "x", "y"),
    ),
    Entry(
        "scalar_only",
        "def quadratic(float a, float b) -> (c) { c = a * a + 2 * b }",
        {}, lambda a, b: a * a + 2 * b, ("a", "b"),
    ),
    Entry(
        "copy",
        "def copy(float(M,N) I) -> (O) { O(m, n) = I(m, n) }",
        MNK, lambda I: I, ("I",),
    ),
    Entry(
        "constant_fill",
        "def fill(float(N) A, float c) -> (B) { B(i) = c where exists A(i) }",
        {"N": (4, 7)}, lambda A, c: np.full(len(A), c), ("c",),
    ),
    Entry(
        "index_values",
        "def ramp(float(M,N) A) -> (R) { R(i, j) = i * N + j where exists A(i, j) }",
        MNK, lambda A: np.arange(A.size).reshape(A.shape),
    ),
    Entry(
        "gelu",
        """
        def gelu(float(N) x) -> (y) {
            y(i) = 0.5 * x(i) * (1 + tanh(0.7978845608 * (x(i) + 0.044715 * pow(x(i), 3))))
        }""",
        {"N": (4, 7)}, lambda x: 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3))), ("x",),
    ),
    Entry(
        "builtins",
        """
        def functions(float(N) x, float(N) p) -> (y) {
            y(i) = sin(x(i)) + cos(x(i)) + sqrt(p(i)) + log(p(i)) + fabs(x(i)) + fmin(x(i), p(i)) + floor(x(i))
                + ceil(x(i)) + rsqrt(p(i)) + exp2(x(i)) + log2(p(i)) + fdim(x(i), p(i)) + fma(x(i), p(i), 1)
        }""",
        {"N": (4, 7)},
        lambda x, p: (
            np.sin(x) + np.cos(x) + np.sqrt(p) + np.log(p) + np.abs(x) + np.minimum(x, p) + np.floor(x) + np.ceil(x)
            + 1 / np.sqrt(p) + np.exp2(x) + np.log2(p) + np.maximum(x - p, 0) + x * p + 1
        ),
        ("x", "p"), {"p": positive("N")},
    ),
    Entry(
        "leaky_relu",
        "def leaky(float(N) x, float slope) -> (y) { y(i) = x(i) > 0 ? x(i) : slope * x(i) }",
        {"N": (4, 7)}, lambda x, slope: np.where(x > 0, x, slope * x), ("x", "slope"),
    ),
    Entry(
        "dropout_mask",
        "def masked(float(N) x, bool(N) keep, float p) -> (y) { y(i) = keep(i) ? x(i) / (1 - p) : 0 }",
        {"N": (6, 9)}, lambda x, keep, p: np.where(keep, x / (1 - p), 0), ("x", "p"),
        {"p": lambda rng, s: np.array(0.25)},
    ),
    Entry(
        "logic",
        "def logic(bool(N) a, bool(N) b, int32(N) c) -> (r) { r(i) = (a(i) && !b(i)) || c(i) % 2 == 0 }",
        {"N": (6, 9)}, lambda a, b, c: (a & ~b) | (c % 2 == 0),
    ),
    Entry(
        "any_all_count",
        """
        def counts(bool(M,N) a) -> (any_, all_, count) {
            any_(m) max=! a(m, n)
            all_(m) min=! a(m, n)
            count(m) +=! a(m, n)
        }""",
        MNK, lambda a: (a.any(1), a.all(1), a.sum(1)),
    ),
    Entry(
        "whole_numbers",
        "def whole(int32(N) a, int64(N) b) -> (q, r) { q(i) = a(i) / 3 + b(i) r(i) = a(i) % 3 - b(i) }",
        {"N": (6, 9)}, lambda a, b: (a // 3 + b, a % 3 - b),
    ),
    Entry(
        "bytes",
        "def grey(byte(3,H,W) I) -> (G) { G(h, w) = (2 * I(0, h, w) + 5 * I(1, h, w) + I(2, h, w)) / 8 }",
        {"H": (3, 2), "W": (4, 5)},
        lambda I: (2 * I[0].astype(int) + 5 * I[1].astype(int) + I[2].astype(int)) // 8,
    ),
    Entry(
        "casts",
        "def casts(int32(N) a, float(N) x) -> (y, k) { y(i) = float(a(i)) / 2 k(i) = int32(x(i) * 4) }",
        {"N": (6, 9)}, lambda a, x: (a / 2, np.trunc(x * 4).astype(int)), ("x",),
    ),
    Entry(
        "concatenation",
        """
        def concat(float(N,D) A, float(N,E) B) -> (C) {
            C(n, d) = d < D ? A(n, d) : B(n, d - D) where n in 0:N, d in 0:D+E
        }""",
        {"N": (2, 3), "D": (3, 2), "E": (2, 4)}, lambda A, B: np.concatenate([A, B], 1), ("A", "B"),
    ),
    Entry(
        "concatenation_3",
        """
        def concat3(float(A1) A, float(B1) B, float(C1) C) -> (D) {
            D(i) = i < A1 ? A(i) : i < A1 + B1 ? B(i - A1) : C(i - A1 - B1) where i in 0:A1+B1+C1
        }""",
        {"A1": (2, 3), "B1": (3, 1), "C1": (2, 4)}, lambda A, B, C: np.concatenate([A, B, C]), ("A", "B", "C"),
    ),
    Entry(
        "zero_padding",
        "def pad(float(N) A) -> (B) { B(i) = i >= 2 && i < N + 2 ? A(i - 2) : 0 where i in 0:N+3 }",
        {"N": (4, 6)}, lambda A: np.pad(A, (2, 1)), ("A",),
    ),
    Entry(
        "slice",
        "def slice(float(N,4) A) -> (B) { B(i) = A(i + 1, 2) }",
        {"N": (4, 6)}, lambda A: A[1:, 2], ("A",),
    ),
    Entry(
        "reverse",
        "def reverse(float(N) A) -> (B) { B(i) = A(N - 1 - i) }",
        {"N": (4, 7)}, lambda A: A[::-1], ("A",),
    ),
    Entry(
        "roll",
        "def roll(float(N) A) -> (B) { B(i) = A((i + N - 2) % N) where i in 0:N }",
        {"N": (4, 7)}, lambda A: np.roll(A, 2), ("A",),
    ),
    Entry(
        "subsample",
        "def subsample(float(N) A) -> (B) { B(i) = A(2 * i) }",
        {"N": (8, 9)}, lambda A: A[::2], ("A",),
    ),
    Entry(
        "stencil",
        "def stencil(float(N) A) -> (B) { B(i) = A(i) - 2 * A(i + 1) + A(i + 2) }",
        {"N": (6, 9)}, lambda A: A[:-2] - 2 * A[1:-1] + A[2:], ("A",),
    ),
    Entry(
        "stencil_clamped",
        """
        def smooth(float(N) A) -> (B) {
            B(i) = (A(max(i - 1, 0)) + A(i) + A(min(i + 1, N - 1))) / 3
        }""",
        {"N": (6, 9)}, lambda A: (np.r_[A[:1], A[:-1]] + A + np.r_[A[1:], A[-1:]]) / 3, ("A",),
    ),
    Entry(
        "stencil_edges",
        """
        def heat(float(N,M) A) -> (B) {
            B(i, j) = A(i, j)
            B(i, j) = 0.25 * (A(i - 1, j) + A(i + 1, j) + A(i, j - 1) + A(i, j + 1)) where i in 1:N-1, j in 1:M-1
        }""",
        {"N": (5, 4), "M": (4, 6)},
        lambda A: np.pad(0.25 * (A[:-2, 1:-1] + A[2:, 1:-1] + A[1:-1, :-2] + A[1:-1, 2:]), 1)
        + np.where(np.pad(np.ones((A.shape[0] - 2, A.shape[1] - 2)), 1) == 0, A, 0),
        ("A",),
    ),
    Entry(
        "triangle",
        "def lower(float(N,N) A) -> (L) { L(i, j) = j <= i ? A(i, j) : 0 }",
        {"N": (4, 6)}, lambda A: np.tril(A), ("A",),
    ),
    Entry(
        "diagonal_matrix",
        "def diag(float(N) d) -> (D) { D(i, j) = i == j ? d(i) : 0 where j in 0:N }",
        {"N": (4, 6)}, lambda d: np.diag(d), ("d",),
    ),
    Entry(
        "chain_of_statements",
        """
        def chain(float(N,M) A) -> (D) {
            B(n) +=! A(n, m)
            C(n) = B(n) * B(n)
            top max=! C(n)
            D(n) = C(n) / (top + 1)
        }""",
        {"N": (3, 5), "M": (4, 2)}, lambda A: (s := A.sum(1) ** 2) / (s.max() + 1), ("A",),
    ),
    Entry(
        "accumulate_twice",
        """
        def twice(float(N) b, float(N,M) A, float(N,K) C) -> (O) {
            O(n) = b(n)
            O(n) += A(n, m)
            O(n) += C(n, k)
        }""",
        {"N": (3, 5), "M": (4, 2), "K": (2, 3)}, lambda b, A, C: b + A.sum(1) + C.sum(1), ("b", "A", "C"),
    ),
    Entry(
        "in_place",
        "def axpy(float a, float(N) x, float(N) y) -> (y) { y(i) += a * x(i) }",
        {"N": (4, 7)}, lambda a, x, y: y + a * x, ("a", "x", "y"),
    ),
    Entry(
        "typed_result",
        "def widened(float(N) x) -> (double(N) y) { y(i) = x(i) * x(i) }",
        {"N": (4, 7)}, lambda x: x * x, ("x",),
    ),
]  # fmt: skip

CORPUS: tuple[Entry, ...] = (*PRODUCTS, *CONVOLUTIONS, *NETWORKS, *STATISTICS, *POINTWISE)

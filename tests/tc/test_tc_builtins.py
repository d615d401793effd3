"""The builtins of the language: all of Tensor Comprehensions', right at the edges, the same on both backends."""

from __future__ import annotations

import numpy as np
import pytest

import weft as wf
from ops.library import EDGES, VALUES, check, exact
from weft.comprehension.builtins import BUILTINS, EXTRAS, WRITTEN
from weft.ops import OPS

#: tc/lang/builtins.h of Tensor Comprehensions: its functions by how many arguments they take.
BY_ARITY = {
    1: "acos acosh asin asinh atan atanh cbrt ceil cos cosh cospi cyl_bessel_i0 cyl_bessel_i1 erfc erfcinv erfcx erf "
    "erfinv exp10 exp2 exp expm1 fabs floor j0 j1 lgamma log10 log1p log2 logb log normcdf normcdfinv rcbrt round "
    "rsqrt sin sinh sinpi sqrt tan tanh tgamma trunc y0 y1",
    2: "atan2 copysign fdim fdivide fmax fmin fmod hypot nextafter pow remainder rhypot",
    3: "fma norm3d rnorm3d",
    4: "norm4d rnorm4d",
}
TC_BUILTINS = {name: arity for arity, names in BY_ARITY.items() for name in names.split()}
C_TYPES = {"float32": "float", "float64": "double"}


def test_every_builtin_of_tensor_comprehensions_is_there() -> None:
    assert len(TC_BUILTINS) == 64
    assert {name: BUILTINS[name].arity for name in TC_BUILTINS} == TC_BUILTINS
    assert set(BUILTINS) - set(TC_BUILTINS) == {"min", "max", *EXTRAS}


def test_every_builtin_is_a_row_of_the_table() -> None:
    assert {one.name for one in BUILTINS.values()} <= set(OPS)


def all_at_once(dtype: str) -> tuple[str, list[np.ndarray], list[str]]:
    """One definition that applies every function to arrays of its own."""
    params, body, args, names = [], [], [], sorted({*VALUES, *EDGES})
    for name in names:
        own = [f"{name}_{at}" for at in range(BUILTINS[WRITTEN[name]].arity)]
        params += [f"{C_TYPES[dtype]}(N_{name}) {one}" for one in own]
        body.append(f"y_{name}(i) = {WRITTEN[name]}({', '.join(f'{one}(i)' for one in own)})")
        args += exact(name, dtype)[0]
    results = ", ".join(f"y_{name}" for name in names)
    return f"def f({', '.join(params)}) -> ({results}) {{ {' '.join(body)} }}", args, names


@pytest.mark.parametrize("backend", ["interp", "cc"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_builtins_are_right_to_the_last_digits_on_every_backend(dtype: str, backend: str) -> None:
    text, args, names = all_at_once(dtype)
    found = wf.tc.define(text, backend=backend).f(*args)
    for name, one in zip(names, found, strict=True):
        check(name, dtype, one, exact(name, dtype)[1], exact(name, dtype)[0])


@pytest.mark.parametrize("backend", ["interp", "cc"])
def test_the_next_number_and_whole_numbers(backend: str) -> None:
    text = """
    def next(float(N) x, double(N) d) -> (y, z) { y(i) = nextafter(x(i), 2.0)  z(i) = nextafter(d(i), 2.0) }
    def half_next(half(N) x) -> (y) { y(i) = nextafter(x(i), 2) }
    def whole(int64(N) x) -> (a, b, c, d, e) {
        a(i) = round(x(i))  b(i) = fmax(x(i), 2)  c(i) = fdim(x(i), 3)  d(i) = fma(x(i), x(i), 1)  e(i) = ceil(x(i))
    }
    """
    tc = wf.tc.define(text, backend=backend)
    single, double = tc.next(np.ones(1, np.float32), np.ones(1))
    assert (single[0], double[0]) == (np.nextafter(np.float32(1), np.float32(2)), np.nextafter(1.0, 2.0))
    half = tc.half_next(np.ones(1, "float16"))
    assert (half.dtype, half[0]) == ("float32", single[0])
    large = np.array([2**53 + 1, -7], np.int64)
    found = tc.whole(large)
    assert [one.dtype.name for one in found] == ["int64"] * 5
    product = (2**53 + 1) ** 2 + 1 - 2**106  # whole numbers wrap around
    wanted = [large, [2**53 + 1, 2], [2**53 - 2, 0], [product, 50], large]
    for one, value in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, value)


def test_a_builtin_without_a_derivative_says_so_when_asked_for_it() -> None:
    f = wf.tc.define("def f(float(N) x) -> (y) { y(i) = nextafter(x(i), 2) }", backend="interp").f
    with pytest.raises(wf.WeftError, match="`nextafter` has no derivative"):
        f.grad(np.ones(2, np.float32))


@pytest.mark.parametrize("backend", ["interp", "cc"])
def test_gradients_at_the_places_where_conventions_differ(backend: str) -> None:
    """As in PyTorch: `fmax` and `fmin` give ties to the first and pass over what is not a number; 0 to a power."""
    tc = wf.tc.define(
        """
        def larger(float(N) x, float(N) y) -> (z) { z(i) = fmax(x(i), y(i)) }
        def less(float(N) x, float(N) y) -> (z) { z(i) = fmin(x(i), y(i)) }
        def power(float(N) x, float(N) y) -> (z) { z(i) = pow(x(i), y(i)) }
        def turned_on(float(N) x) -> (z) { z(i) = relu(x(i)) }
        """,
        backend=backend,
    )
    x, y = np.array([0, 1, np.nan, 2], np.float32), np.array([0, np.nan, 1, 1], np.float32)
    np.testing.assert_array_equal(tc.larger.grad(x, y), [[1, 1, 0, 1], [0, 0, 1, 0]])
    np.testing.assert_array_equal(tc.less.grad(x, y), [[1, 1, 0, 0], [0, 0, 1, 1]])
    base, exponent = np.array([0, 0, 0, 2], np.float32), np.array([2, 0, 1, 3], np.float32)
    np.testing.assert_allclose(tc.power.grad(base, exponent), [[0, 0, 1, 12], [0, 0, 0, 8 * np.log(2)]], rtol=1e-6)
    np.testing.assert_array_equal(tc.turned_on.grad(np.array([-1, 0, 1], np.float32)), [0, 0, 1])

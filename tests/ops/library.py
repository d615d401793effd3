"""What the functions of the library come to: exact values, values at the edges, and how far off is right."""

from __future__ import annotations

import json
from math import inf, nan, pi
from pathlib import Path

import numpy as np

from weft.ops import OPS

#: Of each function, by precision, its arguments and the exact values (make_library_values.py).
VALUES: dict[str, dict[str, list[list[str]]]] = json.loads(
    Path(__file__).with_name("library_values.json").read_text(encoding="utf-8")
)

#: So many units of the last place a value may be off; 2 where nothing is said.
ULPS = {
    **dict.fromkeys(("cyl_bessel_i0", "cyl_bessel_i1", "lgamma", "tgamma", "trigamma", "rnorm4d"), 8),
    **dict.fromkeys(("digamma", "j0", "j1", "y0", "y1"), 8),
}
#: Those that cross zero at numbers that cannot be written: there the bound is in units of the last place of 1.
CROSSING = {"digamma", "j0", "j1", "y0", "y1", "lgamma"}

TINY, LEAST = 1e-40, {"float32": float(np.float32(1e-45)), "float64": 5e-324}

#: Arguments at which there is no doubt: zeros, infinities, what is not a number, ends of domains.
EDGES: dict[str, list[tuple[float, ...]]] = {
    "acos": [(1, 0), (-1, pi), (0, pi / 2), (1.5, nan), (inf, nan)],
    "acosh": [(1, 0), (0.5, nan), (inf, inf)],
    "asin": [(0, 0), (-0.0, -0.0), (1, pi / 2), (1.5, nan)],
    "asinh": [(0, 0), (-0.0, -0.0), (inf, inf), (-inf, -inf)],
    "atan": [(0, 0), (-0.0, -0.0), (inf, pi / 2), (-inf, -pi / 2)],
    "atan2": [(0, 1, 0), (0, -1, pi), (-0.0, -1, -pi), (1, 0, pi / 2), (inf, inf, pi / 4), (inf, -inf, 3 * pi / 4)],
    "atanh": [(0, 0), (-0.0, -0.0), (1, inf), (-1, -inf), (1.5, nan)],
    "cbrt": [(0, 0), (-0.0, -0.0), (-27, -3), (inf, inf), (-inf, -inf)],
    "ceil": [(-0.5, -0.0), (0.5, 1), (-1.5, -1), (inf, inf), (TINY, 1)],
    "copysign": [(3, -0.0, -3), (-3, 0, 3), (0, -1, -0.0), (inf, -1, -inf)],
    "cosh": [(0, 1), (inf, inf), (-inf, inf)],
    "cospi": [(0, 1), (0.5, 0), (1, -1), (1.5, 0), (2, 1), (1e30, 1), (inf, nan)],
    "cyl_bessel_i0": [(0, 1), (inf, inf), (-inf, inf)],
    "cyl_bessel_i1": [(0, 0), (-0.0, -0.0), (inf, inf), (-inf, -inf)],
    "digamma": [(0, -inf), (-1, nan), (inf, inf)],
    "erfc": [(0, 1), (inf, 0), (-inf, 2), (5, 1.5374597944280349e-12)],
    "erfcinv": [(0, inf), (1, 0), (2, -inf), (-0.5, nan), (2.5, nan)],
    "erfcx": [(0, 1), (inf, 0), (-inf, inf)],
    "erfinv": [(0, 0), (-0.0, -0.0), (1, inf), (-1, -inf), (1.5, nan)],
    "exp10": [(0, 1), (2, 100), (38, 1e38), (-inf, 0), (inf, inf)],
    "expm1": [(0, 0), (-0.0, -0.0), (-inf, -1), (inf, inf)],
    "fdim": [(3, 1, 2), (1, 3, 0), (inf, inf, 0), (inf, 1, inf), (nan, 1, nan), (1, nan, nan), (-inf, -inf, 0)],
    "fma": [(2, 3, 4, 10), (inf, 0, 1, nan), (1, 1, inf, inf), (0, 5, -0.0, 0), (-0.0, 5, -0.0, -0.0), (2, -3, 6, 0)],
    "fmax": [(nan, 1, 1), (1, nan, 1), (nan, nan, nan), (-inf, inf, inf), (2, 3, 3)],
    "fmin": [(nan, 1, 1), (1, nan, 1), (nan, nan, nan), (-inf, inf, -inf), (2, 3, 2)],
    "fmod": [(1e10, 3, 1), (5, inf, 5), (-5, 3, -2), (5, 0, nan), (inf, 3, nan), (-6, 3, -0.0), (0, 3, 0)],
    "hypot": [(inf, nan, inf), (nan, inf, inf), (0, 0, 0), (-3, 4, 5), (nan, 1, nan)],
    "j0": [(0, 1), (inf, 0), (-inf, 0)],
    "j1": [(0, 0), (inf, 0)],
    "lgamma": [(1, 0), (2, 0), (0, inf), (-1, inf), (inf, inf), (-inf, inf)],
    "log10": [(1, 0), (1000, 3), (0, -inf), (-1, nan), (inf, inf)],
    "log1p": [(0, 0), (-0.0, -0.0), (-1, -inf), (-2, nan), (inf, inf)],
    "logb": [(8, 3), (0.7, -1), (0, -inf), (inf, inf), (-inf, inf), (-10, 3)],
    "nextafter": [(2, 2, 2), (nan, 1, nan), (inf, inf, inf)],
    "norm3d": [(1, 2, 2, 3), (0, 0, 0, 0), (inf, nan, 1, inf)],
    "norm4d": [(2, 4, 5, 6, 9), (0, 0, 0, 0, 0), (1, 1, nan, -inf, inf)],
    "normcdf": [(0, 0.5), (inf, 1), (-inf, 0), (-1e30, 0), (1e30, 1)],
    "normcdfinv": [(0.5, 0), (0, -inf), (1, inf), (-0.5, nan), (1.5, nan)],
    "rcbrt": [(8, 0.5), (-8, -0.5), (0, inf), (-0.0, -inf), (inf, 0)],
    "remainder": [(5, 3, -1), (2.5, 1, 0.5), (3.5, 1, -0.5), (5, inf, 5), (5, 0, nan), (inf, 1, nan), (-6, 3, -0.0)],
    "rhypot": [(3, 4, 0.2), (0, 0, inf), (inf, nan, 0)],
    "rnorm3d": [(0, 3, 4, 0.2), (0, 0, 0, inf), (inf, 1, 1, 0)],
    "rnorm4d": [(0, 0, 3, 4, 0.2), (0, 0, 0, 0, inf), (inf, 1, 1, 1, 0)],
    "round": [(0.5, 1), (-0.5, -1), (2.5, 3), (-2.5, -3), (-0.25, -0.0), (0.49999997, 0), (8388609, 8388609)],
    "sinh": [(0, 0), (-0.0, -0.0), (1e-8, 1e-8), (inf, inf), (-inf, -inf)],
    "sinpi": [(0, 0), (-0.0, -0.0), (1, 0), (-1, -0.0), (0.5, 1), (1.5, -1), (1e30, 0), (inf, nan)],
    "tan": [(0, 0), (-0.0, -0.0), (inf, nan)],
    "tgamma": [(1, 1), (5, 24), (0, inf), (-0.0, -inf), (-1, nan), (inf, inf), (-inf, nan), (200, inf)],
    "trigamma": [(0, inf), (inf, 0), (1, pi**2 / 6)],
    "trunc": [(1.7, 1), (-1.7, -1), (-0.5, -0.0), (0.5, 0), (-inf, -inf)],
    "y0": [(0, -inf), (-1, nan), (inf, 0)],
    "y1": [(0, -inf), (-1, nan), (inf, 0)],
}


#: The slope at 0 of functions that are 0 there, as far as the least number can tell.
SLOPES = {
    **dict.fromkeys(("asin", "asinh", "atan", "atanh", "expm1", "log1p", "sinh", "tan", "erfinv"), 1),
    "sinpi": 3,
    "j1": 0,
    "cyl_bessel_i1": 0,
}


def exact(name: str, dtype: str) -> tuple[list[np.ndarray], np.ndarray]:
    """The arguments at which a function is known, and its values in double precision: exact ones, then edges.

    Every function is also asked for what is not a number, and for the least number where it crosses zero.
    """
    rows = [tuple(map(float.fromhex, row)) for row in VALUES.get(name, {}).get(dtype, [])]
    rows += [tuple(map(float, row)) for row in EDGES.get(name, [])]
    if OPS[name].arity == 1:
        rows.append((nan, nan))
    if name in SLOPES:
        rows += [(LEAST[dtype], SLOPES[name] * LEAST[dtype]), (-LEAST[dtype], SLOPES[name] * -LEAST[dtype])]
    columns = [np.array(column, np.float64) for column in zip(*rows, strict=True)]
    return [column.astype(dtype) for column in columns[:-1]], columns[-1]


def check(name: str, dtype: str, found: np.ndarray, wanted: np.ndarray, args: list[np.ndarray]) -> None:
    """Is what was found within the function's bound of what is right, signs of zeros and infinities included?"""
    assert found.dtype == dtype
    with np.errstate(all="ignore"):
        nearest = wanted.astype(dtype)
        unit = np.spacing(np.abs(nearest)).astype(np.float64)
        unit = np.maximum(unit, np.finfo(dtype).eps) if name in CROSSING else unit
        close = np.abs(found.astype(np.float64) - wanted) <= (ULPS.get(name, 2) + 0.5) * unit
    same = (found == nearest) & (np.signbit(found) == np.signbit(nearest))
    right = same | (np.isnan(found) & np.isnan(nearest)) | (np.isfinite(nearest) & (wanted != 0) & close)
    wrong = [(*(one[at] for one in args), found[at], wanted[at]) for at in np.flatnonzero(~right)]
    assert not wrong, f"{name} in {dtype}: arguments, found, wanted: {wrong}"

"""Writes library_values.json, the values of the library's functions to the last digit: needs mpmath, not the tests.

    python tests/ops/make_library_values.py

Each function has its arguments, numbers of single precision first, and the exact values rounded to double precision,
as hexadecimal floats.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np

mp.mp.dps = 60

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "acos": mp.acos,
    "acosh": mp.acosh,
    "asin": mp.asin,
    "asinh": mp.asinh,
    "atan": mp.atan,
    "atan2": mp.atan2,
    "atanh": mp.atanh,
    "cbrt": lambda x: mp.sign(x) * mp.cbrt(abs(x)),
    "cos": mp.cos,
    "cosh": mp.cosh,
    "cospi": mp.cospi,
    "cyl_bessel_i0": lambda x: mp.besseli(0, x),
    "cyl_bessel_i1": lambda x: mp.besseli(1, x),
    "digamma": mp.digamma,
    "erf": mp.erf,
    "erfc": mp.erfc,
    "erfcinv": lambda x: mp.erfinv(1 - x),
    "erfcx": lambda x: mp.exp(x * x) * mp.erfc(x),
    "erfinv": mp.erfinv,
    "exp": mp.exp,
    "exp10": lambda x: mp.power(10, x),
    "exp2": lambda x: mp.power(2, x),
    "expm1": mp.expm1,
    "fdim": lambda x, y: max(x - y, mp.mpf(0)),
    "fma": lambda x, y, z: x * y + z,
    "fmod": lambda x, y: mp.sign(x) * mp.fmod(abs(x), abs(y)),
    "hypot": lambda *args: mp.sqrt(sum(one * one for one in args)),
    "j0": mp.j0,
    "j1": mp.j1,
    "lgamma": lambda x: mp.log(abs(mp.gamma(x))),
    "log": mp.log,
    "log10": mp.log10,
    "log1p": mp.log1p,
    "log2": lambda x: mp.log(x, 2),
    "logb": lambda x: mp.floor(mp.log(abs(x), 2)),
    "norm3d": lambda *args: mp.sqrt(sum(one * one for one in args)),
    "norm4d": lambda *args: mp.sqrt(sum(one * one for one in args)),
    "normcdf": mp.ncdf,
    "normcdfinv": lambda x: mp.sqrt(2) * mp.erfinv(2 * x - 1),
    "pow": mp.power,
    "rcbrt": lambda x: mp.sign(x) / mp.cbrt(abs(x)),
    "recip_sqrt": lambda x: 1 / mp.sqrt(x),
    "remainder": lambda x, y: x - y * mp.nint(x / y),
    "rhypot": lambda *args: 1 / mp.sqrt(sum(one * one for one in args)),
    "rnorm3d": lambda *args: 1 / mp.sqrt(sum(one * one for one in args)),
    "rnorm4d": lambda *args: 1 / mp.sqrt(sum(one * one for one in args)),
    "sin": mp.sin,
    "sinh": mp.sinh,
    "sinpi": mp.sinpi,
    "sqrt": mp.sqrt,
    "tan": mp.tan,
    "tanh": mp.tanh,
    "tgamma": mp.gamma,
    "trigamma": lambda x: mp.psi(1, x),
    "y0": lambda x: mp.bessely(0, x),
    "y1": lambda x: mp.bessely(1, x),
}

#: Where each is tried: from, to, and points of its own: small and large numbers, next to branch points and zeros.

DOMAINS: dict[str, tuple[float, float, list[float]]] = {
    "acos": (-1, 1, [-1.0, -0.999999, -1e-8, 1e-8, 0.999999, 0.9999999403953552]),
    "acosh": (1, 50, [1.0, 1.0000001, 1.0000001192092896, 1e10, 1e38]),
    "asin": (-1, 1, [1e-300, 1e-8, -1e-5, 0.999999, 1.0]),
    "asinh": (-50, 50, [1e-300, 1e-8, -1e-5, 1e10, -1e38]),
    "atan": (-50, 50, [1e-300, 1e-8, 1e10, -1e38]),
    "atanh": (-1, 1, [1e-300, 1e-8, -1e-5, 0.999999, -0.9999999403953552]),
    "cbrt": (-90, 90, [1e-300, 1e-40, -1e-8, 8.0, 1e38]),
    "cos": (-90, 90, [1e-8, 1.5707963267948966, 1e5]),
    "cosh": (-20, 20, [1e-8, 89.0, -89.0, 88.9]),
    "cospi": (-9, 9, [0.5, 0.25, 1e-8, 1e5, 1234567.25]),
    "cyl_bessel_i0": (-60, 60, [1e-8, 19.999, 20.0, 20.001, 88.0]),
    "cyl_bessel_i1": (-60, 60, [1e-300, 1e-40, 1e-8, 19.999, 20.0, 88.0]),
    "digamma": (-6, 40, [1e-30, 1e-8, -1e-8, 1.4616321449683623, 1e10, 1e30]),
    "erf": (-5, 5, [1e-300, 1e-8, -1e-3, 0.84, 0.86, 3.9, 5.9]),
    "erfc": (-5, 9, [1e-8, 4.0, 5.0, 8.0]),
    "erfcinv": (0, 2, [1e-38, 1e-10, 0.49, 0.51, 1.0, 1.0000001192092896, 1.49, 1.51, 1.9999998807907104]),
    "erfcx": (-9, 60, [1e-8, 24.99, 25.0, 25.01, 1e10, 1e30]),
    "erfinv": (-1, 1, [1e-300, 1e-40, 1e-8, 0.49, 0.5, 0.51, -0.9999999403953552]),
    "exp": (-80, 80, [1e-8, -87.0, 88.7, -100.0, -103.0]),
    "exp10": (-37, 37, [38.0, -38.0, 1e-8, 2.0, 5.0, 10.0]),
    "exp2": (-120, 120, [1e-8, 127.5, -126.0, 10.0]),
    "expm1": (-20, 20, [1e-300, 1e-40, 1e-8, -1e-5, -90.0, 88.0]),
    "j0": (-60, 60, [1e-8, 2.404825557695773, 24.99, 25.01, 1e5]),
    "j1": (-60, 60, [1e-300, 1e-40, 1e-8, 1.99, 2.01, 3.8317059702075125, 24.99, 25.01, 1e5]),
    "lgamma": (-6, 40, [1e-30, 1e-8, 0.5, 0.9999999403953552, 1.0000001192092896, 1.5, 1.9999999, 2.0000002, 1e10]),
    "log": (0, 50, [1e-300, 1e-40, 0.9999999403953552, 1.0000001192092896, 1e38]),
    "log10": (0, 50, [1e-40, 0.9999999403953552, 1.0000001192092896, 1e38, 1000.0]),
    "log1p": (-1, 9, [1e-300, 1e-40, -1e-8, -0.9999999403953552, 1e38]),
    "log2": (0, 50, [1e-40, 0.9999999403953552, 1.0000001192092896, 1e38, 1024.0]),
    "logb": (0, 50, [1e-40, 1.0, 0.9999999403953552, 1e38]),
    "normcdf": (-13, 9, [-1e-8, -12.9, 5.5]),
    "normcdfinv": (0, 1, [1e-38, 1e-10, 0.24, 0.26, 0.5, 0.5000001192092896, 0.76, 0.9999999403953552]),
    "rcbrt": (0, 90, [1e-40, 1e-8, 8.0, 1e38]),
    "recip_sqrt": (0, 90, [1e-40, 1e-8, 4.0, 1e38]),
    "sin": (-90, 90, [1e-300, 1e-8, 3.141592653589793, 1e5]),
    "sinh": (-20, 20, [1e-300, 1e-40, 1e-8, 1e-5, 1e-3, 89.0, -89.0]),
    "sinpi": (-9, 9, [1e-300, 1e-40, 1e-8, 0.5, 0.25, 1234567.25]),
    "sqrt": (0, 90, [1e-40, 1e-8, 4.0, 1e38]),
    "tan": (-9, 9, [1e-300, 1e-8, 1.57, 1e5]),
    "tanh": (-9, 9, [1e-300, 1e-40, 1e-8, 1e-3, 0.62, 0.63]),
    "tgamma": (-6, 30, [1e-30, 1e-8, -1e-8, 0.5, 1.0, 34.5]),
    "trigamma": (-6, 40, [1e-10, 1e-8, -1e-8, 1e10]),
    "y0": (0, 60, [1e-30, 1e-8, 0.8935769662791675, 24.99, 25.01, 1e5]),
    "y1": (0, 60, [1e-30, 1e-8, 2.197141326031017, 24.99, 25.01, 1e5]),
}
SEVERAL: dict[str, list[tuple[float, ...]]] = {
    "atan2": [(1, 2), (-1, 2), (1, -2), (-1, -2), (1e-30, 1e-30), (1e30, -1e30), (3e-8, 1e10), (1, 1e-20)],
    "fdim": [(3, 2), (2, 3), (1e30, -1e30), (1e-40, 0.5e-40), (5, 5)],
    "fma": [(1.0000001, 1.0000001, -1.0000002), (3, 7, 1e8), (1e30, 1e7, -1e37), (0.1, 10, -1)],
    "fmod": [(1e10, 3), (5, 3), (-5, 3), (5, -3), (5.5, 0.1), (1e-40, 3e-41), (3e38, 7e-3), (6, 3)],
    "hypot": [(3, 4), (1e30, 1e30), (3e-30, 4e-30), (1e-40, 1e-40), (1e38, 2e38), (1, 1e-10), (-5, 12)],
    "pow": [(2, 10), (0.5, -3.5), (1e-20, 1.5), (10, 38), (1.0000001192092896, 1e6), (0.99999994, 1e7), (2, -140)],
    "remainder": [(5, 3), (-5, 3), (5, -3), (7.5, 1), (1e10, 3), (5.5, 0.1), (1e-40, 3e-41), (2.5, 1), (3.5, 1)],
    "rhypot": [(3, 4), (1e30, 1e30), (3e-30, 4e-30), (1, 1e-10)],
    "norm3d": [(1, 2, 2), (1e30, 1e30, 1e30), (1e-30, 2e-30, 2e-30), (1, 1e-10, 1e-10)],
    "rnorm3d": [(1, 2, 2), (1e30, 1e30, 1e30), (1e-30, 2e-30, 2e-30)],
    "norm4d": [(2, 4, 5, 6), (1e30, 1e30, 1e30, 1e30), (1e-30, 2e-30, 2e-30, 4e-30)],
    "rnorm4d": [(2, 4, 5, 6), (1e30, 1e30, 1e30, 1e30), (1e-30, 2e-30, 2e-30, 4e-30)],
}


def points(name: str, rng: np.random.Generator) -> list[tuple[float, ...]]:
    if name in SEVERAL:
        arity = len(SEVERAL[name][0])
        drawn = [tuple(rng.uniform(0.1, 9, arity).tolist()) for _ in range(6)]
        return [tuple(map(float, one)) for one in SEVERAL[name]] + drawn
    low, high, own = DOMAINS[name]
    drawn = [(one,) for one in rng.uniform(low, high, 14).tolist()]
    return [(one,) for one in own] + drawn


def value(name: str, args: Sequence[float]) -> float:
    found = FUNCTIONS[name](*(mp.mpf(one) for one in args))
    found = found if isinstance(found, mp.mpf) else mp.mpf(found.real)
    return float(found)


def main() -> None:
    rng = np.random.default_rng(11)
    table: dict[str, dict[str, list[list[str]]]] = {}
    for name in FUNCTIONS:
        rows: dict[str, list[list[str]]] = {"float32": [], "float64": []}
        for args in points(name, rng):
            for dtype, found in rows.items():
                given = [float(np.asarray(one).astype(dtype)) for one in args]
                inside = name not in DOMAINS or DOMAINS[name][0] <= given[0]
                if inside and all(given) and (dtype == "float64" or all(1e-45 < abs(one) < 3.4e38 for one in given)):
                    found.append([one.hex() for one in (*given, value(name, given))])
        table[name] = rows
    lines = [f'"{name}": {json.dumps(rows)}' for name, rows in table.items()]
    text = "{\n" + ",\n".join(lines) + "\n}\n"
    Path(__file__).with_name("library_values.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

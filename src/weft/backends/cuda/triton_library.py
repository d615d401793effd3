"""What the table of operations calls that Triton has no word for: functions that are written where a kernel uses them.

Division and roots are rounded once, as IEEE says. Elementary functions are CUDA's libdevice: in single precision `exp`,
`log`, `tanh` and `erf` are within 2 units of the last place, `pow` within 9 (CUDA's tables). Extrema are not numbers
where an operand is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from weft.ops import OPS
from weft.ops.dtypes import limits

_FLOATS, _SIGNED, _UNSIGNED = ("float32", "float64"), ("int64",), ("uint64",)
_NUMBERS = (*_FLOATS, *_SIGNED, *_UNSIGNED)
_NAN = "propagate_nan=tl.PropagateNan.ALL"

#: erf(x) / x - 1 as a polynomial of x², where x is small, and log₂(1 - erf(x)) as one of x, where it is not.
_ERF_NEAR_0 = (-6.31512573e-4, 5.05109416e-3, -2.68025473e-2, 1.12827174e-1, -3.76125718e-1, 1.28379160e-1)
_LOG2_OF_ERFC = (
    *(-2.88794538e-5, 6.09073615e-4, -5.93301193e-3, 3.60207650e-2),
    *(-1.55882872e-1, -9.14022352e-1, -1.62940231, 2.22898574e-4),
)


def _horner(name: str, x: str, factors: Sequence[float]) -> list[str]:
    """The lines that compute a polynomial, its highest power first."""
    first, *others = factors
    return [f"{name} = tl.full((), {first}, tl.float32)", *(f"{name} = tl.fma({name}, {x}, {one})" for one in others)]


#: By name and types: the parameters, and the lines of a function; {t} stands for the type.
_TEMPLATES: tuple[tuple[str, tuple[str, ...], str, tuple[str, ...]], ...] = (
    ("add", _NUMBERS, "x, y", ("return x + y",)),
    ("mul", _NUMBERS, "x, y", ("return x * y",)),
    ("or", ("bool",), "x, y", ("return x | y",)),
    ("and", ("bool",), "x, y", ("return x & y",)),
    ("max", _FLOATS, "x, y", (f"return tl.maximum(x, y, {_NAN})",)),
    ("min", _FLOATS, "x, y", (f"return tl.minimum(x, y, {_NAN})",)),
    ("max", (*_SIGNED, *_UNSIGNED), "x, y", ("return tl.maximum(x, y)",)),
    ("min", (*_SIGNED, *_UNSIGNED), "x, y", ("return tl.minimum(x, y)",)),
    ("relu", _FLOATS, "x", (f"return tl.maximum(x, 0.0, {_NAN})",)),
    ("relu", _SIGNED, "x", ("return tl.maximum(x, 0)",)),
    ("relu", _UNSIGNED, "x", ("return x",)),
    ("sat01", _FLOATS, "x", (f"return tl.minimum(tl.maximum(x, 0.0, {_NAN}), 1.0, {_NAN})",)),
    ("sat01", _SIGNED, "x", ("return tl.minimum(tl.maximum(x, 0), 1)",)),
    ("sat01", _UNSIGNED, "x", ("return tl.where(x > 0, tl.full((), 1, tl.uint64), x)",)),
    ("floor", _FLOATS, "x", ("return tl.floor(x)",)),
    ("floor", (*_SIGNED, *_UNSIGNED), "x", ("return x",)),
    ("rint", _FLOATS, "x", ("return libdevice.rint(x)",)),
    ("rint", (*_SIGNED, *_UNSIGNED), "x", ("return x",)),
    ("ceil", _FLOATS, "x", ("return tl.ceil(x)",)),
    ("ceil", (*_SIGNED, *_UNSIGNED), "x", ("return x",)),
    ("trunc", _FLOATS, "x", ("return libdevice.trunc(x)",)),
    ("trunc", (*_SIGNED, *_UNSIGNED), "x", ("return x",)),
    ("round", _FLOATS, "x", ("return libdevice.round(x)",)),
    ("round", (*_SIGNED, *_UNSIGNED), "x", ("return x",)),
    ("neg", _FLOATS, "x", ("return x * -1.0",)),  # 0 - x has no -0.0
    ("neg", _SIGNED, "x", ("return -x",)),
    ("neg", _UNSIGNED, "x", ("return tl.full((), 0, tl.uint64) - x",)),
    ("abs", (*_FLOATS, *_SIGNED), "x", ("return tl.abs(x)",)),
    ("abs", _UNSIGNED, "x", ("return x",)),
    (
        "sign",
        (*_FLOATS, *_SIGNED),
        "x",
        ("return tl.where(x > 0, tl.full((), 1, tl.{t}), tl.where(x < 0, tl.full((), -1, tl.{t}), x))",),
    ),
    ("sign", _UNSIGNED, "x", ("return tl.where(x > 0, tl.full((), 1, tl.uint64), x)",)),
    ("div", ("float32",), "x, y", ("return tl.div_rn(x, y)",)),
    ("div", ("float64",), "x, y", ("return x / y",)),
    ("recip", ("float32",), "x", ("return libdevice.rcp_rn(x)",)),
    ("recip", ("float64",), "x", ("return tl.full((), 1.0, tl.float64) / x",)),
    ("sqrt", ("float32",), "x", ("return tl.sqrt_rn(x)",)),
    ("sqrt", ("float64",), "x", ("return libdevice.sqrt(x)",)),
    ("recip_sqrt", _FLOATS, "x", ("return weft_recip_{t}(weft_sqrt_{t}(x))",)),
    ("erf", ("float64",), "x", ("return libdevice.erf(x)",)),
    (
        "erf",  # as in elementary.h, with exponents of 2
        ("float32",),
        "x",
        (
            f"size = tl.minimum(tl.abs(x), 4.0, {_NAN})",
            "square = size * size",
            *_horner("small", "square", _ERF_NEAR_0),
            "small = tl.fma(small, size, size)",
            *_horner("large", "size", _LOG2_OF_ERFC),
            "return libdevice.copysign(tl.where(size < 0.85, small, 1.0 - tl.exp2(large)), x)",
        ),
    ),
    (
        "sigmoid",
        _FLOATS,
        "x",
        (
            "power = libdevice.exp(-tl.abs(x))",
            "return weft_div_{t}(tl.where(x < 0, power, tl.full((), 1.0, tl.{t})), 1.0 + power)",
        ),
    ),
    (
        "floordiv",
        _FLOATS,
        "x, y",
        (
            "rest = libdevice.fmod(x, y)",
            "exact, quotient = weft_div_{t}(x - rest, y), weft_div_{t}(x, y)",
            "lower = tl.where((rest != 0) & ((rest < 0) != (y < 0)), exact - 1, exact)",
            "whole = tl.floor(lower)",
            "whole = tl.where(lower - whole > 0.5, whole + 1, whole)",
            "whole = tl.where(lower == 0, libdevice.copysign(lower, quotient), whole)",
            "return tl.where(y == 0, quotient, whole)",
        ),
    ),
    (
        "floordiv",
        _SIGNED,
        "x, y",
        (
            "by = tl.where((y == 0) | (y == -1), tl.full((), 1, tl.int64), y)",
            "quotient = x // by",
            "rest = x - quotient * by",
            "quotient = tl.where((rest != 0) & ((rest < 0) != (by < 0)), quotient - 1, quotient)",
            "return tl.where(y == 0, tl.full((), 0, tl.int64), tl.where(y == -1, -x, quotient))",
        ),
    ),
    (
        "floordiv",
        _UNSIGNED,
        "x, y",
        (
            "by = tl.where(y == 0, tl.full((), 1, tl.uint64), y)",
            "return tl.where(y == 0, tl.full((), 0, tl.uint64), x // by)",
        ),
    ),
    (
        "mod",
        _FLOATS,
        "x, y",
        (
            "rest = libdevice.fmod(x, y)",
            "signed = tl.where((rest < 0) != (y < 0), rest + y, rest)",
            "return tl.where(rest == 0, libdevice.copysign(rest, y), signed)",
        ),
    ),
    (
        "mod",
        _SIGNED,
        "x, y",
        (
            "by = tl.where((y == 0) | (y == -1), tl.full((), 1, tl.int64), y)",
            "rest = x % by",
            "return tl.where((rest != 0) & ((rest < 0) != (by < 0)), rest + by, rest)",
        ),
    ),
    (
        "mod",
        _UNSIGNED,
        "x, y",
        (
            "by = tl.where(y == 0, tl.full((), 1, tl.uint64), y)",
            "return x % by",
        ),
    ),
    *(
        (
            "order_place",
            (f"float{width}",),
            "x",
            (
                f"bits = tl.where(x == 0, tl.full((), 0, tl.{{t}}), x).to(tl.uint{width}, bitcast=True)",
                f"first = tl.full((), {1 << (width - 1)}, tl.uint{width})",
                "place = tl.where(bits >= first, ~bits, bits | first)",
                "return tl.where(x != x, first | (first - 1), place).to(tl.uint64)",
            ),
        )
        for width in (32, 64)
    ),
    (
        "order_place",
        _SIGNED,
        "x",
        (f"return x.to(tl.uint64, bitcast=True) ^ tl.full((), {1 << 63}, tl.uint64)",),
    ),
    ("order_place", _UNSIGNED, "x", ("return x",)),
    ("relu_gate", _NUMBERS, "x, y", ("return tl.where(x > 0, y, tl.full((), 0, tl.{t}))",)),
    ("sat01_gate", _NUMBERS, "x, y", ("return tl.where((x > 0) & (x < 1), y, tl.full((), 0, tl.{t}))",)),
    ("where", (*_NUMBERS, "bool"), "c, x, y", ("return tl.where(c, x, y)",)),
    ("fmax", _FLOATS, "x, y", ("return tl.maximum(x, y)",)),
    ("fmin", _FLOATS, "x, y", ("return tl.minimum(x, y)",)),
    ("fmax", (*_SIGNED, *_UNSIGNED), "x, y", ("return tl.maximum(x, y)",)),
    ("fmin", (*_SIGNED, *_UNSIGNED), "x, y", ("return tl.minimum(x, y)",)),
    ("fdim", _FLOATS, "x, y", ("return libdevice.fdim(x, y)",)),
    ("fdim", (*_SIGNED, *_UNSIGNED), "x, y", ("return tl.where(x > y, x - y, tl.full((), 0, tl.{t}))",)),
    ("fma", _FLOATS, "x, y, z", ("return tl.fma(x, y, z)",)),
    ("fma", (*_SIGNED, *_UNSIGNED), "x, y, z", ("return x * y + z",)),
)


def _cut_off(source: str, target: str) -> tuple[str, tuple[str, ...]]:
    """From floats to whole numbers: towards zero, the type's end where it lies beyond, 0 where it is not a number."""
    low, high = (int(one) for one in limits(target))
    return "x", (
        f"inside = (x > {float(low)}) & (x < {float(high)})",
        f"whole = tl.cast(tl.where(inside, x, 0.0), tl.{target})",
        f"above, below = tl.full((), {high}, tl.{target}), tl.full((), {low}, tl.{target})",
        f"zero = tl.full((), 0, tl.{target})",
        f"ends = tl.where(x >= {float(high)}, above, tl.where(x <= {float(low)}, below, zero))",
        "return tl.where(inside, whole, ends)",
    )


_WHOLE = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")

_FUNCTIONS: dict[str, tuple[str, tuple[str, ...]]] = {
    **{
        f"weft_{name}_{dtype}": (given, tuple(line.replace("{t}", dtype) for line in lines))
        for name, types, given, lines in _TEMPLATES
        for dtype in types
    },
    **{f"weft_{one}_to_{target}": _cut_off(one, target) for one in _FLOATS for target in _WHOLE},
    "weft_await": ("", ("if WAITS:", "    gdc_wait()")),
}
_NOT_IN_LIBDEVICE = ("digamma", "trigamma")
_CALLED = re.compile(r"\bweft_\w+")


def is_spelled(op: str, dtype: str) -> bool:
    """Can Triton say an operation computed in a type?"""
    spelling = OPS[op].triton.format("", "", "", "", t=dtype)
    if not OPS[op].triton or any(one not in _FUNCTIONS for one in _CALLED.findall(spelling)):
        return False
    return "libdevice." not in spelling or (dtype in _FLOATS and op not in _NOT_IN_LIBDEVICE)


def triton_functions(text: str) -> list[str]:
    """The lines of all functions that a text calls, with those that these call, in an order that defines them first."""
    found: dict[str, None] = {}
    _collect(_CALLED.findall(text), found)
    return [line for name in found for line in _lines(name)]


def _collect(names: Iterable[str], found: dict[str, None]) -> None:
    for name in names:
        if name not in found:
            _collect(_CALLED.findall("\n".join(_FUNCTIONS[name][1])), found)
            found[name] = None


def _lines(name: str) -> list[str]:
    given, lines = _FUNCTIONS[name]
    return ["@triton.jit", f"def {name}({given}):", *(f"    {one}" for one in lines), "", ""]

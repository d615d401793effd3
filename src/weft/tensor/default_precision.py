"""The precision of what nobody says a type of."""

from __future__ import annotations

from weft.assign.dtype_inference import DEFAULTS
from weft.errors import WeftError
from weft.ops.dtypes import element_type, is_float


def default_precision(values: str, *, gradients: str | None = None) -> None:
    """Store what nobody says a type of in `values`, in the whole process: tensors and inputs made from here on.

    Gradients made from here on are stored in `gradients` at least; without it, as their tensors are.
    """
    DEFAULTS.value, DEFAULTS.gradient = _checked(values), None if gradients is None else _checked(gradients)


def _checked(dtype: str) -> str:
    found = element_type(dtype)
    if not is_float(found) or found.startswith("float8"):
        what = f"{found} cannot be a default precision"
        raise WeftError(what, fix='use "float16", "bfloat16", "float32" or "float64"')
    return found

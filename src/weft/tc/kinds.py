"""Arrays of any library: as NumPy sees them, and back as the library's own."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from weft.backends import Array
from weft.dlpack import is_producer
from weft.errors import WeftError, user_origin
from weft.tensor.leaves import numbers


def as_array(value: Any, name: str) -> Array:
    """An argument as an array, on the same memory where that can be."""
    try:
        return numbers(value)
    except WeftError as error:
        error.what = f"`{name}`: {error.what}"
        error.origin = error.origin or user_origin()
        raise


def written(value: Any, name: str) -> Array:
    """An argument that is written: its own memory, whatever its strides."""
    array = value if isinstance(value, np.ndarray) else np.from_dlpack(value) if is_producer(value) else None
    if array is None or not array.flags.writeable:
        what = f"`{name}` cannot be written: {type(value).__name__} gives no memory that may be"
        raise WeftError(what, origin=user_origin(), fix="pass a NumPy array or a tensor that may be written")
    return array


def like(value: Any) -> Callable[[Array], Any]:
    """How to make a NumPy array an array of the library a value comes from."""
    library = sys.modules.get(type(value).__module__.partition(".")[0])
    if isinstance(value, np.ndarray | np.generic) or not is_producer(value) or library is None:
        return lambda array: array
    for place in (library, getattr(library, "dlpack", None), getattr(library, "numpy", None)):
        take = getattr(place, "from_dlpack", None)
        if take is not None:
            return lambda array: take(array)
    return lambda array: array

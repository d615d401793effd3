"""The format safetensors: a header that says where each array lies, then the arrays; by the package of that name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.errors import WeftError
from weft.ops.dtypes import numpy_type

#: The element types, as the format calls them.
_TYPES = {
    "BOOL": "bool",
    "I8": "int8",
    "I16": "int16",
    "I32": "int32",
    "I64": "int64",
    "U8": "uint8",
    "U16": "uint16",
    "U32": "uint32",
    "U64": "uint64",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "F16": "float16",
    "BF16": "bfloat16",
    "F32": "float32",
    "F64": "float64",
}
#: The header begins after its own length.
_LENGTH = 8


def safetensors_content(arrays: Mapping[str, npt.NDArray[Any]], metadata: Mapping[str, str]) -> bytes:
    """The content of a file."""
    found: bytes = _package("safetensors.numpy").save(dict(arrays), metadata=dict(metadata) or None)
    return found


def safetensors_arrays(content: bytes) -> dict[str, npt.NDArray[Any]]:
    """The arrays of a file, by name."""
    return {name: _array(name, found) for name, found in _package("safetensors").deserialize(content)}


def safetensors_metadata(content: bytes) -> dict[str, str]:
    """The texts of a file, by name. The package gives those of a path alone, where another file may be by now."""
    _package("safetensors").deserialize(content)  # refuses what is damaged
    length = int.from_bytes(content[:_LENGTH], "little")
    header = json.loads(content[_LENGTH : _LENGTH + length])
    return dict(header.get("__metadata__") or {})


def _array(name: str, found: Mapping[str, Any]) -> npt.NDArray[Any]:
    kind = _TYPES.get(found["dtype"])
    if kind is None:
        raise WeftError(f"`{name}` is of type {found['dtype']} in the file, which tensors do not have")
    array = np.frombuffer(found["data"], numpy_type(kind)).reshape(found["shape"])
    return array if array.flags.writeable else array.copy()


def _package(name: str) -> ModuleType:
    try:
        return import_module(name)
    except ImportError:
        what = "the format .safetensors needs the package `safetensors`, which is not installed"
        raise WeftError(what, fix="pip install 'weft[io]', or save as .npz") from None

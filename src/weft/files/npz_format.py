"""The format .npz: a zip archive of arrays as NumPy writes them, one member each.

NumPy knows no bfloat16 and no float8: these are written as whole numbers of their bits. A member of weft's own says
which they are, and holds the metadata; a file without it is one that NumPy wrote.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy.typing as npt
from numpy.lib import format as npy

from weft.errors import WeftError
from weft.ops.dtypes import ELEMENT_TYPES, numpy_type

_OWN = "__weft__.json"
_SUFFIX = ".npy"


def npz_content(arrays: Mapping[str, npt.NDArray[Any]], metadata: Mapping[str, str]) -> memoryview:
    """The content of a file."""
    content, types = io.BytesIO(), {name: array.dtype.name for name, array in arrays.items() if not _known(array)}
    with zipfile.ZipFile(content, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(_OWN, json.dumps({"types": types, "metadata": dict(metadata)}))
        for name, array in arrays.items():
            with archive.open(_member(name), "w", force_zip64=True) as member:
                npy.write_array(member, _bits(array) if name in types else array, allow_pickle=False)
    return content.getbuffer()


def npz_arrays(content: bytes) -> dict[str, npt.NDArray[Any]]:
    """The arrays of a file, by name."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        types = _own(archive).get("types", {})
        names = [one.removesuffix(_SUFFIX) for one in archive.namelist() if one.endswith(_SUFFIX)]
        return {name: _array(archive, name, types.get(name)) for name in names}


def npz_metadata(content: bytes) -> dict[str, str]:
    """The texts of a file, by name."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return dict(_own(archive).get("metadata", {}))


def _own(archive: zipfile.ZipFile) -> dict[str, dict[str, str]]:
    return dict(json.loads(archive.read(_OWN))) if _OWN in archive.namelist() else {}


def _array(archive: zipfile.ZipFile, name: str, kind: str | None) -> npt.NDArray[Any]:
    with archive.open(_member(name)) as member:
        array: npt.NDArray[Any] = npy.read_array(member, allow_pickle=False)
        member.read()  # to the end, where damage is found
    if kind is not None:
        return array.view(numpy_type(kind))
    if array.dtype.name not in ELEMENT_TYPES:
        raise WeftError(f"`{name}` holds {array.dtype} in the file, which tensors do not")
    return array.astype(array.dtype.newbyteorder("="), order="C", copy=False)


def _member(name: str) -> str:
    return f"{name}{_SUFFIX}"


def _known(array: npt.NDArray[Any]) -> bool:
    """Has NumPy the type itself?"""
    return array.dtype.isbuiltin == 1


def _bits(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return array.view(f"uint{8 * array.itemsize}")

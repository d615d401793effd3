"""`wf.save` and `wf.load`: arrays by name in a file.

wf.save("model.safetensors", ctx.state(step), metadata={"epoch": "12"})
ctx.restore(step, wf.load("model.safetensors"))
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from weft.dlpack import borrow, is_producer
from weft.errors import WeftError
from weft.files.npz_format import npz_arrays, npz_content, npz_metadata
from weft.files.safetensors_format import safetensors_arrays, safetensors_content, safetensors_metadata
from weft.files.whole_file import replace_file
from weft.ops.dtypes import ELEMENT_TYPES

__all__ = ["load", "load_metadata", "save"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class FileFormat:
    """How whole files are written and read: their content from arrays and metadata, and these from it."""

    content: Callable[[Mapping[str, npt.NDArray[Any]], Mapping[str, str]], bytes | memoryview]
    arrays: Callable[[bytes], dict[str, npt.NDArray[Any]]]
    metadata: Callable[[bytes], dict[str, str]]


#: The formats by suffix.
_FORMATS: Mapping[str, FileFormat] = {
    ".safetensors": FileFormat(safetensors_content, safetensors_arrays, safetensors_metadata),
    ".npz": FileFormat(npz_content, npz_arrays, npz_metadata),
}


def save(
    path: str | os.PathLike[str], state: Mapping[str, npt.ArrayLike], metadata: Mapping[str, str] | None = None
) -> None:
    """Write arrays by name to a file, `.safetensors` or `.npz`, with a text by each name in `metadata`.

    The file appears whole: under another name it is written and synced, then renamed. Whatever goes wrong before that,
    a full disk or a killed process, leaves the file that was there as it was.

        wf.save("model.safetensors", ctx.state(step), metadata={"epoch": "12"})
    """
    target, layout = _file(path)
    arrays = {name: _array(name, value) for name, value in _named(state).items()}
    content = layout.content(arrays, _texts(metadata))
    try:
        replace_file(target, content)
    except OSError as error:
        raise _not_written(target, error) from None


def load(path: str | os.PathLike[str]) -> dict[str, npt.NDArray[Any]]:
    """The arrays that a file of `wf.save` holds, by name; also one that others wrote in these formats.

    ctx.restore(step, wf.load("model.safetensors"))
    """
    target, layout = _file(path)
    return _read(target, layout.arrays)


def load_metadata(path: str | os.PathLike[str]) -> dict[str, str]:
    """The metadata of a file: what `wf.save` was given, or whoever wrote it.

    epoch = int(wf.load_metadata("model.safetensors")["epoch"])
    """
    target, layout = _file(path)
    return _read(target, layout.metadata)


def _file(path: object) -> tuple[Path, FileFormat]:
    if not isinstance(path, str | os.PathLike) or isinstance(os.fspath(path), bytes):
        what = f"a file is named by a path, not {type(path).__name__}"
        raise WeftError(what, fix='write wf.save("model.safetensors", ctx.state(step))')
    target = Path(path)
    layout = _FORMATS.get(target.suffix.lower())
    if layout is None:
        what = f"{os.fspath(path)!r} does not say its format: its suffix is {target.suffix!r}"
        raise WeftError(what, fix="name it ….safetensors, which other libraries read, or ….npz, which NumPy reads")
    return target, layout


def _named(state: object) -> Mapping[str, Any]:
    if not isinstance(state, Mapping):
        what = f"wf.save takes arrays by name, not {type(state).__name__}"
        raise WeftError(what, fix="wf.save(path, ctx.state(step)) saves all that outlives a run of a step")
    for name in state:
        if not isinstance(name, str) or not name:
            raise WeftError(f"arrays are saved by name, and {name!r} is none", fix="use labels, such as “mlp.w1”")
    return state


def _array(name: str, value: Any) -> npt.NDArray[Any]:
    """A value to be saved, in the order of its axes."""
    try:
        found = np.asarray(borrow(value) if is_producer(value) else value, order="C")
    except (TypeError, ValueError) as error:
        raise WeftError(f"what is called `{name}` is no array of numbers: {error}") from None
    if found.dtype.name not in ELEMENT_TYPES:
        what = f"`{name}` holds {found.dtype}, not numbers of a type that tensors have"
        raise WeftError(what, fix="convert it first to one of " + ", ".join(ELEMENT_TYPES))
    return found.astype(found.dtype.newbyteorder("="), copy=False)


def _texts(metadata: object) -> dict[str, str]:
    if metadata is None:
        return {}
    if not isinstance(metadata, Mapping):
        raise WeftError(f"metadata= takes texts by name, not {type(metadata).__name__}", fix='write {"epoch": "12"}')
    for name, text in metadata.items():
        if not isinstance(name, str) or not isinstance(text, str):
            what = f"metadata are texts by name, and {name!r} is {text!r}"
            raise WeftError(what, fix=f"write it as a text: {{{str(name)!r}: {str(text)!r}}}, or json.dumps(…)")
    return dict(metadata)


def _read(path: Path, reading: Callable[[bytes], T]) -> T:
    """What one of the formats finds in a file."""
    try:
        content = path.read_bytes()
    except OSError as error:
        fix = "wf.save(path, ctx.state(step)) makes one" if isinstance(error, FileNotFoundError) else ""
        raise WeftError(f"{os.fspath(path)!r} cannot be read: {error.strerror or error}", fix=fix) from None
    try:
        return reading(content)
    except WeftError:
        raise
    except Exception as error:  # whatever a format's reader says of bytes that are not its own
        what = f"{os.fspath(path)!r} is damaged, or not a {path.suffix} file: {error}"
        raise WeftError(what, fix="load another: a file that wf.save wrote is always whole") from None


def _not_written(path: Path, error: OSError) -> WeftError:
    left = "the file that was there is as it was" if path.exists() else "there is no such file, as before"
    what = f"{os.fspath(path)!r} could not be written: {error.strerror or error}; {left}"
    fix = "make the folder first: os.makedirs(…, exist_ok=True)" if isinstance(error, FileNotFoundError) else ""
    return WeftError(what, fix=fix or "make room or choose another folder, and save again")

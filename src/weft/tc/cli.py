"""What `weft tc` does with a file of comprehensions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from time import perf_counter

import numpy as np

from weft.backends import Array
from weft.comprehension.nodes import Param
from weft.errors import OutOfMemory, WeftError
from weft.ops.dtypes import is_float, numpy_type
from weft.tc.definition import Comprehensions, Definition, define

_SHOWN = 6


def read(path: Path, backend: str | None = None) -> Comprehensions:
    """The definitions of a file."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise WeftError(f"{path} cannot be read: {reason}", fix="give the path of a file of comprehensions") from None
    return define(text, backend=backend)


def check(path: Path) -> str:
    """Each definition of a file and what it takes and gives, if the file has no mistakes."""
    return "\n".join(f"{one.name}({', '.join(one.params)}) -> ({', '.join(one.results)})" for one in read(path))


def show(path: Path, name: str | None, stage: str, sizes: Mapping[str, int], backend: str | None) -> str:
    """A stage of a definition, for given sizes."""
    definition = chosen(read(path, backend), name)
    return definition.show(stage) if stage == "text" else definition.show(stage, *inputs(definition, sizes, 0))


def run(path: Path, name: str | None, sizes: Mapping[str, int], *, backend: str | None, seed: int, times: int) -> str:
    """Run a definition on random numbers and say what came of it and how long it took."""
    definition = chosen(read(path, backend), name)
    given = inputs(definition, sizes, seed)
    found = definition(*given)
    best = min(_timed(definition, given) for _ in range(max(times, 1)))
    results = found if isinstance(found, tuple) else (found,)
    lines = [_summary(one, array) for one, array in zip(definition.results, results, strict=True)]
    return "\n".join([*lines, f"{best * 1e6:.1f} µs, the best of {max(times, 1)}"])


def tune(
    path: Path,
    name: str | None,
    sizes: Mapping[str, int],
    *,
    backend: str | None,
    seconds: float,
    wrt: Sequence[str] | None,
) -> str:
    """Tune a definition on random numbers, or its gradients, and say what came of it."""
    definition = chosen(read(path, backend), name)
    return str(definition.autotune(*inputs(definition, sizes, 0), seconds=seconds, wrt=wrt))


def chosen(text: Comprehensions, name: str | None) -> Definition:
    """The definition of a name, or the only one."""
    if name is not None:
        return text[name]
    first, *others = text
    if others:
        names = ", ".join(one.name for one in text)
        raise WeftError("the file has several definitions", fix=f"choose one with --def: {names}")
    return first


def inputs(definition: Definition, sizes: Mapping[str, int], seed: int) -> list[Array]:
    """Random numbers for what a definition takes. Whole numbers are such that they index any axis."""
    params = {one.name.name: one for one in definition.template.definition.params}
    used = {size for one in params.values() for size in one.type.sizes}
    if missing := sorted(used - sizes.keys()):
        given = " ".join(f"{one}=N" for one in missing)
        what = f"`{definition.name}` needs the size{'s' * (len(missing) > 1)} {', '.join(missing)}"
        raise WeftError(what, fix=f"give it: --sizes {given}")
    if strange := sorted(sizes.keys() - used):
        fix = f"its sizes are {', '.join(sorted(used)) or 'none'}"
        raise WeftError(f"`{definition.name}` has no size {strange[0]}", fix=fix)
    results = [one for one in definition.params if one not in params]
    if results:
        what = f"`{definition.name}` accumulates into `{results[0]}`, which the command has no values for"
        raise WeftError(what, fix="write `+=!` in the text, or call it from Python")
    rng = np.random.default_rng(seed)
    least = min([sizes[one] for one in used], default=1)
    return [_random(params[one], sizes, least, rng) for one in definition.params]


def _random(param: Param, sizes: Mapping[str, int], least: int, rng: np.random.Generator) -> Array:
    shape, dtype = param.type.shape(sizes), numpy_type(param.type.dtype)
    try:
        values = rng.standard_normal(shape) if is_float(param.type.dtype) else rng.integers(0, max(least, 1), shape)
        return np.asarray(values).astype(dtype)
    except (MemoryError, OverflowError, ValueError):
        what = f"there is no memory for `{param.name.name}` of {'×'.join(map(str, shape))} numbers"
        raise OutOfMemory(what, fix="give smaller --sizes") from None


def _timed(definition: Definition, given: Sequence[Array]) -> float:
    start = perf_counter()
    definition(*given)
    return perf_counter() - start


def _summary(name: str, array: Array) -> str:
    first = ", ".join(f"{one:.6g}" for one in array.ravel()[:_SHOWN].tolist())
    more = ", …" if array.size > _SHOWN else ""
    return f"{name}: {array.dtype}{list(array.shape)} = {first}{more}"

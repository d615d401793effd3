"""Triton's compiler: from the text of a kernel to machine code, with or without a GPU in the machine."""

from __future__ import annotations

import hashlib
import linecache
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from weft.backends.cuda.kernel_source import BlockMap, Launch, Source, waits_in_kernels
from weft.backends.cuda.triton_types import pointer_type
from weft.errors import WeftError

#: Triton's kernels take two more pointers, to memory that ours do not need.
_TRAILING = 2
#: Memory begins at multiples of this many bytes.
_ALIGNMENT = 16


def compile_triton(source: Source, architecture: str) -> Launch:
    """Machine code for an architecture such as "sm_90"."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    function = _function(source, waits_in_kernels(architecture))
    names = function.arg_names
    pointers = [pointer_type(one) for one in source.dtypes] + (["*i64"] if source.given else [])
    types = pointers + [f"tensordesc<{pointer_type(one.dtype)[1:]}{list(one.block)}>" for one in source.maps]
    attributes = {(at,): [["tt.divisibility", _ALIGNMENT]] for at in range(len(pointers))}
    code = ASTSource(fn=function, signature=dict(zip(names, types, strict=True)), constexprs={}, attrs=attributes)
    target = GPUTarget("cuda", int(architecture.removeprefix("sm_").rstrip("a")), 32)
    options = {"num_warps": source.warps, "num_stages": source.stages, "enable_fp_fusion": False}
    try:
        made = triton.compile(code, target=target, options=options)
    except Exception as error:  # whatever it is, the text that caused it is kept
        raise _refused(source, architecture, error) from error
    return Launch(
        made.metadata.name,
        made.asm["cubin"],
        source.programs,
        32 * source.warps,
        made.metadata.shared,
        _TRAILING,
        maps=tuple(map(_decided, source.maps, made.metadata.tensordesc_meta)),
    )


def _decided(one: BlockMap, found: Mapping[str, Any]) -> BlockMap:
    """A tensor map with what the compiler decided of it."""
    high, wide = found["block_size"]
    return replace(one, box=(high, wide), swizzle=found["swizzle"])


def _function(source: Source, waits: bool) -> Any:
    """The function of a text, whose lines Python finds though no file has them."""
    from triton.language import constexpr

    name = f"<weft {hashlib.sha256(source.text.encode()).hexdigest()[:16]}>"
    linecache.cache[name] = len(source.text), None, source.text.splitlines(True), name
    module: dict[str, Any] = {"__name__": name}
    exec(compile(source.text, name, "exec"), module)
    module["WAITS"] = constexpr(waits)
    return module[source.entry]


def _refused(source: Source, architecture: str, error: Exception) -> WeftError:
    what = f"Triton compiles no kernel `{source.entry}` for {architecture}: {type(error).__name__}: {error}"
    numbered = [f"{at:4}  {line}" for at, line in enumerate(source.text.splitlines(), 1)]
    return WeftError(what, notes=["\n".join(numbered)], fix='run it elsewhere, for example wf.Context("cc")')

"""Everything about compiling that somebody may choose, as one value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from numbers import Integral, Real
from typing import Any

from weft.errors import NoSuchName, WeftError
from weft.machine import COMMON, Machine
from weft.notation.words import meant
from weft.optimise.inline_decision import Settings
from weft.public import public_constructor
from weft.schedule.gpu_model import USUAL_GPU, Gpu
from weft.schedule.options import Options
from weft.thresholds import USUAL, Thresholds

#: The least that numbers may be, where that is not 1; and the most, where there is one.
_LEAST = {"threads": 0, "reuse": 0, "recompute_operations": 0, "recompute_share": 0}
_PRODUCTS = ("float32", "tf32", "bfloat16", "float16")
_MOST = {"threads": 256, "single_terms": 10, "short_loop": 64, "jam_iterations": 64}


@public_constructor
@dataclass(frozen=True, slots=True)
class CompileOptions:
    """How code is compiled. Whatever is kept because it was compiled is kept under this.

    `optimise`: cut programs into fused kernels. `fast_math`: use rules that do not hold for infinities and what is not
    a number. `max_visits`: how often a value may be recomputed instead of stored. `max_tracing_dim`: how far loops
    are followed where that cannot be counted. `device_only`: whether values may exist only as variables in a kernel.
    `strict`: what is legal but hardly meant is an error, not a warning. `verify`: check the program after every pass;
    the environment variable WEFT_VERIFY=1 sets it from the start. `threads`: how many share a kernel at most; 0 stands
    for as many as there are processors that the process may use, and no more than OMP_NUM_THREADS. What is computed
    does not depend on it. `products`: what the factors of contractions in single precision are rounded to before they
    are multiplied: "bfloat16" or "float16", which sums are not; "tf32", where a GPU has it; or nothing, "float32".

    Where passes draw lines: `inline_operations` and `kernel_operations` are the most that inlining and fusion put
    together, `fusion_tries` is how many kernels a nest tries to join. A sum of products is a contraction from
    `contraction_points` on, a large one from `large_contraction_points` on, if each operand is used `reuse` times on
    average; from `pack_rows` rows on its columns are packed, where they fill the second cache, from half as many where
    they fill it twice. Threads claim work of
    `chunk_ns` at least, as estimated, and share no loop that has less than two such chunks. Loops of `short_loop`
    iterations are unrolled in tiles, and so many terms are worth a lane of a vector that adds up. An outer
    sum does `jam_iterations` at once, where each is up to `jam_operations` long. Sums of at most `single_terms` stay in
    single precision; in cells of a tensor those of 64 do, if their terms are no sums.
    Rematerialisation does so many `recompute_operations` to hold a byte less, and nothing to save less than
    `recompute_share` of what is held; up to `recompute_inline` operations are done where their value is read,
    or where tiles pack it.

    `thresholds`: all other lines that passes draw, which hardly anybody moves (`wf.Thresholds`).

    `schedule`: what loops run like, where that is not left to weft. `tuned`: the file of what `routine.tune` found,
    which every process reads; a relative path begins at the cache, and where it is empty nothing is read or kept.
    `machine`: what it is compiled for; `gpu`, where it runs on a GPU, None for the one that is found. A context and a
    comprehension keep `kept_programs` that they compiled by themselves, those used last.
    """

    optimise: bool = True
    fast_math: bool = False
    max_visits: int = 1
    max_tracing_dim: int = 5
    device_only: bool = True
    strict: bool = False
    verify: bool = False
    threads: int = 0
    products: str = "float32"
    inline_operations: int = 128
    kernel_operations: int = 256
    fusion_tries: int = 16
    contraction_points: int = 1 << 10
    large_contraction_points: int = 1 << 15
    reuse: int = 4
    pack_rows: int = 512
    chunk_ns: int = 2000
    short_loop: int = 8
    jam_iterations: int = 4
    jam_operations: int = 12
    single_terms: int = 10
    recompute_operations: int = 16
    recompute_share: float = 1 / 8
    recompute_inline: int = 8
    kept_programs: int = 256
    thresholds: Thresholds = USUAL
    schedule: Options = Options()  # noqa: RUF009 it is frozen
    tuned: str = "tuned.jsonl"
    machine: Machine = field(default_factory=Machine.here)
    gpu: Gpu | None = None

    def __post_init__(self) -> None:
        for name, kind in KINDS.items():
            if (wanted := _refused(name, kind, getattr(self, name))) is not None:
                what = f"config.{name} is {wanted}, not {getattr(self, name)!r}"
                near = meant(str(getattr(self, name)), _PRODUCTS) if name == "products" else ""
                raise WeftError(what, fix=near or f"for example wf.CompileOptions({_example(name)})")

    def but(self, **changes: Any) -> CompileOptions:
        """The options with some changed."""
        for name in changes:
            if name not in KINDS:
                raise no_option(name)
        return replace(self, **changes)

    @property
    def inlining(self) -> Settings:
        """What the decision to inline a buffer depends on."""
        return Settings(
            self.max_visits,
            self.max_tracing_dim,
            self.device_only,
            self.inline_operations,
            self.contraction_points,
            self.recompute_inline,
            self.machine,
            self.chunk_ns,
        )

    @property
    def factors(self) -> str:
        """The type that factors of contractions in single precision are rounded to, whatever runs them; or none."""
        return self.products if self.products in ("bfloat16", "float16") else ""

    @property
    def shaped_for(self) -> Gpu:
        """The GPU that kernels are shaped for."""
        return self.gpu or USUAL_GPU

    @property
    def timed_on(self) -> Machine:
        """What runs what is tuned: the machine, or the GPU in it."""
        return self.gpu.as_machine(self.machine) if self.gpu else self.machine

    @property
    def key(self) -> str:
        """All that compiled code depends on, but for what tuning found: not how it is checked on the way, nor how much
        of it is kept."""
        return repr(replace(self, strict=False, verify=False, kept_programs=1, tuned=""))


KINDS: Mapping[str, type] = {
    one.name: {"machine": Machine, "gpu": Gpu}.get(one.name) or type(one.default) for one in fields(CompileOptions)
}


def no_option(name: str) -> WeftError:
    """An option is named that does not exist."""
    return NoSuchName(f"there is no setting {name!r}", fix="the settings are " + ", ".join(KINDS))


def checked_options(given: object) -> CompileOptions | None:
    """Options as `options=` takes them: None for those of `wf.config`."""
    if not isinstance(given, CompileOptions | None):
        what = f"options= takes wf.CompileOptions, not {type(given).__name__}"
        raise WeftError(what, fix="write options=wf.CompileOptions(fast_math=True), or leave it out")
    return given


def _refused(name: str, kind: type, value: object) -> str | None:
    """What an option takes, if a value is not that."""
    least, most = _LEAST.get(name, 1), _MOST.get(name)
    if kind is bool:
        return None if type(value) is bool else "True or False"
    if name == "products":
        return None if value in _PRODUCTS else f"one of {', '.join(map(repr, _PRODUCTS))}"
    if kind is Gpu:
        return None if value is None or isinstance(value, Gpu) else "a wf.Gpu, or None"
    if kind is str:
        return None if isinstance(value, str) else "the path of a file, or empty"
    if kind not in (int, float):
        return None if isinstance(value, kind) else f"a wf.{'tc.' * (kind is Options)}{kind.__name__}"
    number = isinstance(value, Integral if kind is int else Real) and not isinstance(value, bool)
    if number and value >= least and (most is None or value <= most):  # type: ignore[operator]
        return None
    return f"a {'whole ' * (kind is int)}number from {least} {'on' if most is None else f'to {most}'}"


def _example(name: str) -> str:
    default = {
        "schedule": "wf.tc.Options(threads=2)",
        "machine": "wf.Machine.here()",
        "gpu": "wf.Gpu(multiprocessors=108)",
        "thresholds": "wf.Thresholds(tile_rows=6)",
    }
    return (
        f"{name}={default.get(name) or next(repr(one.default) for one in fields(CompileOptions) if one.name == name)}"
    )


#: What passes do where nothing is asked for: as weft likes it, for one core of a common machine.
DEFAULTS = CompileOptions(machine=COMMON)

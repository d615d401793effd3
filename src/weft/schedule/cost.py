"""What a kernel costs: operations, memory touched, memory moved.

Flops are arithmetic operations of the table, each counted once every time it runs, whatever it takes: an exponential is
one, and one of three operands (a fused multiply-add) two. Functions such as exponentials are counted once more by
themselves: they take as long as many others. Comparisons, choices and conversions are counted apart, and
what only hands a value on is not counted at all; nor are affine indices.

`read` and `written` are bytes of different cells, each counted once: what must come from memory and go there if caches
hold everything in between. What the kernel reads only after writing it itself does not come from memory. `loads` and
`stores` are the bytes of every access. Code under tests counts as if they held, so it is bounded from above; so are
cells that are no boxes (`access_footprints.py`). `exact` says that nothing is bounded but all is counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from weft.columns import shortened, table
from weft.loops import Buffer, Cast, Stmt, Update, combined
from weft.loops.legality import points
from weft.loops.reaching_writes import Site, covered, sites
from weft.loops.walk import parts, scoped, walk
from weft.machine import Machine
from weft.ops import OPS, Call, Num, Scalar, typing
from weft.ops.dtypes import numpy_type
from weft.optimise.latency import is_long_latency
from weft.schedule.access_footprints import box_of, union
from weft.schedule.nodes import Kernel


@dataclass(frozen=True, slots=True)
class Cost:
    """Operations and bytes."""

    flops: int = 0
    others: int = 0
    read: int = 0
    written: int = 0
    loads: int = 0
    stores: int = 0
    exact: bool = True
    functions: int = 0

    @property
    def footprint(self) -> int:
        """The bytes that must come from memory or go there."""
        return self.read + self.written

    @property
    def intensity(self) -> float:
        """Flops for each byte of the footprint."""
        return self.flops / self.footprint if self.footprint else 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.flops + other.flops,
            self.others + other.others,
            self.read + other.read,
            self.written + other.written,
            self.loads + other.loads,
            self.stores + other.stores,
            self.exact and other.exact,
            self.functions + other.functions,
        )


def cost(kernel: Kernel) -> Cost:
    """What running a kernel once costs."""
    total = Cost()
    for scalar, times, tested in _computed(kernel.body):
        inside = walk(scalar)
        flops, others, functions = (times * sum(map(each, inside)) for each in (_flops, _others, _functions))
        total += Cost(flops, others, exact=not tested, functions=functions)
    return sum(memory_costs(kernel).values(), total)


def memory_costs(kernel: Kernel) -> dict[Buffer, Cost]:
    """The bytes of each buffer that running a kernel once costs."""
    return {buffer: _memory(buffer, own) for buffer, own in sites(kernel.body).items()}


def roofline(cost: Cost, machine: Machine, held: int = 0) -> float:
    """The least seconds that all cores of a machine need together, whatever caches hold from one run to the next; so
    many bytes are held at least, where others run in between."""
    held = max(held, cost.footprint)
    cores = machine.cores if held <= machine.caches[-1] else 1  # memory is that of all of them
    moved = cost.footprint / (machine.bytes_per_s_of(held // cores) * cores)
    return max(cost.flops / (machine.flops_per_s * machine.cores), moved)


def computing_seconds(cost: Cost, machine: Machine) -> float:
    """The seconds that one core computes, functions as long as such code takes on it: that is no bound."""
    return cost.flops / machine.flops_per_s + cost.functions * machine.function_ns * 1e-9


@dataclass(frozen=True, slots=True)
class Costs:
    """What the kernels of a program cost."""

    kernels: Sequence[Kernel]

    def __iter__(self) -> Iterator[Cost]:
        return map(cost, self.kernels)

    @property
    def total(self) -> Cost:
        return sum(self, Cost())

    def __str__(self) -> str:
        return show_costs(self.kernels)


def show_costs(kernels: Sequence[Kernel]) -> str:
    """What each kernel costs, and all together, as a table; `≤` where a number is a bound."""
    costs = list(map(cost, kernels))
    rows = [
        (str(index), *_row(one), assignments(kernel))
        for index, (kernel, one) in enumerate(zip(kernels, costs, strict=True))
    ]
    header = ("kernel", "flops", "bytes", "flops/byte", "", "assignments")
    return table(header, [*rows, ("all", *_row(sum(costs, Cost())), "")])


def _row(cost: Cost) -> tuple[str, str, str, str]:
    return str(cost.flops), str(cost.footprint), f"{cost.intensity:.2f}", "" if cost.exact else "≤"


def assignments(kernel: Kernel) -> str:
    """The first assignments of a kernel, without the comments around them."""
    found = [line for line in kernel.remarks if re.search(r" =\S* ", line)] or kernel.remarks
    return shortened([line if len(line) <= 40 else line[:39] + "…" for line in found], 2)


def _memory(buffer: Buffer, own: Sequence[Site]) -> Cost:
    """The bytes of one buffer."""
    size = numpy_type(buffer.dtype).itemsize
    reads, writes = ([site for site in own if site.access.writes is which] for which in (False, True))
    loads, stores = (size * sum(map(_cells_moved, some)) for some in (reads, writes))
    read, counted = union([box_of(site) for site in reads])
    written, known = union([box_of(site) for site in writes])
    if writes and covered(own):
        read, counted = 0, True
    exact = counted and known and not any(site.tests for site in own)
    return Cost(0, 0, size * read, size * written, loads, stores, exact)


def _cells_moved(site: Site) -> int:
    times = points(site.loops)
    return times if site.access.at is not None else times * prod(site.access.buffer.shape)


def _computed(body: Sequence[Stmt]) -> Iterator[tuple[Scalar, int, bool]]:
    """Every scalar a block computes, how often, and whether that depends on a test."""
    for stmt, scope in scoped(body):
        times, tested = points(scope.loops), bool(scope.tests)
        scalars = (combined(stmt),) if isinstance(stmt, Update) else parts(stmt)
        yield from ((scalar, times, tested) for scalar in scalars)


def _flops(scalar: Scalar) -> int:
    if not isinstance(scalar, Call):
        return 0
    op = OPS[scalar.op]
    hands_on = op.typing in (typing.first, typing.second, typing.selection)
    return 0 if hands_on or op.truth else max(1, op.arity - 1)


def _functions(scalar: Scalar) -> int:
    return int(isinstance(scalar, Call) and is_long_latency(scalar))


def _others(scalar: Scalar) -> int:
    match scalar:
        case Call(op=op):
            return int(OPS[op].truth or OPS[op].typing is typing.selection)
        case Cast(value=value):
            return int(not isinstance(value, Num))
    return 0

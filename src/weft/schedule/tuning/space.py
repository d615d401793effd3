"""What can be decided otherwise about a kernel: each choice on its own, so that choices can be changed and combined.

A `Knob` has some values, reads its value from decisions and gives decisions with another. Loops have three: how many
run as one, what threads claim of them, and how their iterations run (jammed, on vectors, unrolled). Perfect nests have
the order of their loops, and tiles of each (`nest_knobs.py`). Products have five (`product_knobs.py`). Values are those
that may be legal by themselves; whether all of a candidate's are is asked of the whole.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from weft.loops import Annotation, Buffer, Collapse, For, Jam, Parallel, Registers, Staged, Stmt, Unroll, Vector
from weft.loops.legality import illegal
from weft.loops.staged import plain
from weft.loops.walk import everything, perfect
from weft.schedule.annotate import annotated, is_innermost
from weft.schedule.compile_options import CompileOptions
from weft.schedule.decisions import Decisions
from weft.schedule.nests.bands import bands_of
from weft.schedule.nests.parallelise import with_private
from weft.schedule.tuning.knobs import Knob, annotation_knob, chunk_sizes
from weft.schedule.tuning.nest_knobs import nest_knobs
from weft.schedule.tuning.product_knobs import loop_names, product_knobs

_LANES = (0, 4, 8, 16, 32)
_UNROLLED = (2, 4, 8)
_JAMMED = (2, 3, 4, 6, 8)


def knobs(body: Sequence[Stmt], options: CompileOptions, own: Collection[Buffer], rules: Decisions) -> list[Knob]:
    """What can be chosen about a kernel of systematic names, those choices that leave something to choose.

    `rules` is what weft decides about it with every product as loops.
    """
    products = [one for one in everything(body) if isinstance(one, Staged)]
    within = {loop: one.what.total for one in products for loop in loop_names(one.body)}
    found, loops = [knob for one in products for knob in product_knobs(one, options, rules)], plain(body)
    for loop in everything(loops):
        if isinstance(loop, For):
            total = within.get(loop.loop, "")
            found += (_while_loops(one, total) for one in _of_loop(loop, options, loops, own))
    for band in bands_of(loops):
        total = next((within[name] for name in band.names if name in within), "")
        found += (_while_loops(one, total) for one in nest_knobs(band, options))
    return [one for one in found if len(one.values) > 1]


def _while_loops(knob: Knob, total: str) -> Knob:
    """A choice about a loop of a product: there is none while that is in tiles."""
    return replace(knob, write=lambda found, value: found if found.product(total) else knob.write(found, value))


def _of_loop(loop: For, options: CompileOptions, body: Sequence[Stmt], own: Collection[Buffer]) -> Iterator[Knob]:
    yield annotation_knob(loop.loop, (Collapse,), [None, *_collapses(loop)])
    if with_private(annotated(loop, Parallel(1)), loop, options, body, own) is not None:
        yield annotation_knob(loop.loop, (Parallel,), [None, *map(Parallel, chunk_sizes(loop.size, options))])
    yield annotation_knob(loop.loop, (Jam, Vector, Registers, Unroll), [None, *_iterations(loop)])


def _collapses(loop: For) -> list[Annotation]:
    deepest = range(2, 2 + len(everything(loop.body)))
    legal = (one for count in deepest if not illegal(annotated(loop, one := Collapse(count))))
    return list(legal)


def _iterations(loop: For) -> list[Annotation]:
    """How the iterations of a loop may run: jammed, or if it can become innermost, on vectors or unrolled."""
    jams: list[Annotation] = [jam for times in _JAMMED if not illegal(annotated(loop, jam := Jam(times)))]
    inner: list[Annotation] = [*map(Vector, _LANES), *map(Unroll, _UNROLLED)]
    return [*jams, *(inner if is_innermost(perfect(loop.body)[1]) else [])]

"""Whatever is legal may be decided: annotated kernels compute in C what the oracle computes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from backends.contractions import Contraction, contractions
from effort import tries
from loops.blocks import blocks
from loops.programs import GIVEN, Sample, samples
from loops.written import program
from schedule.kernels import placed
from weft.affine import Affine
from weft.backends.cc import Cc
from weft.loops import (
    Annotation,
    Buffer,
    Cast,
    Cold,
    Collapse,
    For,
    If,
    Inside,
    Jam,
    Let,
    Local,
    MalformedLoops,
    Parallel,
    Program,
    Read,
    Set,
    Staged,
    Stmt,
    Store,
    Tile,
    Unroll,
    Update,
    Vector,
    check,
    parse,
)
from weft.loops.interp import run, run_scalar
from weft.loops.legality import illegal
from weft.loops.names import distinct
from weft.loops.product_legality import unfit
from weft.loops.walk import Body, around, everything, with_body
from weft.ops import Num, call
from weft.ops.dtypes import numpy_type
from weft.schedule import Kernel
from weft.schedule.annotate import annotated
from weft.schedule.nests.collapse import collapsed
from weft.schedule.nests.unroll_jam import jammed
from weft.schedule.nests.vectorise import vectorised

#: Where the static index stands.
BOUND = {"s": 1}
ANY: list[Annotation] = [Collapse(2), Collapse(3), Jam(2), Jam(3), Vector(), Vector(4), Vector(8), Unroll(3), Cold()]


@pytest.fixture(scope="module")
def backend(tmp_path_factory: pytest.TempPathFactory) -> Cc:
    made = Cc()
    made.folder = Path(tmp_path_factory.mktemp("kernels"))
    return made


def decided(draw: st.DrawFn, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """A block with annotations drawn for its loops, those that are legal, from the innermost out."""
    return tuple(_decided(draw, stmt) for stmt in body)


def _decided(draw: st.DrawFn, stmt: Stmt) -> Stmt:
    if not hasattr(stmt, "body"):
        return stmt
    done = with_body(stmt, decided(draw, stmt.body))
    for how in draw(st.permutations(ANY))[:5] if isinstance(done, For) else ():
        inner = _plain(done) if isinstance(how, Collapse) else done
        done = done if illegal(annotated(inner, how)) else annotated(inner, how)
    return done


def _plain(loop: For) -> For:
    """A loop around loops that say nothing of how they run."""
    body = tuple(_plain(replace(one, how=())) if isinstance(one, For) else one for one in loop.body)
    return replace(loop, body=body)


@st.composite
def nests(draw: st.DrawFn) -> Sample:
    """Loops around writes that mostly lie as vectors, threads and collapsed loops want them, and sometimes do not."""
    depth = draw(st.sampled_from([1, 2, 2, 3]))
    sizes = {name: draw(st.integers(3, 20)) for name in "ijk"[:depth]}
    names = draw(st.one_of(st.just(list(sizes)), st.permutations(list(sizes))))
    x, y, z = (Buffer(at, name, tuple(sizes.values()), "float32") for at, name in enumerate("xyz"))
    summed = draw(st.one_of(st.just({names[0]}), st.sets(st.sampled_from(names))))
    total = Buffer(3, "total", tuple(1 if name in summed else size for name, size in sizes.items()), "float32")
    at = {name: Affine(((1, name),)) for name in sizes}
    here = tuple(at.values())
    moving = draw(st.sampled_from(names))
    w = Buffer(4, "w", tuple(size + (name == moving) for name, size in sizes.items()), "float32")
    next_one = tuple(Affine(((1, name),), int(name == moving)) for name in sizes)
    t, u = (Local(name, "float32") for name in "tu")
    value = call("mul", Read(x, here), Cast("float32", Num(2)))
    choices: list[tuple[Stmt, ...]] = [
        (Store(y, here, value),),
        (Let(u, value), Store(y, here, call("add", u, Read(z, here)))),
        (Update(total, tuple(Affine(()) if name in summed else at[name] for name in sizes), "add", value),),
        (Set(t, call("add", t, value)),),
        (Store(w, next_one, Read(w, here)),),
        (If((Inside(at[names[-1]], 2),), (Store(y, here, value),)),),
        (Store(y, here, Cast("float32", at[names[0]])),),
    ]
    chosen = draw(st.lists(st.sampled_from(choices), min_size=1, max_size=2, unique_by=id))
    body = around([(name, sizes[name]) for name in names], tuple(stmt for one in chosen for stmt in one))
    if any(isinstance(one, Set) for one in everything(body)):
        body = (Let(t, Cast("float32", Num(1))), *body, Store(x, (Affine(()),) * len(sizes), t))
    return Sample(Program(body), (x, y, z, total, w), draw(st.integers(0, 9)))


@st.composite
def kernels(draw: st.DrawFn) -> tuple[Sample, tuple[Stmt, ...]]:
    sample = draw(st.one_of(nests(), nests(), nests(), samples(), blocks()))
    body = decided(draw, distinct(sample.program.body, GIVEN))
    if len(body) == 1 and isinstance(body[0], For) and not illegal(shared := annotated(body[0], Parallel(2))):
        body = (shared,) if draw(st.booleans()) else body
    return sample, body


@settings(max_examples=tries(20), suppress_health_check=list(HealthCheck))
@given(kernels())
def test_whatever_is_legal_computes_the_same(backend: Cc, drawn: tuple[Sample, tuple[Stmt, ...]]) -> None:
    sample, body = drawn
    check(Program(body), GIVEN)
    meant, oracle, ours = sample.memory(), sample.memory(), sample.memory()
    run_scalar(sample.program, meant, BOUND)
    run(Program(body), oracle, BOUND)
    backend.compile([Kernel((), body)]).bind(ours)(BOUND)
    for buffer in sample.buffers:
        np.testing.assert_array_equal(oracle[buffer], meant[buffer], err_msg=buffer.name)
        np.testing.assert_array_equal(ours[buffer], meant[buffer], err_msg=buffer.name)


@st.composite
def tiles(draw: st.DrawFn, staged: Staged) -> Staged:
    """A product with a tile drawn for it, if that is legal."""
    pick = st.sampled_from
    dtype = next(one.local.dtype for one in everything(staged.body) if isinstance(one, Let))
    strips, panel = (draw(pick(["", "copied", "transposed"])) for _ in range(2))
    block, group = draw(pick([0, 0, 1, 7])), draw(pick([0, 1, 3]))
    tile = Tile(
        draw(pick([1, 3, 8])),
        draw(pick([1, 2, 4])),
        draw(pick([16, 32, 64])) // numpy_type(dtype).itemsize,
        draw(st.booleans()),
        draw(pick([(), (5,), (46, 16), (3, 2)])),
        panel,
        block,
        draw(st.booleans()),
        draw(pick(["rows", "columns"])),
        draw(st.booleans()),
        strips=strips,
        packed=draw(pick([1, 3])) if strips else 1,
        group=group,
        panels=draw(pick([1, 3])) if group and (strips or block) else 1,
        looks=draw(pick([0, 1, 3])),
        at_once=draw(pick([1, 2, 3])) if panel == "copied" else 1,
        ahead=draw(pick([0, 0, 1, 64])),
    )
    found = replace(staged, what=replace(staged.what, tile=tile))
    return staged if unfit(found) else found


@settings(max_examples=tries(20), suppress_health_check=list(HealthCheck))
@given(st.data(), contractions())
def test_whatever_tile_is_legal_computes_the_same(backend: Cc, data: st.DataObject, sample: Contraction) -> None:
    (kernel,) = placed(sample.kernels, sample.kept, 1)
    body = tuple(_tiled(data, stmt) for stmt in kernel.body)
    ours, meant = sample.memory(), sample.memory()
    run(check(sample.program), meant)
    backend.compile([Kernel((), check(Program(body)).body)]).bind(ours)({})
    sample.agree(ours, meant)


def _tiled(data: st.DataObject, stmt: Stmt) -> Stmt:
    if isinstance(stmt, Staged):
        return data.draw(tiles(stmt))
    return with_body(stmt, tuple(_tiled(data, one) for one in stmt.body)) if isinstance(stmt, For) else stmt


@pytest.mark.parametrize(
    ("before", "how", "problem"),
    [
        ("D[0] = C[i]", (Vector(),), "loop i cannot run on vectors: iterations share cells of `D`"),
        ("C[i] = C[39 - i]", (Parallel(2),), "loop i cannot run on threads by 2: iterations share cells of `C`"),
        ("C[i] = 1", (Collapse(2),), "loop i cannot run collapsed by 2: there are not 2 plain loops, each the whole"),
        (
            "C[i] += 1",
            (Jam(4),),
            "loop i cannot run jammed by 4: it holds more than variables, and loops",
        ),
        (
            "C[i] = 1",
            (Vector(), Unroll(2)),
            "loop i cannot run on vectors, unrolled by 2: on vectors and unrolled",
        ),
    ],
)
def test_what_is_not_legal_is_no_program(before: str, how: tuple[Annotation, ...], problem: str) -> None:
    (loop,) = program(f"\nfor i in range(40):\n    {before}\n").body
    assert isinstance(loop, For)
    with pytest.raises(MalformedLoops) as caught:
        check(Program((replace(loop, how=how),)))
    assert str(caught.value).startswith(problem)


@pytest.mark.parametrize("decide", [collapsed, jammed, vectorised])
def test_nothing_is_decided_of_what_is_cold(decide: Callable[[Body], Body]) -> None:
    text = "x: float32[4096, 4096]\ny: float32[4096, 4096]\nz: float32[4096]\n"
    text += "for i in range(4096){cold}:\n    for j in range(4096):\n        y[i, j] = x[i, j]\n"
    text += "for k in range(4096){cold}:\n    for l in range(4096):\n        z[l] += x[k, l]"
    cold, hot = (check(parse(text.format(cold=one))).body for one in (" cold", ""))
    assert decide(cold) == cold
    assert decide(hot) != hot

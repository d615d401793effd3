"""Kernels that are alike: which are, and that what is done to one of them is done to all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from hypothesis import given, settings, strategies as st

import weft as wf
from backends.interpreted import Fusing
from generators.nests import PLACES
from loops.programs import Sample as LoopSample, samples
from schedule.kernels import at, floats, loop, plus, read, store
from schedule.test_schedule_canonical import names_in, renamed
from weft.loops import Buffer, Cast, For, Let, Local, Parallel, Program, Read, Remark, Role, Stmt, Vector, check, show
from weft.loops.walk import bottom_up
from weft.machine import Machine
from weft.ops import Num
from weft.schedule import PASSES, CompileOptions, Kernel, Task, show_kernels, stages
from weft.schedule.canonical import digest
from weft.schedule.kernel_templates import per_template, touched, touched_by_one, with_own_partials, with_templates
from weft.schedule.stage import Pass, Stage

X, Y, Z, W = (floats(number, name, 4) for number, name in enumerate("xyzw", 1))
CORE, ONE = store(Y, at("i"), plus(read(X, "i"), 1.0)), Let(Local("t", "float32"), Cast("float32", Num(1)))


def kernel(target: Buffer, source: Buffer, name: str = "i", value: float = 1.0) -> Kernel:
    return Kernel((target.name,), (loop(name, 4, store(target, at(name), plus(read(source, name), value))),))


def test_kernels_that_differ_in_names_have_one_template() -> None:
    first, second = with_templates([kernel(Y, X), kernel(Z, Y, "k")])
    assert second.template is first.template
    assert (second.remarks, second.body) == (("z",), kernel(Z, Y, "k").body)
    assert touched([first, second]) == [(Y, X), (Z, Y)]
    assert touched_by_one([first, second]) == {X, Z}
    assert [one.template for one in with_templates([first, second])] == [first.template] * 2


def partial_of(number: int) -> Buffer:
    return replace(floats(number, "s_part", 4), role=Role.PARTIAL)


def test_partial_accumulators_are_those_of_one_kernel() -> None:
    """Kernels of one template, and kernels that called theirs alike, share none; nor do fields of them."""
    alike = with_templates([kernel(partial_of(0), X), kernel(partial_of(0), Y), kernel(Y, partial_of(0))])
    field = partial_of(0).beside(Role.FIELD, ".0")
    own = with_own_partials([*alike, kernel(field, X)])
    found = [[one for one in buffers if one not in (X, Y)] for buffers in touched(own)]
    assert found[:3] == [[partial_of(0)], [partial_of(1)], [partial_of(2)]]
    assert found[3] == [replace(field, id=3, of=partial_of(3))]
    assert [one.template is other.template for one, other in zip(own, alike, strict=False)] == [True] * 3
    assert own[1].body == kernel(partial_of(1), Y).body


def test_sums_of_kernels_that_are_called_alike_run_on_threads_both() -> None:
    x = wf.data(np.ones((256, 512), np.float32), batch=1, label="x")
    s = wf.einsum("...|o => ...|0", wf.exp(x), label="s")
    z = wf.tanh(wf.param("w", o=256) @ (x / s)).named("z")
    u = z * wf.einsum("...|o => ...|0", z, label="s")
    v = wf.einsum("...|... => 0", u * u, label="v")
    options = CompileOptions(max_visits=4, machine=replace(Machine(), cores=2))
    program = wf.Context(Fusing()).compile(wf.seq(wf.grad_update(v), wf.optim.sgd(v, lr=0.1))).loops
    *_, (_, last) = stages(program, Task(kept={}, places=PLACES, options=options))
    outer = [one for kernel in last.kernels for one in kernel.body if isinstance(one, For) and one.size == 256]
    assert outer
    assert all(isinstance(one.how[0], Parallel) for one in outer)


#: What is not like `y[i] = x[i] + 1.0`.
DIFFERENT = {
    "the same buffer": kernel(X, X),
    "a constant": kernel(Y, X, value=2.0),
    "a zero": kernel(Y, X, value=0.0),
    "a zero with a sign": kernel(Y, X, value=-0.0),
    "another type of number": Kernel((), (loop("i", 4, store(Y, at("i"), plus(read(X, "i"), Num(1)))),)),
    "a shape": kernel(Y, replace(X, shape=(5,))),
    "a role": kernel(Y, replace(X, role=Role.COPY)),
    "an offset": Kernel((), (loop("i", 3, store(Y, at("i+1"), plus(read(X, "i"), 1.0))),)),
    "a static index": Kernel((), (loop("i", 4, store(Y, at("i"), plus(read(X, "s"), 1.0))),)),
    "another static index": Kernel((), (loop("i", 4, store(Y, at("i"), plus(read(X, "t"), 1.0))),)),
    "how a loop runs": Kernel((), (replace(kernel(Y, X).body[0], how=(Vector(),)),)),
    "that it is a recurrence": replace(kernel(Y, X), recurrence=True),
    "what follows it": Kernel((), (loop("i", 4, CORE), ONE)),
    "what follows it in the loop": Kernel((), (loop("i", 4, CORE, ONE),)),
}


def test_all_else_makes_them_different() -> None:
    found = with_templates([kernel(Y, X), *DIFFERENT.values()])
    assert len({id(one.template) for one in found}) == len(found)
    assert all(one.template is one.body for one in found)


def test_what_is_asked_of_kernels_is_asked_once() -> None:
    kernels = with_templates([kernel(Y, X), kernel(Z, Y), kernel(W, Z)])
    asked: list[frozenset[Buffer]] = []

    def find(one: Kernel, own: frozenset[Buffer]) -> int:
        asked.append(own)
        return len(asked)

    assert per_template(kernels, find) == [1, 1, 1]
    assert per_template(kernels, find, {X, Z}) == [2, 3, 2]
    assert asked[1:] == [{X}, {Y}]  # as the template calls them


def test_names_that_a_pass_makes_come_from_those_they_are_made_from() -> None:
    grad, other = floats(5, "w.grad", 4), floats(6, "b.grad", 4)
    _, second = with_templates([kernel(grad, X), kernel(other, X, "b_grad_sum")])
    wide = grad.beside(Role.ACCUMULATOR, ".sum", dtype="float64")
    packed = replace(grad.beside(Role.PACKED), name="w_grad_packed")
    parts = Buffer(0, "w_grad_part", (8,), "float32", Role.PARTIAL)
    made = (
        loop("lane", 4, Let(Local("w_grad_sum", "float64"), Read(wide, at("lane"))), store(packed, at("lane"), 0.0)),
        loop("i", 4, Let(Local("b_grad_sum", "float32"), Read(parts, at("i")))),
    )
    assert show(Program(second.with_template(made).body)) == (
        "for lane in range(4):\n"
        "    b_grad_sum_3: float64 = b.grad.sum[lane]\n"
        "    b_grad_packed[lane] = 0.0\n"
        "for b_grad_sum in range(4):\n"
        "    b_grad_sum_2: float32 = b_grad_part[b_grad_sum]"
    )
    assert touched([second.with_template(made)])[0][0].of == other


def without_remarks(stmt: Stmt) -> tuple[Stmt, ...]:
    return stmt.body if isinstance(stmt, Remark) else (stmt,)


@settings(max_examples=25)
@given(samples(), st.randoms(use_true_random=False))
def test_any_code_in_other_words(sample: LoopSample, random: object) -> None:
    body = bottom_up(sample.program.body, without_remarks)
    names = sorted(names_in(body) - {"s"})  # it is static
    new = sorted({*names, "z", "i0", "n0"})
    random.shuffle(new)  # type: ignore[attr-defined]
    called = dict(zip(names, new, strict=False))
    other = renamed(
        body, lambda name: called.get(name, name), lambda one: replace(one, id=99 - one.id, name=f"{one.name}_2")
    )
    first, second = with_templates([Kernel((), body), Kernel((), other)])
    assert second.template is first.template
    assert second.body == other


# All passes


def deep(layers: int) -> wf.Routine:
    """Layers that are alike, with products, long sums and maxima, and their gradients."""
    h = wf.data(np.ones((4, 32, 16), np.float32), batch=2, label="x")
    for number in range(layers):
        q, k = (wf.param(f"{name}{number}", o=16) @ h for name in "qk")
        scores = wf.exp(wf.einsum("...s|d; ...t|d => ...s|t", q, k))
        h = h + wf.einsum("...s|t; ...t|d => ...s|d", scores / wf.einsum("...|t => ...|0", scores), h)
        h = wf.relu(h - wf.einsum("...|d => ...|0", h, accum="max"))
    loss = wf.einsum("...|... => 0", h)
    with wf.config.using(optimise=False):
        return wf.Context(Fusing()).compile(wf.seq(wf.grad_update(loss), wf.optim.sgd(loss, lr=0.1)), keep=[loss])


def alone(one: Pass) -> Pass:
    """A pass that leaves every kernel by itself."""

    def run(stage: Stage, task: Task) -> Stage:
        done = one.run(stage, task)
        return done if done.formed is None else replace(done, formed=tuple(k.with_body(k.body) for k in done.formed))

    return Pass(one.name, run)


def followed(routine: wf.Routine, passes: tuple[Pass, ...]) -> Iterator[tuple[str, Stage]]:
    kept = dict.fromkeys(routine.compiled.kept, "kept")
    options = CompileOptions(
        machine=replace(Machine.here(), cores=4), chunk_ns=1000, contraction_points=64, verify=True
    )
    program = routine.compiled.stages.loops
    yield from stages(check(program), Task(kept, places=PLACES, options=options), passes=passes)


def test_passes_do_to_kernels_that_are_alike_what_they_do_to_each() -> None:
    routine = deep(2)
    both = zip(followed(routine, PASSES), followed(routine, tuple(map(alone, PASSES))), strict=True)
    for (name, stage), (_, other) in both:
        if stage.formed is not None:
            assert show_kernels(stage.kernels) == show_kernels(other.kernels), name
    assert list(map(digest, stage.kernels)) == list(map(digest, other.kernels))
    assert str(stage.plan) == str(other.plan)
    assert len({id(one.template) for one in stage.kernels}) < 0.8 * len(stage.kernels)


def test_kernels_that_are_alike_can_be_hashed() -> None:
    first, second = with_templates([kernel(Y, X), kernel(Z, Y)])
    assert second.renaming != first.renaming
    assert len({first, second, second.with_template(second.template)}) == 2

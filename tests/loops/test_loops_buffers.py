"""Which buffer is which: told by what it is for, not by a number; the same in every compilation."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import HealthCheck, given, settings, strategies as st

import weft as wf
from backends.interpreted import Fusing
from effort import tries
from schedule.test_schedule_random import OPTIMISERS
from tensor.differences import total
from tensor.models import Model, models
from weft.assign.scratch import accumulation_buffer, before
from weft.loops import Buffer, Read, Role, buffers_of
from weft.schedule import Kernel, as_program
from weft.schedule.canonical import digest

X = Buffer(7, "x", (2, 3), "bfloat16")


def buffers_in(kernels: Iterable[Kernel]) -> tuple[Buffer, ...]:
    return buffers_of(as_program(kernels))


def test_a_buffer_beside_another_is_told_by_its_role() -> None:
    old, sums = before(X), accumulation_buffer(X, "add", Read(X, ()))
    assert (old.name, old.shape, old.dtype, old.role, old.of) == ("x.before", (2, 3), "bfloat16", Role.BEFORE, X)
    assert (sums.name, sums.dtype, sums.role, sums.of) == ("x.sum", "float32", Role.ACCUMULATOR, X)
    assert len({X, old, sums, before(old), X.beside(Role.COPY), X.beside(Role.FOLDED)}) == 6
    assert before(X) == old


@settings(max_examples=tries(8), suppress_health_check=list(HealthCheck))
@given(models(), st.sampled_from(sorted(OPTIMISERS)))
def test_two_compilations_of_one_program_are_equal_to_the_last_id(
    sample: tuple[Model, wf.Tensor], optimiser: str
) -> None:
    model, tensor = sample
    code = OPTIMISERS[optimiser](total(tensor))
    one, other = (list(compiled(model, code).trace()) for _ in range(2))
    assert one == other
    assert [list(map(digest, stage)) for _, stage in one] == [list(map(digest, stage)) for _, stage in other]
    for _, stage in one:
        ids = [(buffer.id, buffer.role, buffer.of, buffer.name) for buffer in buffers_in(stage)]
        assert len(set(ids)) == len(ids)
        assert all(buffer.of is None or buffer.of.id == buffer.id for buffer in buffers_in(stage))


def compiled(model: Model, code: object) -> wf.Routine:
    return wf.Context(Fusing()).compile(code, bindings=list(model.bound))

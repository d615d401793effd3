"""Long accumulations in several states, before and after."""

from __future__ import annotations

from textwrap import dedent

import numpy as np
import pytest

import weft as wf
from loops.written import C, D, program, text
from weft.loops import Program, Role, buffers_of, check
from weft.loops.interp import run
from weft.ops.dtypes import numpy_type
from weft.optimise.partial_states import partial_states

CASES = {
    "what fills eight states": (
        """
        t: float32.float32 = pack2(float32(0.0), float32(0.0))
        for i in range(40):
            t = mean(t, pack2(C[i], float32(1.0)))
        D[0] = item0(t) / item1(t)
        """,
        """
        t: float32.float32 = pack2(float32(0.0), float32(0.0))
        for lane in range(8):
            t_part[lane] = pack2(C[lane], float32(1.0))
        for i in range(4):
            for lane in range(8):
                t_part[lane] mean= pack2(C[8*i + lane + 8], 1.0)
        for lane in range(8):
            t = mean(t, t_part[lane])
        D[0] = item0(t) / item1(t)
        """,
    ),
    "what is left over, and a value computed on the way": (
        """
        t: float32.float32 = pack2(float32(0.0), float32(0.0))
        for i in range(37):
            u: float32 = C[i] * C[i]
            t = mean(t, pack2(u, float32(1.0)))
        D[0] = item0(t) / item1(t)
        """,
        """
        t: float32.float32 = pack2(float32(0.0), float32(0.0))
        for lane in range(8):
            u: float32 = C[lane] * C[lane]
            t_part[lane] = pack2(u, float32(1.0))
        for i in range(3):
            for lane in range(8):
                u: float32 = C[8*i + lane + 8] * C[8*i + lane + 8]
                t_part[lane] mean= pack2(u, 1.0)
        for lane in range(5):
            u: float32 = C[lane + 32] * C[lane + 32]
            t_part[lane] mean= pack2(u, 1.0)
        for lane in range(8):
            t = mean(t, t_part[lane])
        D[0] = item0(t) / item1(t)
        """,
    ),
}
STAYS = {
    "plain numbers, which have lanes": """
        t: float32 = 0.0
        for i in range(40):
            t = max(t, C[i])
        D[0] = t
        """,
    "a few values": """
        t: float32.float32 = pack2(float32(0.0), float32(0.0))
        for i in range(31):
            t = mean(t, pack2(C[i], float32(1.0)))
        D[0] = item0(t) / item1(t)
        """,
    "what is looked at meanwhile": """
        t: float32.float32 = pack2(float32(0.0), float32(0.0))
        for i in range(40):
            t = mean(t, pack2(C[i], float32(1.0)))
            C[i] = item0(t)
        D[0] = item0(t) / item1(t)
        """,
    "what does not come to the same in any order": """
        t: float32 = 0.0
        for i in range(40):
            t = arg2(t, C[i])
        D[0] = t
        """,
}


@pytest.mark.parametrize("name", CASES)
def test_before_and_after(name: str) -> None:
    before, after = CASES[name]
    assert text(partial_states(program(before).body)) == dedent(after)


@pytest.mark.parametrize("name", STAYS)
def test_what_stays_as_it_is(name: str) -> None:
    body = program(STAYS[name]).body
    assert partial_states(body) == body


@pytest.mark.parametrize("size", [32, 37, 40, 63, 64, 65, 127, 128, 130, 300])
def test_every_value_counts_once(size: int) -> None:
    before = CASES["what fills eight states"][0].replace("range(40)", f"range({size})").replace("C[i]", "i")
    new = check(Program(partial_states(program(before).body)))
    assert new.body != program(before).body
    values = {C: np.zeros(40, "float32"), D: np.zeros(1, "float32")}
    parts = {one: np.zeros(one.shape, numpy_type(one.dtype)) for one in buffers_of(new) if one.role is Role.PARTIAL}
    run(new, {**parts, **values})
    assert values[D] == (size - 1) / 2


@pytest.mark.parametrize("few", [1, 2, 3, 5])
def test_any_number_of_states_is_joined_whole(few: int) -> None:
    values = np.random.default_rng(few).integers(0, 3, 200)
    options = wf.CompileOptions(thresholds=wf.Thresholds(states_left=few, states=few), verify=True)
    x = wf.data(values.astype(np.float32), label="x")
    for accum, right in (("argmax", values.argmax()), ("mean", values.mean()), ("var", values.var())):
        y = wf.einsum("i => 0", x, accum=accum)
        ctx = wf.Context("cc")
        ctx.compile(y.forward, keep=[y], options=options)()
        np.testing.assert_allclose(ctx[y], [right], rtol=1e-5)

"""Which tensors are only numbers computed where they are read, and what the settings of inlining do."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import weft as wf
from backends.interpreted import Fusing
from weft.assign import Code

X = np.linspace(-1, 1, 5)


def data() -> wf.Tensor:
    return wf.data(X, label="x")


def verdicts(code: Code, **options: object) -> dict[str, str]:
    """`stored` or `virtual` for each tensor of a routine."""
    routine = wf.Context(Fusing()).compile(code, **options)  # type: ignore[arg-type]
    return {line.split()[0]: line.split()[1] for line in routine.show("virtual").splitlines()}


def read_often() -> wf.Tensor:
    h = wf.exp(data()).named("h")
    return (h * h + wf.sin(h)).named("y")


def windows() -> wf.Tensor:
    return wf.einsum("o<+k; k => o", wf.exp(data()).named("h"), wf.data(np.ones(3)), label="y")


@pytest.mark.parametrize(("visits", "found"), [(1, "stored"), (2, "stored"), (3, "virtual")])
def test_a_tensor_is_stored_where_its_cells_would_be_computed_too_often(visits: int, found: str) -> None:
    with wf.config.using(max_visits=visits):
        assert verdicts(read_often().forward)["h"] == found


@pytest.mark.parametrize(("far", "found"), [(1, "virtual"), (2, "virtual"), (3, "stored"), (5, "stored")])
def test_loops_that_meet_in_one_place_are_traced_only_so_far(far: int, found: str) -> None:
    """Three windows see a cell; a trace of two positions finds two of them."""
    with wf.config.using(max_visits=2, max_tracing_dim=far):
        assert verdicts(windows().forward)["h"] == found


def test_everything_is_stored_if_nothing_may_live_on_the_device_alone() -> None:
    with wf.config.using(device_only=False):
        assert set(verdicts(read_often().forward).values()) == {"stored"}


@pytest.mark.parametrize("make", [read_often, windows])
def test_settings_change_no_value(make: Callable[[], wf.Tensor]) -> None:
    found = []
    for settings in ({}, {"max_visits": 9}, {"max_tracing_dim": 1}, {"device_only": False}):
        with wf.config.using(**settings):  # type: ignore[arg-type]
            found.append(wf.Context(Fusing())[make()])
    for one in found:
        np.testing.assert_allclose(one, found[0], rtol=1e-12)


def test_what_is_read_before_it_is_written_is_stored() -> None:
    def total(recurrent: bool) -> str:
        total, out, x = wf.node("total"), wf.node("out"), data()

        @wf.cd
        def code() -> None:
            total[:] = 0.5 * (total if recurrent else x) + x
            out[:] = total + 1

        return verdicts(code(), keep=[out])["total.x"]

    assert (total(recurrent=True), total(recurrent=False)) == ("stored", "virtual")


def test_what_is_inlined_is_what_held_when_it_was_computed() -> None:
    p = wf.param("p", o=3, init=1.0, dtype="float64")
    early, late = (wf.node(name, dtype="float64") for name in ("early", "late"))

    @wf.cd
    def code() -> None:
        early[:] = p + 1
        p[:] = 5.0
        late[:] = early + p

    ctx = wf.Context(Fusing())
    ctx.compile(code(), keep=[late])()
    assert ctx[late].tolist() == [7.0, 7.0, 7.0]


def test_a_diagonal_is_inlined_and_what_is_written_at_computed_places_is_stored() -> None:
    x = data()
    for spec, found in (("i => ii", "virtual"), ("i => 2*i", "stored")):
        spread = wf.einsum(spec, wf.exp(x), label="spread")
        assert verdicts((spread + 1).forward)["spread"] == found


def test_numbers_computed_from_numbers_are_numbers_in_the_loops() -> None:
    seven = wf.number(2.0) * 3 + 1
    routine = wf.Context(Fusing()).compile((data() * seven).named("y").forward)
    assert "x[i] * 7.0" in routine.show("kernels")


def test_loops_of_commented_code_stand_under_their_comments() -> None:
    @wf.cd
    def code(p: wf.Tensor) -> None:
        with wf.comment("outer"):
            p[:] = 2.0
            with wf.comment("inner", p):
                p += 1.0
        p *= 2.0

    loops = wf.Context("interp").compile(code(wf.param("p", o=(2, 3), init=1.0))).show("loops")
    remarks = [line.strip() for line in loops.splitlines() if "#" in line]
    assert remarks == ["# outer", "# p =: 2.0", "# inner p", "# p =+ 1.0", "# p =* 2.0"]

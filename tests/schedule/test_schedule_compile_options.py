"""Options of compilation as one value: what it refuses, and that everything in it counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

import weft as wf
from weft.schedule import CompileOptions
from weft.tc import Options


def step(**changes: object) -> tuple[wf.Context, wf.Routine, wf.Tensor]:
    x = wf.data(np.linspace(0, 1, 64, dtype=np.float32).reshape(8, 8), batch=1, label="x")
    y = wf.tanh(x + 1.0).named("y")
    ctx = wf.Context("cc")
    return ctx, ctx.compile(y.forward, keep=[y], options=wf.config.options.but(**changes)), y


def test_options_given_count_and_the_settings_of_the_process_do_not() -> None:
    x = wf.data(np.array([0.0, 1.0]), label="x")
    y, ctx = x / x, wf.Context("cc")
    fast = ctx.compile(y.forward, keep=[y], options=wf.CompileOptions(fast_math=True))
    with wf.config.using(fast_math=True):
        exact = ctx.compile(y.forward, keep=[y], options=wf.CompileOptions())
    fast()
    assert ctx[wf.given(y)].tolist() == [1.0, 1.0]
    exact()
    assert np.isnan(ctx[wf.given(y)][0])


def test_options_of_loops_are_not_all_there_is() -> None:
    with pytest.raises(wf.WeftError, match=r"options= takes wf\.CompileOptions, not Options"):
        wf.Context("interp").compile(wf.number(1.0).forward, options=Options())  # type: ignore[arg-type]


OTHERS = {
    "schedule": Options(unroll=2),
    "machine": replace(wf.Machine.here(), call_ns=16.0),
    "single_terms": 9,
    "recompute_share": 0.25,
    "thresholds": wf.Thresholds(tile_rows=7),
    "tuned": "other.jsonl",
    "products": "bfloat16",
    "gpu": wf.Gpu(multiprocessors=80),
}
UNSEEN = {"strict", "verify", "kept_programs", "tuned"}


@pytest.mark.parametrize("name", [one.name for one in fields(CompileOptions)])
def test_every_option_is_part_of_the_key_but_those_that_change_no_code(name: str) -> None:
    options = CompileOptions()
    value = getattr(options, name)
    other = OTHERS.get(name, (not value) if isinstance(value, bool) else value + 1 if isinstance(value, int) else None)
    changed = options.but(**{name: other})
    assert changed != options
    assert (changed.key == options.key) == (name in UNSEEN)


def test_options_and_machine_are_part_of_what_a_routine_is_kept_under(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path))

    def kept() -> int:
        return len([one for one in (tmp_path / "routines").rglob("*") if one.is_file()])

    step()
    before = kept()
    step()
    step(verify=True, strict=True)
    assert kept() == before
    step(fusion_tries=3)
    assert kept() == before + 1
    step(machine=replace(wf.Machine.here(), bytes_per_s=1e9))
    assert kept() == before + 2
    step(schedule=Options(lanes=4))
    assert kept() == before + 3


def test_two_compilations_of_a_program_are_the_same() -> None:
    one, other = (step()[1] for _ in range(2))
    for stage in ("loops", "kernels", "source"):
        assert one.show(stage) == other.show(stage)


@pytest.mark.parametrize(
    ("wrong", "what", "fix"),
    [
        ({"reuse": -1}, "config.reuse is a whole number from 0 on, not -1", "wf.CompileOptions(reuse=4)"),
        ({"single_terms": 11}, "config.single_terms is a whole number from 1 to 10, not 11", "single_terms=10"),
        ({"short_loop": 65}, "config.short_loop is a whole number from 1 to 64, not 65", "short_loop=8"),
        ({"jam_iterations": 0}, "config.jam_iterations is a whole number from 1 to 64, not 0", "jam_iterations=4"),
        ({"kept_programs": 0}, "config.kept_programs is a whole number from 1 on, not 0", "kept_programs=256"),
        (
            {"recompute_share": "all"},
            "config.recompute_share is a number from 0 on, not 'all'",
            "recompute_share=0.125",
        ),
        ({"schedule": 3}, "config.schedule is a wf.tc.Options, not 3", "schedule=wf.tc.Options(threads=2)"),
        ({"machine": None}, "config.machine is a wf.Machine, not None", "machine=wf.Machine.here()"),
        ({"gpu": "H100"}, "config.gpu is a wf.Gpu, or None, not 'H100'", "gpu=wf.Gpu(multiprocessors=108)"),
        ({"optimise": 1}, "config.optimise is True or False, not 1", "wf.CompileOptions(optimise=True)"),
    ],
)
def test_options_that_are_refused(wrong: dict[str, object], what: str, fix: str) -> None:
    with pytest.raises(wf.WeftError) as caught:
        wf.CompileOptions(**wrong)  # type: ignore[arg-type]
    assert caught.value.what == what
    assert fix in str(caught.value)
    assert caught.value.origin is not None
    assert caught.value.origin.file == __file__
    with pytest.raises(wf.WeftError), wf.config.using(**wrong):
        pass


def test_an_option_that_there_is_not() -> None:
    with pytest.raises(wf.WeftError, match="there is no setting 'speed'"):
        wf.CompileOptions().but(speed=9)


@pytest.mark.parametrize(
    ("make", "said", "fix"),
    [
        (
            lambda: wf.CompileOptions(contraction_point=1),
            "`CompileOptions` has no argument `contraction_point`",
            "contraction_points=",
        ),
        (lambda: wf.Machine(core=2), "`Machine` has no argument `core`", "cores="),
        (lambda: wf.tc.Options(unrol=4), "`Options` has no argument `unrol`", "unroll="),
        (lambda: wf.Context(backends="cc"), "`Context` has no argument `backends`", "backend="),
    ],
)
def test_a_misspelt_argument_of_a_constructor_is_named(make: Callable[[], object], said: str, fix: str) -> None:
    with pytest.raises(wf.ArgumentError, match=said) as caught:
        make()
    assert caught.value.fix is not None
    assert f"did you mean `{fix}`?" in caught.value.fix

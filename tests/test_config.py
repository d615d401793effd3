"""Settings: of the process, of a block, of a thread."""

from __future__ import annotations

import asyncio
import threading

import numpy as np
import pytest

import weft as wf
from runtime.scripts import run_script


def test_a_setting_of_the_process() -> None:
    assert wf.config.max_visits == 1
    try:
        wf.config.max_visits = 3
        assert wf.config.max_visits == 3
        seen: list[int] = []
        thread = threading.Thread(target=lambda: seen.append(wf.config.max_visits))
        thread.start()
        thread.join()
        assert seen == [3]
    finally:
        wf.config.max_visits = 1


def test_a_block_restores_what_was_set_in_it() -> None:
    with wf.config.using(fast_math=True, strict=True) as config:
        assert (config.fast_math, config.strict, wf.config.strict) == (True, True, True)
        config.optimise = False
        with wf.config.using(strict=False):
            assert (wf.config.fast_math, wf.config.strict, wf.config.optimise) == (True, False, False)
        assert wf.config.strict
    with wf.config.using(verify=False):
        assert repr(wf.config) == repr(wf.config.options).replace("CompileOptions", "Config")
        assert repr(wf.config).startswith(
            "Config(optimise=True, fast_math=False, max_visits=1, max_tracing_dim=5, device_only=True, strict=False, "
            "verify=False, threads=0, products='float32', inline_operations=128, "
        )


@pytest.mark.parametrize(("value", "verify"), [("1", True), ("0", False), ("", False)])
def test_the_environment_sets_verification_from_the_start(value: str, verify: bool) -> None:
    done = run_script("print(wf.config.verify)", WEFT_VERIFY=value)
    assert done.stdout == f"{verify}\n"


def test_blocks_of_two_threads_that_overlap() -> None:
    began, entered, left = (threading.Event() for _ in range(3))
    seen: dict[str, tuple[bool, int]] = {}

    def one() -> None:
        with wf.config.using(fast_math=True):
            began.set()
            entered.wait(10)
            seen["one"] = (wf.config.fast_math, wf.config.max_visits)
        left.set()

    def two() -> None:
        began.wait(10)
        with wf.config.using(max_visits=2):
            entered.set()
            left.wait(10)
            seen["two"] = (wf.config.fast_math, wf.config.max_visits)

    threads = [threading.Thread(target=one), threading.Thread(target=two)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == {"one": (True, 1), "two": (False, 2)}
    assert (wf.config.fast_math, wf.config.max_visits) == (False, 1)


def test_blocks_of_two_tasks_that_overlap() -> None:
    async def task(visits: int) -> int:
        with wf.config.using(max_visits=visits):
            await asyncio.sleep(0)
            return wf.config.max_visits

    async def both() -> list[int]:
        return list(await asyncio.gather(task(2), task(3)))

    assert asyncio.run(both()) == [2, 3]
    assert wf.config.max_visits == 1


@pytest.mark.parametrize(
    ("name", "value", "what"),
    [
        ("strict", 1, "config.strict is True or False, not 1"),
        ("max_visits", 0, "config.max_visits is a whole number from 1 on, not 0"),
        ("threads", -1, "config.threads is a whole number from 0 to 256, not -1"),
        ("max_visits", True, "config.max_visits is a whole number from 1 on, not True"),
        ("speed", 9, "there is no setting 'speed'"),
    ],
)
def test_settings_that_are_refused(name: str, value: object, what: str) -> None:
    with pytest.raises(wf.WeftError) as caught:
        setattr(wf.config, name, value)
    assert caught.value.what == what
    assert caught.value.origin is not None
    assert caught.value.origin.file == __file__
    with pytest.raises(wf.WeftError), wf.config.using(**{name: value}):
        pass
    if what.startswith("there is no"):
        with pytest.raises(AttributeError, match=what):
            getattr(wf.config, name)


def test_what_was_compiled_under_other_settings_is_not_used_again() -> None:
    x = wf.data(np.array([0.0, 1.0]), label="x")
    y, ctx = x / x, wf.Context("cc")
    f = wf.tc.define("def f(double(N) x) -> (y) { y(i) = x(i) / x(i) }", backend="cc").f
    with wf.config.using(fast_math=True):
        fast = [ctx[y].tolist(), f(np.array([0.0, 1.0])).tolist()]
    assert fast == [[1.0, 1.0], [1.0, 1.0]]
    assert np.isnan([ctx[y][0], f(np.array([0.0, 1.0]))[0]]).all()

"""Machines that are less than they might be: no wide vectors, a core that another hogs, half a core."""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import sys
from pathlib import Path
from threading import Thread
from time import monotonic, sleep

import numpy as np
import pytest

import weft as wf
from backends.compilers import script
from backends.test_backends_threads import SLOW, numbers, options, programs

#: What a processor of before 2011 can do.
NO_AVX = "-mno-avx512f -mno-avx -mno-fma -mno-f16c"


@pytest.mark.skipif(platform.machine() != "x86_64", reason="only there")
@pytest.mark.usefixtures("temporary")
def test_no_avx(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = script(tmp_path / "oldcc", f'exec cc "$@" {NO_AVX}')
    said = subprocess.run([old, "-march=native", "-dM", "-E", "-xc", os.devnull], capture_output=True, text=True)
    assert "__SSE2__" in said.stdout
    assert "__AVX" not in said.stdout
    assert "__FMA__" not in said.stdout
    monkeypatch.setenv("WEFT_CC", str(old))
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path / "cache"))
    ctx, oracle, made = wf.Context("cc"), wf.Context("interp"), programs()
    narrow = options(machine=wf.Machine(cores=2, vector_bytes=16, flops_per_s=1e6, cached_bytes_per_s=1e6))
    routine = ctx.compile(wf.seq(*(one.forward for one in made.values())), keep=made.values(), options=narrow)
    routine()
    assert "in tiles of" in routine.show("kernels")
    for name, tensor in made.items():
        np.testing.assert_allclose(ctx[tensor], oracle[tensor], rtol=2e-5, atol=2e-5, err_msg=name)


def test_a_second_process_hogs_a_core() -> None:
    """Whoever is there claims what the thread on that core does not come to: runs end, and are right."""
    assert SLOW.cores == 2
    ctx, result = wf.Context("cc"), wf.softmax(wf.einsum("ij; jk => ik", numbers(64, 80), numbers(80, 90)))
    run = ctx.compile(result.forward, keep=[result], options=options(threads=2))
    run()
    assert " on threads by " in run.show("kernels")
    before, runs = ctx[result], 0

    def again() -> None:
        nonlocal runs
        end = monotonic() + 0.5
        while monotonic() < end or runs < 10:
            run()
            runs += 1

    core = max(os.sched_getaffinity(0))
    hog = subprocess.Popen([sys.executable, "-c", f"import os\nos.sched_setaffinity(0, [{core}])\nwhile True: pass"])
    try:
        worker = Thread(target=again, daemon=True)
        worker.start()
        worker.join(30)
        assert hog.poll() is None
    finally:
        hog.kill()
        hog.wait()
    assert not worker.is_alive(), f"stuck after {runs} runs"
    np.testing.assert_array_equal(ctx[result], before)


#: Two threads share loops, again and again, until they have done so for long enough; then, is everything as at first?
THROTTLED = """
import json, time
import numpy as np
import weft as wf
wf.config.threads = 2
x = wf.data(np.random.default_rng(0).standard_normal((200, 300)).astype("float32"), batch=1)
ctx, y = wf.Context("cc"), wf.softmax(x)
step = ctx.compile(y.forward, keep=[y])
step()
first, end = ctx[y].copy(), time.monotonic() + 0.5
print("ready", flush=True)
while time.monotonic() < end:
    step()
print(json.dumps(bool((ctx[y] == first).all())))
"""


def test_a_process_that_is_stopped_half_of_the_time() -> None:
    """As a control group does with one that has used up its share: with all its threads, wherever they are."""
    process = subprocess.Popen([sys.executable, "-c", THROTTLED], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "ready\n"
        end = monotonic() + 30
        while process.poll() is None and monotonic() < end:
            process.send_signal(signal.SIGSTOP)
            sleep(0.01)
            process.send_signal(signal.SIGCONT)
            sleep(0.01)
        assert process.poll() == 0, "it is stuck"
        assert json.loads(process.stdout.read()) is True
    finally:
        process.kill()
        process.wait()
        process.stdout.close()

"""Compiled code needs little stack: a thread of 64 KiB can run all of it, whatever shape of tiles is asked for."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import weft as wf
from weft.backends.cc import Cc
from weft.backends.cc.build import FLAGS
from weft.backends.cc.loader import with_prelude

#: No function of a kernel has more on the stack: Python needs some of a thread's 64 KiB as well.
FRAME = 16 << 10

#: Products with a turned panel and many sums, one of them shared by threads; each is run in a thread of 64 KiB.
SCRIPT = """
import threading
import numpy as np
import weft as wf

a, b = np.ones((300, 1100)), np.ones((290, 1100))
ctx = wf.Context("cc")
c = wf.einsum("ij; kj => ik", wf.data(a), wf.data(b))
run = ctx.compile(c.forward, keep=[c])
mm = wf.tc.define("def mm(double(M,K) A, double(N,K) B) -> (C) { C(m,n) +=! A(m,k) * B(n,k) }", backend="cc").mm
mm.options(a, b, choose=wf.tc.Options(threads=2))
found = [mm(a, b)]
threading.stack_size(64 << 10)
for one in (run, lambda: found.append(mm(a, b))):
    thread = threading.Thread(target=one)
    thread.start()
    thread.join()
print(len(found), all((one == 1100).all() for one in (ctx[c], *found)))
"""


def test_a_thread_of_64_kib_runs_packed_products(tmp_path: Path) -> None:
    here = {**os.environ, "WEFT_CACHE": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=here, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "2 True\n"), done.stderr


@pytest.mark.parametrize(
    ("second", "options"),
    [
        ("K,N", wf.tc.Options()),
        ("N,K", wf.tc.Options(rows=8, vectors=8)),
        ("N,K", wf.tc.Options(threads=2)),
        ("K,N", wf.tc.Options(vectors=64)),
        ("K,N", wf.tc.Options(rows=64)),
    ],
    ids=str,
)
def test_no_frame_is_large(second: str, options: wf.tc.Options, tmp_path: Path) -> None:
    place = second.lower()
    text = f"def mm(float(M,K) A, float({second}) B) -> (C) {{ C(m,n) +=! A(m,k) * B({place}) }}"
    a, b = (
        np.ones((600, 1100), "float32"),
        np.ones([{"K": 1100, "N": 700}[one] for one in second.split(",")], "float32"),
    )
    mm = wf.tc.define(text, backend="cc").mm
    mm.options(a, b, choose=options)
    source = tmp_path / "kernel.c"
    source.write_text(with_prelude(mm.show("source", a, b)))
    command = [*Cc().compiler.command, *FLAGS, f"-Wframe-larger-than={FRAME}", str(source), "-o", os.devnull]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0
    assert "frame" not in done.stderr, done.stderr


def test_two_routines_of_one_kernel_have_memory_of_their_own() -> None:
    """The same packed product, run by two contexts at the same time, over and over."""
    rng = np.random.default_rng(0)
    pairs = [(rng.uniform(-1, 1, (64, 1200)), rng.uniform(-1, 1, (70, 1200))) for _ in range(2)]
    contexts, runs, results = [], [], []
    for a, b in pairs:
        ctx = wf.Context("cc")
        result = wf.einsum("ij; kj => ik", wf.data(a), wf.data(b))
        contexts.append(ctx)
        results.append(result)
        runs.append(ctx.compile(result.forward, keep=[result]))
    threads = [threading.Thread(target=lambda run=run: [run() for _ in range(200)]) for run in runs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for ctx, result, (a, b) in zip(contexts, results, pairs, strict=True):
        np.testing.assert_allclose(ctx[result], a @ b.T, rtol=1e-11, atol=1e-11)

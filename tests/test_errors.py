"""Errors: every kind goes through pickle with all it has, so a worker process can raise it."""

from __future__ import annotations

import copy
import multiprocessing
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import weft as wf
from weft.errors import HOME, Origin, Span


def kinds(kind: type[wf.WeftError] = wf.WeftError) -> Iterator[type[wf.WeftError]]:
    yield kind
    for one in kind.__subclasses__():
        yield from kinds(one)


def same(error: wf.WeftError, found: wf.WeftError) -> bool:
    return type(found) is type(error) and found.__dict__ == error.__dict__ and str(found) == str(error)


@pytest.mark.parametrize("through", [lambda error: pickle.loads(pickle.dumps(error)), copy.copy, copy.deepcopy])
def test_every_kind_pickles(through: Callable[[wf.WeftError], wf.WeftError]) -> None:
    for kind in (one for one in kinds() if one.__module__.startswith("weft") and one.__init__ is wf.WeftError.__init__):
        error = kind(
            "what", origin=Origin("model.py", 3), text="ij=>ij", spans=[Span(0, 1)], notes=["a note"], fix="mend it"
        )
        found = through(error)
        assert same(error, found), kind
        assert (found.what, found.fix, found.spans, found.args) == ("what", "mend it", (Span(0, 1),), ("what",))


def test_an_error_is_at_the_line_that_is_running_unless_it_says_otherwise() -> None:
    here = wf.WeftError("a")
    elsewhere, nowhere = wf.WeftError("b", origin=Origin("m.py", 3)), wf.WeftError("c", origin=None)
    assert here.origin is not None
    assert (here.origin.file, here.origin.code) == (__file__, 'here = wf.WeftError("a")')
    assert str(elsewhere) == "m.py:3: b"
    assert str(nowhere) == "c"


WRONG: list[Callable[[], object]] = [
    lambda: wf.plan("ij;jk=>ik", (3, 4), (5, 6)),
    lambda: wf.plan("i=>j", 3),
    lambda: wf.tc.define("def f(float(N) x) -> (y) { y(i) = x(i) + z(i)\n y(i) = w(i) }"),
    lambda: wf.tc.define("def f(float(N) x) -> (y) { y(i) = x(i) }").g,
    lambda: wf.data(np.ones(3)[::2], copy=False),
    lambda: wf.config.using(speed=3).__enter__(),
    lambda: wf.tc.define("def f(float(N) x, int32(M) i) -> (y) { y(m) = x(i(m)) }", backend="interp").f(
        np.ones(2, "float32"), np.array([5], "int32")
    ),
]


@pytest.mark.parametrize("wrong", WRONG)
def test_errors_as_they_are_raised_pickle(wrong: Callable[[], object]) -> None:
    with pytest.raises(wf.WeftError) as caught:
        wrong()
    assert same(caught.value, pickle.loads(pickle.dumps(caught.value)))


def _define(_: int) -> None:
    wf.tc.define("def f(float(N) x) -> (y) { y(i) = x(i) + z(i) }")


def test_a_pool_hears_what_its_worker_raised() -> None:
    with multiprocessing.get_context("fork").Pool(1) as pool, pytest.raises(wf.WeftError, match="`z`"):
        pool.map_async(_define, [1]).get(timeout=30)


MISTAKE = """import numpy as np

import weft as wf

wf.einsum("ij;jk=>ik", wf.data(np.ones((3, 4))), wf.data(np.ones((5, 6))))
"""


def test_a_module_that_is_run_is_the_users_file(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MISTAKE)
    command = [sys.executable, "-m", "mine"]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "mine.py:5: `j` cannot be both 4 and 5" in found.stderr


def test_examples_are_users_files() -> None:
    """Whoever runs or changes one is told of its own line, not of what runs it."""
    file = os.path.join(HOME, "examples", "changed.py")
    with pytest.raises(wf.ShapeError) as caught:
        exec(compile(MISTAKE, file, "exec"), {"__name__": "__main__"})
    assert caught.value.origin == Origin(file, 5)

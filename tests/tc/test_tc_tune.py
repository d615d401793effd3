"""Tuning comprehensions: it is the tuner of routines; and options by hand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import weft as wf
from runtime.timed import Timed, on_clock
from weft.loops import Vector
from weft.loops.walk import everything
from weft.schedule import Kernel
from weft.tc import Definition, Options

TEXT = "def scale(float(M,N) A, float(N) b) -> (C) { C(m,n) = tanh(A(m,n)) * b(n) }"
RENAMED = "def other(float(X,Y) P, float(Y) q) -> (R) { R(i,j) = tanh(P(i,j)) * q(j) }"
A, B = np.linspace(-1, 1, 8 * 16, dtype="float32").reshape(8, 16), np.ones(16, "float32")


@pytest.fixture(autouse=True)
def own_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path))
    machine = replace(wf.config.machine, flops_per_s=1e13, cached_bytes_per_s=1e13)
    monkeypatch.setattr(type(machine), "measured", lambda self, *_: self)
    with wf.config.using(machine=machine, tuned="tuned.jsonl"):
        yield tmp_path / "tuned" / "tuned.jsonl"


def by_lanes(kernel: Kernel) -> float:
    return 1e-2 if any(Vector(8) in getattr(one, "how", ()) for one in everything(kernel.body)) else 3e-2


def test_what_was_found_is_used_later_whatever_names_are(monkeypatch: pytest.MonkeyPatch, own_file: Path) -> None:
    backend = Timed(by_lanes)
    on_clock(monkeypatch, backend)
    scale = wf.tc.define(TEXT, backend=backend).scale
    assert scale.autotune(A, B, seconds=9.0, show=False).gain == pytest.approx(3.0)
    np.testing.assert_allclose(scale(A, B), np.tanh(A), rtol=1e-6)
    assert len(own_file.read_text().splitlines()) == 1
    for text, name in (
        (TEXT, "scale"),
        (RENAMED, "other"),
        (f"{TEXT}\ndef f(float(N) x) -> (y) {{ y(i) = x(i) }}", "scale"),
    ):
        assert "on vectors of 8" in wf.tc.define(text, backend=Timed(by_lanes))[name].show("kernels", A, B)
    for text in (TEXT.replace("* b", "+ b"), TEXT.replace("tanh", "exp"), TEXT.replace("float", "double")):
        given = [one.astype("float64" if "double" in text else "float32") for one in (A, B)]
        assert "vectors of 8" not in wf.tc.define(text, backend=Timed(by_lanes)).scale.show("kernels", *given)
    assert "vectors of 8" not in wf.tc.define(TEXT, backend=Timed(by_lanes)).scale.show("kernels", A[:3], B)


def test_gradients_are_tuned_and_what_is_found_is_used_later(own_file: Path) -> None:
    """The real thing."""
    scale: Definition = wf.tc.define(TEXT, backend="cc").scale
    before = scale.grad(A, B, wrt="b")
    report = scale.autotune(A, B, wrt="b", seconds=0.01, show=False)
    assert report.tried
    assert not report.refused
    np.testing.assert_allclose(scale.grad(A, B, wrt="b"), before, rtol=1e-5)
    assert own_file.exists() == bool(report.kept)


def test_options_by_hand() -> None:
    scale = wf.tc.define(TEXT, backend="cc").scale
    assert scale.options(A, B) == Options()
    assert scale.options(A, B, choose=Options(lanes=8)) == Options(lanes=8)
    assert "simdlen(8)" in scale.show("source", A, B)
    with pytest.raises(wf.WeftError, match="'fast' are no options"):
        scale.options(A, B, choose="fast")  # type: ignore[arg-type]
    with pytest.raises(wf.WeftError, match="how loops run is chosen by hand: lanes 8"):
        scale.autotune(A, B)


def test_loops_that_are_not_there_are_named() -> None:
    scale = wf.tc.define(TEXT, backend="interp").scale
    for wrong in (Options(order=("zzz",)), Options(tiles=(("zzz", 8),))):
        with pytest.raises(wf.WeftError, match="`scale` has no loop `zzz`") as raised:
            scale.options(A, B, choose=wrong)
        assert raised.value.fix == "its loops are m, n"
    assert scale.options(A, B, choose=Options(order=("n", "m"))).order == ("n", "m")


def test_gradients_have_options_of_their_own() -> None:
    scale = wf.tc.define(TEXT, backend="cc").scale
    before = scale.grad(A, B)
    assert scale.options(A, B, wrt="A", choose=Options(lanes=8)) == Options(lanes=8)
    assert scale.options(A, B, wrt="A") == Options(lanes=8)
    assert scale.options(A, B) == scale.options(A, B, wrt=["A", "b"]) == Options()
    np.testing.assert_allclose(scale.grad(A, B, wrt="A"), before[0], rtol=1e-6)
    with pytest.raises(wf.WeftError, match="`scale` has no loop `k`"):
        scale.options(A, B, wrt="A", choose=Options(order=("k",)))

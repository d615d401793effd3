"""Every benchmark starts: what it imports is there, and --help helps. Those that judge judge rightly."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = sorted((Path(__file__).parents[1] / "bench").glob("*.py"))


@pytest.mark.parametrize("path", BENCHMARKS, ids=lambda path: path.stem)
def test_a_benchmark_starts(path: Path) -> None:
    done = subprocess.run([sys.executable, str(path), "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "usage:" in done.stdout


@pytest.fixture(scope="module")
def overhead() -> ModuleType:
    (path,) = (one for one in BENCHMARKS if one.stem == "overhead")
    spec = importlib.util.spec_from_file_location("bench_overhead", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look themselves up there
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("ours", "passes"), [(4.0, True), (6.0, False), (60.0, False)])
def test_overhead_is_judged_by_the_best_of_jax(overhead: ModuleType, ours: float, passes: bool) -> None:
    rounds = {
        "weft": [ours, 99.0],
        "jax.jit": [50.0],
        "jax.jit, waiting for the last only": [7.0, 5.0],
        "PyTorch": [1.0],
    }
    passed, text = overhead.verdict("step", {name: overhead.Figure(found) for name, found in rounds.items()})
    assert passed == passes
    word = "cheaper than" if passes else "NOT CHEAPER THAN"
    assert text == f"a step of weft costs {ours:.2f} µs: {word} jax.jit, waiting for the last only, 5.00 µs"


def test_overhead_says_what_it_needs(
    overhead: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(overhead, "find_spec", lambda name: None)
    monkeypatch.setattr(sys, "argv", ["overhead.py"])
    assert overhead.main() == 2
    assert capsys.readouterr().err == 'jax and torch not installed: pip install "weft[bench]"\n'


def test_overhead_compares_equals_only(overhead: ModuleType) -> None:
    def contestant(name: str, loss: float) -> object:
        return overhead.Contestant(name, lambda count: [loss / (1 + at) for at in range(count)], lambda count: None)

    overhead.check([contestant("weft", 1.0), contestant("other", 1.0)])
    with pytest.raises(AssertionError, match="the losses of other are not weft's"):
        overhead.check([contestant("weft", 1.0), contestant("other", 1.1)])


def test_overhead_trains(overhead: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path))
    ours = overhead.weft_step(overhead.problem())
    first, *_, last = ours.losses(overhead.CHECKED)
    assert 0 < last < first
    figures = overhead.measure({"weft": ours.run}, rounds=3)
    assert figures["weft"].best <= figures["weft"].middle

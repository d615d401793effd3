"""Every benchmark starts: what it imports is there, and --help helps. Those that judge judge rightly."""

from __future__ import annotations

import importlib
import importlib.util
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import weft as wf
from weft.loops import parse
from weft.schedule import as_kernels

BENCHMARKS = sorted((Path(__file__).parents[1] / "bench").glob("*.py"))


@pytest.mark.parametrize("path", BENCHMARKS, ids=lambda path: path.stem)
def test_a_benchmark_starts(path: Path) -> None:
    done = subprocess.run([sys.executable, str(path), "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "usage:" in done.stdout


@pytest.fixture(scope="module")
def overhead() -> ModuleType:
    return loaded("overhead")


@pytest.fixture(scope="module")
def compiling() -> ModuleType:
    return loaded("compile")


def loaded(name: str) -> ModuleType:
    (path,) = (one for one in BENCHMARKS if one.stem == name)
    spec = importlib.util.spec_from_file_location(f"bench_{name}", path)
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


def figures(compiling: ModuleType, **seconds: tuple[float, ...]) -> dict[tuple[str, str], list[object]]:
    """What was measured on one model, by peer: the seconds of each round."""
    return {
        (peer, "mlp"): [compiling.Figure(1.0, one, one, 0.0, [2.0, 1.0]) for one in rounds]
        for peer, rounds in seconds.items()
    }


@pytest.mark.parametrize(("ours", "passes"), [(1.0, True), (2.0, True), (2.1, False)])
def test_the_first_step_is_judged_by_the_faster_peer(compiling: ModuleType, ours: float, passes: bool) -> None:
    found = figures(compiling, weft=(9.0, ours), jax=(8.0, 6.0), torch=(30.0,))
    ((passed, text),) = compiling.judge_first(found, "warm", 3.0)
    assert passed == passes
    said = f"mlp, warm: weft {ours:.2f} s, jax.jit 6.00 s: {6 / ours:.1f} times as fast"
    assert text == (said if passes else f"{said}, NOT 3 times as fast")


def test_growth_with_layers_is_judged_by_the_best_rounds(compiling: ModuleType) -> None:
    def figure(python: float, compiler: float) -> object:
        return compiling.Figure(1.0, 9.0, python, compiler, [2.0, 1.0])

    found = {6: [figure(2.0, 1.0), figure(1.0, 2.0)], 48: [figure(10.5, 1.5), figure(11.0, 1.4)]}
    compiler, python = compiling.judge_growth(found)
    assert compiler == (True, "C compiler: 6 layers 1.00 s, 48 layers 1.40 s: 1.40 times")
    assert python == (False, "Python: 6 layers 1.00 s, 48 layers 10.50 s: 10.50 times, OVER THE LIMIT of 10")


def test_memory_is_judged_by_every_peer(compiling: ModuleType) -> None:
    bytes_of = {("weft", 6): 3 << 20, ("jax", 6): 3 << 20, ("torch", 6): 2 << 20}
    assert compiling.judge_memory(bytes_of) == [
        (True, "memory of 6 layers: weft 3.00 MiB, no more than jax.jit's 3.00 MiB"),
        (False, "memory of 6 layers: weft 3.00 MiB, MORE THAN torch.compile's 2.00 MiB"),
    ]


def test_first_steps_are_compared_if_equal_only(compiling: ModuleType) -> None:
    found = figures(compiling, weft=(1.0,), jax=(1.0,))
    compiling.check(found)
    for strange in (1.1, float("nan")):
        found["jax", "mlp"][0].losses[1] = strange  # type: ignore[attr-defined]
        with pytest.raises(AssertionError, match="jax on mlp"):
            compiling.check(found)


def test_weft_makes_a_first_step_in_a_process_of_its_own(compiling: ModuleType, tmp_path: Path) -> None:
    cold, warm = (compiling.started("weft", "mlp", tmp_path) for _ in range(2))
    assert cold.losses == warm.losses
    assert cold.losses[1] < cold.losses[0]
    assert cold.compiler > 0 == warm.compiler


@pytest.mark.parametrize(("ours", "passes"), [(0.1, True), (0.2, True), (0.21, False)])
def test_imports_are_judged_by_numpys(ours: float, passes: bool) -> None:
    passed, text = loaded("imports").verdict(0.1, ours)
    assert passed == passes
    assert text.startswith(f"import numpy 100.0 ms, import weft {1e3 * ours:.1f} ms: {10 * ours:.2f} times, ")
    assert ("OVER" in text) != passes


SMALL = (
    "product 5×6×7",
    "product 5×6×7 left_transposed right_transposed",
    "narrow-product 5×6×7 int8",
    "layer 5x6x7",
    "batched 2×5×6×7",
    "permuted 2×3×4×5×6×7",
    "max-plus 5×6×7",
    *(f"{name} 50" for name in ("chain", "sum", "max", "argmax")),
    *(f"{name} 5×7" for name in ("transpose", "softmax", "layer-norm", "moments")),
    *(f"{name} 5×7" for name in ("columns", "logsumexp", "variance", "sort")),
    "top 5×7×3",
    "scatter 9×4×5",
    "embedding 9×4×5",
    "tmm 5×6×7",
    "tbmm 2×5×6×7",
    "lut1 9×4×3×2",
    "lut2 9×8×4×3×2×5",
    "mlp1 5×6×7",
    "mlp3 5×6×7×4×3",
    "group-norm 2×3×2×4",
    "attention 2×5×3",
    "attention 2×5×3 causal",
)


def test_weft_finds_what_numpy_finds_in_double_precision() -> None:
    peers, contestants = loaded("peers"), importlib.import_module("_peers.contestants")
    for text in SMALL:
        work = peers.work(text)
        figure = peers.Figure(peers.Row(text, "", 1.0), work.flops, 0)
        answers = {"weft": contestants.by_weft(work, work.inputs, backend="interp").answers()}
        wanted = contestants.by_numpy(work, work.in_double()).answers()
        peers.compare(figure, answers, wanted, peers.TOLERANCE)
        assert not figure.failures, text
        peers.compare(figure, answers, [one + 1 for one in wanted], peers.TOLERANCE)
        assert "finds something else" in figure.failures["weft"]
    named = {row.text.split()[0] for row in peers.rows()}
    untried = {"convolution", "group-convolution", "perceptron", "transformer"}
    assert named == {text.split()[0] for text in SMALL} | untried == set(peers.KINDS)


def test_gradients_are_pulled_back_from_given_numbers() -> None:
    peers, contestants = loaded("peers"), importlib.import_module("_peers.contestants")
    work = peers.work("embedding 3×2×4 gradient")
    found, slopes = contestants.by_weft(work, work.inputs, backend="interp").answers()
    wanted = np.zeros((3, 2))
    np.add.at(wanted, work.inputs["ids"], contestants.seed_of(found))
    np.testing.assert_allclose(slopes, wanted, rtol=1e-6)


def test_a_contestant_runs_in_a_process_of_its_own() -> None:
    processes = importlib.import_module("_peers.process")
    one = processes.Process("numpy", 1)
    try:
        (found,) = one.build("sum 1000")
        (exact,) = one.reference("sum 1000")
        assert abs(found - exact) < 1e-3
        assert (found.dtype, exact.dtype) == ("float32", "float64")
        assert 0 < one.round(0.001) < 1
        assert one.build("softmax 3×4 gradient") is None
        with pytest.raises(processes.Failed, match="AttributeError"):
            one._asked("sing")
    finally:
        one.end()


def test_peers_are_judged_by_the_best() -> None:
    peers, report = loaded("peers"), importlib.import_module("_peers.report")
    figures = [
        report.Figure(peers.Row("a", "g", 1.1), 8.0, 4.0, {"weft": 2.0, "numpy": 9.0, "torch": 8.0}),
        report.Figure(peers.Row("b", "g", 1.1), 0.0, 4.0, {"weft": 4.0, "jax.jit": 4.0}, {"torch": "failed: so"}),
        report.Figure(peers.Row("c", "h", 1.0), 0.0, 4.0, {"torch": 1.0}),
    ]
    assert [(one.best_peer, one.ratio, one.passed) for one in figures] == [
        ("torch", 4.0, True),
        ("jax.jit", 1.0, False),
        ("torch", None, False),
    ]
    assert [one.fraction for one in figures] == [None, None, None]
    assert [replace(one, peak=peers.Peak(8.0, 2.0)).fraction for one in figures] == [1.0, 0.5, None]
    assert not report.passed(figures)
    assert report.passed(figures[:1])
    assert report.summary(figures) == [
        "g: 2.00, least 1.00",
        "h: no peers",
        "all: 2.00, least 1.00; 1 of 3 as wanted",
        "b: torch failed: so",
    ]


@pytest.mark.parametrize(
    ("ratios", "passes", "said"),
    [
        ((1.2, 0.95), True, "1.07, least 0.95; 1 in the mean, as wanted"),
        ((1.01, 0.95), False, "0.98, least 0.95; NOT 1 in the mean, as wanted"),
        ((2.0, 0.85), False, "1.30, least 0.85; 1 in the mean, as wanted"),
    ],
)
def test_awkward_products_are_judged_by_their_mean(ratios: tuple[float, ...], passes: bool, said: str) -> None:
    peers, report = loaded("peers"), importlib.import_module("_peers.report")
    awkward = [row for row in peers.rows() if row.group == "awkward products"]
    assert len(awkward) == len([row for row in peers.rows() if row.group == "awkward layers"]) == 26
    figures = [
        report.Figure(row, 1.0, 1.0, {"weft": 1.0, "torch": ratio}) for row, ratio in zip(awkward, ratios, strict=False)
    ]
    assert report.passed(figures) == passes
    assert report.summary(figures)[0] == f"awkward products: {said}"


def test_comprehensions_are_tuned_if_that_is_asked() -> None:
    peers = loaded("peers")
    plain = [row for row in peers.rows() if row.group == "comprehensions"]
    tuned = [row for row in peers.rows(tuned=10.0) if row.tuned]
    assert [row.text for row in tuned] == [row.text for row in plain]
    assert {row.wanted for row in plain} == {1.0}
    assert {(row.wanted, row.group) for row in tuned} == {(1.3, "tuned comprehensions")}
    assert tuned[0].title == "tmm 128×1024×1024, tuned 10 s"
    assert not any(row.tuned for row in peers.rows())


def test_weft_tunes_before_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    peers, contestants = loaded("peers"), importlib.import_module("_peers.contestants")
    asked = []
    monkeypatch.setattr("weft.Routine.tune", lambda self, **how: asked.append(how))
    for tuned in (0.0, 3.0):
        contestants.made_ready("weft", peers.work("sum 50"), tuned=tuned)
    assert asked == [{"seconds": 3.0, "show": False}]


@pytest.mark.parametrize(("peak", "wanted", "passes"), [(8.0, 7.2, True), (16.0, 14.4, False), (21.0, 20.0, False)])
def test_no_more_is_wanted_of_max_plus_than_the_machine_can_do(peak: float, wanted: float, passes: bool) -> None:
    """The peer does one operation in a second: at its peak, the machine is so many times as fast."""
    peers, report = loaded("peers"), importlib.import_module("_peers.report")
    (row,) = (one for one in peers.rows() if one.group == "semirings")
    figure = report.Figure(row, 100.0, 1.0, {"weft": 12.5, "jax.jit": 100.0}, {}, peers.Peak(peak, 1e9))
    assert figure.wanted == pytest.approx(wanted)
    assert figure.passed == passes
    said = f"{row.text}: 20 cannot be, at the machine's peak it would be {peak:.3g}; 90% of that is wanted"
    assert (said in report.summary([figure])) == (wanted < 20)


@pytest.mark.parametrize(("peak", "wanted", "passes"), [(1.25, 1.125, True), (1.32, 1.3, False), (1.1, 1.3, False)])
def test_of_tuned_comprehensions_no_more_is_wanted_either(peak: float, wanted: float, passes: bool) -> None:
    peers, report = loaded("peers"), importlib.import_module("_peers.report")
    row = next(one for one in peers.rows(tuned=10.0) if one.group == "tuned comprehensions")
    figure = report.Figure(row, 100.0, 1.0, {"weft": 84.0, "jax.jit": 100.0}, {}, peers.Peak(peak, 1e9))
    assert figure.wanted == pytest.approx(wanted)
    assert figure.passed == passes


def test_scaling_predicts_functions_threads_and_where_bytes_come_from() -> None:
    scaling = loaded("scaling")
    text = """\
x: float32[1000]
y: float32[1000]
z: float32[1000]
for i in range(1000) on threads by 500:
    y[i] = exp(x[i])
for i in range(1000):
    z[i] = z[i] + 1
for i in range(4):
    for j in range(250) on threads by 125:
        y[250*i + j] = x[250*i + j] * 2"""
    kernels = as_kernels(parse(text))
    speeds = {"flops_per_s": 1e9, "cached_bytes_per_s": 1e9, "last_cached_bytes_per_s": 1e8, "bytes_per_s": 1e7}
    machine = wf.Machine(cores=2, function_ns=10.0, call_ns=100.0, round_ns=1000.0, **speeds)

    def predicted(machine: wf.Machine) -> list[float]:
        return [1e6 * one.seconds for one in scaling.predicted(kernels, machine)]

    assert predicted(machine) == pytest.approx([5.5 + 1.1, 8 + 0.1, 4 + 4.1])
    assert predicted(replace(machine, function_ns=5.0)) == pytest.approx([4 + 1.1, 8 + 0.1, 4 + 4.1])
    # `z` was touched last before `x` and `y`, and one core reads it; those are apart in the caches of two
    assert predicted(replace(machine, caches=(8, 8000, 1 << 20))) == pytest.approx([5.5 + 1.1, 80 + 0.1, 4 + 4.1])
    assert predicted(replace(machine, caches=(8, 4000, 8000))) == pytest.approx([5.5 + 1.1, 800 + 0.1, 800 + 4.1])


def test_what_scaling_predicts_is_held_against_what_it_takes() -> None:
    scaling = loaded("scaling")
    figures = [scaling.Figure("width", scaling.BASE["mlp"], 1, 1, 1, took, 1.0) for took in (0.4, 0.6, 1.9, 2.1)]
    assert [one.is_off for one in figures] == [True, False, False, True]
    assert scaling.Sizes("mlp", 4, 2, 3).problem().start["w3"].shape == (10, 4)
    (found,) = scaling.measure([("batch", scaling.Sizes("mlp", 4, 1, 3))], 2, wf.Machine(call_ns=1e9))
    assert found.is_off
    assert found.why[0].startswith("alone, its ")
    assert [one.split()[0] for one in found.why[1:]] == ["kernel"] * scaling.SHOWN
    assert (found.at, found.kernels > 1) == (3, True)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("prodct 2×3×4", "there is no work `prodct`: there are "),
        ("product 2×3", "`product 2×3` is not written as `product ROWS×DEPTH×COLUMNS [left_transposed]"),
        ("sum 4 fast", "`sum 4 fast` is not written as `sum SIZE`"),
    ],
)
def test_rows_that_are_none_are_refused(text: str, said: str) -> None:
    with pytest.raises(SystemExit) as raised:
        loaded("peers").work(text)
    assert str(raised.value).startswith(said)


def test_a_row_that_there_is_not_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["peers.py", "--only", "sofmax"])
    assert loaded("peers").main() == 2
    assert capsys.readouterr().err == "no row contains 'sofmax', and no group is called so\n"

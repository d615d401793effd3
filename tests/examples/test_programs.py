"""Each program of `weft demo` at reduced size: what it learns, what it says, and that none is forgotten."""

from __future__ import annotations

import inspect
from pathlib import Path

import numpy as np
import pytest

from weft import cli, demo
from weft.examples import (
    comprehension,
    data_parallel,
    diffusion,
    digits,
    gpt,
    graph,
    lstm,
    makemore,
    mixed_precision,
    policy,
    surgery,
    two_moons,
    vae,
)

SENTENCE = "the quick brown fox jumps over the lazy dog. "
Images = tuple[np.ndarray, np.ndarray]
NAMES = [first + last for first in ("an", "el", "nor", "lin", "mon", "tin") for last in ("a", "ette", "is", "ela")]


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """C where the interpreter would take long."""
    monkeypatch.setenv("WEFT_BACKEND", "cc")


def bars(count: int, kinds: int = 10) -> Images:
    """Noisy images of 8 by 8 pixels, each class with two bars of its own."""
    random = np.random.default_rng(0)
    labels = np.arange(count) % kinds
    images = random.random((count, 8, 8)) * 0.3
    for image, label in zip(images, labels, strict=True):
        image[label % 5 + 1] += 0.7
        image[:, label // 5 + 2 + label % 5 % 2] += 0.7
    return np.clip(images, 0, 1).astype("float32"), labels.astype("int32")


@pytest.mark.usefixtures("compiled")
def test_two_moons(capsys: pytest.CaptureFixture[str]) -> None:
    assert two_moons.main(points=600, epochs=12) > 0.95
    printed = capsys.readouterr().out
    assert "mlp.L1.w 2->16" in printed
    assert printed.count("#") > 40
    assert printed.count("o") > 40


@pytest.mark.usefixtures("compiled")
def test_digits() -> None:
    found = digits.main(epochs=8, data=bars(128))  # all batches are of 32: each step is compiled once
    assert found["perceptron"] > 0.8
    assert found["convolutional"] > 0.9


def test_makemore(capsys: pytest.CaptureFixture[str]) -> None:
    losses = makemore.main(epochs=2, names=NAMES[::2], batch_size=16)
    assert list(losses) == ["bigram", "perceptron", "wavenet", "transformer"]
    assert max(losses[name] for name in ("perceptron", "wavenet", "transformer")) < np.log(27)
    assert losses["perceptron"] < losses["bigram"] - 0.3
    assert len(capsys.readouterr().out.splitlines()) == 5


@pytest.mark.usefixtures("compiled")
def test_gpt() -> None:
    losses, story = gpt.main(
        steps=60, width=16, layers=1, window=16, batch_size=8, letters=12, prompt="the ", text=SENTENCE * 40
    )
    assert losses[0] > 3
    assert np.mean(losses[-5:]) < 2.8
    assert len(story) == 12


@pytest.mark.usefixtures("compiled")
def test_lstm() -> None:
    error = lstm.main(length=6, epochs=12, examples=1000, size=16)
    assert error < 0.1


def test_vae(capsys: pytest.CaptureFixture[str]) -> None:
    losses = vae.main(epochs=4, latent=3, data=bars(128))
    assert losses[-1] < 0.9 * losses[0]
    assert losses == sorted(losses, reverse=True)
    assert "nobody wrote" in capsys.readouterr().out


def test_diffusion() -> None:
    noise, made = diffusion.main(steps=150, width=24, levels=12, points=60)
    assert made < 0.85 * noise


def test_policy() -> None:
    first, last = policy.main(rounds=25, agents=32, longest=40)
    assert last < 0.6 * first


@pytest.mark.usefixtures("compiled")
def test_graph(capsys: pytest.CaptureFixture[str]) -> None:
    loss, before, after = graph.main(nodes=120, known=24, steps=60, rounds=6)
    assert loss < 0.4
    assert after > before + 0.1
    assert after > 0.7
    assert capsys.readouterr().out.count(" away ") == 6


@pytest.mark.usefixtures("compiled")
def test_mixed_precision(capsys: pytest.CaptureFixture[str]) -> None:
    found = mixed_precision.main(steps=40, width=16, examples=64)
    assert found["bfloat16"] == pytest.approx(found["float32"], abs=0.1)
    assert capsys.readouterr().out.count("parameters are float32") == 2


def test_data_parallel(capsys: pytest.CaptureFixture[str]) -> None:
    assert data_parallel.main(devices=3, steps=10, examples=50) < 1e-5
    assert capsys.readouterr().out.count("hold the same: True") == 2


def test_comprehension() -> None:
    assert comprehension.main(epochs=8, examples=400, filters=4) > 0.8


@pytest.mark.usefixtures("compiled")
def test_surgery(capsys: pytest.CaptureFixture[str]) -> None:
    first, second = surgery.main(epochs=2, few=40, data=bars(400))
    assert first > 0.9
    assert second > 0.6
    assert "bit by bit what it was" in capsys.readouterr().out


def test_every_program_says_what_it_shows_and_has_a_main() -> None:
    found = demo.example_titles()
    assert len(found) >= 17
    assert all(title.endswith((".", ":")) for title in found.values()), found
    for name in found:
        arguments = inspect.signature(demo._module(name).main).parameters.values()
        assert all(one.default is not inspect.Parameter.empty for one in arguments), name


def test_every_program_is_tested() -> None:
    tests = "".join(path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("*.py"))
    assert [
        name for name in demo.example_titles() if f"def test_{name}" not in tests and f'("{name}")' not in tests
    ] == [
        "bigram"  # tests/examples/test_bigram.py
    ]


def test_the_command_lists_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["demo"]) == 0
    printed = capsys.readouterr().out
    assert all(f"  {name} " in printed for name in demo.example_titles())


def test_the_command_runs_one_with_its_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["demo", "data_parallel", "--devices", "2", "--steps", "1", "--examples", "8"]) == 0
    assert "2 devices: loss" in capsys.readouterr().out


def test_help_of_a_program(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as done:
        cli.main(["demo", "gpt", "--help"])
    assert done.value.code == 0
    printed = capsys.readouterr().out
    assert "--steps INT" in printed
    assert "Python's own documentation" in printed


def test_a_program_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["demo", "moons"]) == 2
    assert "there is no example 'moons'\n  fix: did you mean 'two_moons'?" in capsys.readouterr().err


def test_plans(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["demo", "--plans"]) == 0
    assert capsys.readouterr().out.count("# ") >= len(demo.PLANS)

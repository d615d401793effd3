"""The demonstration learns, draws and says what it did."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from weft import cli, demo


def test_a_few_epochs_are_enough() -> None:
    trained = demo.two_moons()
    losses = list(trained.train(epochs=8))
    assert np.mean(losses[-demo.STEPS :]) < 0.1 * losses[0]
    assert trained.accuracy(*demo.moons(1000, seed=11)) > 0.95
    assert [(p.label, str(p.dims)) for p in trained.model.params] == [
        ("mlp.L1.w", "2->16"),
        ("mlp.L1.b", "16"),
        ("mlp.L2.w", "16->16"),
        ("mlp.L2.b", "16"),
        ("mlp.w", "16->1"),
        ("mlp.b", "1"),
    ]


def test_training_twice_gives_the_same_numbers() -> None:
    first, second = (list(demo.two_moons().train(epochs=1)) for _ in range(2))
    assert first == second


def test_the_boundary_is_a_picture_in_text() -> None:
    trained = demo.two_moons()
    list(trained.train(epochs=8))
    rows = demo.picture_of(trained).canvas.split("\n")
    assert [len(row) for row in rows] == [demo.COLUMNS] * demo.ROWS
    assert rows[0].startswith(" ")
    assert rows[-1].endswith("░")
    assert sum(row.count("o") for row in rows) > 60
    assert sum(row.count("#") for row in rows) > 60


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(demo, "EPOCHS", 4)
    monkeypatch.setattr(demo, "PIXELS", 20)
    picture = tmp_path / "deep" / "moons.png"
    assert cli.main(["demo", "--out", str(picture)]) == 0
    printed = capsys.readouterr().out
    assert "80/80 loss 0." in printed
    assert "mlp.L1.w   2->16" in printed
    assert "of 1000 fresh points" in printed
    if importlib.util.find_spec("matplotlib"):
        assert f"picture: {picture}" in printed
        assert picture.read_bytes().startswith(b"\x89PNG")
    else:
        assert "pip install 'weft[plot]'" in printed


def test_without_matplotlib_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert "weft[plot]" in demo._draw(demo.two_moons(), tmp_path / "moons.png")
    assert not (tmp_path / "moons.png").exists()


def test_a_place_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    (tmp_path / "file").touch()
    assert demo._draw(demo.two_moons(), tmp_path / "file" / "moons.png").startswith("no picture: ")


def test_plans(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["demo", "--plans"]) == 0
    printed = capsys.readouterr().out
    assert printed.count("# ") >= len(demo.PLANS)
    assert "R[i, k] += A[i, j] * B[j, k]" in printed

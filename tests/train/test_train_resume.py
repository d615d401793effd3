"""A run that is resumed is the run that was not interrupted: bit by bit, from wherever it stopped."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft as wf
from train.models import classifier, cross_entropy, points

X, Y = points(13)


class Stop(Exception):
    """Somebody pulled the plug."""


def run(
    folder: Path | None, stop: int | None = None, *, backend: str = "interp", devices: int = 1, **options: Any
) -> Any:
    """Train a model that drops, with Adam, on shuffled batches; `stop` before the step of a number."""
    model, ctx = classifier(), wf.Context(backend, devices=devices)
    batches = wf.data.batches(X, Y, batch_size=4, shuffle=True, seed=7)

    def epoch(number: int, start: int = 0) -> Any:
        for at, batch in enumerate(wf.data.Batches.epoch(batches, number, start), start):
            if stop is not None and number * len(batches) + at == stop:
                raise Stop
            yield batch

    batches.epoch = epoch  # type: ignore[method-assign]
    history = wf.train.fit(
        model,
        cross_entropy,
        batches,
        epochs=3,
        optimise=lambda loss: wf.optim.adam(loss, lr=0.05),
        metrics={"accuracy": wf.train.accuracy},
        validation=(X, Y),
        checkpoint=folder,
        context=ctx,
        **options,
    )
    records = [replace(one, seconds=0.0) for one in history]
    state = {name: array.tobytes() for name, array in history.step.state().items()}
    return history.losses.tolist(), records, state


@pytest.mark.parametrize(("backend", "devices"), [("interp", 1), ("cc", 1), ("interp", 2), ("cc", 3)])
def test_a_resumed_run_is_bit_equal(backend: str, devices: int, tmp_path: Path) -> None:
    where: dict[str, Any] = {"backend": backend, "devices": devices}
    whole = run(None, **where)
    assert len(whole[0]) == 12
    assert any("adam" in name for name in whole[2])
    assert "steps" in whole[2]
    for number, stop in enumerate([1, 3, 4, 7, 11]):
        with pytest.raises(Stop):
            run(tmp_path, stop, every=1, resume=number > 0, **where)
    assert run(tmp_path, every=1, resume=True, **where) == whole
    assert run(tmp_path, every=1, resume=True, **where) == whole, "it is done: nothing happens"


def test_between_checkpoints_steps_are_taken_again(tmp_path: Path) -> None:
    whole = run(None)
    with pytest.raises(Stop):
        run(tmp_path, 8, every=5)
    assert [one.name for one in sorted(tmp_path.iterdir())] == ["step-000000005.npz"]
    assert run(tmp_path, every=5, resume=True) == whole
    assert len(list(tmp_path.iterdir())) == 2 + 1


def test_without_a_number_of_steps_each_epoch_is_kept(tmp_path: Path) -> None:
    whole = run(None, keep_best=True)
    with pytest.raises(Stop):
        run(tmp_path, 9, keep=2, keep_best=True)
    assert [one.name for one in sorted(tmp_path.iterdir())] == [f"step-{at:09d}.npz" for at in (4, 8)]
    assert run(tmp_path, resume=True, keep_best=True) == whole


def test_what_was_stopped_early_stays_so(tmp_path: Path) -> None:
    options: dict[str, Any] = {"epochs": 30, "early_stopping": 2, "checkpoint": tmp_path, "validation": (X, 1 - Y)}
    options |= {"context": wf.Context("interp"), "batch_size": 8}
    first = wf.train.fit(classifier(), cross_entropy, (X, Y), **options)
    again = wf.train.fit(classifier(), cross_entropy, (X, Y), **options, resume=True)
    assert first.stopped == again.stopped == "early"
    assert again.losses.tolist() == first.losses.tolist()


def test_a_checkpoint_that_cannot_be_read_is_passed_over(tmp_path: Path) -> None:
    whole = run(None)
    with pytest.raises(Stop):
        run(tmp_path, 6, every=2)
    newest = max(tmp_path.iterdir())
    newest.write_bytes(newest.read_bytes()[:100])
    with pytest.warns(wf.WeftWarning, match="is damaged"):
        assert run(tmp_path, every=2, resume=True) == whole
    for one in tmp_path.iterdir():
        one.write_bytes(b"")
    with pytest.warns(wf.WeftWarning), pytest.raises(wf.WeftError, match="none of the 3 checkpoints in"):
        run(tmp_path, resume=True)


def test_a_full_disk_is_told_and_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = run(None)
    with pytest.raises(Stop):
        run(tmp_path, 3, every=1)
    before = {one.name: one.read_bytes() for one in tmp_path.iterdir()}

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.warns(wf.WeftWarning, match="No space left on device"):
            found = run(tmp_path, every=1, resume=True)
    assert found == whole, "the run goes on"
    assert {one.name: one.read_bytes() for one in tmp_path.iterdir()} == before


def test_a_run_on_other_data_is_not_gone_on_with(tmp_path: Path) -> None:
    options: dict[str, Any] = {"checkpoint": tmp_path, "context": wf.Context("interp")}
    wf.train.fit(classifier(), cross_entropy, (X, Y), batch_size=4, **options)
    cases: list[tuple[Callable[[], object], str]] = [
        (
            lambda: wf.train.fit(classifier(), cross_entropy, (X, Y), batch_size=5, resume=True, seed=1, **options),
            "the checkpoint is of a run on other batches",
        ),
        (
            lambda: wf.train.fit(classifier(), cross_entropy, (X, Y), **options),
            f"{str(tmp_path)!r} has the checkpoints of an earlier run",
        ),
    ]
    for wrong, what in cases:
        with pytest.raises(wf.WeftError) as caught:
            wrong()
        assert caught.value.what.startswith(what)
    wf.save(tmp_path / "step-000000099.npz", {"w": np.ones(1)})
    with pytest.raises(wf.WeftError, match=r"the file is no checkpoint of wf\.train\.fit"):
        wf.train.fit(classifier(), cross_entropy, (X, Y), resume=True, **options)


def test_a_killed_run_loses_at_most_the_work_since_the_last_checkpoint() -> None:
    """In a process of its own, which forks: see there for a longer campaign."""
    script = Path(__file__).with_name("killed.py")
    done = subprocess.run([sys.executable, str(script), "4"], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    come = [int(one) for one in done.stdout.split()]
    assert len(come) == 4
    assert min(come) > 0

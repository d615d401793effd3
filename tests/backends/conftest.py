"""Places of their own for tests that compile: temporary files, a cache, and nothing loaded before."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from backends.guarded import guarding
from weft.backends.cc import build, loader


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the test's temporary files go. No library has been loaded and no warning given yet."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    monkeypatch.setattr(build, "_loaded", {})
    monkeypatch.setattr(build, "_warned", set())
    monkeypatch.setattr(loader, "_known", {})
    monkeypatch.setattr(loader, "_crashed", {})
    return place


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A cache that is not there yet."""
    return tmp_path / "kept" / "cc"


@pytest.fixture(scope="module")
def guarded_memory() -> Iterator[None]:
    """Nothing compiled reads or writes outside its buffers: if it does, that is the end of the process.

    Under sanitizers memory is as they lay it out.
    """
    with nullcontext() if "LD_PRELOAD" in os.environ else guarding():
        yield

"""Tests on a real GPU: `make test-cuda`. Where there is none they fail, and say what is missing."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

import weft as wf

os.environ.setdefault("WEFT_VERIFY", "1")


@pytest.fixture(scope="session", autouse=True)
def on_a_gpu() -> None:
    """Nothing is skipped: what keeps a context from being made is an error of every test."""
    wf.Context("cuda").close()


@pytest.fixture
def ctx() -> Iterator[wf.Context]:
    with wf.Context("cuda") as made:
        yield made

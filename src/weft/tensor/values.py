"""How a tensor gets its value: by whichever context is current. The runtime says which."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import numpy.typing as npt

from weft.errors import WeftError, user_origin
from weft.tensor.tensor import Tensor

evaluator: ContextVar[Callable[[Tensor], npt.NDArray[Any]] | None] = ContextVar("weft_evaluator", default=None)


def value_of(tensor: Tensor) -> npt.NDArray[Any]:
    evaluate = evaluator.get()
    if evaluate is None:
        raise WeftError(f"no context can compute `{tensor.label}`", origin=user_origin(), fix="create a wf.Context")
    return evaluate(tensor)

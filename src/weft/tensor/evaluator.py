"""How a tensor gets its value where no context is named. The runtime says how, in whichever thread it is asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy.typing as npt

from weft.dlpack import DeviceArray
from weft.tensor.tensor import Tensor


class Evaluator:
    """Whom tensors ask."""

    __slots__ = ("evaluate", "export", "place")
    #: Its value.
    evaluate: Callable[[Tensor], npt.NDArray[Any]]
    #: Where whoever has it has it, as DLPack says it; and its value there.
    place: Callable[[Tensor], tuple[int, int]]
    export: Callable[[Tensor], DeviceArray]


evaluator = Evaluator()

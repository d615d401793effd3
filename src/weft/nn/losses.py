"""Losses: one number to make small. The mean of all numbers, their sum, or (`reduction="none"`) the numbers themselves."""

from __future__ import annotations

from typing import Literal, TypeAlias

from weft.errors import ShapeError
from weft.nn.checks import fraction, one_of, positive
from weft.ops import Scalar, call, where
from weft.tensor.einsum import einsum
from weft.tensor.functions import cast, log, not_equal, where as choose
from weft.tensor.groups import OUTPUT_ROW, Groups, related
from weft.tensor.reductions import cross_entropy as unlikely, logsumexp, maximum, mean, norm, sum as total
from weft.tensor.scope import as_tensor
from weft.tensor.tensor import Tensor, TensorLike

Reduction: TypeAlias = Literal["mean", "sum", "none"]

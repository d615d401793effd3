"""Ids of classes: whole numbers below how many classes there are, or else a number that says there is none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from weft.assign import Extent, Node, in_code, node_of
from weft.errors import IndexOutOfBounds, Origin, WeftError, user_origin
from weft.ops import Num, call
from weft.ops.dtypes import is_float
from weft.tensor.functions import cast
from weft.tensor.positions import ONE_OPERAND, watched, where_it_stands
from weft.tensor.scope import as_tensor
from weft.tensor.tensor import Tensor, TensorLike

_POSITION = "int32"


def whole_ids(ids: TensorLike, user: str) -> Tensor:
    """Ids as a tensor of whole numbers, which truth values are; what is stored as fractions names no position."""
    found = as_tensor(ids, user)
    stored = found.node.precision.settled
    if stored and is_float(stored):
        what = f"{user} takes whole numbers as ids, and `{found.label}` is {stored}"
        raise WeftError(what, fix='convert them: wf.cast(ids, "int32"), or wf.argmax(ids) of one-hot ones')
    return cast(found, _POSITION) if stored == "bool" else found


def check_order(scores: Tensor, ids: Tensor, user: str) -> None:
    """Refuse ids where scores belong, and scores where ids do."""
    first, second = (one.node.precision.settled for one in (scores, ids))
    if first and not is_float(first) and second and is_float(second):
        raise swapped(scores, ids, user)


def swapped(first: Tensor, second: Tensor, user: str) -> WeftError:
    """Scores and ids are given the other way round."""
    return WeftError(
        f"{user} takes scores first and then ids, and `{first.label}` has whole numbers",
        notes=[f"{first.label} is {first.shape}", f"{second.label} is {second.shape}"],
        fix=f"swap them: {user}({second.label}, {first.label})",
    )


def named_classes(ids: Tensor, count: Extent, ignored: int | None, user: str) -> Node:
    """A node with the check that ids name classes, of which there are so many; those that are ignored name none."""
    value = ONE_OPERAND if ignored is None else call("where", call("eq", ONE_OPERAND, ignored), Num(0), ONE_OPERAND)
    origin = user_origin()
    check = ClassesNamed(node_of(ids.operand), count, user, origin)
    return watched(ids.operand, check, in_code([ids.operand]), origin, value)


@dataclass(frozen=True, slots=True)
class ClassesNamed:
    """That ids are those of classes, seen from the least and the greatest of them."""

    of: Node
    count: Extent
    user: str
    origin: Origin | None

    def verify(self, value: npt.NDArray[Any], of: Callable[[], npt.NDArray[Any]] | None) -> None:
        (least, greatest), count = value.tolist(), int(self.count.number)
        if least >= 0 and greatest < max(count, 1):
            return
        stray = least if least < 0 else greatest
        raise IndexOutOfBounds(
            f"{where_it_stands(stray, self.of, self.of.shape, of)}, and {self.user} has {count} classes, "
            f"0 to {count - 1}",
            origin=self.origin,
            fix=f"give the model more outputs, or other ids; ignore_index={stray} if it stands for no class",
        )

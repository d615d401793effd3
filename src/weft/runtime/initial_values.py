"""Initial values: what a node holds before anything was stored in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import copysign

import numpy as np

from weft.assign import Cells, Copied, Data, File, Node
from weft.assign.definitions import initial, inputs_of
from weft.backends import Array
from weft.dlpack import DeviceArray
from weft.errors import Origin, ShapeError, WeftError
from weft.loops import Buffer
from weft.ops.convert import convert
from weft.ops.dtypes import numpy_type
from weft.ops.scalar import Num
from weft.runtime.compiled import Compiled
from weft.shape.close import close


@dataclass(frozen=True, slots=True, eq=False)
class InitialValues:
    """What has to happen before something can be read: some nodes get their initial values.

    `given` has those that are not computed, None for zeros; the program computes the others.
    """

    nodes: tuple[Node, ...] = ()
    given: Mapping[Buffer, Array | None] = field(default_factory=dict)
    program: Compiled | None = None

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        return self.program.buffers if self.program else ()


def is_computed(node: Node) -> bool:
    """Are its first values computed, rather than given or zero?"""
    return isinstance(node.init, Cells | Copied) and not starts_at_zero(node)


def starts_at_zero(node: Node) -> bool:
    """Are its first values said to be zero, as a new block has them?"""
    value = node.init.value if isinstance(node.init, Cells) else None
    return isinstance(value, Num) and value.value == 0 and copysign(1, value.value) > 0


def with_sources(nodes: Iterable[Node]) -> tuple[Node, ...]:
    """The nodes, and the data that first values of theirs are computed from."""
    found: dict[Node, None] = {}
    for node in nodes:
        found[node] = None
        if isinstance(node.init, Copied):
            found |= dict.fromkeys(inputs_of(initial(node)))
    return tuple(found)


def given_values(node: Node, buffer: Buffer) -> Array | None:
    """The first values that data or a file gives, as the buffer has them; None if neither does."""
    match node.init:
        case Data(array=array, exact=exact):
            if exact:
                check_shape(node, array, node.origin)
        case File(path=path):
            array = _map_file(node, path)
        case _:
            return None
    count = int(np.prod(buffer.shape))
    if array.size != count:
        raise ShapeError(
            f"`{node.label}` holds {array.size} values and its shape {node.shape} needs {count}", origin=node.origin
        )
    if isinstance(array, DeviceArray):
        return array.reshape(buffer.shape)
    with np.errstate(all="ignore"):
        return np.ascontiguousarray(convert(array, buffer.dtype)).reshape(buffer.shape)


def in_shape(node: Node, array: Array, origin: Origin | None) -> Array:
    """An array as values of a node: it has the node's shape in memory, or that of the array the node was made from."""
    match node.init:
        case Data(given=given) if array.shape == given:
            return array.reshape(close(node.shape).array_shape)
    check_shape(node, array, origin)
    return array


def check_shape(node: Node, array: Array, origin: Origin | None) -> None:
    """Refuse an array that does not have the node's shape."""
    wanted = close(node.shape).array_shape
    if array.shape != wanted:
        raise ShapeError(
            f"`{node.label}` is {node.shape}, in memory {wanted}, and cannot be set to an array of {array.shape}",
            origin=origin,
            fix=f"give it the shape {wanted}: axes lie batch first, then output, then input",
        )


def _map_file(node: Node, path: str) -> Array:
    count = close(node.shape).count
    try:
        return np.memmap(path, dtype=numpy_type(node.dtype), mode="r", shape=(count,))
    except (OSError, ValueError) as error:
        raise WeftError(
            f"file {path!r} cannot be mapped as {count} values of {node.dtype}: {error}", origin=node.origin
        ) from None

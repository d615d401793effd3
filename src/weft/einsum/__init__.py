"""The einsum notation: its nodes, text to nodes, nodes to text."""

from weft.einsum.nodes import (
    KINDS,
    NOWHERE,
    Affine,
    Axis,
    Concat,
    Hole,
    Kernel,
    Kind,
    Label,
    Position,
    Row,
    RowVar,
    ShapeSpec,
    Skip,
    Spec,
    labels_in,
)
from weft.einsum.parse import long_word, parse_spec, text_with_commas
from weft.einsum.show import show_axis, show_spec

__all__ = [
    "KINDS",
    "NOWHERE",
    "Affine",
    "Axis",
    "Concat",
    "Hole",
    "Kernel",
    "Kind",
    "Label",
    "Position",
    "Row",
    "RowVar",
    "ShapeSpec",
    "Skip",
    "Spec",
    "labels_in",
    "long_word",
    "parse_spec",
    "show_axis",
    "show_spec",
    "text_with_commas",
]

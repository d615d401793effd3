"""The einsum notation: its nodes, text to nodes, nodes to text."""

from weft.einsum.nodes import (
    KINDS,
    NOWHERE,
    AffineAxis,
    Axis,
    ConcatAxis,
    ConvKernel,
    Hole,
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
    "AffineAxis",
    "Axis",
    "ConcatAxis",
    "Hole",
    "ConvKernel",
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

"""The einsum notation: its nodes, text to nodes, nodes to text."""

from weft.einsum.nodes import (
    KINDS as KINDS,
    AffineAxis as AffineAxis,
    Axis as Axis,
    ConcatAxis as ConcatAxis,
    ConvKernel as ConvKernel,
    FlatAxis as FlatAxis,
    Hole as Hole,
    Label as Label,
    Position as Position,
    Row as Row,
    RowVar as RowVar,
    ShapeSpec as ShapeSpec,
    Skip as Skip,
    Spec as Spec,
    labels_in as labels_in,
)
from weft.einsum.parse import long_word as long_word, parse_spec as parse_spec, text_with_commas as text_with_commas
from weft.einsum.show import show_axis as show_axis, show_spec as show_spec

"""The einsum notation: its nodes, text to nodes, nodes to text."""

from weft.einsum.nodes import KINDS as KINDS
from weft.einsum.nodes import Affine as Affine
from weft.einsum.nodes import Axis as Axis
from weft.einsum.nodes import Concat as Concat
from weft.einsum.nodes import Hole as Hole
from weft.einsum.nodes import Kernel as Kernel
from weft.einsum.nodes import Label as Label
from weft.einsum.nodes import Position as Position
from weft.einsum.nodes import Row as Row
from weft.einsum.nodes import RowVar as RowVar
from weft.einsum.nodes import ShapeSpec as ShapeSpec
from weft.einsum.nodes import Skip as Skip
from weft.einsum.nodes import Spec as Spec
from weft.einsum.nodes import labels_in as labels_in
from weft.einsum.parse import long_word as long_word
from weft.einsum.parse import parse_spec as parse_spec
from weft.einsum.parse import text_with_commas as text_with_commas
from weft.einsum.show import show_axis as show_axis
from weft.einsum.show import show_spec as show_spec

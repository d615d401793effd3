"""Assignments: code before it is known how it loops."""

from weft.assign.definitions import complete as complete
from weft.assign.dtype_inference import Precision as Precision
from weft.assign.extents import Extent as Extent, SizeOf as SizeOf
from weft.assign.fingerprint import Fingerprint as Fingerprint
from weft.assign.iterations import Iterations as Iterations, LoopIndex as LoopIndex
from weft.assign.lower import closed_buffer as closed_buffer, lower as lower
from weft.assign.nodes import (
    Accum as Accum,
    Adjoint as Adjoint,
    Arg as Arg,
    Assignment as Assignment,
    Awaited as Awaited,
    Cells as Cells,
    Code as Code,
    Comment as Comment,
    Copied as Copied,
    Data as Data,
    Declared as Declared,
    Direct as Direct,
    Fetch as Fetch,
    File as File,
    Keep as Keep,
    Merge as Merge,
    Node as Node,
    NodeName as NodeName,
    Noop as Noop,
    Offset as Offset,
    Operand as Operand,
    Record as Record,
    Repeat as Repeat,
    Seq as Seq,
    Stored as Stored,
    Symbol as Symbol,
    node_of as node_of,
    operands_of as operands_of,
    seq as seq,
    statements as statements,
    symbols as symbols,
    target as target,
)
from weft.assign.precision_rules import infer_precision as infer_precision
from weft.assign.record import (
    Lookups as Lookups,
    Slot as Slot,
    comment as comment,
    current as current,
    in_code as in_code,
    intermediate as intermediate,
    record as record,
    recording as recording,
)
from weft.assign.show import show as show

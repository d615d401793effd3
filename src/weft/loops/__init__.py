"""The loop language."""

from weft.loops.check import MalformedLoops as MalformedLoops, check as check
from weft.loops.insert_casts import combine as combine, combined as combined, dtype_of as dtype_of, typed as typed
from weft.loops.nodes import (
    Annotation as Annotation,
    Blocks as Blocks,
    Buffer as Buffer,
    Cast as Cast,
    Cold as Cold,
    Collapse as Collapse,
    Fill as Fill,
    For as For,
    Grid as Grid,
    If as If,
    Inside as Inside,
    Jam as Jam,
    Lanes as Lanes,
    Let as Let,
    Local as Local,
    NonTemporal as NonTemporal,
    Owners as Owners,
    Parallel as Parallel,
    PrefetchRows as PrefetchRows,
    Product as Product,
    Program as Program,
    Read as Read,
    Registers as Registers,
    Remark as Remark,
    Role as Role,
    Set as Set,
    Simt as Simt,
    Staged as Staged,
    Stmt as Stmt,
    Store as Store,
    Tile as Tile,
    Unroll as Unroll,
    Update as Update,
    Vector as Vector,
)
from weft.loops.parse import parse as parse
from weft.loops.show import declared as declared, show as show, show_scalar as show_scalar
from weft.loops.walk import buffers_of as buffers_of, reads as reads, walk as walk

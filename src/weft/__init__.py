"""weft: a tensor compiler in which shapes and loops infer themselves."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from weft import optim, train
from weft.assign import comment, intermediate, seq
from weft.config import config
from weft.dlpack import ExchangeError
from weft.errors import (
    ArgumentError,
    EinsumError,
    IndexOutOfBounds,
    NoSuchName,
    OutOfMemory,
    ProjectionError,
    ShapeError,
    UnderdeterminedShapeError,
    WeftError,
    WeftWarning,
)
from weft.habits import no_name
from weft.project import Plan, plan
from weft.public import open_door, public, public_methods
from weft.runtime import Context, Device, Event, Routine, Stream
from weft.shape import Dim, Shape
from weft.tensor.assignments import assign, cd, node
from weft.tensor.concat import concat, stack
from weft.tensor.einsum import dim, einsum
from weft.tensor.functions import absolute as abs
from weft.tensor.functions import (
    cast,
    cos,
    equal,
    erf,
    exp,
    exp2,
    floor,
    fma,
    less,
    less_equal,
    log,
    log2,
    logical_and,
    logical_not,
    logical_or,
    maximum,
    minimum,
    not_equal,
    recip,
    recip_sqrt,
    relu,
    sat01,
    sigmoid,
    sin,
    sqrt,
    tanh,
    where,
)
from weft.tensor.gradient import grad_update
from weft.tensor.layers import Layer, op
from weft.tensor.leaves import constant, counted, data, from_dlpack, from_file, number, offsets
from weft.tensor.literals import batch, labelled, tensor
from weft.tensor.operator import Operator, operator
from weft.tensor.params import kaiming, normal, param, seed, uniform, xavier
from weft.tensor.random import bernoulli, dropout, random_standard_normal, random_uniform
from weft.tensor.read_code import parse_cd
from weft.tensor.slices import StaticIndex, index
from weft.tensor.tensor import Tensor, given, require_grad, stop_gradient

if TYPE_CHECKING:
    from weft import tc, torch

__version__ = "0.1.0.dev0"
__all__ = [
    "ArgumentError",
    "Context",
    "Device",
    "Dim",
    "EinsumError",
    "IndexOutOfBounds",
    "Event",
    "ExchangeError",
    "Layer",
    "NoSuchName",
    "Operator",
    "OutOfMemory",
    "Plan",
    "ProjectionError",
    "Routine",
    "Shape",
    "ShapeError",
    "StaticIndex",
    "Stream",
    "Tensor",
    "UnderdeterminedShapeError",
    "WeftError",
    "WeftWarning",
    "abs",
    "assign",
    "batch",
    "bernoulli",
    "cast",
    "cd",
    "comment",
    "concat",
    "config",
    "constant",
    "cos",
    "counted",
    "data",
    "dim",
    "dropout",
    "einsum",
    "equal",
    "erf",
    "exp",
    "exp2",
    "floor",
    "fma",
    "from_dlpack",
    "from_file",
    "given",
    "grad_update",
    "index",
    "intermediate",
    "kaiming",
    "labelled",
    "less",
    "less_equal",
    "log",
    "log2",
    "logical_and",
    "logical_not",
    "logical_or",
    "maximum",
    "minimum",
    "node",
    "normal",
    "not_equal",
    "number",
    "op",
    "offsets",
    "operator",
    "optim",
    "param",
    "parse_cd",
    "plan",
    "random_standard_normal",
    "random_uniform",
    "recip",
    "recip_sqrt",
    "relu",
    "require_grad",
    "sat01",
    "seed",
    "seq",
    "sigmoid",
    "sin",
    "sqrt",
    "stack",
    "stop_gradient",
    "tanh",
    "tc",
    "tensor",
    "torch",
    "train",
    "uniform",
    "where",
    "xavier",
]


def __dir__() -> list[str]:
    return sorted(__all__)


@public
def __getattr__(name: str) -> Any:
    """Comprehensions are loaded when somebody asks for them."""
    if name in ("tc", "torch"):
        return import_module(f"weft.{name}")
    raise no_name(name, __all__)


open_door(globals(), __all__, optim, train)
for kind in (Context, Device, Event, Layer, Operator, Plan, Stream, Tensor):
    public_methods(kind)
del kind

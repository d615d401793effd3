"""weft: a tensor compiler in which shapes and loops infer themselves.

A room is loaded when somebody asks for one of its names, so that `import weft` costs next to nothing.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from weft.lazy import LOADING

if TYPE_CHECKING:
    from weft import optim, tc, torch, train
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
    from weft.explain import show_as
    from weft.machine import Machine
    from weft.project import Plan, plan
    from weft.runtime import Context, Device, Event, Routine, Stream
    from weft.runtime.gradcheck import gradcheck
    from weft.schedule import CompileOptions
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
    from weft.tensor.grad import grad, jvp
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

__version__ = "0.1.0.dev0"
__all__ = [
    "ArgumentError",
    "CompileOptions",
    "Context",
    "Device",
    "Dim",
    "EinsumError",
    "IndexOutOfBounds",
    "Event",
    "ExchangeError",
    "Layer",
    "Machine",
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
    "grad",
    "grad_update",
    "gradcheck",
    "jvp",
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
    "show_as",
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

#: The public names of each module, `name=own` where it calls it otherwise; names that are rooms themselves come first.
_HOMES = {
    "": "optim tc torch train",
    "assign": "comment intermediate seq",
    "config": "config",
    "dlpack": "ExchangeError",
    "explain": "show_as",
    "errors": "ArgumentError EinsumError IndexOutOfBounds NoSuchName OutOfMemory ProjectionError ShapeError "
    "UnderdeterminedShapeError WeftError WeftWarning",
    "machine": "Machine",
    "project": "Plan plan",
    "runtime": "Context Device Event Routine Stream",
    "runtime.gradcheck": "gradcheck",
    "schedule": "CompileOptions",
    "shape": "Dim Shape",
    "tensor.assignments": "assign cd node",
    "tensor.concat": "concat stack",
    "tensor.einsum": "dim einsum",
    "tensor.functions": "abs=absolute cast cos equal erf exp exp2 floor fma less less_equal log log2 logical_and "
    "logical_not logical_or maximum minimum not_equal recip recip_sqrt relu sat01 sigmoid sin sqrt tanh where",
    "tensor.grad": "grad jvp",
    "tensor.gradient": "grad_update",
    "tensor.layers": "Layer op",
    "tensor.leaves": "constant counted data from_dlpack from_file number offsets",
    "tensor.literals": "batch labelled tensor",
    "tensor.operator": "Operator operator",
    "tensor.params": "kaiming normal param seed uniform xavier",
    "tensor.random": "bernoulli dropout random_standard_normal random_uniform",
    "tensor.read_code": "parse_cd",
    "tensor.slices": "StaticIndex index",
    "tensor.tensor": "Tensor given require_grad stop_gradient",
}
#: Of each public name, its module and what that calls it.
_HOME = {
    entry.partition("=")[0]: (home, entry.rpartition("=")[2])
    for home, names in _HOMES.items()
    for entry in names.split()
}


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    if name in _HOME:
        with LOADING:
            return _loaded(name, *_HOME[name])
    from weft.habits import no_name
    from weft.public import theirs

    try:
        raise no_name(name, __all__)
    except AttributeError as error:
        error.__traceback__ = theirs(error.__traceback__)
        raise


def _loaded(name: str, home: str, own: str) -> Any:
    """A public name; a function is as it is called from outside."""
    if not home:
        return import_module(f"weft.{name}")
    from weft.public import exported

    return globals().setdefault(name, exported(__name__, name, getattr(import_module(f"weft.{home}"), own)))


class _Package(ModuleType):
    """Python binds a room in its package once it is loaded: not where the name is that of a public function."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (isinstance(value, ModuleType) and _HOME.get(name, ("", ""))[0]):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package

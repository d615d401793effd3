"""weft: a tensor compiler in which shapes and loops infer themselves.

A room is loaded when somebody asks for one of its names, so that `import weft` costs next to nothing.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from weft.lazy import LOADING

if TYPE_CHECKING:  # `as` says to type checkers that a name is passed on
    from weft import optim as optim
    from weft import tc as tc
    from weft import torch as torch
    from weft import train as train
    from weft.assign import comment as comment
    from weft.assign import intermediate as intermediate
    from weft.assign import seq as seq
    from weft.config import config as config
    from weft.dlpack import ExchangeError as ExchangeError
    from weft.errors import ArgumentError as ArgumentError
    from weft.errors import EinsumError as EinsumError
    from weft.errors import IndexOutOfBounds as IndexOutOfBounds
    from weft.errors import NoSuchName as NoSuchName
    from weft.errors import OutOfMemory as OutOfMemory
    from weft.errors import ProjectionError as ProjectionError
    from weft.errors import ShapeError as ShapeError
    from weft.errors import UnderdeterminedShapeError as UnderdeterminedShapeError
    from weft.errors import WeftError as WeftError
    from weft.errors import WeftWarning as WeftWarning
    from weft.explain import show_as as show_as
    from weft.machine import Machine as Machine
    from weft.project import Plan as Plan
    from weft.project import plan as plan
    from weft.runtime import Context as Context
    from weft.runtime import Device as Device
    from weft.runtime import Event as Event
    from weft.runtime import Routine as Routine
    from weft.runtime import Stream as Stream
    from weft.schedule import CompileOptions as CompileOptions
    from weft.shape import Dim as Dim
    from weft.shape import Shape as Shape
    from weft.tensor.assignments import assign as assign
    from weft.tensor.assignments import cd as cd
    from weft.tensor.assignments import node as node
    from weft.tensor.concat import concat as concat
    from weft.tensor.concat import stack as stack
    from weft.tensor.einsum import dim as dim
    from weft.tensor.einsum import einsum as einsum
    from weft.tensor.functions import abs as abs
    from weft.tensor.functions import cast as cast
    from weft.tensor.functions import cos as cos
    from weft.tensor.functions import equal as equal
    from weft.tensor.functions import erf as erf
    from weft.tensor.functions import exp as exp
    from weft.tensor.functions import exp2 as exp2
    from weft.tensor.functions import floor as floor
    from weft.tensor.functions import fma as fma
    from weft.tensor.functions import less as less
    from weft.tensor.functions import less_equal as less_equal
    from weft.tensor.functions import log as log
    from weft.tensor.functions import log2 as log2
    from weft.tensor.functions import logical_and as logical_and
    from weft.tensor.functions import logical_not as logical_not
    from weft.tensor.functions import logical_or as logical_or
    from weft.tensor.functions import maximum as maximum
    from weft.tensor.functions import minimum as minimum
    from weft.tensor.functions import not_equal as not_equal
    from weft.tensor.functions import recip as recip
    from weft.tensor.functions import recip_sqrt as recip_sqrt
    from weft.tensor.functions import relu as relu
    from weft.tensor.functions import sat01 as sat01
    from weft.tensor.functions import sigmoid as sigmoid
    from weft.tensor.functions import sin as sin
    from weft.tensor.functions import sqrt as sqrt
    from weft.tensor.functions import tanh as tanh
    from weft.tensor.functions import where as where
    from weft.tensor.gradient import grad_update as grad_update
    from weft.tensor.layers import Layer as Layer
    from weft.tensor.layers import op as op
    from weft.tensor.leaves import constant as constant
    from weft.tensor.leaves import counted as counted
    from weft.tensor.leaves import data as data
    from weft.tensor.leaves import from_dlpack as from_dlpack
    from weft.tensor.leaves import from_file as from_file
    from weft.tensor.leaves import number as number
    from weft.tensor.leaves import offsets as offsets
    from weft.tensor.literals import batch as batch
    from weft.tensor.literals import labelled as labelled
    from weft.tensor.literals import tensor as tensor
    from weft.tensor.operator import Operator as Operator
    from weft.tensor.operator import operator as operator
    from weft.tensor.params import kaiming as kaiming
    from weft.tensor.params import normal as normal
    from weft.tensor.params import param as param
    from weft.tensor.params import seed as seed
    from weft.tensor.params import uniform as uniform
    from weft.tensor.params import xavier as xavier
    from weft.tensor.random import bernoulli as bernoulli
    from weft.tensor.random import dropout as dropout
    from weft.tensor.random import random_standard_normal as random_standard_normal
    from weft.tensor.random import random_uniform as random_uniform
    from weft.tensor.read_code import parse_cd as parse_cd
    from weft.tensor.slices import StaticIndex as StaticIndex
    from weft.tensor.slices import index as index
    from weft.tensor.tensor import Tensor as Tensor
    from weft.tensor.tensor import given as given
    from weft.tensor.tensor import require_grad as require_grad
    from weft.tensor.tensor import stop_gradient as stop_gradient

__version__ = "0.1.0.dev0"

#: The public names of each module; names that are rooms themselves come first.
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
    "schedule": "CompileOptions",
    "shape": "Dim Shape",
    "tensor.assignments": "assign cd node",
    "tensor.concat": "concat stack",
    "tensor.einsum": "dim einsum",
    "tensor.functions": "abs cast cos equal erf exp exp2 floor fma less less_equal log log2 logical_and "
    "logical_not logical_or maximum minimum not_equal recip recip_sqrt relu sat01 sigmoid sin sqrt tanh where",
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
_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}
__all__ = list(_HOME)


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    if name in _HOME:
        with LOADING:
            return _loaded(name, _HOME[name])
    from weft.habits import no_name
    from weft.public import theirs

    try:
        raise no_name(name, __all__)
    except AttributeError as error:
        error.__traceback__ = theirs(error.__traceback__)
        raise


def _loaded(name: str, home: str) -> Any:
    """A public name; a function is as it is called from outside."""
    if not home:
        return import_module(f"weft.{name}")
    from weft.public import exported

    return globals().setdefault(name, exported(__name__, name, getattr(import_module(f"weft.{home}"), name)))


class _Package(ModuleType):
    """Python binds a room in its package once it is loaded: not where the name is that of a public function."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (isinstance(value, ModuleType) and _HOME.get(name)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package

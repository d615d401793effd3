"""weft: a tensor compiler in which shapes and loops infer themselves.

A room is loaded when somebody asks for one of its names, so that `import weft` costs next to nothing.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from weft.gc_pause import gc_paused
from weft.lazy import LOADING

if TYPE_CHECKING:  # `as` says to type checkers that a name is passed on
    from weft import nn as nn, optim as optim, plot as plot, tc as tc, torch as torch, train as train
    from weft.assign import comment as comment, intermediate as intermediate, seq as seq
    from weft.config import config as config
    from weft.data.namespace import data as data
    from weft.dlpack import ExchangeError as ExchangeError
    from weft.errors import (
        ArgumentError as ArgumentError,
        EinsumError as EinsumError,
        IndexOutOfBounds as IndexOutOfBounds,
        NoSuchName as NoSuchName,
        OutOfMemory as OutOfMemory,
        ProjectionError as ProjectionError,
        ShapeError as ShapeError,
        UnderdeterminedShapeError as UnderdeterminedShapeError,
        WeftError as WeftError,
        WeftWarning as WeftWarning,
    )
    from weft.explain import show_as as show_as, summary as summary
    from weft.files import load as load, load_metadata as load_metadata, save as save
    from weft.machine import Machine as Machine
    from weft.ops.declare import monoid as monoid
    from weft.ops.monoids import top as top
    from weft.project import Plan as Plan, plan as plan
    from weft.runtime import (
        Context as Context,
        Device as Device,
        Event as Event,
        Function as Function,
        Pending as Pending,
        Restored as Restored,
        Routine as Routine,
        Stream as Stream,
    )
    from weft.runtime.gradcheck import gradcheck as gradcheck
    from weft.schedule import CompileOptions as CompileOptions
    from weft.schedule.gpu_model import Gpu as Gpu
    from weft.shape import Dim as Dim, Shape as Shape
    from weft.shape.named_sizes import sizes as sizes
    from weft.tensor.activations import (
        elu as elu,
        gelu as gelu,
        leaky_relu as leaky_relu,
        silu as silu,
        softplus as softplus,
    )
    from weft.tensor.assignments import assign as assign, cd as cd, node as node
    from weft.tensor.concat import concat as concat, stack as stack
    from weft.tensor.creation import (
        arange as arange,
        eye as eye,
        linspace as linspace,
        tril as tril,
        triu as triu,
    )
    from weft.tensor.default_precision import default_precision as default_precision
    from weft.tensor.einsum import dim as dim, einsum as einsum
    from weft.tensor.elementary import (
        acos as acos,
        acosh as acosh,
        asin as asin,
        asinh as asinh,
        atan as atan,
        atan2 as atan2,
        atanh as atanh,
        ceil as ceil,
        clip as clip,
        cosh as cosh,
        erfc as erfc,
        erfcinv as erfcinv,
        erfcx as erfcx,
        erfinv as erfinv,
        expm1 as expm1,
        isfinite as isfinite,
        isnan as isnan,
        log1p as log1p,
        normcdf as normcdf,
        normcdfinv as normcdfinv,
        round as round,
        sign as sign,
        sinh as sinh,
        tan as tan,
    )
    from weft.tensor.functions import (
        abs as abs,
        cast as cast,
        cos as cos,
        equal as equal,
        erf as erf,
        exp as exp,
        exp2 as exp2,
        floor as floor,
        fma as fma,
        less as less,
        less_equal as less_equal,
        log as log,
        log2 as log2,
        logical_and as logical_and,
        logical_not as logical_not,
        logical_or as logical_or,
        maximum as maximum,
        minimum as minimum,
        not_equal as not_equal,
        recip as recip,
        recip_sqrt as recip_sqrt,
        relu as relu,
        sat01 as sat01,
        sigmoid as sigmoid,
        sin as sin,
        sqrt as sqrt,
        tanh as tanh,
        where as where,
    )
    from weft.tensor.grad import grad as grad, jvp as jvp
    from weft.tensor.gradient import grad_update as grad_update
    from weft.tensor.inputs import input as input
    from weft.tensor.layers import Layer as Layer, op as op
    from weft.tensor.leaves import (
        constant as constant,
        counted as counted,
        from_dlpack as from_dlpack,
        from_file as from_file,
        number as number,
        offsets as offsets,
    )
    from weft.tensor.literals import batch as batch, labelled as labelled, tensor as tensor
    from weft.tensor.lookups import bincount as bincount, take as take
    from weft.tensor.operator import Operator as Operator, operator as operator
    from weft.tensor.params import (
        kaiming as kaiming,
        normal as normal,
        param as param,
        seed as seed,
        uniform as uniform,
        xavier as xavier,
    )
    from weft.tensor.prefix import cummax as cummax, cumprod as cumprod, cumsum as cumsum
    from weft.tensor.random import (
        bernoulli as bernoulli,
        dropout as dropout,
        random_standard_normal as random_standard_normal,
        random_uniform as random_uniform,
    )
    from weft.tensor.read_code import parse_cd as parse_cd
    from weft.tensor.reductions import (
        argmax as argmax,
        argmin as argmin,
        cross_entropy as cross_entropy,
        log_softmax as log_softmax,
        logsumexp as logsumexp,
        max as max,
        mean as mean,
        min as min,
        norm as norm,
        one_hot as one_hot,
        prod as prod,
        softmax as softmax,
        std as std,
        sum as sum,
        var as var,
    )
    from weft.tensor.scan import scan as scan
    from weft.tensor.shifts import (
        flip as flip,
        interleave as interleave,
        pad as pad,
        repeat as repeat,
        roll as roll,
        split as split,
    )
    from weft.tensor.slices import StaticIndex as StaticIndex, counter as counter, index as index
    from weft.tensor.sorting import argsort as argsort, sort as sort, top_k as top_k
    from weft.tensor.tensor import (
        Tensor as Tensor,
        given as given,
        require_grad as require_grad,
        stop_gradient as stop_gradient,
    )
    from weft.thresholds import Thresholds as Thresholds

__version__ = "0.1.0.dev0"

#: The public names of each module; names that are rooms themselves come first.
_HOMES = {
    "": "data nn optim plot tc torch train",
    "assign": "comment intermediate seq",
    "config": "config",
    "dlpack": "ExchangeError",
    "explain": "show_as summary",
    "files": "load load_metadata save",
    "errors": "ArgumentError EinsumError IndexOutOfBounds NoSuchName OutOfMemory ProjectionError ShapeError "
    "UnderdeterminedShapeError WeftError WeftWarning",
    "machine": "Machine",
    "ops.declare": "monoid",
    "ops.monoids": "top",
    "project": "Plan plan",
    "runtime": "Context Device Event Function Pending Restored Routine Stream",
    "runtime.gradcheck": "gradcheck",
    "schedule": "CompileOptions",
    "schedule.gpu_model": "Gpu",
    "shape": "Dim Shape",
    "shape.named_sizes": "sizes",
    "tensor.activations": "elu gelu leaky_relu silu softplus",
    "tensor.elementary": "acos acosh asin asinh atan atan2 atanh ceil clip cosh erfc erfcinv erfcx erfinv expm1 "
    "isfinite isnan log1p normcdf normcdfinv round sign sinh tan",
    "tensor.lookups": "bincount take",
    "tensor.creation": "arange eye linspace tril triu",
    "tensor.shifts": "flip interleave pad repeat roll split",
    "tensor.reductions": "argmax argmin cross_entropy log_softmax logsumexp max mean min norm one_hot prod softmax "
    "std sum var",
    "tensor.assignments": "assign cd node",
    "tensor.concat": "concat stack",
    "tensor.default_precision": "default_precision",
    "tensor.einsum": "dim einsum",
    "tensor.functions": "abs cast cos equal erf exp exp2 floor fma less less_equal log log2 logical_and "
    "logical_not logical_or maximum minimum not_equal recip recip_sqrt relu sat01 sigmoid sin sqrt tanh where",
    "tensor.grad": "grad jvp",
    "tensor.gradient": "grad_update",
    "tensor.inputs": "input",
    "tensor.layers": "Layer op",
    "tensor.leaves": "constant counted from_dlpack from_file number offsets",
    "tensor.literals": "batch labelled tensor",
    "tensor.operator": "Operator operator",
    "tensor.params": "kaiming normal param seed uniform xavier",
    "tensor.prefix": "cummax cumprod cumsum",
    "tensor.random": "bernoulli dropout random_standard_normal random_uniform",
    "tensor.read_code": "parse_cd",
    "tensor.scan": "scan",
    "tensor.slices": "StaticIndex counter index",
    "tensor.sorting": "argsort sort top_k",
    "tensor.tensor": "Tensor given require_grad stop_gradient",
    "thresholds": "Thresholds",
}
_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}
__all__ = list(_HOME)


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    if name in _HOME:
        with LOADING:
            return gc_paused(lambda: _loaded(name, _HOME[name]), lasting=True)
    from weft.migration_hints import no_name
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

"""Functions of batches: one for each kind of batch, whatever its length.

A kind is what the arrays are besides their number of examples: the sizes of their other axes, and their types.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from types import MappingProxyType
from typing import Any, TypeAlias

from weft.assign import Code
from weft.backends import Array
from weft.data.validation import checked_whole
from weft.errors import WeftError, user_origin, warn
from weft.naming import FreshNames
from weft.ops.dtypes import name_of
from weft.runtime import Context, Function
from weft.runtime.context import listed
from weft.schedule import CompileOptions
from weft.schedule.compile_options import checked_options
from weft.tensor.inputs import input
from weft.tensor.tensor import Tensor

BatchKind: TypeAlias = tuple[tuple[tuple[int, ...], str], ...]

#: What calls decide.
_LENGTH = "batch"

#: So many lengths are more than those of an epoch and its last batch, of training and of validation.
_MANY_LENGTHS = 12


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """What is done with a batch: code to run, and what to return by name, single numbers or arrays."""

    values: Mapping[str, Tensor]
    code: Code | None = None
    numbers: bool = True


class ByKind:
    """A function for each kind of batch, made of the tensors of its arrays by `plan`. Parameters are shared by all."""

    def __init__(
        self,
        context: Context | None,
        plan: Callable[[tuple[Tensor, ...]], BatchPlan],
        batch_axes: int,
        names: Sequence[str] = (),
        options: CompileOptions | None = None,
    ) -> None:
        self._context, self._plan, self._names, self._options = context, plan, names, checked_options(options)
        self._inner = checked_whole("batch_axes", batch_axes, 1) - 1
        self._functions: dict[BatchKind, Function] = {}
        self._lengths: set[int] = set()

    @property
    def functions(self) -> list[Function]:
        """Those for the kinds there were."""
        return list(self._functions.values())

    def __call__(self, batch: Sequence[Array], indices: Mapping[str, Any] = MappingProxyType({})) -> dict[str, Array]:
        """What is returned of a batch, by name."""
        found: dict[str, Array] = self.of(batch)(*batch, **indices)
        self._count_length(len(batch[0]))
        return found

    def of(self, batch: Sequence[Array]) -> Function:
        """The function for batches like this one."""
        kind = tuple([(array.shape[1:], name_of(array.dtype)) for array in batch])
        found = self._functions.get(kind)
        if found is None:
            named = zip(_names(self._names, len(batch)), kind, strict=True)
            inputs = tuple([self._input(name, sizes, dtype) for name, (sizes, dtype) in named])
            plan = self._plan(inputs)
            self._context = self._context or context_of(plan.values.values())
            found = self._context.function(*inputs, code=plan.code, returns=dict(plan.values), options=self._options)
            if plan.numbers:
                _check_numbers(plan.values, found.shapes(**{_LENGTH: len(batch[0])}), len(batch[0]))
            self._functions[kind] = found
        return found

    def _count_length(self, length: int) -> None:
        """Once so many lengths were compiled, say what can be done about it."""
        if length not in self._lengths:
            self._lengths.add(length)
            if len(self._lengths) == _MANY_LENGTHS:
                what = f"batches had {_MANY_LENGTHS} different lengths, and for each a step was compiled"
                fix = 'have fewer: wf.data.batches(…, last="drop"), or fill up: docs/recipes.md has how'
                warn(WeftError(what, origin=user_origin(), fix=fix))

    def _input(self, name: str, sizes: tuple[int, ...], dtype: str) -> Tensor:
        """The tensor of an array: the axes of a batch, as far as it has them, and those of an example."""
        return input(name, b=[_LENGTH, *sizes[: self._inner]], o=sizes[self._inner :] or None, dtype=dtype)


def context_of(tensors: Iterable[Tensor] = ()) -> Context:
    """The context that holds the parameters of tensors; else the newest in use, or a new one."""
    params = [param for tensor in tensors for param in tensor.params]
    return listed.holder(params, "the model") or Context()


def taken_names(function: Callable[..., Any]) -> tuple[str, ...]:
    """What a function calls its arguments in order, as far as it says so."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return ()
    return tuple(one.name for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD))


def checked_tensor(value: object, what: str, fix: str) -> Tensor:
    """What is to be computed."""
    if not isinstance(value, Tensor):
        raise WeftError(f"{what} gave {_spelled(value)}, not a tensor", fix=fix)
    return value


def checked_call(function: object, name: str, fix: str) -> Callable[..., Any]:
    if not callable(function):
        raise WeftError(f"{name} is a function, not {_spelled(function)}", fix=fix)
    return function


def checked_context(context: object, example: str) -> Context:
    if not isinstance(context, Context):
        raise WeftError(f"a training step needs a context, not {type(context).__name__}", fix=f"write {example}")
    return context


def other_parameters(found: tuple[Tensor, ...], known: tuple[Tensor, ...], batch: str) -> WeftError:
    """Parameters were made while a loss was built again."""
    named = ", ".join(f"`{p.label}`" for p in found if p not in known) or "fewer"
    return WeftError(
        f"for {batch} `loss_of` uses other parameters than before: {named}",
        fix="make parameters and configure layers once, outside loss_of",
    )


def _names(given: Sequence[str], count: int) -> list[str]:
    """A name for each array of a batch, all different, none that a call has for itself: unless given, `x` and `y`."""
    fresh, known = FreshNames(["wait"]), given or ("x", "y")
    return [fresh.fresh(known[at] if at < len(known) else f"x{at}") for at in range(count)]


def _check_numbers(names: Iterable[str], shapes: Iterable[tuple[int, ...]], examples: int) -> None:
    """Refuse what is not one number, before anything has run: nothing is changed then."""
    for name, shape in zip(names, shapes, strict=True):
        if prod(shape) != 1:
            what = f"what is measured as `{name}` is not one number: for {examples} examples it has the shape {shape}"
            raise WeftError(what, fix=f'take the mean over examples: wf.mean({name}, "...|... => 0")')


def _spelled(value: object) -> str:
    return "nothing" if value is None else type(value).__name__

"""A definition as a function that PyTorch's autograd differentiates."""

from __future__ import annotations

from typing import Any

from weft.comprehension.operator import check_number
from weft.errors import WeftError
from weft.ops.dtypes import is_float
from weft.tc import Definition
from weft.torch.function import function_of, operator_of
from weft.torch.operator import operator_key


def wrap(definition: Definition, backward: Definition | None = None) -> Wrapped:
    """A function of torch tensors that computes a definition, with the definition's gradient for its backward pass.

        mm = wf.torch.wrap(tc.mm)
        mm(A, B).sum().backward()

    Gradients can be differentiated again. `backward` is a definition to use for the gradient instead: it takes what the
    definition takes and then the gradients of its results, and gives the gradients by all parameters of floats.
    """
    for one in (definition, *([] if backward is None else [backward])):
        if not isinstance(one, Definition):
            what = f"wrap takes a definition, not {type(one).__name__}"
            raise WeftError(what, fix="wrap one of the callables of wf.tc.define: wrap(tc.mm)")
    return Wrapped(definition, backward, _torch())


class Wrapped:
    """A definition as a function of torch tensors."""

    def __init__(self, definition: Definition, backward: Definition | None, torch: Any) -> None:
        if backward is not None:
            _check_backward(definition, backward)
        self.definition, self.backward = definition, backward
        self.__name__ = self.__qualname__ = definition.name
        self.__doc__ = str(definition)
        # What a call needs is held here, so that PyTorch's compiler has nothing of weft to look into.
        self._torch, self._plain, self._transformed = torch, operator_of(torch), function_of(torch)
        self._key, self._own = operator_key(definition), operator_key(backward) if backward else ""
        self._types = {name: definition.template.flat.types[name] for name in definition.params}

    def __call__(self, *args: Any, **named: Any) -> Any:
        if named or len(args) != len(self._types):
            args = tuple(self.definition.arguments.ordered(args, named, into="by position or by name"))
        tensors = [self._tensor(one, name) for one, name in zip(args, self._types, strict=True)]
        torch = self._torch
        transformed = torch._C._are_functorch_transforms_active() or torch.autograd.forward_ad._current_level >= 0
        found = (self._transformed if transformed else self._plain)(self._key, self._own, tensors)
        return found[0] if len(found) == 1 else tuple(found)

    def _tensor(self, value: Any, name: str) -> Any:
        """What is given for a parameter, as a tensor; a number of the program has the parameter's type."""
        if self._torch.is_tensor(value):
            return value
        if isinstance(value, bool | int | float):
            dtype = self._types[name]
            if not self._torch.compiler.is_compiling():
                check_number(value, dtype, name)
            return self._torch.tensor(value, dtype=getattr(self._torch, dtype))
        return self._torch.as_tensor(value)

    def __reduce__(self) -> tuple[Any, ...]:
        return wrap, (self.definition, self.backward)

    def __repr__(self) -> str:
        return f"<torch function of {self.definition!r}>"


def _check_backward(definition: Definition, backward: Definition) -> None:
    """Has a definition as many inputs and results as the gradient of another has?"""
    flat = definition.template.flat
    seeds = [one for one in flat.results if is_float(flat.types[one])]
    wanted = [one for one in flat.params if is_float(flat.types[one])]
    takes, gives = len(flat.params) + len(seeds), len(wanted)
    if (len(backward.params), len(backward.results)) != (takes, gives):
        given = ", ".join([*flat.params, *(f"d_{one}" for one in definition.results)])
        what = f"the gradient of `{definition.name}` takes {takes} tensors and gives {gives}"
        what += f", and `{backward.name}` takes {len(backward.params)} and gives {len(backward.results)}"
        fix = f"take {given}, and give {', '.join(f'd_{one}' for one in wanted)}"
        raise WeftError(what, fix=fix)


def _torch() -> Any:
    try:
        import torch
    except ImportError:
        fix = 'pip install "weft[torch]"'
        raise WeftError("PyTorch is not installed", fix=fix) from None
    return torch

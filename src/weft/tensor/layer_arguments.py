"""Which arguments of a layer's function configure it and which are operands.

def attention(x, source=None, *, heads, mask=None): …
              operands            configuration

layer = attention(heads=8)                 what is keyword-only configures,
layer(x, source=y), layer(x, mask=m)       the rest is given when the layer is applied; so may be what has a default
attention(x, heads=8, mask=m)              both at once: a tensor among the keywords belongs to this application
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from weft.arguments import argument_meant
from weft.errors import WeftError
from weft.lazy import lazy_property
from weft.tensor.nested_results import parts
from weft.tensor.scope import is_array
from weft.tensor.tensor import Tensor


@dataclass(frozen=True)
class LayerArguments:
    """The parameters of a layer's function."""

    function: Callable[..., Any]

    @lazy_property
    def signature(self) -> inspect.Signature:
        return inspect.signature(self.function)

    @property
    def maker(self) -> inspect.Signature:
        """What makes a layer takes a label as well."""
        found = list(self.signature.parameters.values())
        if "label" not in self.signature.parameters:
            more = found and found[-1].kind is inspect.Parameter.VAR_KEYWORD
            label = inspect.Parameter("label", inspect.Parameter.KEYWORD_ONLY, default="", annotation="str")
            found.insert(len(found) - bool(more), label)
        return self.signature.replace(parameters=found)

    @lazy_property
    def configuration(self) -> dict[str, inspect.Parameter]:
        """What is keyword-only."""
        return {name: one for name, one in self.signature.parameters.items() if one.kind is one.KEYWORD_ONLY}

    @lazy_property
    def operands(self) -> tuple[str, ...]:
        """What may be given by name when the layer is applied."""
        found = self.signature.parameters.items()
        return tuple(name for name, one in found if one.kind is one.POSITIONAL_OR_KEYWORD)

    @property
    def name(self) -> str:
        return self.function.__name__

    def sorted(self, args: tuple[Any, ...], given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Keywords as configuration and as operands; there are operands if the layer is applied at once."""
        operands = {name: value for name, value in given.items() if self._is_operand(name)}
        if not args and operands:
            self._check_applied(operands)
        if args or operands:
            operands |= {name: value for name, value in given.items() if _has_tensors(value)}
        self._check_complete(given)
        return {name: value for name, value in given.items() if name not in operands}, operands

    def check(self, args: tuple[Any, ...], operands: Mapping[str, Any], config: Mapping[str, Any]) -> None:
        """Refuse to apply the function to these operands, if it cannot be."""
        for name in operands.keys() & config.keys():
            raise WeftError(
                f"`{name}` is configuration of `{self.name}`, which is configured",
                fix=f"configure another layer, {self.name}({name}=…), or make `{name}` an operand: write it before "
                "the `*` of the function",
            )
        try:
            given = self.signature.bind(*args, **operands, **config)
        except TypeError as error:
            what = f"`{self.name}` cannot be applied: {error}"
            named = f", and configure it by name: {', '.join(self.configuration)}" if self._configured(args) else ""
            raise WeftError(what, fix=f"apply it as layer({self._spelled()}){named}") from None
        for argument, value in given.arguments.items():
            array = next((part for _, part in parts(value) if is_array(part)), None)
            if array is not None and argument not in config:
                raise WeftError(
                    f"`{self.name}` is a function of tensors, and `{argument}` is an array of shape "
                    f"{tuple(array.shape)}",  # type: ignore[attr-defined]
                    fix="wrap it: wf.data(x, batch=1), where batch= counts the first axes that hold examples",
                )

    def _is_operand(self, name: str) -> bool:
        if name in self.operands:
            return True
        if name in self.configuration:
            return False
        if any(one.kind is one.VAR_KEYWORD for one in self.signature.parameters.values()):
            return True
        near = argument_meant(name, [*self.configuration, *self.operands])
        raise WeftError(
            f"`{self.name}` has no configuration `{name}`",
            fix=(f"did you mean `{near}=`? " if near else "")
            + f"its configuration is {', '.join(self.configuration) or 'empty'}",
        )

    def _check_applied(self, operands: Mapping[str, Any]) -> None:
        """Operands by name alone apply a layer: at least one is a tensor."""
        if any(_has_tensors(value) or is_array(value) for value in operands.values()):
            return
        name = next(iter(operands))
        raise WeftError(
            f"`{name}` is an operand of `{self.name}`, not configuration",
            fix=f"for configuration write it after a `*`, def {self.name}(…, *, {name}); else give it when the layer "
            "is applied",
        )

    def _check_complete(self, given: Mapping[str, Any]) -> None:
        needed = [name for name, one in self.configuration.items() if one.default is one.empty and name != "label"]
        for name in needed:
            if name not in given:
                operands = "".join(f"{operand}, " for operand in self.operands)
                raise WeftError(
                    f"`{self.name}` needs the configuration `{name}`",
                    fix=f"call {self.name}({operands}{', '.join(f'{one}=…' for one in needed)})",
                )

    def _configured(self, args: tuple[Any, ...]) -> bool:
        """Is something among the operands that looks like configuration, as in linear(x, 64)?"""
        return bool(self.configuration) and not all(_has_tensors(one) or is_array(one) for one in args)

    def _spelled(self) -> str:
        found = [one for one in self.signature.parameters.values() if one.kind is not one.KEYWORD_ONLY]
        plain = (one.replace(annotation=one.empty, default=one.empty) for one in found)
        texts = zip(found, map(str, plain), strict=True)
        return ", ".join(text if one.default is one.empty else f"[{text}]" for one, text in texts)


def _has_tensors(value: object) -> bool:
    return any(isinstance(part, Tensor) for _, part in parts(value))

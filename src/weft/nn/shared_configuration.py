"""Layers that are configured alike: what they take is written once, at what they all call.

@op
@configured_as(_convolution)
def conv1d(x: Tensor, **config: Any) -> Tensor: …      is called conv1d(x, *, out_channels=None, kernel_size=3, …)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def configured_as(of: Callable[..., Any]) -> Callable[[F], F]:
    """Let the `**config` of a function be the keyword-only parameters of another one: so it is shown and checked."""
    given = inspect.signature(of).parameters.values()
    shared = {one.name: one for one in given if one.kind is one.KEYWORD_ONLY and one.name != "label"}

    def configured(function: F) -> F:
        plain = inspect.signature(function)
        own = {name: one for name, one in plain.parameters.items() if one.kind is not one.VAR_KEYWORD}
        known = {**own, **shared}
        function.__signature__ = plain.replace(parameters=list(known.values()))  # type: ignore[attr-defined]
        annotations = {name: one.annotation for name, one in known.items()}
        function.__annotations__ = {**annotations, "return": plain.return_annotation}
        return function

    return configured

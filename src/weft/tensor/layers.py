"""`@wf.op`: functions of tensors that own parameters once they are configured."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from weft.errors import WeftError
from weft.habits import no_layer_attribute
from weft.public import public, public_methods
from weft.tensor.leaves import UNNAMED
from weft.tensor.scope import LayerScope, current_application, inside, is_array, told_apart
from weft.tensor.tensor import Tensor


@public_methods
class Layer:
    """A configured function: it owns the parameters its body names, minted at the first application.

    What it computes is called by its label; a layer without one is called by its function, and its result by the
    argument as well where that has a name of its own.
    """

    def __init__(self, function: Callable[..., Any], config: dict[str, Any], label: str, labelled: bool) -> None:
        self.function = function
        self.config = config
        self.label = label
        self.labelled = labelled
        self.scope = LayerScope(label)
        self.applied = False

    def __call__(self, *args: Any, **tensors: Any) -> Tensor:
        """Apply the layer; shapes are constrained afresh, parameters are reused."""
        self._check(args, tensors)
        with inside(self.scope):
            result = self.function(*args, **tensors, **self.config)
        if not isinstance(result, Tensor):
            raise WeftError(
                f"`{self.function.__name__}` returned {type(result).__name__}, not a tensor",
                fix="return the tensor the layer computes",
            )
        self.applied = True
        self._name(result, (*args, *tensors.values()))
        return result

    if not TYPE_CHECKING:

        @public
        def __getattr__(self, name: str) -> NoReturn:
            if name.startswith("__"):
                raise AttributeError(name)
            raise no_layer_attribute(name, dir(Layer))

    @property
    @public
    def params(self) -> tuple[Tensor, ...]:
        """The parameters of this layer and of the layers inside it, in order of first use."""
        if not self.applied:
            raise WeftError(
                f"`{self.label}` has no parameters yet: they are made when it is first applied",
                fix="apply it first: model(x)",
            )
        return told_apart(self._owned())

    def _owned(self) -> list[Tensor]:
        given = (one for one in self.config.values() if isinstance(one, Layer))
        found: dict[Tensor, None] = {}
        for one in (*self.scope.owned.values(), *given):
            found |= dict.fromkeys(one._owned() if isinstance(one, Layer) else [one])
        return list(found)

    def _check(self, args: tuple[Any, ...], tensors: dict[str, Any]) -> None:
        name = self.function.__name__
        for config in tensors.keys() & self.config.keys():
            raise WeftError(f"`{config}` is configuration of `{name}`, which is configured")
        try:
            given = inspect.signature(self.function).bind(*args, **tensors, **self.config)
        except TypeError as error:
            raise WeftError(f"`{name}` cannot be applied: {error}") from None
        for argument, value in given.arguments.items():
            if is_array(value):
                raise WeftError(
                    f"`{name}` is a function of tensors, and `{argument}` is an array of shape {tuple(value.shape)}",
                    fix="wrap it: wf.data(x, batch=1), where batch= counts the first axes that hold examples",
                )

    def _name(self, result: Tensor, args: tuple[Any, ...]) -> None:
        if result.node.name.inline and result.node.definition is not None:
            leaves = (one.label for one in args if isinstance(one, Tensor) and one.node.definition is None)
            given = next((label for label in leaves if label not in UNNAMED), "")
            result.named(self.label if self.labelled or not given else f"{self.label}.{given}")

    def __repr__(self) -> str:
        config = ", ".join(f"{name}={value!r}" for name, value in self.config.items())
        return f"<layer {self.label}({config})>"


def op(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function of tensors into a maker of layers: keyword-only arguments are its configuration.

    `layer = f(hid_dim=8, label="L1")` configures, `layer(x)` applies; `f(x, hid_dim=8)` does both at once.
    """
    signature = inspect.signature(function)
    own_label = "label" in signature.parameters

    @public
    @functools.wraps(function)
    def make(*args: Any, label: str = "", **config: Any) -> Any:
        _check_config(function, signature, config)
        if own_label:
            config["label"] = label

        def layer(full_label: str) -> Layer:
            return Layer(function, config, full_label, bool(label))

        body = current_application()
        made = body.place(label or function.__name__, layer) if body else layer(label or function.__name__)
        return made(*args) if args else made

    return make


def _check_config(function: Callable[..., Any], signature: inspect.Signature, config: dict[str, Any]) -> None:
    keyword = {name: one for name, one in signature.parameters.items() if one.kind is one.KEYWORD_ONLY}
    for name in config:
        if name not in keyword:
            raise WeftError(
                f"`{function.__name__}` has no configuration `{name}`",
                fix="its configuration is " + (", ".join(keyword) or "empty"),
            )
    missing = [name for name, one in keyword.items() if one.default is one.empty and name not in (*config, "label")]
    if missing:
        raise WeftError(
            f"`{function.__name__}` needs the configuration `{missing[0]}`",
            fix=f"call {function.__name__}({missing[0]}=…)",
        )

"""`@wf.op`: functions of tensors that own parameters once they are configured."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NoReturn

from weft.errors import NoSuchName, ShapeError, WeftError
from weft.migration_hints import no_layer_attribute, not_pickled
from weft.public import public, public_methods
from weft.tensor.layer_arguments import LayerArguments
from weft.tensor.leaves import UNNAMED
from weft.tensor.nested_results import Returns
from weft.tensor.scope import LayerScope, current_application, inside, told_apart
from weft.tensor.tensor import Tensor

#: How many names an error lists.
_LISTED = 12


@dataclass(frozen=True, slots=True)
class LayerFunction:
    """A function under `@wf.op`: what it takes and what it returns."""

    function: Callable[..., Any]
    takes: LayerArguments
    returns: Returns


@public_methods
class Layer:
    """A configured function: it owns the parameters its body names, minted at the first application.

    What it computes is called by its label; a layer without one is called by its function, and its result by the
    argument as well where that has a name of its own. Of a result in parts, each is called by the layer and the part.
    """

    def __init__(self, body: LayerFunction, config: dict[str, Any], scope: LayerScope, labelled: bool) -> None:
        self.body = body
        self.config = config
        self.scope = scope
        self.labelled = labelled

    @property
    def label(self) -> str:
        return self.scope.label

    def __call__(self, *args: Any, **operands: Any) -> Any:
        """Apply the layer; shapes are constrained afresh, parameters are reused."""
        self.body.takes.check(args, operands, self.config)
        if around := current_application():
            around.scope.uses(self)
        with inside(self.scope):
            result = self.body.function(*args, **operands, **self.config)
        tensors = self.body.returns.tensors(result)
        self.scope.applied = True
        given = [one for one in (*args, *operands.values()) if isinstance(one, Tensor)]
        for path, tensor in tensors.items():
            if tensor.node.name.inline and tensor.node.definition is not None and tensor not in given:
                tensor.named(f"{self.label}.{self.body.returns.called(path)}" if path else self._result_name(given))
        return result

    if not TYPE_CHECKING:

        @public
        def __getattr__(self, name: str) -> NoReturn:
            if name.startswith("__"):
                raise AttributeError(name)
            if name in dict(self._inside()):
                fix = f'write layer["{name}"]'
                raise NoSuchName(f"`{name}` is no attribute of layer `{self.label}`", fix=fix)
            raise no_layer_attribute(name, dir(Layer))

    @public
    def __setattr__(self, name: str, value: object) -> None:
        if isinstance(value, Layer) or ("scope" in vars(self) and name not in vars(self) and name in self):
            raise self._not_put(name)
        object.__setattr__(self, name, value)

    def __setitem__(self, name: str, value: object) -> NoReturn:
        raise self._not_put(name)

    @property
    @public
    def params(self) -> tuple[Tensor, ...]:
        """The parameters of this layer and of the layers it applies, in order of first use; its own come first."""
        self._check_applied()
        return told_apart(dict.fromkeys(one for _, one in self._paths() if one.is_param))

    @property
    def statistics(self) -> tuple[Tensor, ...]:
        """What this layer and the layers it applies keep beside parameters, such as running means."""
        self._check_applied()
        return told_apart(dict.fromkeys(one for _, one in self._paths() if not one.is_param))

    def param(self, path: str) -> Tensor:
        """A parameter by the names that lead to it: `layer.param("attention.w_q")`."""
        self._check_applied()
        found = dict(self._paths())
        if path not in found:
            raise self._missing(f"parameter `{path}`", path, found)
        return found[path]

    def __getitem__(self, name: str) -> Any:
        """The layer inside that has this name, or the parameter: `layer["attention"]["w_q"]`."""
        self._check_applied()
        inside = self._inside()
        found = {**dict(inside), **{key: one for key, one in inside if isinstance(one, Layer)}}
        if name not in found:
            raise self._missing(f"layer or parameter `{name}`", name, found)
        return found[name]

    def __contains__(self, name: object) -> bool:
        return name in dict(self._inside())

    def __repr__(self) -> str:
        shown = {key: one._head() if isinstance(one, Layer) else repr(one) for key, one in self.config.items()}
        config = ", ".join(f"{name}={value}" for name, value in shown.items())
        params = (f"\n  {path}: {_shape_of(param)}" for path, param in self._paths())
        return f"<layer {self.label}({config}){''.join(params)}>"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise not_pickled(f"layer `{self.label}`")

    def _head(self) -> str:
        return f"<layer {self.label}>"

    def _inside(self) -> list[tuple[str, Tensor | Layer]]:
        """What it owns by name, the layers it is configured with by their keywords, and others it applies by label."""
        given = [(key, one) for key, one in self.config.items() if isinstance(one, Layer)]
        scopes = [one.scope for _, one in given]
        used = [(one.label, one) for one in self.scope.used if not any(one.scope is scope for scope in scopes)]
        owned = [(self.scope.name_of(key, one), one) for key, one in list(self.scope.owned.items())]
        return [*owned, *given, *used]

    def _paths(self, around: tuple[LayerScope, ...] = ()) -> Iterator[tuple[str, Tensor]]:
        """All that is kept, by the names that lead to it; what is around it, and applied by it, has been there."""
        if any(self.scope is one for one in around):
            return
        for name, one in self._inside():
            if isinstance(one, Layer):
                yield from ((f"{name}.{path}", kept) for path, kept in one._paths((*around, self.scope)))
            else:
                yield name, one

    def _check_applied(self) -> None:
        if not self.scope.applied:
            raise WeftError(
                f"`{self.label}` has no parameters yet: they are made when it is first applied",
                fix="apply it first: model(x)",
            )

    def _not_put(self, name: str) -> WeftError:
        if isinstance(dict(self._inside()).get(name), Tensor):
            what = f"`{name}` of layer `{self.label}` stays the tensor that it is"
            return WeftError(what, fix=f'set its values: ctx[layer["{name}"]] = …')
        what = f"nothing is put into layer `{self.label}` as `{name}`: it has the layers that its function applies"
        fix = "make a model with another layer there, and ctx.restore(model, state, strict=False) restores what fits"
        return WeftError(what, fix=fix)

    def _missing(self, what: str, name: object, known: dict[str, Any]) -> WeftError:
        listed = [*known][:_LISTED] + ["…"] * (len(known) > _LISTED)
        near = get_close_matches(name, known, 1) if isinstance(name, str) else []
        if isinstance(dict(self._inside()).get(str(name)), Layer):
            fix = f'layer["{name}"] is a layer, and has parameters of its own'
        elif name in dict(self._paths()):
            fix = f'write layer.param("{name}")'
        else:
            fix = f'did you mean "{near[0]}"?' if near else f'write layer["{next(iter(known))}"]' if known else ""
        notes = [f"it has {', '.join(listed)}" if listed else "it has none"]
        return WeftError(f"`{self.label}` has no {what}", notes=notes, fix=fix)

    def _result_name(self, given: list[Tensor]) -> str:
        leaves = (one.label for one in given if one.node.definition is None)
        after = next((label for label in leaves if label not in UNNAMED), "")
        return self.label if self.labelled or not after else f"{self.label}.{after}"


def _shape_of(param: Tensor) -> str:
    """Its shape, were nothing said of it any more; as far as it is known, if that is too little."""
    try:
        return str(param.dims)
    except ShapeError:
        return str(param.shape)


def op(function: Callable[..., Any], *, kind: type[Layer] = Layer) -> Callable[..., Any]:
    """Make a function of tensors into a maker of layers: keyword-only arguments are its configuration.

    `layer = f(hid_dim=8, label="L1")` configures, `layer(x)` applies; `f(x, hid_dim=8)` does both at once. The function
    returns a tensor, or a tuple, list, dict, named tuple or dataclass of tensors. Layers that can do more than be
    applied are of another `kind`.
    """
    body = LayerFunction(function, LayerArguments(function), Returns(function))
    own_label = "label" in body.takes.signature.parameters

    @functools.wraps(function)
    def make(*args: Any, label: str = "", **given: Any) -> Any:
        config, operands = body.takes.sorted(args, given)
        if own_label:
            config["label"] = label

        def layer(scope: LayerScope) -> Layer:
            return kind(body, config, scope, bool(label))

        name, around = label or function.__name__, current_application()
        made = around.place(name, layer) if around else layer(LayerScope(name))
        return made(*args, **operands) if args or operands else made

    make.__signature__ = body.takes.maker  # type: ignore[attr-defined]
    return public(make)

"""What is wrong with the arguments of a call, said in words."""

from __future__ import annotations

import difflib
import inspect
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import numpy as np

from weft.errors import HOME, ArgumentError

#: How weft calls an argument, and what else it is called elsewhere. Weft has one name for one thing: a function with a
#: parameter of the right side is refused by the tests, where it means what the left side does.
ALSO_CALLED: Mapping[str, str] = {
    "accum": "reduce reduction",
    "activation": "nonlinearity act ffn",
    "backend": "device",
    "b": "batch batch_size",
    "batch_size": "size batch",
    "beta": "alpha",
    "beta1": "betas b1",
    "bias": "use_bias",
    "causal": "is_causal",
    "counter": "count n",
    "d_ff": "dim_feedforward intermediate_size",
    "d_model": "width embed_dim n_embd hidden_size",
    "ddof": "correction unbiased",
    "dropout_rate": "rate dropout p",
    "dtype": "type",
    "eps": "epsilon",
    "fill": "value pad padding_value fill_value constant_values",
    "groups": "num_groups feature_group_count",
    "hid_dim": "size hidden_size units features hidden",
    "hid_dims": "hidden hidden_sizes",
    "high": "max maxval",
    "i": "inp input inputs in_features",
    "ids": "labels targets target",
    "init": "initializer initialiser initial value initial_accumulator_value",
    "k": "diagonal shifts shift",
    "kernel_size": "kernel window_size pool_size window_shape",
    "label": "name",
    "last": "drop_last",
    "limit": "max_norm clip_value",
    "low": "min minval",
    "lr": "learning_rate step_size rate",
    "max_len": "max_length block_size",
    "max_new": "max_new_tokens",
    "metrics": "measures",
    "n": "count num repeats",
    "name": "label",
    "num_classes": "classes n n_classes",
    "num_heads": "heads nhead n_head n_heads",
    "num_layers": "layers n_layer n_layers depth",
    "o": "out output outputs out_features units features width size shape embedding_dim",
    "optimise": "optimizer",
    "out_channels": "channels filters features",
    "padded": "padding same",
    "part": "test_size",
    "patch_size": "patch",
    "rate": "p dropout_rate dropout",
    "ratio": "reduction",
    "seq_len": "length size width sz",
    "slope": "negative_slope alpha",
    "smoothing": "label_smoothing",
    "source": "enc_output memory",
    "std": "stddev sigma",
    "step": "n",
    "validation": "validation_data",
    "vocab_size": "vocabulary size num_embeddings",
    "x": "tensor images input",
    "y": "target targets",
}
#: Kinds of arguments that are seen to before a call: with another kind it may go wrong late, or not at all.
_SIMPLE: Mapping[type, tuple[type, ...]] = {
    str: (str,),
    bool: (bool, np.bool_),
    int: (int, np.integer),
    float: (int, float, np.integer, np.floating),
}
_BY_NAME = {kind.__name__: fits for kind, fits in _SIMPLE.items() if kind is not int}
#: What to write instead of an argument that a function does not have.
_INSTEAD = {
    ("data", "dtype"): 'an array is taken in the type it has: wf.data(x.astype("float32"))',
    ("rope_frequencies", "half_d"): "d= is the size of the axis that is turned, twice half_d",
    ("concat", "axis"): 'kind="batch" joins along the first batch axis; an einsum says any: "i, j; i, k => i, j^k"',
    ("stack", "axis"): 'kind="batch" makes a batch axis; an einsum moves it: "k, i => i, k"',
}
_INSTEAD |= {(name, "dim"): fix for (name, word), fix in _INSTEAD.items() if word == "axis"}
#: Where Python's own library is.
_STANDARD = os.path.dirname(os.__file__)
_KINDS: Mapping[object, str] = {str: "text", float: "a number", int: "a whole number", bool: "True or False"}


def misuse(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], error: Exception
) -> ArgumentError | None:
    """The mistake in a call that ended in an error, if its arguments are to blame for that."""
    trace = error.__traceback__
    inner = trace.tb_next if trace else None
    signature = inspect.signature(function)
    try:
        signature.bind(*args, **kwargs)
    except TypeError as unbound:
        what, fix = _mismatch(function, kwargs, str(unbound))
        other, advice = _kind_mistake(function, args, kwargs)
        return ArgumentError(other or what, fix=advice or fix)
    while inner is not None:
        if not _is_library(inner.tb_frame.f_code.co_filename):
            return None  # something the user wrote went wrong
        inner = inner.tb_next
    what, fix = _kind_mistake(function, args, kwargs)
    return ArgumentError(what, fix=fix) if what else None


def _called(function: Callable[..., Any]) -> str:
    """What a function is called by who calls it: a constructor by its class."""
    *_, owner, name = ("", *function.__qualname__.split("."))
    return owner if name == "__init__" else name


def simple_parameters(function: Callable[..., Any]) -> tuple[tuple[int, str, tuple[type, ...]], ...]:
    """Of the parameters of a function, those of a simple kind: where they stand, their names, and what fits them."""
    found = []
    for place, one in enumerate(inspect.signature(function).parameters.values()):
        kind, _, optional = str(one.annotation).partition(" | ")
        if kind in _BY_NAME and optional in ("", "None") and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD):
            place = sys.maxsize if one.kind is one.KEYWORD_ONLY else place
            found.append((place, one.name, (*_BY_NAME[kind], *([NoneType] if optional else []))))
    return tuple(found)


def _is_library(file: str) -> bool:
    return file.startswith((HOME, _STANDARD, "<")) or "site-packages" in file


def whole_number(value: object, least: int = 0) -> int | None:
    """A whole number from `least` on, of Python's or NumPy's, as Python has it; None if it is none. Truths are none."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        return None
    return int(value)


def other_kind(name: str, value: object) -> str:
    """What to write for an argument that was given as other libraries have it."""
    if name == "dtype":
        known = np.dtype(value) if isinstance(value, np.dtype | type) else np.dtype("float32")
        return f'element types are text: dtype="{known.name if known.kind in "biuf" else "float32"}"'
    if name == "spec" and isinstance(value, int | tuple):
        return 'axes have no numbers: a spec names them, and leaves out those that go, such as "...|i, j => ...|i"'
    return ""


def _kind_mistake(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[str, str]:
    """The first argument that is not of the kind its parameter is declared to have, by a function of weft's own; and
    what to write instead, if that is known."""
    own = inspect.unwrap(function)
    try:
        kinds = inspect.get_annotations(own, eval_str=own.__code__.co_filename.startswith(HOME))
        signature = inspect.signature(function)
        given = signature.bind_partial(*args, **kwargs).arguments
    except (NameError, TypeError):  # a name known to type checkers only; an argument that there is not
        return "", ""
    for name, value in given.items():
        one = signature.parameters[name]
        several = one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
        if name in kinds and not several and not _fits(value, kinds[name]):
            what = f"`{_called(function)}` takes {_spelled_kind(kinds[name])} for `{name}`, not {excerpt(value)}"
            return what, other_kind(name, value) or calling(function)
    return "", ""


def _fits(value: object, kind: Any) -> bool:
    """Is a value of a kind? What is not known of a kind is taken to fit."""
    if get_origin(kind) is Literal:
        return any(type(value) is type(one) and value == one for one in get_args(kind))
    if isinstance(kind, UnionType) or get_origin(kind) is Union:
        return any(_fits(value, one) for one in get_args(kind))
    if kind in _SIMPLE:
        return isinstance(value, _SIMPLE[kind])
    whole = get_origin(kind) or kind
    plain = isinstance(whole, type) and whole is not Any and not getattr(whole, "_is_protocol", False)
    return isinstance(value, whole) if plain else True


def _spelled_kind(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(map(repr, get_args(kind)))
    if isinstance(kind, UnionType) or get_origin(kind) is Union:
        return " or ".join(_spelled_kind(one) for one in get_args(kind) if one is not NoneType)
    whole = get_origin(kind) or kind
    return _KINDS.get(whole) or f"a {getattr(whole, '__name__', str(whole))}"


def _mismatch(function: Callable[..., Any], kwargs: Mapping[str, Any], said: str) -> tuple[str, str]:
    name, known, takes = _called(function), _parameters(function), calling(function)
    for keyword in kwargs:
        if keyword not in known:
            near = argument_meant(keyword, known)
            did_you = near and f"did you mean `{near}=`? Its arguments are {', '.join(known)}"
            return f"`{name}` has no argument `{keyword}`", _INSTEAD.get((name, keyword)) or did_you or takes
    missing = next((one for one in known if f"'{one}'" in said), None)
    if missing is not None and "missing" in said:
        return f"`{name}` needs the argument `{missing}`", takes
    if "positional" in said:
        return f"`{name}` was given too many arguments without a name", takes
    return f"`{name}` cannot be called so: {said}", takes


def _parameters(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    return {name: one for name, one in inspect.signature(function).parameters.items() if name != "self"}


def calling(function: Callable[..., Any]) -> str:
    """How a function is called."""
    return f"call it {_called(function)}({', '.join(map(_spelled, _parameters(function).values()))})"


def excerpt(value: object) -> str:
    """A value as Python shows it, or how that begins."""
    shown = " ".join(repr(value).split())
    return shown if len(shown) <= 60 else shown[:59] + "…"


def argument_meant(keyword: str, known: Iterable[str]) -> str:
    """The name there is for what somebody called otherwise, or misspelt; nothing, if that is not known."""
    own = [one for one in known if keyword in ALSO_CALLED.get(one, "").split()]
    return next(iter(own or difflib.get_close_matches(keyword, known, 1)), "")


def _spelled(one: inspect.Parameter) -> str:
    if one.kind is one.VAR_POSITIONAL:
        return f"*{one.name}"
    if one.kind is one.VAR_KEYWORD:
        return f"**{one.name}"
    if one.kind is one.KEYWORD_ONLY:
        return f"{one.name}=…" if one.default is one.empty else f"[{one.name}=…]"
    return one.name if one.default is one.empty else f"[{one.name}]"

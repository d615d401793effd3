"""Weights as PyTorch stores them, in and out: a table says of each parameter where it is in a `state_dict`, and how.

    names = wf.nn.gpt2_names(12)                      {"gpt.block0.attention.q": StoredWeight("transformer.h.0…", …), …}
    values = wf.nn.from_torch(state, names, model)    {"gpt.block0.attention.q": array, …}
    for p in model.params:
        ctx[p] = values[p.label]

A state is a mapping from names to arrays of NumPy, as safetensors are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from weft.errors import ShapeError, WeftError
from weft.nn.checks import whole
from weft.tensor.layers import Layer

StateDict: TypeAlias = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True, slots=True)
class StoredWeight:
    """Where a parameter is in a state: by a name, as one of several equal `parts` along its outputs.

    Its first `rows` axes are one axis there, and the others another, if there are any; `transposed`, that one is first.

    >>> stored = wf.nn.StoredWeight("h.0.attn.c_attn.weight", transposed=True, rows=2, part=1, parts=3)
    >>> print(stored.read(np.arange(12.0).reshape(2, 6), (1, 2, 2)).tolist())
    [[[2.0, 8.0], [3.0, 9.0]]]
    """

    name: str
    rows: int = 1
    transposed: bool = False
    part: int = 0
    parts: int = 1

    def read(self, array: npt.NDArray[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
        """The parameter, in its own shape."""
        turned = array.T if self.transposed else array
        if turned.shape != (expected := self._shape(shape)):
            there = expected[::-1] if self.transposed else expected
            what = f"`{self.name}` is of shape {array.shape}, and {there} is expected"
            raise ShapeError(what, notes=[f"a parameter of shape {shape} is read from it"], fix="configure as it was")
        return np.ascontiguousarray(np.split(turned, self.parts)[self.part].reshape(shape))

    def write(self, parameter: npt.NDArray[Any], into: npt.NDArray[Any] | None) -> npt.NDArray[Any]:
        """The array with the parameter in it, beside the parts that it has already."""
        shape = self._shape(parameter.shape)
        turned = np.zeros(shape, parameter.dtype) if into is None else into.T if self.transposed else into
        size = shape[0] // self.parts
        turned[self.part * size : (self.part + 1) * size] = parameter.reshape(size, *shape[1:])
        return turned.T if self.transposed else turned

    def _shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """That of the array, not transposed, from the parameter's."""
        rows, columns = shape[: self.rows], shape[self.rows :]
        first = self.parts * int(np.prod(rows))
        return (first, int(np.prod(columns))) if columns else (first,)


def from_torch(state: Mapping[str, npt.NDArray[Any]], names: Mapping[str, StoredWeight], model: Layer) -> StateDict:
    """The parameters of a model that was applied, by their labels, from a state; what else is there is left.

    >>> model = wf.nn.linear(o=2, label="head")
    >>> y = model(wf.data(np.ones((5, 3)), batch=1))
    >>> names = {"head.w": wf.nn.StoredWeight("fc.weight"), "head.b": wf.nn.StoredWeight("fc.bias")}
    >>> values = wf.nn.from_torch({"fc.weight": np.ones((2, 3)), "fc.bias": np.zeros(2)}, names, model)
    >>> print({label: value.shape for label, value in values.items()})
    {'head.w': (2, 3), 'head.b': (2,)}
    """
    return {
        param.label: _found(names, param.label, "table").read(
            np.asarray(_found(state, names[param.label].name, "state")), param.dims.array_shape
        )
        for param in model.params
    }


def to_torch(values: Mapping[str, npt.NDArray[Any]], names: Mapping[str, StoredWeight]) -> StateDict:
    """A state with the parameters of these values, by their labels: what `wf.nn.from_torch` reads.

    >>> names = {"head.w": wf.nn.StoredWeight("fc.weight"), "head.b": wf.nn.StoredWeight("fc.bias")}
    >>> state = wf.nn.to_torch({"head.w": np.ones((2, 3)), "head.b": np.zeros(2)}, names)
    >>> print({name: array.shape for name, array in state.items()})
    {'fc.weight': (2, 3), 'fc.bias': (2,)}
    """
    state: StateDict = {}
    for label, value in values.items():
        stored = _found(names, label, "table")
        state[stored.name] = stored.write(np.asarray(value), state.get(stored.name))
    return state


def _found(known: Mapping[str, Any], name: str, where: str) -> Any:
    if name in known:
        return known[name]
    near = get_close_matches(name, known, 1)
    fix = f"it has `{near[0]}`" if near else f"it has {', '.join(list(known)[:5]) or 'nothing'}"
    raise WeftError(f"there is no `{name}` in the {where}", fix=fix)


def gpt2_names(num_layers: int, *, label: str = "gpt", prefix: str = "transformer.") -> dict[str, StoredWeight]:
    """Where the parameters of `wf.nn.gpt` are in a state of GPT-2: its weights are transposed, q, k and v are one.

    >>> names = wf.nn.gpt2_names(12)
    >>> print(len(names), names["gpt.block3.attention.k"])
    196 StoredWeight(name='transformer.h.3.attn.c_attn.weight', rows=2, transposed=True, part=1, parts=3)
    """
    whole("gpt2_names", num_layers=num_layers)
    names = {
        "tokens": StoredWeight("wte.weight"),
        "positions.table": StoredWeight("wpe.weight"),
        **_norm("norm", "ln_f"),
    }
    for at in range(num_layers):
        here, there = f"block{at}", f"h.{at}"
        names |= _norm(f"{here}.ln1", f"{there}.ln_1") | _norm(f"{here}.ln2", f"{there}.ln_2")
        for part, name in enumerate("qkv"):
            joined = f"{there}.attn.c_attn"
            names[f"{here}.attention.{name}"] = StoredWeight(f"{joined}.weight", 2, True, part, 3)
            names[f"{here}.attention.{name}_bias"] = StoredWeight(f"{joined}.bias", 2, False, part, 3)
        names[f"{here}.attention.o"] = StoredWeight(f"{there}.attn.c_proj.weight", transposed=True)
        names[f"{here}.attention.o_bias"] = StoredWeight(f"{there}.attn.c_proj.bias")
        for name, theirs in (("up", "c_fc"), ("down", "c_proj")):
            names[f"{here}.ffn.{name}.w"] = StoredWeight(f"{there}.mlp.{theirs}.weight", transposed=True)
            names[f"{here}.ffn.{name}.b"] = StoredWeight(f"{there}.mlp.{theirs}.bias")
    return _named(names, label, prefix)


def llama_names(
    num_layers: int, *, label: str = "llama", prefix: str = "model.", grouped: bool = True, tied: bool = False
) -> dict[str, StoredWeight]:
    """Where the parameters of `wf.nn.llama` are in a state of Llama; `grouped` if its heads share keys and values.

    Such states pair halves: configure `wf.nn.llama(…, interleaved=False)`.

    >>> print(wf.nn.llama_names(2)["llama.block1.attention.q"])
    StoredWeight(name='model.layers.1.self_attn.q_proj.weight', rows=3, transposed=False, part=0, parts=1)
    """
    whole("llama_names", num_layers=num_layers)
    names = {"tokens": StoredWeight("embed_tokens.weight"), "norm.gamma": StoredWeight("norm.weight")}
    for at in range(num_layers):
        here, there = f"block{at}", f"layers.{at}"
        names[f"{here}.ln1.gamma"] = StoredWeight(f"{there}.input_layernorm.weight")
        names[f"{here}.ln2.gamma"] = StoredWeight(f"{there}.post_attention_layernorm.weight")
        for name, rows in (("q", 3 if grouped else 2), ("k", 2), ("v", 2), ("o", 1)):
            names[f"{here}.attention.{name}"] = StoredWeight(f"{there}.self_attn.{name}_proj.weight", rows)
        for name in ("gate", "up", "down"):
            names[f"{here}.ffn.{name}.w"] = StoredWeight(f"{there}.mlp.{name}_proj.weight")
    head = {} if tied else {f"{label}.head": StoredWeight("lm_head.weight")}
    return _named(names, label, prefix) | head


def _norm(here: str, there: str) -> dict[str, StoredWeight]:
    return {f"{here}.gamma": StoredWeight(f"{there}.weight"), f"{here}.beta": StoredWeight(f"{there}.bias")}


def _named(names: Mapping[str, StoredWeight], label: str, prefix: str) -> dict[str, StoredWeight]:
    return {f"{label}.{path}": replace(one, name=prefix + one.name) for path, one in names.items()}

"""The arguments of a definition: in order, as arrays, and refused where they do not fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, TypeAlias

import numpy as np

from weft.backends import Array
from weft.comprehension.operator import check_types
from weft.comprehension.signature import Template
from weft.errors import WeftError
from weft.ops.dtypes import is_float, name_of, numpy_type
from weft.tc.arrays import as_array, as_number, share_memory, written

#: The shapes of a flat definition's tensors.
Shapes: TypeAlias = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Arguments:
    template: Template

    @property
    def name(self) -> str:
        return self.template.name

    @property
    def params(self) -> tuple[str, ...]:
        return self.template.flat.params

    @property
    def results(self) -> tuple[str, ...]:
        return tuple(one.name.name for one in self.template.definition.results)

    def ordered(
        self,
        args: Sequence[Any],
        named: Mapping[str, Any],
        given: Mapping[str, Any] | None = None,
        into: str = "or by `outputs`",
    ) -> list[Any]:
        """The arguments in the order of the parameters; `given` are those that come in another way.

        `into` says in which other way they may.
        """
        found = dict(given or {})
        if len(args) > len(self.params):
            raise self._wrong(f"takes {len(self.params)} arguments and was given {len(args)}")
        for name, one in [*zip(self.params, args, strict=False), *named.items()]:
            if name not in self.params:
                raise self._wrong(f"has no parameter `{name}`")
            if name in found and name not in (given or {}):
                raise self._wrong(f"was given `{name}` twice")
            found[name] = one
        missing = [name for name in self.params if name not in found]
        if missing and missing[0] in self.results:
            fix = f"pass what it starts from, as `{missing[0]}` {into}, or write `!` after its `=` in the text"
            raise WeftError(f"`{self.name}` accumulates into `{missing[0]}`", fix=fix)
        if missing:
            raise self._wrong(f"was not given `{missing[0]}`")
        return [found[name] for name in self.params]

    def _wrong(self, what: str) -> WeftError:
        call = f"{self.name}({', '.join(self.params)})"
        return WeftError(f"`{self.name}` {what}", fix=f"call {call}")

    def arrays(self, given: Sequence[Any]) -> list[Array]:
        """What is given for the parameters, as arrays of their types."""
        types = self.template.flat.types
        arrays = [_array(one, types[name], name) for name, one in zip(self.params, given, strict=True)]
        check_types(self.template, [name_of(array.dtype) for array in arrays])
        return arrays

    # Outputs

    def outputs(self, outputs: Sequence[Any] | None) -> dict[str, Array]:
        """The arrays that results are written to, by name."""
        if outputs is None:
            return {}
        if not isinstance(outputs, Sequence) or len(outputs) != len(self.results):
            names = ", ".join(self.results)
            what = f"`outputs` of `{self.name}` are not {len(self.results)} arrays"
            raise WeftError(what, fix=f"pass a tuple of one array for each result: ({names},)")
        return {name: written(one, name) for name, one in zip(self.results, outputs, strict=True)}

    def check_outputs(self, outputs: Mapping[str, Array], shapes: Shapes) -> None:
        """Refuse outputs of other shapes or types than the results, and such as lie in the same memory."""
        flat = self.template.flat
        for result, (name, array) in zip(flat.results, outputs.items(), strict=False):
            _check_like(array, shapes[result], flat.types[result], f"`{name}`", "the output given for it is")
        for (one, first), (other, second) in combinations(outputs.items(), 2):
            if share_memory(first, second):
                what = f"the outputs given for `{one}` and `{other}` share memory"
                raise WeftError(what, fix="pass a different array for each")

    # Gradients

    def wrt(self, wrt: str | Sequence[str] | None) -> tuple[str, ...]:
        """The parameters to differentiate by: all of floats, or those asked for."""
        types = self.template.flat.types
        every = [one for one in self.params if is_float(types[one])]
        wanted = every if wrt is None else [wrt] if isinstance(wrt, str) else wrt
        fix = f"use one of {', '.join(every)}"
        if not every:
            what = f"`{self.name}` has no floating-point parameter to differentiate by"
            fix = f"its parameters are {', '.join(self.params) or 'none'}"
        elif not isinstance(wanted, Sequence) or not wanted or len(set(map(str, wanted))) < len(wanted):
            what = f"`wrt` is a parameter of `{self.name}` or several different ones, not {wrt!r}"
        elif unknown := [one for one in wanted if one not in self.params]:
            what = f"`{self.name}` has no parameter `{unknown[0]}` to differentiate by"
        elif whole := [one for one in wanted if one not in every]:
            what = f"`{whole[0]}` of `{self.name}` is {types[whole[0]]}: there is no gradient by whole numbers"
        else:
            return tuple(wanted)
        raise WeftError(what, fix=fix)

    def seeds(self, d: Any, shapes: Shapes) -> dict[str, Array]:
        """The gradients of the results: ones, or those given; None is none."""
        flat = self.template.flat
        real = [one for one in flat.results if is_float(flat.types[one])]
        if not real:
            what = f"no result of `{self.name}` is floating-point, so there is no gradient of it"
            raise WeftError(what, fix="convert a result: `float(…)`")
        if d is None:
            return {one: np.ones(shapes[one], numpy_type(flat.types[one])) for one in real}
        given = list(d) if isinstance(d, tuple | list) else [d]
        if len(given) != len(flat.results):
            what = f"`d` has {len(given)} gradients, and `{self.name}` has {len(flat.results)} results"
            raise WeftError(what, fix=f"pass one for each of {', '.join(self.results)}")
        found = {}
        for one, name, value in zip(flat.results, self.results, given, strict=True):
            if value is not None and one in real:
                found[one] = _array(value, flat.types[one], f"d of {name}")
                _check_like(found[one], shapes[one], flat.types[one], f"`{name}`", "its gradient was given as")
        return found


def _array(value: Any, dtype: str, name: str) -> Array:
    """What is given, as an array; a number of the program has the type that is wanted."""
    plain = isinstance(value, bool | int | float) and not isinstance(value, np.generic)
    return as_number(value, dtype, name) if plain else as_array(value, name)


def _check_like(array: Array, shape: tuple[int, ...], dtype: str, what: str, given: str) -> None:
    if array.shape != shape or array.dtype != numpy_type(dtype):
        both = f"{what} is {dtype}{list(shape)}, and {given} {array.dtype}{list(array.shape)}"
        raise WeftError(both, fix="pass an array of its shape and type")

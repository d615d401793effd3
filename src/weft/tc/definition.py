"""`wf.tc.define`: comprehensions as Python callables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from weft.backends import Array, Backend
from weft.comprehension import check, parse, show
from weft.comprehension.show import show_definition
from weft.comprehension.template import Template
from weft.comprehension.tensors import applied, check_types
from weft.errors import WeftError, user_origin
from weft.ops.dtypes import is_float, numpy_type
from weft.runtime import Context
from weft.schedule import Options
from weft.tc import tuned
from weft.tc.call import Call, GradientCall
from weft.tc.kinds import as_array, as_number, kind_of, written
from weft.tc.stages import STAGES, show_stage
from weft.tc.tune import Tuning
from weft.tensor.tensor import Tensor


def define(text: str, *, unchecked: bool = False, backend: str | Backend | None = None) -> Comprehensions:
    """Read a text of the Tensor Comprehensions language: an object with a callable for each of its definitions.

        tc = wf.tc.define("def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }")
        C = tc.mm(A, B)

    With `unchecked`, subscripts that are read from tensors are not checked while it runs: one that would leave its
    tensor reads some cell of it. `backend` is that of `wf.Context`.
    """
    return Comprehensions(text, unchecked=unchecked, backend=backend)


class Comprehensions:
    """The definitions of a text, by name."""

    def __init__(self, text: str, *, unchecked: bool = False, backend: str | Backend | None = None) -> None:
        if not isinstance(text, str):
            what = f"comprehensions are text, not {type(text).__name__}"
            raise WeftError(what, origin=user_origin(), fix='pass a string: "def f(float(N) x) -> (y) { … }"')
        self.program = check(parse(text))
        context = _LazyContext(backend)
        self._definitions = {
            name: Definition(Template(self.program, name, unchecked), context) for name in self.program.definitions
        }

    def __getattr__(self, name: str) -> Definition:
        definitions: dict[str, Definition] = self.__dict__.get("_definitions", {})
        if name in definitions:
            return definitions[name]
        if name.startswith("__"):
            raise AttributeError(name)
        known = ", ".join(definitions)
        raise _NoDefinition(f"there is no definition `{name}`", origin=user_origin(), fix=f"there are: {known}")

    def __getitem__(self, name: str) -> Definition:
        return self.__getattr__(name)

    def __iter__(self) -> Iterator[Definition]:
        return iter(self._definitions.values())

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._definitions]

    def __str__(self) -> str:
        return show(self.program.program)

    def __repr__(self) -> str:
        return f"<comprehensions {', '.join(self._definitions)}>"


class _NoDefinition(WeftError, AttributeError):
    pass


class _LazyContext:
    """A context, made when something first runs."""

    def __init__(self, backend: str | Backend | None) -> None:
        self._backend = backend
        self._context: Context | None = None

    def __call__(self) -> Context:
        if self._context is None:
            self._context = Context(self._backend)
        return self._context


class Definition:
    """One definition. Call it with arrays, or with tensors of an expression."""

    def __init__(self, template: Template, context: _LazyContext) -> None:
        self.template = template
        self._context = context
        self._calls: dict[tuple[tuple[int, ...], ...], Call] = {}
        self._gradients: dict[tuple[object, ...], GradientCall] = {}

    @property
    def name(self) -> str:
        return self.template.name

    @property
    def params(self) -> tuple[str, ...]:
        """The names of what it takes, in order; results it accumulates into come last, or in `outputs`."""
        return self.template.flat.params

    @property
    def results(self) -> tuple[str, ...]:
        """The names of what it gives, in order."""
        return tuple(one.name.name for one in self.template.definition.results)

    def __str__(self) -> str:
        return show_definition(self.template.definition)

    def __repr__(self) -> str:
        return f"<comprehension {self.name}({', '.join(self.params)}) -> ({', '.join(self.results)})>"

    def __call__(self, *args: Any, outputs: Sequence[Any] | None = None, label: str = "", **named: Any) -> Any:
        """What it computes from its parameters, given in order or by name: one result, or a tuple of them.

        With tensors the results are tensors of the expression. With arrays they are arrays of the first one's kind;
        `outputs` are arrays to write the results to, and to begin from where a statement accumulates without `!`.
        """
        if any(isinstance(one, Tensor) for one in (*args, *named.values())):
            if outputs is not None:
                what = f"`{self.name}` was given tensors and `outputs`"
                raise WeftError(what, origin=user_origin(), fix="leave `outputs` out: the results are new tensors")
            return _single(applied(self.template, self.ordered(args, named), label))
        into = self._into(outputs)
        given = self.ordered(args, named, {name: one for name, one in into.items() if name in self.params})
        arrays = self._arrays(given)
        _check_apart(into)
        targets = [into.get(name) for name in self.results]
        for name, target in zip(self.results, targets, strict=True):
            if target is not None:
                self._check_target(name, target, arrays)
        found = self._call(arrays)(arrays, targets)
        if outputs is not None:
            return _single(outputs)
        kind = kind_of(given)
        return _single([kind(one) for one in found])

    def grad(self, *args: Any, wrt: str | Sequence[str] | None = None, d: Any = None, **named: Any) -> Any:
        """The gradients of the results by the parameters `wrt`, all of floats if not given: one, or a tuple of them.

        `d` are the gradients of the results, in order; ones if not given.
        """
        given = self.ordered(args, named)
        arrays = self._arrays(given)
        call = self._call(arrays)
        wanted = self._wrt(wrt)
        seeds = self._seeds(d, call)
        key = (tuple(array.shape for array in arrays), tuple(seeds), wanted)
        if key not in self._gradients:
            self._gradients[key] = GradientCall(call, list(seeds), wanted)
        kind = kind_of(given)
        found = [kind(one) for one in self._gradients[key](arrays, list(seeds.values()))]
        return found[0] if isinstance(wrt, str) else _single(found)

    def options(self, *args: Any, choose: Options | None = None, **named: Any) -> Options:
        """The schedule options for arrays like these: what tuning found, or none. `choose` sets others."""
        arrays = self._arrays(self.ordered(args, named))
        if choose is not None:
            if not isinstance(choose, Options):
                fix = "pass wf.tc.Options(threads=2, …)"
                raise WeftError(f"{choose!r} are no options", origin=user_origin(), fix=fix)
            shapes = tuple(array.shape for array in arrays)
            self._calls[shapes] = self._compiled(shapes, choose)
        return self._call(arrays).options

    def autotune(self, *args: Any, seconds: float = 10.0, show: bool = True, **named: Any) -> Options:
        """Look for better options for arrays like these, for so many seconds, and use them from now on.

        What is found is kept, and used by later processes without asking. Ctrl-C ends it early and keeps the best.
        """
        arrays = self._arrays(self.ordered(args, named))
        shapes = tuple(array.shape for array in arrays)
        found = Tuning(lambda options: self._compiled(shapes, options), arrays).run(seconds, show)
        tuned.keep(self.template, shapes, found)
        self._calls[shapes] = self._compiled(shapes, found.options)
        return found.options

    def show(self, stage: str, *args: Any, **named: Any) -> str:
        """A stage as text, for arrays like these: the text itself, ranges, gradient, assignments, loops, kernels, …"""
        if stage == "text":
            return str(self)
        if stage not in STAGES:
            known = ", ".join(f'"{one}"' for one in ("text", *STAGES))
            raise WeftError(f"there is no stage {stage!r}", origin=user_origin(), fix=f"use one of {known}")
        wrt = self._wrt(None) if stage == "gradient" else ()
        return show_stage(stage, self._call(self._arrays(self.ordered(args, named))), wrt)

    # Arguments

    def ordered(
        self, args: Sequence[Any], named: Mapping[str, Any], given: Mapping[str, Any] | None = None
    ) -> list[Any]:
        """The arguments in the order of the parameters; `given` are those that come in another way."""
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
            fix = f"pass what it starts from, as `{missing[0]}` or by `outputs`, or write `!` after its `=` in the text"
            raise WeftError(f"`{self.name}` accumulates into `{missing[0]}`", origin=user_origin(), fix=fix)
        if missing:
            raise self._wrong(f"was not given `{missing[0]}`")
        return [found[name] for name in self.params]

    def _wrong(self, what: str) -> WeftError:
        call = f"{self.name}({', '.join(self.params)})"
        return WeftError(f"`{self.name}` {what}", origin=user_origin(), fix=f"call {call}")

    def _arrays(self, given: Sequence[Any]) -> list[Array]:
        types = self.template.flat.types
        arrays = []
        for name, one in zip(self.params, given, strict=True):
            plain = isinstance(one, bool | int | float) and not isinstance(one, np.generic)
            arrays.append(as_number(one, types[name], name) if plain else as_array(one, name))
        check_types(self.template, [array.dtype.name for array in arrays])
        return arrays

    def _call(self, arrays: Sequence[Array]) -> Call:
        shapes = tuple(array.shape for array in arrays)
        if shapes not in self._calls:
            found = tuned.best(self.template, shapes)
            self._calls[shapes] = self._compiled(shapes, found.options if found else Options())
        return self._calls[shapes]

    def _compiled(self, shapes: tuple[tuple[int, ...], ...], options: Options) -> Call:
        return Call(self.template, shapes, self._context(), options)

    def _into(self, outputs: Sequence[Any] | None) -> dict[str, Array]:
        if outputs is None:
            return {}
        if not isinstance(outputs, Sequence) or len(outputs) != len(self.results):
            names = ", ".join(self.results)
            what = f"`outputs` of `{self.name}` are not {len(self.results)} arrays"
            raise WeftError(what, origin=user_origin(), fix=f"pass a tuple of one array for each result: ({names},)")
        return {name: written(one, name) for name, one in zip(self.results, outputs, strict=True)}

    def _check_target(self, name: str, target: Array, arrays: Sequence[Array]) -> None:
        shapes = self._call(arrays).application.extents.shapes
        result = dict(zip(self.results, self.template.flat.results, strict=True))[name]
        shape, dtype = shapes[result], self.template.flat.types[result]
        if target.shape != shape or target.dtype != numpy_type(dtype):
            what = f"`{name}` is {dtype}{list(shape)}, and the output given for it {target.dtype}{list(target.shape)}"
            raise WeftError(what, origin=user_origin(), fix="pass an array of its shape and type")

    def _wrt(self, wrt: str | Sequence[str] | None) -> tuple[str, ...]:
        types = self.template.flat.types
        every = [one for one in self.params if is_float(types[one])]
        if not every:
            what = f"`{self.name}` has no floating-point parameter to differentiate by"
            raise WeftError(what, origin=user_origin(), fix=f"its parameters are {', '.join(self.params) or 'none'}")
        fix = f"use one of {', '.join(every)}"
        wanted = every if wrt is None else [wrt] if isinstance(wrt, str) else wrt
        if not isinstance(wanted, Sequence) or not wanted or len(set(map(str, wanted))) < len(wanted):
            what = f"`wrt` is a parameter of `{self.name}` or several different ones, not {wrt!r}"
            raise WeftError(what, origin=user_origin(), fix=fix)
        for one in wanted:
            if one not in self.params:
                what = f"`{self.name}` has no parameter `{one}` to differentiate by"
                raise WeftError(what, origin=user_origin(), fix=fix)
            if one not in every:
                what = f"`{one}` of `{self.name}` is {types[one]}: there is no gradient by whole numbers"
                raise WeftError(what, origin=user_origin(), fix=fix)
        return tuple(wanted)

    def _seeds(self, d: Any, call: Call) -> dict[str, Array]:
        flat, shapes = self.template.flat, call.application.extents.shapes
        names = dict(zip(flat.results, self.results, strict=True))
        real = [one for one in flat.results if is_float(flat.types[one])]
        if not real:
            what = f"no result of `{self.name}` is floating-point, so there is no gradient of it"
            raise WeftError(what, origin=user_origin(), fix="convert a result: `float(…)`")
        if d is None:
            return {one: np.ones(shapes[one], numpy_type(flat.types[one])) for one in real}
        given = list(d) if isinstance(d, tuple | list) else [d]
        if len(given) != len(flat.results):
            what = f"`d` has {len(given)} gradients, and `{self.name}` has {len(flat.results)} results"
            raise WeftError(what, origin=user_origin(), fix=f"pass one for each of {', '.join(self.results)}")
        found = {}
        for one, value in zip(flat.results, given, strict=True):
            if value is None or one not in real:
                continue
            array = as_array(value, f"d of {names[one]}")
            wanted = numpy_type(flat.types[one])
            if array.shape != shapes[one] or array.dtype != wanted:
                what = f"`{names[one]}` is {flat.types[one]}{list(shapes[one])}, and its gradient"
                raise WeftError(
                    f"{what} was given as {array.dtype}{list(array.shape)}",
                    origin=user_origin(),
                    fix="pass an array of its shape and type",
                )
            found[one] = array
        return found


def _check_apart(into: Mapping[str, Array]) -> None:
    """Refuse outputs that lie in the same memory."""
    for (one, first), (other, second) in combinations(into.items(), 2):
        if np.may_share_memory(first, second) and np.shares_memory(first, second):
            what = f"the outputs given for `{one}` and `{other}` share memory"
            raise WeftError(what, origin=user_origin(), fix="pass a different array for each")


def _single(found: Sequence[Any]) -> Any:
    return found[0] if len(found) == 1 else tuple(found)

"""`wf.tc.define`: comprehensions as Python callables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from weft.backends import Array, Backend
from weft.comprehension import read, show
from weft.comprehension.show import show_definition
from weft.comprehension.template import Template
from weft.comprehension.tensors import applied
from weft.errors import WeftError, user_origin
from weft.runtime import Context
from weft.schedule import Options
from weft.tc import tuned
from weft.tc.arguments import Arguments
from weft.tc.call import Call, GradientCall
from weft.tc.kinds import kind_of
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
        self.program = read(text)
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
        self.arguments = Arguments(template)
        self._context = context
        self._calls: dict[tuple[tuple[int, ...], ...], Call] = {}
        self._gradients: dict[tuple[object, ...], GradientCall] = {}

    @property
    def name(self) -> str:
        return self.template.name

    @property
    def params(self) -> tuple[str, ...]:
        """The names of what it takes, in order; results it accumulates into come last, or in `outputs`."""
        return self.arguments.params

    @property
    def results(self) -> tuple[str, ...]:
        """The names of what it gives, in order."""
        return self.arguments.results

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
            return _single(applied(self.template, self.arguments.ordered(args, named), label))
        into = self.arguments.outputs(outputs)
        given = self.arguments.ordered(args, named, {name: one for name, one in into.items() if name in self.params})
        arrays = self.arguments.arrays(given)
        call = self._call(arrays)
        self.arguments.check_outputs(into, call.shapes)
        found = call(arrays, [into.get(name) for name in self.results])
        if outputs is not None:
            return _single(outputs)
        kind = kind_of(given)
        return _single([kind(one) for one in found])

    def grad(self, *args: Any, wrt: str | Sequence[str] | None = None, d: Any = None, **named: Any) -> Any:
        """The gradients of the results by the parameters `wrt`, all of floats if not given: one, or a tuple of them.

        `d` are the gradients of the results, in order; ones if not given.
        """
        given = self.arguments.ordered(args, named)
        arrays = self.arguments.arrays(given)
        call = self._call(arrays)
        wanted = self.arguments.wrt(wrt)
        seeds = self.arguments.seeds(d, call.shapes)
        key = (tuple(array.shape for array in arrays), tuple(seeds), wanted)
        if key not in self._gradients:
            self._gradients[key] = GradientCall(call, list(seeds), wanted)
        kind = kind_of(given)
        found = [kind(one) for one in self._gradients[key](arrays, list(seeds.values()))]
        return found[0] if isinstance(wrt, str) else _single(found)

    def options(self, *args: Any, choose: Options | None = None, **named: Any) -> Options:
        """The schedule options for arrays like these: what tuning found, or none. `choose` sets others."""
        arrays = self.arguments.arrays(self.arguments.ordered(args, named))
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
        arrays = self.arguments.arrays(self.arguments.ordered(args, named))
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
        wrt = self.arguments.wrt(None) if stage == "gradient" else ()
        return show_stage(stage, self._call(self.arguments.arrays(self.arguments.ordered(args, named))), wrt)

    def _call(self, arrays: Sequence[Array]) -> Call:
        shapes = tuple(array.shape for array in arrays)
        if shapes not in self._calls:
            found = tuned.best(self.template, shapes)
            self._calls[shapes] = self._compiled(shapes, found.options if found else Options())
        return self._calls[shapes]

    def _compiled(self, shapes: tuple[tuple[int, ...], ...], options: Options) -> Call:
        return Call(self.template, shapes, self._context(), options)


def _single(found: Sequence[Any]) -> Any:
    return found[0] if len(found) == 1 else tuple(found)

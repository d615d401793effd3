"""`wf.tc.define`: comprehensions as Python callables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from weft.backends import Array, Backend
from weft.comprehension import Program, check, read, show
from weft.comprehension.gradient import backward
from weft.comprehension.show import show_definition
from weft.comprehension.template import Template
from weft.comprehension.tensors import applied
from weft.comprehension.text import gradient_definition
from weft.config import Chosen, config
from weft.errors import WeftError, user_origin
from weft.runtime import Context
from weft.runtime.context import unlisted
from weft.runtime.recent import Recent
from weft.schedule import Options
from weft.tc import tuned
from weft.tc.arguments import Arguments
from weft.tc.call import Call, GradientCall
from weft.tc.equivalent import check_equivalents
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
        check_equivalents(self.program)
        context = _LazyContext(backend)
        self._definitions = {
            name: Definition(Template(self.program, name, unchecked), context) for name in self.program.definitions
        }
        self._made_of = text, unchecked, backend

    def __getattr__(self, name: str) -> Definition:
        definitions: dict[str, Definition] = self.__dict__.get("_definitions", {})
        if name in definitions:
            return definitions[name]
        if name.startswith("__"):
            raise AttributeError(name)
        known = ", ".join(definitions)
        raise _NoDefinition(f"there is no definition `{name}`", origin=user_origin(), fix=f"there are: {known}")

    def __getitem__(self, name: str) -> Definition:
        if isinstance(name, str) and name in self._definitions:
            return self._definitions[name]
        known = ", ".join(self._definitions)
        raise _NoDefinition(f"there is no definition `{name}`", origin=user_origin(), fix=f"there are: {known}")

    def __iter__(self) -> Iterator[Definition]:
        return iter(self._definitions.values())

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._definitions]

    def __reduce__(self) -> tuple[Any, ...]:
        text, unchecked, backend = self._made_of
        return _defined, (text, unchecked, backend)

    def __str__(self) -> str:
        return show(self.program.program)

    def __repr__(self) -> str:
        return f"<comprehensions {', '.join(self._definitions)}>"


def _defined(text: str, unchecked: bool, backend: str | Backend | None) -> Comprehensions:
    return define(text, unchecked=unchecked, backend=backend)


class _NoDefinition(WeftError, AttributeError):
    pass


class _LazyContext:
    """A context, made when something first runs."""

    def __init__(self, backend: str | Backend | None) -> None:
        self.backend = backend
        self._context: Context | None = None

    def __call__(self) -> Context:
        if self._context is None:
            self._context = unlisted(self.backend)
        return self._context


#: The shapes of the arrays of a call.
_Shapes: TypeAlias = tuple[tuple[int, ...], ...]
#: So many calls of a definition are kept compiled, those used last.
_CALLS = 128


class Definition:
    """One definition. Call it with arrays, or with tensors of an expression."""

    def __init__(self, template: Template, context: _LazyContext) -> None:
        self.template = template
        self.arguments = Arguments(template)
        self._context = context
        self._calls: Recent[tuple[_Shapes, Options | None, Chosen], Call] = Recent(_CALLS)
        self._gradients: Recent[tuple[object, ...], GradientCall] = Recent(_CALLS)
        self._options: dict[_Shapes, Options] = {}  # what was chosen, or found by tuning here
        self._last: tuple[_Shapes, Chosen, Call] | None = None  # most calls are like the one before

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

    @property
    def source(self) -> tuple[str, str, bool, str | None]:
        """What it can be defined from again: the text, its name in it, whether it is unchecked, and the backend."""
        program, backend = self.template.program.program, self._context.backend
        kept = backend if backend is None or isinstance(backend, str) else backend.name
        return program.text or show(program), self.name, self.template.unchecked, kept

    def __reduce__(self) -> tuple[Any, ...]:
        return restored, self.source

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
        key = (tuple(array.shape for array in arrays), tuple(seeds), wanted, config.chosen)
        gradient = self._gradients.get(key) or self._gradients.put(key, GradientCall(call, list(seeds), wanted))
        kind = kind_of(given)
        found = [kind(one) for one in gradient(arrays, list(seeds.values()))]
        return found[0] if isinstance(wrt, str) else _single(found)

    def gradient(self, shapes: Sequence[tuple[int, ...]], wrt: Sequence[str]) -> Definition:
        """The definition that computes the gradients by some parameters, for parameters of these shapes."""
        flat, extents = self.template.flat, self.template.extents(shapes)
        made = backward(flat, flat.results, wrt, afresh=True)
        definition = gradient_definition(f"{self.name}_gradient", flat, made, extents, wrt)
        program = Program((definition,))
        checked = check(replace(program, text=show(program)))
        return Definition(Template(checked, definition.name.name, self.template.unchecked), self._context)

    def options(self, *args: Any, choose: Options | None = None, **named: Any) -> Options:
        """The schedule options for arrays like these: what tuning found, or none. `choose` sets others."""
        arrays = self.arguments.arrays(self.arguments.ordered(args, named))
        if choose is not None:
            if not isinstance(choose, Options):
                fix = "pass wf.tc.Options(threads=2, …)"
                raise WeftError(f"{choose!r} are no options", origin=user_origin(), fix=fix)
            self._choose(tuple(array.shape for array in arrays), choose)
        return self._call(arrays).options

    def autotune(self, *args: Any, seconds: float = 10.0, show: bool = True, **named: Any) -> Options:
        """Look for better options for arrays like these, for so many seconds, and use them from now on.

        What is found is kept, and used by later processes without asking. Ctrl-C ends it early and keeps the best.
        """
        arrays = self.arguments.arrays(self.arguments.ordered(args, named))
        shapes = tuple(array.shape for array in arrays)
        found = Tuning(lambda options: self._compiled(shapes, options), arrays).run(seconds, show)
        tuned.keep(self.template, shapes, found)
        self._choose(shapes, found.options)
        return found.options

    def show(self, stage: str, *args: Any, **named: Any) -> str:
        """A stage as text, for arrays like these: the text itself, ranges, gradient, assignments, loops, kernels, …"""
        if not isinstance(stage, str) or stage not in ("text", *STAGES):
            known = ", ".join(f'"{one}"' for one in ("text", *STAGES))
            raise WeftError(f"there is no stage {stage!r}", origin=user_origin(), fix=f"use one of {known}")
        if stage == "text":
            return str(self)
        wrt = self.arguments.wrt(None) if stage == "gradient" else ()
        return show_stage(stage, self._call(self.arguments.arrays(self.arguments.ordered(args, named))), wrt)

    def _call(self, arrays: Sequence[Array]) -> Call:
        shapes = tuple([array.shape for array in arrays])
        last, chosen = self._last, config.chosen
        if last is not None and last[0] == shapes and last[1] is chosen:
            return last[2]
        options = self._options.get(shapes)
        key = (shapes, options, chosen)
        found = self._calls.get(key)
        if found is None:
            known = None if options else tuned.best(self.template, shapes)
            best = known.options if known else Options()
            found = self._calls.put(key, self._compiled(shapes, options or best))
        self._last = (shapes, chosen, found)
        return found

    def _choose(self, shapes: _Shapes, options: Options) -> None:
        """Use these options from now on, if they can be compiled."""
        self._calls.put((shapes, options, config.chosen), self._compiled(shapes, options))
        self._options[shapes], self._last = options, None

    def _compiled(self, shapes: _Shapes, options: Options) -> Call:
        return Call(self.template, shapes, self._context(), options)


def restored(text: str, name: str, unchecked: bool, backend: str | None) -> Definition:
    """A definition of a text."""
    return define(text, unchecked=unchecked, backend=backend)[name]


def _single(found: Sequence[Any]) -> Any:
    return found[0] if len(found) == 1 else tuple(found)

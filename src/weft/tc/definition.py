"""`wf.tc.define`: comprehensions as Python callables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

from weft.backends import Array, Backend, find_backend
from weft.comprehension import check, read, show
from weft.comprehension.nodes import Program
from weft.comprehension.operator import applied
from weft.comprehension.show import show_definition
from weft.comprehension.signature import Template
from weft.config import config
from weft.errors import NoSuchName, WeftError
from weft.lazy import lazy_property
from weft.ops.dtypes import is_float
from weft.public import public
from weft.runtime.engine import Engine
from weft.runtime.lru import LRU
from weft.runtime.tuning_report import TuningReport
from weft.schedule import CompileOptions, Options
from weft.tc.arguments import Arguments
from weft.tc.arrays import kind_of
from weft.tc.call import CompiledCall, GradientCall, gradient_definition, gradient_loops
from weft.tc.equivalence import check_equivalents
from weft.tc.show import STAGES, show_stage
from weft.tensor.tensor import Tensor

_Shapes: TypeAlias = tuple[tuple[int, ...], ...]


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
        self.program = read(text)
        check_equivalents(self.program)
        engine = _LazyEngine(backend)
        self._definitions = {
            name: Definition(Template(self.program, name, unchecked), engine) for name in self.program.definitions
        }
        self._made_of = text, unchecked, backend

    @public
    def __getattr__(self, name: str) -> Definition:
        definitions = self.__dict__.get("_definitions", {})
        if name not in definitions and (name.startswith("__") or not definitions):
            raise AttributeError(name)
        return self[name]

    def __getitem__(self, name: str) -> Definition:
        if isinstance(name, str) and name in self._definitions:
            return self._definitions[name]
        known = ", ".join(self._definitions)
        raise NoSuchName(f"there is no definition `{name}`", fix=f"there are: {known}")

    def __iter__(self) -> Iterator[Definition]:
        return iter(self._definitions.values())

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._definitions]

    def __reduce__(self) -> tuple[Any, ...]:
        text, unchecked, backend = self._made_of
        return partial(define, unchecked=unchecked, backend=backend), (text,)

    def __str__(self) -> str:
        return show(self.program.program)

    def __repr__(self) -> str:
        return f"<comprehensions {', '.join(self._definitions)}>"


@dataclass(frozen=True, eq=False)
class _LazyEngine:
    """An engine, made when something first runs."""

    backend: str | Backend | None

    @lazy_property
    def engine(self) -> Engine:
        return Engine(find_backend(self.backend), 1)


class Definition:
    """One definition. Call it with arrays, or with tensors of an expression."""

    def __init__(self, template: Template, engine: _LazyEngine) -> None:
        self.template = template
        self.arguments = Arguments(template)
        self._engine = engine
        self._calls: LRU[tuple[_Shapes, Options, CompileOptions], CompiledCall] = LRU(config.options.kept_programs)
        self._gradients: LRU[tuple[object, ...], GradientCall] = LRU(config.options.kept_programs)
        #: Options in use for parameters of some shapes: of the definition, or of its gradients by some parameters.
        self._options: dict[tuple[_Shapes, tuple[str, ...]], Options] = {}
        self._last: tuple[_Shapes, CompileOptions, CompiledCall] | None = None  # most calls are like the one before

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
        program, backend = self.template.program.program, self._engine.backend
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
                raise WeftError(what, fix="leave `outputs` out: the results are new tensors")
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
        call, wanted = self._call(arrays), self.arguments.wrt(wrt)
        seeds = self.arguments.seeds(d, call.shapes)
        kind = kind_of(given)
        found = [kind(one) for one in self._gradient(call, tuple(seeds), wanted)(arrays, list(seeds.values()))]
        return found[0] if isinstance(wrt, str) else _single(found)

    def derived(self, shapes: Sequence[tuple[int, ...]], wrt: Sequence[str]) -> Definition:
        """The definition that computes the gradients by some parameters, for parameters of these shapes."""
        definition = gradient_definition(f"{self.name}_gradient", self.template, shapes, self._real, wrt)
        program = Program((definition,))
        checked = check(replace(program, text=show(program)))
        return Definition(Template(checked, definition.name.name, self.template.unchecked), self._engine)

    def options(
        self, *args: Any, choose: Options | None = None, wrt: str | Sequence[str] | None = None, **named: Any
    ) -> Options:
        """The schedule options chosen for arrays like these, if any are. `choose` sets others.

        With `wrt`, those of the gradients by these parameters.
        """
        _, call, wanted = self._asked(args, named, wrt)
        if choose is not None:
            if not isinstance(choose, Options):
                fix = "pass wf.tc.Options(threads=2, …)"
                raise WeftError(f"{choose!r} are no options", fix=fix)
            self._check_loops(choose, self._loops(call, wanted))
            self._use(call, wanted, choose)
        return self._made(call, wanted).options

    def autotune(
        self,
        *args: Any,
        seconds: float = 10.0,
        show: bool = True,
        wrt: str | Sequence[str] | None = None,
        **named: Any,
    ) -> TuningReport:
        """Look for better schedules for arrays like these, for so many seconds, and use the best from now on.

        It begins with the best that is known, so it never ends with something slower. What is found is kept, and used
        by later processes without asking. Ctrl-C ends it early and keeps the best. With `wrt`, the gradients by these
        parameters are tuned. It is `routine.tune` of what is compiled for the arrays.
        """
        arrays, call, wanted = self._asked(args, named, wrt)
        seeds = self.arguments.seeds(None, call.shapes).values() if wanted else ()
        return self._made(call, wanted).function.tune([*arrays, *seeds], seconds, show)

    def _asked(
        self, args: Sequence[Any], named: Mapping[str, Any], wrt: str | Sequence[str] | None
    ) -> tuple[list[Array], CompiledCall, tuple[str, ...]]:
        """The arrays that are given, the call they make, and the parameters whose gradients are meant, if any are."""
        arrays = self.arguments.arrays(self.arguments.ordered(args, named))
        return arrays, self._call(arrays), () if wrt is None else self.arguments.wrt(wrt)

    def _made(self, call: CompiledCall, wanted: tuple[str, ...]) -> CompiledCall | GradientCall:
        """What is compiled: the definition, or its gradients by some parameters."""
        return self._gradient(call, self._real, wanted) if wanted else self._call_of(call.given)

    def _loops(self, call: CompiledCall, wanted: tuple[str, ...]) -> dict[str, int]:
        return gradient_loops(call, self._real, wanted) if wanted else call.loops

    @property
    def _real(self) -> tuple[str, ...]:
        """The results that have a gradient."""
        flat = self.template.flat
        return tuple(one for one in flat.results if is_float(flat.types[one]))

    def _check_loops(self, options: Options, loops: Mapping[str, int]) -> None:
        for name in (*options.order, *(one for one, _ in options.tiles)):
            if name not in loops:
                fix = f"its loops are {', '.join(loops) or 'none'}"
                raise WeftError(f"`{self.name}` has no loop `{name}`", fix=fix)

    def _use(self, call: CompiledCall, wanted: tuple[str, ...], options: Options) -> None:
        """Use options for parameters of the shapes of a call from now on, if what they choose can be compiled."""
        before = self._options.get((call.given, wanted))
        self._options[call.given, wanted], self._last = options, None
        try:
            self._made(call, wanted)
        except WeftError:
            self._options[call.given, wanted] = before or Options()
            raise

    def show(self, stage: str, *args: Any, **named: Any) -> str:
        """A stage as text, for arrays like these: the text itself, ranges, gradient, assignments, loops, kernels, …"""
        if not isinstance(stage, str) or stage not in ("text", *STAGES):
            known = ", ".join(f'"{one}"' for one in ("text", *STAGES))
            raise WeftError(f"there is no stage {stage!r}", fix=f"use one of {known}")
        if stage == "text":
            return str(self)
        call = self._call(self.arguments.arrays(self.arguments.ordered(args, named)))
        if stage == "gradient":
            return str(self.derived(call.given, self.arguments.wrt(None)))
        return show_stage(stage, call)

    def _call(self, arrays: Sequence[Array]) -> CompiledCall:
        shapes = tuple([array.shape for array in arrays])
        last = self._last
        return last[2] if last and last[0] == shapes and last[1] is config.options else self._call_of(shapes)

    def _call_of(self, shapes: _Shapes) -> CompiledCall:
        options, chosen = self._used(shapes), config.options
        key = shapes, options, chosen
        found = self._calls.get(key) or self._calls.put(key, self._compiled(shapes, options))
        self._last = (shapes, chosen, found)
        return found

    def _gradient(self, call: CompiledCall, of: tuple[str, ...], wanted: tuple[str, ...]) -> GradientCall:
        options = self._used(call.given, wanted)
        key = call.given, of, wanted, options, config.options
        return self._gradients.get(key) or self._gradients.put(key, GradientCall(call, of, wanted, options))

    def _used(self, shapes: _Shapes, wanted: tuple[str, ...] = ()) -> Options:
        """The options in use: those chosen here, else those of the process."""
        found = self._options.get((shapes, wanted), Options())
        return found if found != Options() else config.options.schedule

    def _compiled(self, shapes: _Shapes, options: Options) -> CompiledCall:
        return CompiledCall(self.template, shapes, self._engine.engine, options)


def restored(text: str, name: str, unchecked: bool, backend: str | None) -> Definition:
    """A definition of a text."""
    return define(text, unchecked=unchecked, backend=backend)[name]


def _single(found: Sequence[Any]) -> Any:
    return found[0] if len(found) == 1 else tuple(found)

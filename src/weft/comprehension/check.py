"""Is a program meaningful, whatever the sizes? And what are its tensors?

Definitions are checked in the order they call each other; statements in the order written, by statements.py. Every
mistake of the whole text is reported at once. Sizes and ranges come later (ranges.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from weft.comprehension.accesses import Accesses
from weft.comprehension.axes import find_axes
from weft.comprehension.boundedness import Names, check_begins, check_bounded, check_sized
from weft.comprehension.builtins import TAKEN, spelled
from weft.comprehension.calls import check_argument, check_call
from weft.comprehension.mistakes import ComprehensionError, Mistake, counted, meant, warn
from weft.comprehension.nodes import (
    UNWANTED,
    Between,
    Comprehension,
    Definition,
    Ident,
    Index,
    Invoke,
    Program,
    Read,
    Result,
    Statement,
    TensorType,
    computed_subscripts,
    targets,
    walk,
    where_exprs,
)
from weft.comprehension.out_of_bounds import check_inside
from weft.comprehension.parse import parse, parse_all
from weft.comprehension.scope import ONE_NAMESPACE, Checked, Scope
from weft.comprehension.show import show_type
from weft.comprehension.statements import check_statement
from weft.comprehension.types import Report, accumulated, check_whole, fits, join_types, local_types, settled, type_of
from weft.ops.dtypes import UNKNOWN

#: Deeper calls than this are refused, so that nobody runs out of stack.
MAX_CALLS = 50


@dataclass(frozen=True, slots=True)
class CheckedProgram:
    """A program and what its definitions are; `doubts` are what may be meant and probably is not."""

    program: Program
    definitions: Mapping[str, Checked]
    doubts: tuple[Mistake, ...] = ()

    def __getitem__(self, name: str) -> Checked:
        return self.definitions[name]


def read(text: str) -> CheckedProgram:
    """What the definitions of a text are; ComprehensionError with every mistake in it, of syntax and of meaning.

    Of what may be meant and probably is not it warns.
    """
    if not issubclass(type(text), str) or not parse_all(str.__str__(text))[1]:
        checked = check(parse(text))
        warn(checked.program.text, checked.doubts)
        return checked
    program, mistakes = parse_all(str.__str__(text))
    _, others = _check(_legible(program, mistakes), program.text)
    raise ComprehensionError(program.text, [*mistakes, *others])


def _legible(program: Program, mistakes: Sequence[Mistake]) -> Program:
    """The definitions that were read as they stand, and call only such."""
    starts = [one.span.start for one in mistakes]
    kept = [one for one in program.definitions if not any(one.span.start <= at < one.span.end for at in starts)]
    known: set[str] = set()
    while known != (known := {one.name.name for one in kept}):
        calls = {one: {call.function.name for call in one.body if isinstance(call, Invoke)} for one in kept}
        kept = [one for one in kept if calls[one] <= known]
    return Program(tuple(kept), program.text)


def check(program: Program) -> CheckedProgram:
    """What a program's definitions are; ComprehensionError with every mistake in them."""
    checked, mistakes = _check(program, program.text)
    if mistakes:
        raise ComprehensionError(program.text, mistakes)
    return checked


@lru_cache(maxsize=1024)
def _check(program: Program, text: str) -> tuple[CheckedProgram, tuple[Mistake, ...]]:
    mistakes: list[Mistake] = []
    doubts: list[Mistake] = []
    done: dict[str, Checked] = {}
    functions = frozenset(one.name.name for one in program.definitions)
    for definition in _in_order(program, mistakes.append):
        scope = Scope(definition, functions, mistakes.append, doubts.append)
        done[definition.name.name] = _definition(definition, done, scope)
    ordered = {one.name.name: done[one.name.name] for one in program.definitions}
    return CheckedProgram(program, ordered, tuple(doubts)), tuple(mistakes)


def _in_order(program: Program, report: Report) -> Iterator[Definition]:
    """The definitions, each after those it calls; a second one of a name, and calls in a circle, are reported."""
    named: dict[str, Definition] = {}
    for definition in program.definitions:
        name = definition.name
        if name.name in named:
            report(Mistake(f"`{name}` is defined twice", name.span, "give one of the definitions another name"))
        elif name.name in TAKEN:
            report(Mistake(f"`{name}` is {TAKEN[name.name]}", name.span, "give the definition another name"))
        named.setdefault(name.name, definition)
    depths: dict[str, int] = {}
    for first in named:
        # An explicit stack: a text may hold a chain of more calls than Python nests.
        path, waiting = [first], [_calls(named[first])]
        while path:
            call = next(waiting[-1], None)
            if call is None:
                name_ = path.pop()
                waiting.pop()
                if name_ not in depths:
                    depths[name_] = 1 + max((depths.get(one.name, 0) for one in _calls(named[name_])), default=0)
                    yield named[name_]
            elif call.name in path:
                circle = " → ".join([*path[path.index(call.name) :], call.name])
                what = f"`{call}` is called in a circle: {circle}"
                report(Mistake(what, call.span, "definitions cannot call themselves"))
            elif depths.get(call.name, 0) >= MAX_CALLS:
                what = f"calls are nested deeper than {MAX_CALLS}"
                report(Mistake(what, call.span, "write the statements of a definition in the place of its call"))
            elif call.name in named and call.name not in depths:
                path.append(call.name)
                waiting.append(_calls(named[call.name]))


def _calls(definition: Definition) -> Iterator[Ident]:
    return (one.function for one in definition.body if isinstance(one, Invoke))


def _definition(definition: Definition, done: Mapping[str, Checked], scope: Scope) -> Checked:
    _check_head(definition, scope, scope.report)
    declared, types = definition.declared(dict.fromkeys(scope.sizes, 1)), _types(definition, done, scope.report)
    params = {one.name.name: one.type for one in reversed(definition.params)}
    writes = Counter(name for one in definition.body for name in {target.name for target in targets(one)})
    for statement in definition.body:
        if isinstance(statement, Invoke):
            check_call(statement, scope, done)
        else:
            shaped, mistakes = {*scope.ranks}, scope.mistakes
            check_statement(statement, scope)
            if scope.mistakes == mistakes:
                bounds = declared.get(statement.target.name, ())
                once = writes[statement.target.name] == 1
                _check_runs(statement, shaped, bounds, params, types, once, scope)
    _check_results(definition, scope, scope.report)
    axes = find_axes(definition, scope, done, types)
    return Checked(definition, types, dict(scope.ranks), axes, tuple(scope.accumulates))


def _check_runs(
    statement: Comprehension,
    shaped: set[str],
    declared: Sequence[int | None],
    params: Mapping[str, TensorType],
    types: Mapping[str, str],
    once: bool,
    scope: Scope,
) -> None:
    """Reports a statement that cannot run for any sizes; `once` says that it alone writes its target."""
    target = statement.target.name
    shaped |= {*scope.accumulates}
    bounds = declared if target not in shaped else ()
    sized = (one for one, size in zip(statement.at, bounds, strict=False) if size is not None)
    by_type = [one.name for one in sized if isinstance(one, Index)]
    names = Names(sorted(scope.sizes), [name for name, rank in scope.ranks.items() if not rank])
    accesses = Accesses.of(statement, types)
    late = check_begins(accesses) if once and target not in shaped else ()
    unsized = check_sized(statement, declared) if target not in shaped else ()
    runs = (*check_bounded(accesses, shaped, by_type, names), *check_inside(accesses, params))
    for mistake in (*unsized, *runs, *late):
        scope.report(mistake)


# The head


def _check_head(definition: Definition, scope: Scope, report: Report) -> None:
    for param in definition.params:
        name = param.name
        if name.name in scope.ranks:
            report(Mistake(f"the parameter `{name}` is there twice", name.span, "give one of them another name"))
        scope.ranks.setdefault(name.name, len(param.type.dims))
        scope.check_new(name, "a tensor")
        if name.name in scope.sizes:
            what = f"`{name}` is both a tensor and a size"
            report(Mistake(what, name.span, ONE_NAMESPACE))
    seen: set[str] = set()
    for result in definition.results:
        if result.name.name in seen:
            report(Mistake(f"the result `{result.name}` is there twice", result.name.span, "remove one"))
        seen.add(result.name.name)
        given = next((one.type for one in definition.params if one.name == result.name), None)
        if given and result.type and given != result.type:
            what = f"`{result.name}` comes in as {show_type(given)} and goes out as {show_type(result.type)}"
            report(Mistake(what, result.type.span, "leave out the type of the result"))
        if result.name.name not in scope.ranks:
            scope.check_new(result.name, "a tensor")
    if not definition.results:
        report(Mistake(f"`{definition.name}` has no result", definition.name.span, "write `-> (C)` before the `{`"))


def _check_results(definition: Definition, scope: Scope, report: Report) -> None:
    results = [one.name.name for one in definition.results]
    for result in definition.results:
        name = result.name
        if name.name not in scope.written:
            spare = [one for one in scope.written if one not in results]
            fix = meant(name.name, spare, f"write a statement `{name}(…) = …`, or take it out of the results")
            report(Mistake(f"nothing defines the result `{name}`", name.span, fix))
        elif result.type and len(result.type.dims) != scope.ranks[name.name]:
            _report_rank(result, scope.ranks[name.name], report)
    called = {target.name for one in definition.body if isinstance(one, Invoke) for target in one.targets}
    for one, place in scope.written.items():
        if one not in results and one not in scope.read and one not in scope.params | scope.sizes:
            fix = meant(one, [result for result in results if result not in scope.written])
            aside = "write `_` for it" if one in called else f"make it a result: `-> (…, {one})`"
            scope.doubt(Mistake(f"nothing uses `{one}`", place.span, fix or aside))


def _report_rank(result: Result, rank: int, report: Report) -> None:
    assert result.type
    axes = counted(len(result.type.dims), "axis", "axes")
    what = f"`{result.name}` is declared with {axes} and defined with {rank}"
    report(Mistake(what, result.type.span, "make both the same, or leave out the type"))


# Types


def _types(definition: Definition, done: Mapping[str, Checked], report: Report) -> dict[str, str]:
    """The types of all tensors: declared, or the least that holds what the statements put into them."""
    declared = {one.name.name: one.type.dtype for one in definition.results if one.type}
    declared |= {one.name.name: one.type.dtype for one in definition.params}
    found = dict(declared)
    while True:  # types only rise, and there are few
        before = dict(found)
        for statement in definition.body:
            for target, dtype in _results(statement, found, done, lambda mistake: None):
                if target.name not in declared:
                    found[target.name] = join_types(found.get(target.name, UNKNOWN), dtype)
        if found == before:
            break
    types = {name: settled(dtype) for name, dtype in found.items()}
    for statement in definition.body:
        for target, dtype in _results(statement, types, done, report):
            if target.name in declared:
                _check_fits(target, dtype, declared[target.name], report)
    return types


def _results(
    statement: Statement, types: Mapping[str, str], done: Mapping[str, Checked], report: Report
) -> list[tuple[Ident, str]]:
    """The tensors a statement writes, and the type it gives each."""
    if isinstance(statement, Comprehension):
        variables = local_types(statement, types)
        for clause in statement.where:
            for part in where_exprs(clause):
                dtype = type_of(part, types, variables, report)
                if isinstance(clause, Between) and not any(isinstance(one, Read) for one in walk(part)):
                    check_whole(part, dtype, "the end of a range", report)
        for part in computed_subscripts(statement):
            check_whole(part, type_of(part, types, variables, report), "a subscript", report)
        dtype = type_of(statement.value, types, variables, report)
        return [(statement.target, accumulated(dtype, statement.reduction))]
    callee = done.get(statement.function.name)
    if callee is None:
        return [(target, UNKNOWN) for target in statement.targets]
    for param, arg in zip(callee.definition.params, statement.args, strict=False):
        check_argument(statement, param, arg, types, report)
    gives = [callee.types.get(one.name.name, UNKNOWN) for one in callee.definition.results]
    return [pair for pair in zip(statement.targets, gives, strict=False) if pair[0].name != UNWANTED]


def _check_fits(target: Ident, dtype: str, declared: str, report: Report) -> None:
    if not fits(dtype, declared):
        what = f"`{target}` is declared {spelled(declared)}, and this is {spelled(settled(dtype))}"
        report(Mistake(what, target.span, f"convert the right side: `{spelled(declared)}(…)`"))

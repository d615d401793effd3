"""Is a call of another definition meaningful, given the tensors defined before it?"""

from __future__ import annotations

from collections.abc import Mapping

from weft.comprehension.builtins import BUILTINS, spelled
from weft.comprehension.mistakes import Mistake, counted, meant
from weft.comprehension.nodes import UNWANTED, Expr, Ident, Index, Int, Invoke, Param, Read, Unary, walk
from weft.comprehension.scope import Checked, Scope
from weft.comprehension.show import show_expr
from weft.comprehension.statements import check_expr
from weft.comprehension.types import Report, fits, settled, type_of
from weft.ops.dtypes import UNKNOWN, limits


def check_call(call: Invoke, scope: Scope, done: Mapping[str, Checked]) -> None:
    """Reports what is wrong with a call, and takes its targets into the scope."""
    callee = done.get(call.function.name)
    for arg in call.args:
        _check_given(arg, scope)
    if callee is not None:
        _check_counts(call, callee, scope)
        _check_ranks(call, callee, scope)
    elif call.function.name not in scope.functions:
        what = f"there is no definition `{call.function}` in the text"
        known = [*scope.functions, *scope.ranks, *BUILTINS]
        scope.wrong(what, call.function.span, meant(call.function.name, known, "define it with `def`"))
    results = callee.definition.results if callee else ()
    for number, target in enumerate(call.targets):
        result = results[number].name.name if number < len(results) else ""
        if target.name != UNWANTED:
            _check_target(target, result, call, callee, scope)
            scope.define(target, callee.ranks.get(result, 0) if callee else 0)
        elif callee and result in callee.accumulates:
            what = f"`{call.function}` accumulates into `{result}`, and nothing says from what"
            scope.wrong(what, target.span, "give it the name of a tensor that is defined")


def _check_given(arg: Expr, scope: Scope) -> None:
    if isinstance(arg, Read) and not arg.subscripts:
        scope.check_read(arg.tensor, arg.span)
    elif isinstance(arg, Index):
        scope.check_read(arg.name, arg.span)
    elif index := next((one for one in walk(arg) if isinstance(one, Index)), None):
        what = f"`{index.name}` is an index, and a call has none"
        scope.wrong(what, index.span, "pass whole tensors, sizes and numbers")
    else:
        check_expr(arg, scope)


def _check_target(target: Ident, result: str, call: Invoke, callee: Checked | None, scope: Scope) -> None:
    """A call fills a new tensor, unless the definition goes on from what the tensor holds."""
    if not scope.check_target(target):
        return
    if callee and result in callee.accumulates:
        if target.name in scope.ranks:
            scope.read.add(target.name)
        elif target.name in scope.results:
            scope.accumulates.append(target.name)
        else:
            what = f"`{call.function}` goes on from what `{target}` holds, and nothing has defined it"
            scope.wrong(what, target.span, f"define it before, or write `!` after the `=` in `{call.function}`")
    elif target.name in scope.ranks and not (callee and _in_place(target, result, call, callee)):
        what = f"`{target}` is already defined, and a call fills a new tensor"
        scope.wrong(what, target.span, "give the result of the call another name")


def _in_place(target: Ident, result: str, call: Invoke, callee: Checked) -> bool:
    """Is a target what the definition called goes on from?"""
    pairs = zip(callee.definition.params, call.args, strict=False)
    return any(param.name.name == result and arg == Read(target.name) for param, arg in pairs)


def _check_counts(call: Invoke, callee: Checked, scope: Scope) -> None:
    params, results = callee.definition.params, callee.definition.results
    name = call.function.name
    if len(params) != len(call.args):
        what = f"`{name}` takes {counted(len(params), 'tensor')}, not {len(call.args)}"
        scope.wrong(what, call.function.span, f"its parameters are {', '.join(one.name.name for one in params)}")
    if len(results) != len(call.targets):
        what = f"`{name}` gives {counted(len(results), 'tensor')}, not {len(call.targets)}"
        names = ", ".join(one.name.name for one in results)
        scope.wrong(what, call.targets[0].span, f"its results are {names}; write `_` for one that is not wanted")


def _check_ranks(call: Invoke, callee: Checked, scope: Scope) -> None:
    for param, arg in zip(callee.definition.params, call.args, strict=False):
        rank = scope.ranks.get(arg.tensor) if isinstance(arg, Read) and not arg.subscripts else 0
        if rank is not None and rank != len(param.type.dims) and not isinstance(arg, Index):
            what = f"`{call.function}` takes `{param.name}` with {counted(len(param.type.dims), 'axis', 'axes')}"
            what += f", and `{show_expr(arg)}` has {rank}"
            scope.wrong(what, arg.span, "pass another tensor")


def check_argument(call: Invoke, param: Param, arg: Expr, types: Mapping[str, str], report: Report) -> None:
    """Reports an argument whose type is not that of the parameter."""
    wanted = param.type.dtype
    whole = isinstance(arg, Read) and not arg.subscripts
    dtype = type_of(arg, types, {}, report)
    if dtype in (UNKNOWN, wanted) or isinstance(arg, Index) or (not whole and fits(dtype, wanted)):
        if not _holds(arg, wanted):
            fix = "pass another number, or change the type of the parameter"
            report(Mistake(f"`{param.name}` is {spelled(wanted)}, which has no {show_expr(arg)}", arg.span, fix))
        return
    what = f"`{call.function}` takes `{param.name}` as {spelled(wanted)}"
    what += f", and `{show_expr(arg)}` is {spelled(settled(dtype))}"
    fix = f"convert it: `{spelled(wanted)}({show_expr(arg)})`"
    if whole and param.type.dims:
        at = f"({', '.join('ijklmnopq'[: len(param.type.dims)])})"
        new = f"{show_expr(arg)}_{spelled(wanted)}"
        fix = f"convert it in a statement before, and pass that: `{new}{at} = {spelled(wanted)}({show_expr(arg)}{at})`"
    report(Mistake(what, arg.span, fix))


def _holds(arg: Expr, dtype: str) -> bool:
    """Is a number that is written one of a type?"""
    sign, number = (-1, arg.value) if isinstance(arg, Unary) and arg.op == "-" else (1, arg)
    low, high = limits(dtype)
    return not isinstance(number, Int) or dtype == "bool" or low <= sign * number.value <= high

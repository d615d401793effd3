"""Is a statement meaningful, given the tensors defined before it?"""

from __future__ import annotations

from weft.comprehension.accesses import place_of
from weft.comprehension.build import MAX_DEPTH
from weft.comprehension.builtins import BUILTINS, SCALAR_TYPES
from weft.comprehension.mistakes import counted, listed, meant
from weft.comprehension.nodes import (
    Apply,
    Between,
    Binary,
    Comprehension,
    Dim,
    Exists,
    Expr,
    Ident,
    Index,
    Int,
    Let,
    Local,
    Read,
    children,
    computed_subscripts,
    exprs,
    indices,
    left,
    reduced,
    walk,
)
from weft.comprehension.scope import ONE_NAMESPACE, Scope
from weft.comprehension.show import show_expr, show_left, show_sign
from weft.errors import Span

#: A right side of more parts than this, names put in, is refused.
MAX_PARTS = 10_000


def check_statement(statement: Comprehension, scope: Scope) -> None:
    """Reports what is wrong with a statement, and takes its target into the scope."""
    scope.check_target(statement.target)
    _check_left(statement, scope)
    _check_where(statement, scope)
    for expr in exprs(statement):
        check_expr(expr, scope, statement)
    if statement.equivalent:
        for expr in statement.equivalent.args:
            check_expr(expr, scope, statement)
    _check_expanded(statement, scope)
    _check_reduction(statement, scope)
    _check_start(statement, scope)
    _check_own_reads(statement, scope)
    scope.define(statement.target, len(statement.at))


def _check_left(statement: Comprehension, scope: Scope) -> None:
    target, seen = statement.target, set[str]()
    for index in statement.at:
        if not isinstance(index, Index):
            continue
        if index.name in seen:
            fix = f"write two indices and choose: `{target}(i, j) = i == j ? … : 0`"
            scope.wrong(f"the index `{index.name}` is on the left twice", index.span, fix)
        seen.add(index.name)
        _check_index(index, scope)
    rank = scope.ranks.get(target.name)
    if rank is not None and rank != len(statement.at):
        where = "declared" if target.name in scope.params else "first defined"
        what = f"`{target}` is {where} with {counted(rank, 'axis', 'axes')} and has {len(statement.at)} here"
        scope.wrong(what, target.span, "use as many indices, or another name")
    _check_computed(statement, scope)


def _check_computed(statement: Comprehension, scope: Scope) -> None:
    """What is written where subscripts are computed may meet there: it is accumulated, or which one stays is chance."""
    for one in computed_subscripts(statement):
        if statement.reduction is None:
            what = f"`{show_expr(one)}` is computed, and `=` does not say what becomes of points where it is the same"
            fix = f"say how they combine: `{show_left(statement)} +=! …`, or `*=!`, `min=!`, `max=!`"
            scope.wrong(what, one.span, f"{fix}; or write an index there, and choose on the right")


def _check_index(index: Ident | Index, scope: Scope) -> bool:
    """Is a name free to be an index?"""
    kind = "a size" if index.name in scope.sizes else "a tensor" if _is_tensor(index.name, scope) else ""
    if kind:
        scope.wrong(f"`{index.name}` is {kind} and cannot be an index", index.span, ONE_NAMESPACE)
    return not kind


def _is_tensor(name: str, scope: Scope) -> bool:
    return name in scope.ranks or name in scope.to_come or name in scope.results


# Clauses


def _check_where(statement: Comprehension, scope: Scope) -> None:
    bounded, named = set[str](), set[str]()
    lets = {one.name.name for one in statement.lets}
    kept = set(left(statement))
    for clause in statement.where:
        match clause:
            case Between(index=index):
                if index.name in lets:
                    scope.wrong(f"`{index}` is a value and has no range", index.span, "give the range of an index")
                if index.name in bounded:
                    scope.wrong(f"`{index}` is given two ranges", index.span, "keep one of them")
                bounded.add(index.name)
                if index.name not in kept:
                    _check_index(index, scope)
                for bound in (clause.low, clause.high):
                    _check_size(bound, scope)
            case Exists(value=value):
                if not any(isinstance(one, Read) and one.subscripts for one in walk(value)):
                    scope.wrong("`exists` needs a tensor that is read", value.span, "write `exists A(i)`")
            case Let(name=name, value=value):
                _check_let(name, value, kept, named, lets, scope)
                named.add(name.name)


def _check_let(name: Ident, value: Expr, kept: set[str], named: set[str], lets: set[str], scope: Scope) -> None:
    if name.name in named:
        scope.wrong(f"`{name}` is given two values", name.span, "give one of them another name")
    elif name.name in scope.sizes or _is_tensor(name.name, scope) or name.name in kept:
        kind = "a size" if name.name in scope.sizes else "an index" if name.name in kept else "a tensor"
        scope.wrong(f"`{name}` is {kind} already", name.span, ONE_NAMESPACE)
    scope.check_new(name, "a value")
    for one in walk(value):
        if isinstance(one, Local) and one.name in lets - named:
            fix = "put the clause that gives it before this one"
            scope.wrong(f"`{one.name}` is used before it has a value", one.span, fix)


def _check_expanded(statement: Comprehension, scope: Scope) -> None:
    """Names of values are put in where they stand: what comes of that must stay small."""
    named: dict[str, tuple[int, int]] = {}

    def measure(expr: Expr) -> tuple[int, int]:
        """How many parts an expression has, and how deeply they are nested."""
        if isinstance(expr, Local):
            return named.get(expr.name, (1, 1))
        inner = [measure(part) for part in children(expr)]
        return 1 + sum(parts for parts, _ in inner), 1 + max((depth for _, depth in inner), default=0)

    for let in statement.lets:
        named[let.name.name] = measure(let.value)
    parts, depth = measure(statement.value)
    if parts > MAX_PARTS or depth > MAX_DEPTH:
        what = f"with the names of `where` put in, the right side has {parts} parts, {depth} levels deep"
        scope.wrong(what, statement.value.span, "compute some of them in statements of their own: `t(i) = …`")


def _check_size(bound: Expr, scope: Scope) -> None:
    """Bounds are known before anything is read."""
    for one in walk(bound):
        match one:
            case Index(name=name):
                fix = meant(name, scope.sizes, f"the sizes here are {listed(sorted(scope.sizes))}")
                scope.wrong(f"`{name}` is no size, and a range is made of sizes", one.span, fix)
            case Read(tensor=tensor):
                fix = f"use a size, such as `{tensor}.0`"
                if not scope.ranks.get(tensor, 1):
                    fix = f"pass a tensor of that length for the number `{tensor}`, and use its size"
                scope.wrong("a range cannot depend on what a tensor holds", one.span, fix)
            case Local(name=name):
                scope.wrong(f"`{name}` is no size, and a range is made of sizes", one.span, "write it out")


# Expressions


def check_expr(expr: Expr, scope: Scope, by: Comprehension | None = None) -> None:
    """Reports what is wrong with an expression of a statement, or of a call."""
    for one in walk(expr):
        match one:
            case Read(tensor=tensor) if by and tensor == by.target.name and tensor not in scope.ranks:
                _check_recurrence(one, by, scope)
            case Read(tensor=tensor, subscripts=subscripts):
                if scope.check_read(tensor, _head(one.span, tensor)):
                    _check_subscripts(one, len(subscripts), scope)
            case Dim(tensor=tensor, axis=axis):
                if tensor in scope.sizes:
                    scope.wrong(f"`{tensor}` is a size and has no axes", one.span, f"write `{tensor}`")
                elif scope.check_read(tensor, one.span) and axis >= scope.ranks[tensor]:
                    axes = [f"`{tensor}.{one}`" for one in range(scope.ranks[tensor])]
                    what = f"`{tensor}` has {counted(len(axes), 'axis', 'axes')}, counted from 0"
                    scope.wrong(what, one.span, f"write {' or '.join(axes)}" if axes else "it is a single number")
            case Apply():
                _check_apply(one, scope)


def _check_recurrence(read: Read, by: Comprehension, scope: Scope) -> None:
    """A statement that reads what it defines: other cells, which it comes to before."""
    target, shown = by.target.name, show_left(by)
    what = f"`{target}` is read by the statement that defines it"
    place = _head(read.span, target)
    if len(read.subscripts) != len(by.at):
        given = f"{counted(len(by.at), 'axis', 'axes')} and is read with {counted(len(read.subscripts), 'subscript')}"
        scope.wrong(f"`{target}` has {given}", read.span, f"write as many as in `{shown}`")
    elif read.subscripts == by.at:
        fix = (
            f"go on from what the caller passes: `{shown} {_going_on(read, by)} …`, or make `{target}` a parameter too"
        )
        scope.wrong(what, place, fix)
    elif any(isinstance(one, Int) for one in by.at):
        scope.wrong(what, place, f"a recurrence is one statement: `{target}(t, i) = t > 0 ? … : …`")


def _going_on(read: Read, by: Comprehension) -> str:
    """The sign by which a statement goes on from a cell that it reads itself."""
    uses = (one for one in walk(by.value) if isinstance(one, Binary) and read in (one.left, one.right))
    return "*=" if next((one.op for one in uses), "+") in ("*", "/") else "+="


def _head(span: Span, name: str) -> Span:
    return Span(span.start, span.start + len(name))


def _check_subscripts(read: Read, given: int, scope: Scope) -> None:
    rank = scope.ranks[read.tensor]
    if given == rank:
        return
    shown = f"{read.tensor}({', '.join('ijklmnopq'[:rank]) if rank < 10 else '…'})" if rank else read.tensor
    what = f"`{read.tensor}` has {counted(rank, 'axis', 'axes')} and is read with {counted(given, 'subscript')}"
    scope.wrong(what, read.span, f"write `{shown}`")


def _check_apply(one: Apply, scope: Scope) -> None:
    name, given = one.function, len(one.args)
    place = _head(one.span, name)
    if name in BUILTINS:
        if BUILTINS[name].arity != given:
            what = f"`{name}` takes {counted(BUILTINS[name].arity, 'argument')}, not {given}"
            scope.wrong(what, one.span, f"write `{name}({', '.join('xyzw'[: BUILTINS[name].arity])})`")
    elif name in scope.functions:
        fix = f"call it in a statement of its own: `x = {name}(A, B)`"
        scope.wrong(f"`{name}` is a definition: it takes whole tensors and fills whole ones", place, fix)
    elif name in scope.sizes:
        scope.wrong(f"`{name}` is a size and cannot be read", place, f"write `{name}`")
    else:
        fix = meant(name, [*scope.ranks, *BUILTINS, *SCALAR_TYPES], f"the tensors here are {listed(scope.ranks)}")
        scope.wrong(f"`{name}` is neither a tensor nor a builtin", place, fix)


# Reductions


def _check_reduction(statement: Comprehension, scope: Scope) -> None:
    names = reduced(statement)
    if statement.reduction is not None or not names or computed_subscripts(statement):
        return
    name = names[0]
    place = place_of(name, statement)
    lets = [one.name.name for one in statement.lets]
    if name in lets or name in scope.sizes or _is_tensor(name, scope):
        return  # a clause gives it a range, which is what is wrong with it
    scalars = [one for one, rank in scope.ranks.items() if not rank]
    sizes = [size for size in scope.sizes if size.lower() != name.lower()]  # `k` is what an axis of `K` is run along by
    guess = meant(name, [*scalars, *lets, *sizes, *(one for one in left(statement) if len(one) > 2)])
    what = f"`{name}` is not on the left, and `=` does not say how to reduce it"
    sign = f"write `{show_left(statement)} +=! …` to sum over it"
    scope.wrong(what, place, guess or f"{sign}, or `*=!`, `min=!`, `max=!`")


def _check_start(statement: Comprehension, scope: Scope) -> None:
    """What is accumulated into without `!` holds something already: by an earlier statement, or the caller's doing."""
    target = statement.target
    if statement.reduction is None or statement.resets or target.name in scope.ranks:
        return
    if target.name in scope.results:
        scope.accumulates.append(target.name)
        return
    sign = show_sign(statement)
    fix = f"write `{sign}!` to start afresh"
    scope.wrong(f"`{sign}` goes on from what `{target}` holds, and nothing has defined it", target.span, fix)


def _check_own_reads(statement: Comprehension, scope: Scope) -> None:
    """A statement may read what it writes only in the cell it writes, since cells are written in any order.

    Where both places are given by numbers, they may differ.
    """
    target = statement.target.name
    own = [one for expr in exprs(statement) for one in walk(expr) if isinstance(one, Read) and one.tensor == target]
    for read in own if target in scope.ranks else ():
        pairs = list(zip(read.subscripts, statement.at, strict=False))
        if any(isinstance(one, Int) and isinstance(other, Int) and one != other for one, other in pairs):
            continue
        if read.subscripts != statement.at:
            what = f"`{target}` is read while it is written, in another cell than `{show_left(statement)}`"
            fix = "write to a tensor of another name; a recurrence is the statement that defines its tensor"
            scope.wrong(what, read.span, fix)
        elif statement.reduction is not None and (statement.resets or set(indices(statement)) - set(left(statement))):
            what = f"`{target}` is read while it is accumulated"
            scope.wrong(what, read.span, "accumulate into a tensor of another name")

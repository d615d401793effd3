"""The one walk over the loop language: what nodes are made of, how they are made anew, what is around them.

    children, with_children       the scalars in a scalar, and it with others in their place
    parts, with_parts             the scalars of a statement itself
    body_of, with_body            the statements inside a statement
    walk, subexpressions          every scalar in one; in several, each once
    everything, scoped            every statement; every statement with what is around it
    rewritten, remade             a scalar by a rule, from the outside in; from the inside out, however deep it is
    substituted, expanded         with loops replaced by indices; with variables replaced by what they stand for
    map_scalars, block_at         all scalars of a statement; a block with loops replaced by indices
    around, perfect               loops put around a block; a block taken out of its loops
    top_down, bottom_up           statements by a rule
    free, mentioned               the loops that scalars mention, as often as they do; each once
    retargeted, rename            cells moved; loops and variables called differently
    own_accesses, accesses        which cells are read and written

A pass is its rule: what rules leave alone stays the very same object. A new kind of statement or scalar is told here,
where it is printed, and where it runs. Statements are nested as deep as loops are, scalars no deeper than `DEEPEST`, so
all of this may recurse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import is_
from typing import NamedTuple, TypeAlias

from weft.affine import Affine
from weft.loops.nodes import (
    Buffer,
    Cast,
    Fill,
    For,
    If,
    Inside,
    Let,
    Local,
    Program,
    Read,
    Remark,
    Set,
    Staged,
    Stmt,
    Store,
    Update,
)
from weft.ops import Call, Scalar, fold_tree

Body: TypeAlias = tuple[Stmt, ...]
#: The statements that have others inside.
BLOCKS = (For, If, Remark, Staged)
#: The statements that write memory, all of which have a `buffer`.
WRITING = (Store, Update, Fill)
#: The scalars that have others inside.
INNER = frozenset({Call, Read, Cast})
#: A loop: its name and size.
Loop: TypeAlias = tuple[str, int]
#: A cell by its buffer and subscripts.
Cell: TypeAlias = tuple[Buffer, tuple[Scalar, ...]]


def identical(new: Sequence[object], old: Sequence[object]) -> bool:
    """Are these the very same objects?"""
    return new is old or (len(new) == len(old) and all(map(is_, new, old)))


# Scalars


def children(scalar: Scalar) -> tuple[Scalar, ...]:
    """The scalars that a scalar is made of."""
    if type(scalar) is Call:
        return scalar.args
    if type(scalar) is Read:
        return scalar.at
    if type(scalar) is Cast:
        return (scalar.value,)
    return ()


def with_children(scalar: Scalar, new: tuple[Scalar, ...]) -> Scalar:
    """A scalar made of others in the same way; the very same if they are."""
    if all(map(is_, new, children(scalar))):
        return scalar
    if isinstance(scalar, Call):
        return Call(scalar.op, new)
    if isinstance(scalar, Read):
        return Read(scalar.buffer, new)
    assert isinstance(scalar, Cast)
    return Cast(scalar.dtype, new[0])


def walk(scalar: Scalar) -> list[Scalar]:
    """The scalar and everything inside it, subscripts of reads included, in the order written."""
    found = [scalar]
    if type(scalar) in INNER:
        _walk(scalar, found)
    return found


def _walk(scalar: Scalar, found: list[Scalar]) -> None:
    for one in children(scalar):
        found.append(one)
        if type(one) in INNER:
            _walk(one, found)


def subexpressions(*scalars: Scalar) -> Iterator[Scalar]:
    """Scalars and everything inside them in the order written, each once, however deep they are."""
    rest, seen = list(reversed(scalars)), set[int]()
    while rest:
        one = rest.pop()
        if id(one) not in seen:
            seen.add(id(one))
            yield one
            rest += reversed(children(one))


def rewritten(scalar: Scalar, rule: Callable[[Scalar], Scalar | None]) -> Scalar:
    """The scalar with some of its parts replaced, outermost first; the rule says None for what stays."""
    found = rule(scalar)
    if found is not None:
        return found
    inner = children(scalar)
    if not inner:
        return scalar
    new = tuple([rewritten(one, rule) for one in inner])
    return scalar if all(map(is_, new, inner)) else with_children(scalar, new)


def remade(scalar: Scalar, rule: Callable[[Scalar, tuple[Scalar, ...]], Scalar | None]) -> Scalar:
    """The scalar by a rule, innermost first, however deep it is: told what its parts became, it says None for the same
    of these."""

    def change(one: Scalar, parts: Sequence[Scalar]) -> Scalar:
        new = tuple(parts)
        found = rule(one, new)
        return with_children(one, new) if found is None else found

    return fold_tree(scalar, change, children)


def substituted(scalar: Scalar, values: Mapping[str, Affine]) -> Scalar:
    """The scalar with loops replaced by affine indices."""
    return rewritten(scalar, lambda one: one.substitute(values) if isinstance(one, Affine) else None)


def expanded(scalar: Scalar, known: Mapping[Local, Scalar]) -> Scalar:
    """The scalar with variables replaced by what they stand for."""
    return rewritten(scalar, lambda one: known.get(one) if isinstance(one, Local) else None)


def operations_in(scalar: Scalar) -> int:
    """How many operations a scalar takes, besides reading."""
    return sum(isinstance(one, Call) for one in walk(scalar))


def reads(scalar: Scalar) -> list[Read]:
    return [one for one in walk(scalar) if type(one) is Read] if type(scalar) in INNER else []


def variables(scalar: Scalar) -> list[Local]:
    """The variables a scalar mentions, as often as it does."""
    return [one for one in walk(scalar) if type(one) is Local] if type(scalar) is not Affine else []


def free(scalar: Scalar) -> list[str]:
    """The loops and static indices a scalar mentions."""
    if type(scalar) is Affine:
        return [name for _, name in scalar.terms]
    return [name for one in walk(scalar) if isinstance(one, Affine) for _, name in one.terms]


def mentioned(*scalars: Scalar) -> set[str]:
    """The loops and static indices that scalars mention."""
    return {name for one in scalars for name in free(one)}


def depth(scalar: Scalar) -> int:
    """How deep a scalar is nested, which may be deeper than the language allows."""
    deepest, level = 0, [scalar]
    while level:
        deepest += 1
        level = [part for one in level if type(one) in INNER for part in children(one)]
    return deepest


# Statements


def parts(stmt: Stmt) -> tuple[Scalar, ...]:
    """The scalars of a statement itself, without those of its body."""
    match stmt:
        case If(tests=tests):
            return tuple([test.index for test in tests])
        case Store(at=at, value=value) | Update(at=at, value=value):
            return (*at, value)
        case Let(value=value) | Set(value=value):
            return (value,)
    return ()


def with_parts(stmt: Stmt, new: tuple[Scalar, ...]) -> Stmt:
    """A statement with other scalars of its own; the very same if they are."""
    if all(map(is_, new, parts(stmt))):
        return stmt
    match stmt:
        case If(tests=tests, body=body):
            return If(tuple(Inside(one, test.size) for one, test in zip(new, tests, strict=True)), body)
        case Store(buffer=buffer):
            return Store(buffer, new[:-1], new[-1])
        case Update(buffer=buffer, op=op):
            return Update(buffer, new[:-1], op, new[-1])
        case Let(local=local):
            return Let(local, new[0])
        case Set(local=local):
            return Set(local, new[0])
    raise AssertionError(f"a statement without scalars: {stmt!r}")


def body_of(stmt: Stmt) -> Body:
    """The statements inside a statement."""
    return stmt.body if isinstance(stmt, BLOCKS) else ()


def with_body(stmt: Stmt, body: Body) -> Stmt:
    """A statement with another body; the very same if it is."""
    if identical(body, body_of(stmt)):
        return stmt
    match stmt:
        case For(loop=loop, size=size):
            return For(loop, size, body, stmt.how)
        case If(tests=tests):
            return If(tests, body)
        case Staged(what=what):
            return Staged(what, body)
        case Remark(text=text):
            return Remark(text, body)
    raise AssertionError(f"a statement without a body: {stmt!r}")


def around(loops: Sequence[Loop], body: Body) -> Body:
    """A block inside loops, the first outermost."""
    for name, size in reversed(loops):
        body = (For(name, size, body),)
    return body


def perfect(
    body: Sequence[Stmt], most: int | None = None, such: Callable[[For], bool] = lambda loop: True
) -> tuple[tuple[Loop, ...], Body]:
    """The loops, at most so many and all of them `such`, that a block is a perfect nest of; and what is inside them."""
    loops: list[Loop] = []
    while len(loops) != most and len(body) == 1 and isinstance(body[0], For) and such(body[0]):
        loops.append((body[0].loop, body[0].size))
        body = body[0].body
    return tuple(loops), tuple(body)


def everything(body: Sequence[Stmt]) -> list[Stmt]:
    """Every statement of a block and of the blocks inside it, in the order written."""
    found: list[Stmt] = []
    _everything(body, found)
    return found


def _everything(body: Sequence[Stmt], found: list[Stmt]) -> None:
    for stmt in body:
        found.append(stmt)
        if isinstance(stmt, BLOCKS):
            _everything(stmt.body, found)


def operations(body: Sequence[Stmt]) -> set[str]:
    """The operations that a block computes."""
    scalars = (one for stmt in everything(body) for part in parts(stmt) for one in walk(part))
    return {one.op for one in scalars if type(one) is Call}


def block_at(body: Sequence[Stmt], values: Mapping[str, Affine]) -> Body:
    """A block with loops around it replaced by affine indices."""
    return tuple([map_scalars(one, lambda scalar: substituted(scalar, values)) for one in body])


def map_scalars(stmt: Stmt, change: Callable[[Scalar], Scalar]) -> Stmt:
    """A statement with the scalars of itself and its body changed."""
    if isinstance(stmt, BLOCKS):
        stmt = with_body(stmt, tuple([map_scalars(one, change) for one in stmt.body]))
    old = parts(stmt)
    new = tuple([change(one) for one in old])
    return stmt if all(map(is_, new, old)) else with_parts(stmt, new)


#: What becomes of a statement; None where only what is inside it may change.
Rewrite: TypeAlias = Callable[[Stmt], "Sequence[Stmt] | None"]


def top_down(body: Sequence[Stmt], rule: Rewrite) -> Body:
    """A block by a rule for statements, the outer ones first; what the rule makes is left as it is."""
    done: list[Stmt] = []
    for stmt in body:
        found = rule(stmt)
        if found is not None:
            done += found
        else:
            done.append(with_body(stmt, top_down(stmt.body, rule)) if isinstance(stmt, BLOCKS) else stmt)
    return body if isinstance(body, tuple) and identical(done, body) else tuple(done)


def bottom_up(body: Sequence[Stmt], rule: Callable[[Stmt], Sequence[Stmt]]) -> Body:
    """A block by a rule for statements, the inner ones first: it sees what has become of their bodies."""
    done: list[Stmt] = []
    for stmt in body:
        done += rule(with_body(stmt, bottom_up(stmt.body, rule)) if isinstance(stmt, BLOCKS) else stmt)
    return body if isinstance(body, tuple) and identical(done, body) else tuple(done)


# What is around


class PathStep(NamedTuple):
    """A statement on the way to another: its number in its block, and the loop or the tests it puts around."""

    position: int
    loop: Loop | None = None
    tests: tuple[Inside, ...] = ()
    #: Does a backend place what is inside, in an order of its own?
    staged: bool = False


class Scope(NamedTuple):
    """What is around a statement: the steps to its block, outermost first, its number there, the variables known."""

    around: tuple[PathStep, ...] = ()
    position: int = 0
    variables: frozenset[Local] = frozenset()

    @property
    def steps(self) -> tuple[PathStep, ...]:
        """The steps to the statement, its own last."""
        return *self.around, PathStep(self.position)

    @property
    def loops(self) -> tuple[Loop, ...]:
        return tuple([step.loop for step in self.around if step.loop is not None])

    @property
    def tests(self) -> tuple[Inside, ...]:
        return tuple([test for step in self.around for test in step.tests])


def scoped(body: Sequence[Stmt]) -> list[tuple[Stmt, Scope]]:
    """Every statement of a block and of the blocks inside it, in the order written, with what is around it."""
    found: list[tuple[Stmt, Scope]] = []
    _scoped(body, (), frozenset(), found)
    return found


def _scoped(
    body: Sequence[Stmt], around: tuple[PathStep, ...], known: frozenset[Local], found: list[tuple[Stmt, Scope]]
) -> None:
    for position, stmt in enumerate(body):
        found.append((stmt, Scope(around, position, known)))
        if isinstance(stmt, Let):
            known = known | {stmt.local}
        elif isinstance(stmt, BLOCKS):
            loop = (stmt.loop, stmt.size) if isinstance(stmt, For) else None
            tests = stmt.tests if isinstance(stmt, If) else ()
            step = PathStep(position, loop, tests, isinstance(stmt, Staged))
            _scoped(stmt.body, (*around, step), known, found)


class Access(NamedTuple):
    """A cell that code touches, by its subscripts; a fill, which touches all cells, has none."""

    buffer: Buffer
    at: tuple[Scalar, ...] | None
    writes: bool


def own_accesses(stmt: Stmt) -> list[Access]:
    """The accesses of a statement itself, without those of its body, in the order written."""
    if type(stmt) is For:
        return []
    match stmt:
        case Store(buffer=buffer, at=at, value=value):
            return [*_reads((value, *at)), Access(buffer, at, True)]
        case Update(buffer=buffer, at=at, value=value):
            return [*_reads((value, *at)), Access(buffer, at, False), Access(buffer, at, True)]
        case Fill(buffer=buffer):
            return [Access(buffer, None, True)]
    return _reads(parts(stmt))


def _reads(scalars: Iterable[Scalar]) -> list[Access]:
    inner = [one for one in scalars if type(one) in INNER]
    return [Access(read.buffer, read.at, False) for scalar in inner for read in reads(scalar)] if inner else []


def accesses(body: Sequence[Stmt]) -> list[Access]:
    """Every access in a block, in the order written."""
    return [one for stmt in everything(body) for one in own_accesses(stmt)]


def buffers_of(program: Program) -> tuple[Buffer, ...]:
    """Every buffer a program reads or writes, in order of first mention."""
    found: dict[Buffer, None] = {}
    for stmt in everything(program.body):
        if isinstance(stmt, WRITING):
            found[stmt.buffer] = None
        for part in parts(stmt):
            for one in reads(part):
                found[one.buffer] = None
    return tuple(found)


# Cells and names


def retargeted(body: Sequence[Stmt], cell: Callable[[Buffer, tuple[Scalar, ...]], Cell]) -> Body:
    """A block with every cell it reads or writes replaced; subscripts come with their own cells replaced."""

    def scalar(one: Scalar) -> Scalar:
        return rewritten(one, lambda part: Read(*moved(part.buffer, part.at)) if isinstance(part, Read) else None)

    def moved(buffer: Buffer, at: tuple[Scalar, ...]) -> Cell:
        return cell(buffer, tuple([scalar(one) for one in at]))

    def change(stmt: Stmt) -> Stmt:
        match stmt:
            case Store(buffer=buffer, at=at, value=value):
                return Store(*moved(buffer, at), scalar(value))
            case Update(buffer=buffer, at=at, op=op, value=value):
                return Update(*moved(buffer, at), op, scalar(value))
            case Fill(buffer=buffer, value=value):
                return Fill(cell(buffer, ())[0], value)
        own, inner = with_parts(stmt, tuple([scalar(one) for one in parts(stmt)])), body_of(stmt)
        return with_body(own, tuple([change(one) for one in inner])) if inner else own

    return tuple([change(stmt) for stmt in body])


#: What loops and static indices, by name, and variables are called.
Renaming: TypeAlias = Mapping[str | Local, str]


def rename(
    body: Sequence[Stmt],
    bound: Callable[[For | Let], str],
    known: Renaming | None = None,
    index: Callable[[Affine, Renaming], Affine] | None = None,
) -> Body:
    """A block whose loops and variables are called what `bound` says of the statements that bind them.

    `known` is what those of the blocks around are called; `index` is told that as well where it renames an index in its
    own way. Each use is called after the statement that binds it: if `bound` gives no name twice, and none that is used
    inside otherwise, none is mistaken for another.
    """
    here = dict(known or {})

    def leaf(one: Scalar) -> Scalar | None:
        if isinstance(one, Local):
            return Local(here[one], one.dtype) if one in here else one
        if not isinstance(one, Affine):
            return None
        if index is not None:
            return index(one, here)
        return Affine(tuple([(factor, here.get(name, name)) for factor, name in one.terms]), one.offset)

    done: list[Stmt] = []
    for old in body:
        stmt = with_parts(old, tuple([rewritten(one, leaf) for one in parts(old)]))
        match stmt:
            case For(loop=loop, size=size, body=inner):
                assert isinstance(old, For)
                name = bound(old)
                done.append(For(name, size, rename(inner, bound, {**here, loop: name}, index), stmt.how))
            case Let(local=local, value=value):
                assert isinstance(old, Let)
                here[local] = bound(old)
                done.append(Let(Local(here[local], local.dtype), value))
            case Set(local=local, value=value):
                done.append(Set(Local(here.get(local, local.name), local.dtype), value))
            case If() | Remark() | Staged():
                done.append(with_body(stmt, rename(stmt.body, bound, here, index)))
            case _:
                done.append(stmt)
    return tuple(done)

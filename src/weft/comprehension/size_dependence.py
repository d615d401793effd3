"""Which sizes of the parameters each axis of a tensor may depend on, by the text alone.

An index runs as far as the subscripts it stands in allow, and those share indices with others: indices that meet, in a
subscript, a range or a choice, make a group, and nothing outside of it has a say. In

    y(b, t) +=! x(b, t + k) * w(k)        of x(B,T), w(K)

`t` and `k` meet, and `y` is as long as `T` and `K` make it, however many `b` there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from weft.comprehension.accesses import Accesses
from weft.comprehension.nodes import Comprehension, Definition, Expr, Ident, Index, Int, Invoke, Let, Size, exprs, walk
from weft.comprehension.scope import Checked

#: Of each axis of a tensor, the sizes that it may depend on.
Dependences: TypeAlias = tuple[frozenset[str], ...]


@dataclass(frozen=True, slots=True)
class _Meeting:
    """Indices that bound each other, and the sizes that bound them."""

    indices: frozenset[str]
    sizes: frozenset[str]


def find_dependences(checked: Checked) -> dict[str, Dependences]:
    """The sizes that axes depend on, for the parameters and for what the statements of a definition write.

    Tensors that calls give are left out: those may depend on everything.
    """
    definition = checked.definition
    found = {one.name.name: tuple(map(_named, one.type.dims)) for one in definition.params}
    from_calls = set[str]()
    for statement in definition.body:
        if isinstance(statement, Invoke):
            from_calls.update(one.name for one in statement.targets if one.name not in found)
        elif statement.target.name not in {*found, *from_calls}:
            found[statement.target.name] = _first_written(statement, definition, found, checked.types)
    return found


def _named(dim: Ident | Int) -> frozenset[str]:
    return frozenset() if isinstance(dim, Int) else frozenset({dim.name})


def _first_written(
    statement: Comprehension, definition: Definition, known: Mapping[str, Dependences], types: Mapping[str, str]
) -> Dependences:
    everything = frozenset(name for one in definition.params for dim in one.type.dims for name in _named(dim))
    declared = [one.type.dims for one in definition.results if one.name == statement.target and one.type]
    said = [_named(dim) for dim in declared[0]] if declared else [frozenset[str]()] * len(statement.at)
    meetings = list(_meetings(statement, known, types, everything))
    return tuple(
        own | _bounding(one.name, meetings) if isinstance(one, Index) else own if isinstance(one, Int) else everything
        for one, own in zip(statement.at, said, strict=True)
    )


def _meetings(
    statement: Comprehension, known: Mapping[str, Dependences], types: Mapping[str, str], everything: frozenset[str]
) -> Iterator[_Meeting]:
    accesses = Accesses.of(statement, types).every
    if any(access.guards for access in accesses) or any(isinstance(one, Let) for one in statement.where):
        # What a choice leaves out, and what a name stands for, may depend on all that the statement says.
        yield _Meeting(*_mentioned(exprs(statement)))
    for access in accesses:
        indices, sizes = _mentioned((access.subscript,))
        if access.tensor in known:
            sizes |= known[access.tensor][access.axis]
        elif access.tensor != statement.target.name:
            sizes = everything
        yield _Meeting(access.indices | indices, sizes)
    for name, clause in statement.given.items():
        indices, sizes = _mentioned((clause.low, clause.high))
        yield _Meeting(indices | {name}, sizes)


def _mentioned(parts: Iterable[Expr]) -> tuple[frozenset[str], frozenset[str]]:
    """The indices and the sizes that expressions name."""
    every = [one for part in parts for one in walk(part)]
    indices = frozenset(one.name for one in every if isinstance(one, Index))
    return indices, frozenset(one.name for one in every if isinstance(one, Size))


def _bounding(index: str, meetings: Iterable[_Meeting]) -> frozenset[str]:
    """The sizes that bound an index, and those it meets."""
    group, left, sizes = frozenset({index}), list(meetings), frozenset[str]()
    while met := [one for one in left if one.indices & group]:
        left = [one for one in left if not one.indices & group]
        group = group.union(*(one.indices for one in met))
        sizes = sizes.union(*(one.sizes for one in met))
    return sizes

"""A monoid: what an accumulation starts from, how it takes a value in, how two of its states join, what comes of them.

    mean    start (0, 0)    of x: (x, 1)    combine (s, n), (t, m): (s + t, n + m)    result (s, n): s / n

A state is one number or several. The functions are scalar expressions, traced once over `Formal`s; those of several
numbers share parts. `declare.py` makes rows of the table of them, so that passes see an operation that accumulates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from weft.ops.scalar import Call, Scalar, computed, leaves

#: Those that need no declaration (`monoids.py`).
OWN_MONOIDS = ("logsumexp", "mean", "var", "argmax", "argmin")


@dataclass(frozen=True, slots=True)
class Formal(Scalar):
    """The n-th number that a traced function is given."""

    number: int


@dataclass(frozen=True, slots=True, eq=False)
class ShortCut:
    """How values one after another accumulate in less: in as many numbers as a state has, which `closed` makes one of.

    `begun` is given the state of the first value of all; `taken` what is accumulated, the state of a value, no matter
    if it is the first one, that comes after all that were, and the state of the first; `joined` what two of several
    accumulated, of values in any order, where that is not joined as states are; `closed` what all did, the state of the
    first, and how many they are. There may be `most` at most, so that the result is as good; with `narrow`, states must
    be wider than values are.
    """

    begun: tuple[Scalar, ...]
    taken: tuple[Scalar, ...]
    joined: tuple[Scalar, ...] | None
    closed: tuple[Scalar, ...]
    most: int
    narrow: bool


@dataclass(frozen=True, slots=True, eq=False)
class Monoid:
    """How values accumulate. `of` is given a value and its position among those accumulated; `combine` two states.

    `dtype` is what the result is stored in, if not in what it is computed in. Of fewer values than `fewest` there is no
    result. `wide`: fractions are carried in double precision. With `ranks` there are so many results, along an axis:
    `result` is given a rank after the state. With `ends` an infinite start is the end of whichever type values have.
    A `short_cut` is for values that come one after another.
    """

    name: str
    start: tuple[float | int | bool, ...]
    of: tuple[Scalar, ...]
    combine: tuple[Scalar, ...]
    result: Scalar
    commutative: bool = True
    dtype: str = ""
    fewest: int = 0
    wide: bool = False
    ranks: int = 0
    ends: bool = False
    short_cut: ShortCut | None = None

    def __repr__(self) -> str:
        return f"<monoid {self.name}>"

    @property
    def size(self) -> int:
        """How many numbers a state has."""
        return len(self.start)

    @property
    def plain(self) -> bool:
        """Is a state the result itself, so that an accumulation can go on from it?"""
        return self.result == Formal(0)

    @property
    def positional(self) -> bool:
        """Does it matter where a value stands?"""
        return any(one == Formal(1) for part in self.of for one in leaves(part))

    def lifted(self, value: Scalar, position: Scalar, count: Scalar) -> tuple[Scalar, ...]:
        """The state of one value of so many."""
        return over_numbers(self.of, (value, position, count))

    def joined(self, left: Sequence[Scalar], right: Sequence[Scalar]) -> tuple[Scalar, ...]:
        """The state of what two states stand for together."""
        return over_numbers(self.combine, (*left, *right))

    def finished(self, state: Sequence[Scalar], rank: Scalar | None, count: Scalar) -> Scalar:
        """What a state of so many values comes to; one of several ranks."""
        return over_numbers((self.result,), state if rank is None else (*state, rank, count))[0]

    @property
    def operations(self) -> int:
        """How many operations join two states."""
        seen, rest = set[int](), list(self.combine)
        while rest:
            one = rest.pop()
            if isinstance(one, Call) and id(one) not in seen:
                seen.add(id(one))
                rest += one.args
        return len(seen)

    @property
    def definition(self) -> str:
        """All that it computes, as a text; not what it is called."""
        numbers: dict[str, int] = {}

        def number(text: str) -> str:
            return f"${numbers.setdefault(text, len(numbers))}"

        def call(one: Call, args: Sequence[str]) -> str:
            return number(f"{one.op}({','.join(args)})")

        cut = self.short_cut
        short = (*cut.begun, *cut.taken, *(cut.joined or ()), *cut.closed) if cut else ()
        ends = [computed(one, repr, call) for one in (*self.of, *self.combine, self.result, *short)]
        facts = (
            self.commutative,
            self.dtype,
            self.fewest,
            self.wide,
            self.ranks,
            self.ends,
            cut and (cut.most, cut.narrow),
        )
        return f"{self.start} {ends} {list(numbers)} {facts}"


def over_numbers(values: Sequence[Scalar], params: Sequence[Scalar]) -> tuple[Scalar, ...]:
    """Traced values over other numbers; what they share they go on sharing."""
    known: dict[int, Scalar] = {}

    def call(one: Call, args: Sequence[Scalar]) -> Scalar:
        if id(one) not in known:
            known[id(one)] = Call(one.op, tuple(args))
        return known[id(one)]

    def leaf(one: Scalar) -> Scalar:
        return params[one.number] if isinstance(one, Formal) else one

    return tuple(computed(one, leaf, call) for one in values)

"""The monoids that weft declares itself, each as a user would."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, reduce
from math import inf, nan

from weft.arguments import whole_number
from weft.errors import WeftError
from weft.ops.declare import interned, traced
from weft.ops.monoid import Formal, Monoid, ShortCut
from weft.ops.scalar import Number, Scalar, call, scalar, where

#: A position that comes after all others, and what it is where there are no others.
NOWHERE, NONE = 2**31 - 1, -1
#: So many of the largest a state holds at most.
MOST_RANKS = 32
#: Any number of values.
ANY = 2**63 - 1

Pair = tuple[Scalar, Scalar]
Triple = tuple[Scalar, Scalar, Scalar]
StateTuple = tuple[Scalar, ...]
MadeNumbers = tuple[Number, ...]
Comparison = Callable[[Scalar, Scalar], Scalar]


def _short_cut(
    size: int,
    begun: Callable[[StateTuple], MadeNumbers],
    taken: Callable[[StateTuple, StateTuple, StateTuple], MadeNumbers],
    joined: Callable[[StateTuple, StateTuple], MadeNumbers] | None,
    closed: Callable[[StateTuple, StateTuple, Scalar], MadeNumbers],
    most: int = ANY,
    narrow: bool = False,
) -> ShortCut:
    """What functions make of values one after another, by states of so many numbers."""
    one, other, first = (tuple(map(Formal, range(at, at + size))) for at in (0, size, 2 * size))

    def made(numbers: MadeNumbers) -> StateTuple:
        return tuple(map(scalar, numbers))

    ends = joined and made(joined(one, other)), made(closed(one, other, Formal(2 * size)))
    return ShortCut(made(begun(one)), made(taken(one, other, first)), *ends, most, narrow)


def _log_sum(a: Pair, b: Pair) -> Pair:
    """The largest, and the sum of exponentials of how far each lies below it; equal infinities are not apart."""
    below = where(call("eq", a[0], b[0]), 1, call("exp", -abs(a[0] - b[0])))
    return call("max", a[0], b[0]), where(a[0] < b[0], a[1] * below + b[1], a[1] + b[1] * below)


def _added(a: Pair, b: Pair) -> Pair:
    return a[0] + b[0], a[1] + b[1]


def _spread(a: Triple, b: Triple) -> Triple:
    """How many, their mean, the squares of their distances from it: Chan's way to join two such."""
    total, apart = a[0] + b[0], b[1] - a[1]
    share = b[0] / call("max", total, 1.0)
    return total, a[1] + apart * share, a[2] + b[2] + apart * apart * (a[0] * share)


#: Sums of how far values are from the first of them, and of squares of that. It is one of the n itself, so that these
#: squares come to n + 1 times those of distances from the mean at most: that is how much may cancel. Where states are
#: wider than values, so many leave a result as good as any.
_SHIFTED = _short_cut(
    3,
    lambda first: (0.0, 0.0, 0.0),
    lambda a, x, first: (a[0], a[1] + (x[1] - first[1]), a[2] + (x[1] - first[1]) * (x[1] - first[1])),
    lambda a, b: (a[0], a[1] + b[1], a[2] + b[2]),
    lambda a, first, n: (n, first[1] + a[1] / n, call("max", a[2] - a[1] * (a[1] / n), 0.0)),
    most=1 << 16,
    narrow=True,
)


def _ahead(before: Comparison, a: StateTuple, b: StateTuple) -> Scalar:
    """Does the second of two values at their positions come before the first? Of equal ones the first position does."""
    return call("or", before(b[0], a[0]), call("and", call("eq", a[0], b[0]), b[1] < a[1]))


def _odd_ahead(before: Comparison, a: StateTuple, b: StateTuple) -> Scalar:
    """Does the second of two values come before the first, where NaNs come before all others?"""
    odd_a, odd_b = call("ne", a[0], a[0]), call("ne", b[0], b[0])
    alone = call("and", odd_b, call("not", odd_a))
    return call("or", call("or", _ahead(before, a, b), alone), call("and", call("and", odd_a, odd_b), b[1] < a[1]))


def _position(name: str, worst: float, before: Comparison, no_later: Comparison) -> Monoid:
    def chosen(a: StateTuple, b: StateTuple) -> StateTuple:
        other = _odd_ahead(before, a, b)
        return where(other, b[0], a[0]), where(other, b[1], a[1])

    def later(a: StateTuple, b: StateTuple, _: StateTuple) -> StateTuple:
        """Of equal values the first stays, and nothing comes before what is not a number."""
        kept = call("or", no_later(a[0], b[0]), call("ne", a[0], a[0]))
        return where(kept, a[0], b[0]), where(kept, a[1], b[1])

    return traced(
        name,
        (worst, NOWHERE),
        chosen,
        lambda x, position: (x, position),
        lambda state: where(call("eq", state[1], NOWHERE), NONE, state[1]),
        dtype="int32",
        fewest=1,
        ends=True,
        short_cut=_short_cut(2, lambda first: first, later, None, lambda a, *_: a),
    )


@cache
def top(k: int) -> Monoid:
    """The `k` largest values, the largest first, for `accum=`: along a label of its own in the result.

    >>> x = wf.tensor([[1, 5, 2, 5], [4, 2, 0, 3]])
    >>> print(ctx[wf.einsum("b, v => b, k", x, accum=wf.top(2))])
    [[5. 5.]
     [4. 3.]]
    """
    ranks = _checked(k)
    return _ranked(f"top{ranks}", ranks, 0)


@cache
def top_positions(k: int) -> Monoid:
    """Where the `k` largest values are."""
    ranks = _checked(k)
    return _ranked(f"top{ranks}_positions", ranks, 1, dtype="int32")


def _checked(k: int) -> int:
    ranks = whole_number(k, 1)
    if ranks is None or ranks > MOST_RANKS:
        what = f"there are the 1 to {MOST_RANKS} largest, not {k!r}: their state is held in registers"
        raise WeftError(what, fix="wf.sort(x) has them all in order")
    return ranks


def _ranked(name: str, k: int, number: int, dtype: str = "") -> Monoid:
    """The first `k` values in order, as pairs of a value and a position; of them the values, or the positions.

    A state has a power of two of them, which are joined without a pair that stands alone: that runs on vectors.
    """
    size = 1 << (k - 1).bit_length()

    def merged(a: tuple[Scalar, ...], b: tuple[Scalar, ...]) -> tuple[Scalar, ...]:
        one, other = ([(state[2 * at], state[2 * at + 1]) for at in range(size)] for state in (a, b))
        return tuple(part for pair in _first(one, other) for part in pair)

    def lifted(x: Scalar, position: Scalar, count: Scalar) -> tuple[Number, ...]:
        """What is not a number is infinite, at a position below 0: so it comes before what is infinite itself."""
        rest, odd = (_least(x), NOWHERE) * (size - 1), call("ne", x, x)
        return where(odd, call("type_as", inf, x), x), where(odd, position - count, position), *rest

    def chosen(state: tuple[Scalar, ...], rank: Scalar, count: Scalar) -> Scalar:
        value, position = (
            reduce(lambda rest, at: where(call("eq", rank, at), state[2 * at + part], rest), range(1, k), state[part])
            for part in (0, 1)
        )
        odd = position < 0
        return where(odd, position + count, position) if number else where(odd, call("type_as", nan, value), value)

    def taken(a: StateTuple, x: StateTuple, _: StateTuple) -> StateTuple:
        """One value among the first `k`: those that it comes before move on by one."""
        pairs = [(a[2 * at], a[2 * at + 1]) for at in range(size)]
        before = [_ahead(lambda one, other: one > other, pair, (x[0], x[1])) for pair in pairs]
        found = [where(before[0], x[part], pairs[0][part]) for part in (0, 1)]
        for at in range(1, size):
            found += (
                where(before[at - 1], pairs[at - 1][part], where(before[at], x[part], pairs[at][part]))
                for part in (0, 1)
            )
        return tuple(found)

    nothing = (-inf, NOWHERE)
    made = traced(
        name, nothing * size, merged, lifted, chosen,
        dtype=dtype, fewest=k, ranks=k, ends=True,
        short_cut=_short_cut(2 * size, lambda _: nothing * size, taken, None, lambda a, *_: a),
    )  # fmt: skip
    return interned(made).monoid or made


def _least(x: Scalar) -> Scalar:
    """The least number of the type of another; of truth values, where what is infinite is true, the false one."""
    return call("type_as", call("min", call("type_as", -inf, x), x < x), x)


def _first(one: list[Pair], other: list[Pair]) -> list[Pair]:
    """As many of two lists in order as one has, a power of two: the better of each and its opposite, sorted."""
    best = [_better(a, b)[0] for a, b in zip(one, reversed(other), strict=True)]
    step = len(best) // 2
    while step:
        for at in range(len(best)):
            if not at & step:
                best[at], best[at + step] = _better(best[at], best[at + step])
        step //= 2
    return best


def _better(a: Pair, b: Pair) -> tuple[Pair, Pair]:
    """Two values in order."""
    other = _ahead(lambda x, y: x > y, a, b)
    values, positions = ((where(other, y, x), where(other, x, y)) for x, y in zip(a, b, strict=True))
    return (values[0], positions[0]), (values[1], positions[1])


BUILTIN = (
    traced("logsumexp", (-inf, 0.0), _log_sum, lambda x: (x, 1.0), lambda state: state[0] + call("log", state[1])),
    traced("mean", (0, 0.0), _added, lambda x: (x, 1.0), lambda state: state[0] / state[1], wide=True),
    traced(
        "var",
        (0.0, 0.0, 0.0),
        _spread,
        lambda x: (1.0, x, 0.0),
        lambda state: state[2] / state[0],
        wide=True,
        short_cut=_SHIFTED,
    ),
    _position("argmax", -inf, lambda x, y: x > y, lambda x, y: x >= y),
    _position("argmin", inf, lambda x, y: x < y, lambda x, y: x <= y),
)

for one in BUILTIN:
    interned(one)

"""Hidden blocks: what a mask of indices leaves nothing of, so that no program of a sweep comes there.

    a[t, s] = q[t] . k[s] + where(s <= t, 0, -1e9);  m[t] = max_s a[t, s];  e[t, s] = exp(a[t, s] - m[t])

A number so low as `a` is where `s > t` is never the maximum of a row that has others, and its exponential is 0, as long
as scores are less than the mask is deep: what lowers them by `hidden_depth` or more is taken for that. So a block of
rows and columns in which no point is visible adds nothing to sums of what has that exponential as a factor. Points are
visible where some affine forms of row and column are not negative; there must be one in each row.

What is visible must be no lower itself. Another mask may lower all of a row that the first one leaves, as one of data
does where sequences begin with what is no part of them, `where(s <= t, where(own[s], a, -1e9), -1e9)`: then what is
hidden counts as much. So what is added up there must be no deeper (`Masks.moderate`), unless what is hidden is -∞.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import TypeAlias

from weft.affine import Affine
from weft.loops.insert_casts import dtype_of
from weft.loops.nests import Nest
from weft.loops.nodes import Buffer, Cast, Inside, Read, Store
from weft.loops.walk import Loop
from weft.ops import Call, Num, Scalar
from weft.ops.dtypes import is_float, limits

#: The types that hold any index of a tensor.
_WIDE = ("int32", "int64", "uint32", "uint64")
#: Operations that leave what is about as large as what they are given, and those that leave no large number at all.
_SUMMING = ("add", "sub", "neg", "max", "min", "abs", "relu", "identity", "type_as")
_BOUNDED = ("tanh", "sigmoid", "erf", "sin", "cos", "eq", "ne", "lt", "le", "and", "or", "not", "sign", "sat01")
#: A point is visible where none of these is negative.
Visible: TypeAlias = frozenset[Affine]


@dataclass(frozen=True, slots=True)
class Masks:
    """Which matrices are hidden where, by the nests that write each; `maxima` are of the number that each is of.

    Those that `vanish` were written before, and are 0 elsewhere.
    """

    writers: Mapping[Buffer, Sequence[Nest]]
    maxima: Mapping[Buffer, Scalar]
    hidden_depth: float
    vanish: Mapping[Buffer, Visible] = field(default_factory=dict)
    #: What was found of buffers, each by what was asked: numbers that read one often are as quick to see through.
    _found: dict[tuple[str, Buffer], Visible | None] = field(default_factory=dict, init=False, compare=False)
    _moderate: dict[tuple[Buffer, bool], bool] = field(default_factory=dict, init=False, compare=False)

    def _once(self, asked: str, buffer: Buffer, find: Callable[[], Visible | None]) -> Visible | None:
        if (asked, buffer) not in self._found:
            self._found[asked, buffer] = None  # nothing is known as far as it is computed from itself
            self._found[asked, buffer] = find()
        return self._found[asked, buffer]

    def low(self, scalar: Scalar) -> Visible | None:
        """Where a number is not hidden, and then as high as scores are; None if that is not known."""
        found = self._low(scalar, endless=False)
        return self._low(scalar, endless=True) if found is None else found

    def _low(self, scalar: Scalar, *, endless: bool) -> Visible | None:
        """Where a number is not hidden, which is by -∞ if that is `endless`; else it is as high as scores there."""
        match scalar:
            case Cast(dtype=dtype, value=value) if is_float(dtype) and not isinstance(value, Num):
                return self._low(value, endless=endless)
            case Call(op="where", args=(asked, value, other)) if self._is_low(other, endless):
                return self._besides(visible(asked), value, endless)
            case Call(op="where", args=(asked, value, other)) if self._is_low(value, endless):
                return self._besides(hidden(asked), other, endless)
            case Call(op="mul", args=(one, other)) if not endless and (self._is_low(one) or self._is_low(other)):
                return hidden(other if self._is_low(one) else one)
            case Call(op="add", args=(one, other)):
                both = [self._low(one, endless=endless), self._low(other, endless=endless)]
                known = [found for found in both if found is not None]
                return frozenset().union(*known) if len(known) == 2 or (known and endless) else None
            case Read(buffer=buffer) if (held := self._only(buffer)) is not None:
                question = "endless" if endless else "low"
                return self._once(question, buffer, partial(self._low, held, endless=endless))
        return frozenset() if not endless and self.moderate(scalar) else None

    def _besides(self, seen: Visible | None, value: Scalar, endless: bool) -> Visible | None:
        """Where a mask leaves a number visible, if that is not hidden there."""
        found = self._low(value, endless=endless)
        if seen is None or (found is None and not endless):
            return None
        return seen | (found or frozenset())

    def moderate(self, scalar: Scalar, factor: bool = False) -> bool:
        """Is a number no lower than scores are? A sum of products is none, and what is a `factor`; what comes from
        elsewhere may be a mask."""
        match scalar:
            case Affine():
                return True
            case Num(value=value):
                return value * value <= self.hidden_depth  # what is hidden is so many times as deep
            case Cast(value=value):
                return self.moderate(value, factor)
            case Call(op="where" | "select", args=(_, *values)):
                return all(self.moderate(one, factor) for one in values)
            case Call(op="mul" | "div", args=args):
                return all(self.moderate(one, True) for one in args)
            case Call(op=op, args=args) if op in _SUMMING:
                return all(self.moderate(one, factor) for one in args)
            case Call(op=op):
                return op in _BOUNDED
            case Read(buffer=buffer):
                return self._is_moderate(buffer, factor)
        return False

    def _is_moderate(self, buffer: Buffer, factor: bool) -> bool:
        if buffer not in self.writers:
            return factor
        if (buffer, factor) not in self._moderate:
            self._moderate[buffer, factor] = True  # as far as it is computed from itself
            cores = [nest.core for nest in self.writers[buffer]]
            self._moderate[buffer, factor] = all(
                self.moderate(one.value, factor or not isinstance(one, Store)) or _number(one.value) == -inf
                for one in cores
            )
        return self._moderate[buffer, factor]

    def _is_low(self, scalar: Scalar, endless: bool = False) -> bool:
        found = _number(scalar)
        return found is not None and found <= (-inf if endless else -self.hidden_depth)

    def vanishing(self, scalar: Scalar) -> Visible | None:
        """Where a number may be other than 0; None if that may be anywhere."""
        match scalar:
            case Cast(value=value) | Call(op="neg", args=(value,)):
                return frozenset() if _is_zero(scalar) else self.vanishing(value)
            case Call(op="exp", args=(value,)):
                return self._distance(value)
            case Call(op="mul", args=(one, other)):
                found = self.vanishing(one)
                return self.vanishing(other) if found is None or not found else found
            case Call(op="div", args=(one, _)):
                return self.vanishing(one)
            case Call(op="where", args=(asked, value, other)) if _is_zero(other):
                return _both(self._holds(asked), self.vanishing(value))
            case Call(op="where", args=(asked, value, other)) if _is_zero(value):
                return _both(hidden(asked), self.vanishing(other))
            case Call(op="select", args=(asked, value)):
                return _both(self._holds(asked), self.vanishing(value))
            case Call(op="add" | "sub", args=(one, other)):
                if _is_zero(one) or _is_zero(other):
                    return self.vanishing(other if _is_zero(one) else one)
                first, second = self.vanishing(one), self.vanishing(other)
                return first if first == second else None
            case Call(op="eq"):
                return self._holds(scalar)
            case Read(buffer=buffer):
                return self._once("vanishing", buffer, partial(self._vanishing_of, buffer))
        return None

    def _vanishing_of(self, buffer: Buffer) -> Visible | None:
        """Where a buffer may hold other than 0: what is stored in it, or added to a cell at once, is 0 elsewhere."""
        if buffer in self.vanish and buffer not in self.writers:
            return self.vanish[buffer]
        found = [nest for nest in self.writers.get(buffer, ()) if not _clears(nest)]
        added = all(isinstance(one.core, Store) or (one.core.op == "add" and not one.reduces) for one in found)
        forms = {self.vanishing(one.core.value) for one in found} if added else {None}
        return forms.pop() if len(forms) == 1 else None

    def _holds(self, asked: Scalar) -> Visible | None:
        """Where a condition may hold; None if that may be anywhere."""
        match asked:
            case Call(op="eq", args=(value, largest)):
                return self._distance(Call("sub", (value, largest)))
        return visible(asked)

    def _distance(self, scalar: Scalar) -> Visible | None:
        """Where a number is not far below the maximum of its row."""
        match scalar:
            case Read(buffer=buffer) if (held := self._only(buffer)) is not None:
                return self._once("distance", buffer, partial(self._distance, held))
            case Call(op="sub", args=(value, largest)):
                while isinstance(largest, Cast) and is_float(largest.dtype):
                    largest = largest.value
                if isinstance(largest, Read) and self._top(largest.buffer) == value:
                    return self.low(value)
        return None

    def _top(self, buffer: Buffer) -> Scalar | None:
        """The number that a buffer is the maximum of, rounded perhaps."""
        if buffer in self.maxima:
            return self.maxima[buffer]
        value = self._only(buffer)
        while isinstance(value, Cast) and is_float(value.dtype):
            value = value.value
        return self._top(value.buffer) if isinstance(value, Read) else None

    def _only(self, buffer: Buffer) -> Scalar | None:
        """What a buffer holds, if one nest stores it; or several add to nothing."""
        found = [nest for nest in self.writers.get(buffer, ()) if not _clears(nest)]
        return found[0].core.value if len(found) == 1 and isinstance(found[0].core, Store) else None


def _both(one: Visible | None, other: Visible | None) -> Visible | None:
    """Where two conditions hold, either of which may be none."""
    return other if one is None else one | (other or frozenset())


def _clears(nest: Nest) -> bool:
    return isinstance(nest.core, Store) and _is_zero(nest.core.value)


def _number(scalar: Scalar) -> float | None:
    while isinstance(scalar, Cast):
        scalar = scalar.value
    return float(scalar.value) if isinstance(scalar, Num) else None


def _is_zero(scalar: Scalar) -> bool:
    return _number(scalar) == 0


def visible(scalar: Scalar) -> Visible | None:
    """Where a condition holds, as affine forms that are not negative; None if it is no such."""
    match scalar:
        case Cast(value=value):
            return visible(value)
        case Call(op="and", args=(one, other)):
            first, second = visible(one), visible(other)
            return None if first is None or second is None else first | second
        case Call(op="le" | "lt" as op, args=(one, other)):
            less, more = whole_index(one), whole_index(other)
            if less is not None and more is not None:
                return frozenset([more - less - (op == "lt")])
        case Call(op="not", args=(value,)):
            return hidden(value)
        case Call(op="ne" | "eq" as op, args=(value, other)) if _is_zero(other):
            return visible(value) if op == "ne" else hidden(value)
    return None


def hidden(scalar: Scalar) -> Visible | None:
    """Where a condition does not hold."""
    match scalar:
        case Cast(value=value):
            return hidden(value)
        case Call(op="or", args=(one, other)):
            first, second = hidden(one), hidden(other)
            return None if first is None or second is None else first | second
        case Call(op="le" | "lt" as op, args=(one, other)):
            less, more = whole_index(one), whole_index(other)
            if less is not None and more is not None:
                return frozenset([less - more - (op == "le")])
        case Call(op="not", args=(value,)):
            return visible(value)
        case Call(op="ne" | "eq" as op, args=(value, other)) if _is_zero(other):
            return hidden(value) if op == "ne" else visible(value)
    return None


def whole_index(scalar: Scalar) -> Affine | None:
    """A whole number as an affine form of indices: they are small enough for any type but truth values.

    Below 0 an unsigned type has none of them.
    """
    found = _index_form(scalar)
    signed = isinstance(scalar, Affine | Num) or limits(dtype_of(scalar))[0] < 0
    return found if found is None or signed or _is_natural(found) else None


def _is_natural(form: Affine) -> bool:
    """Is a form of indices, which are not negative, not negative either?"""
    return form.offset >= 0 and all(step >= 0 for step, _ in form.terms)


def _index_form(scalar: Scalar) -> Affine | None:
    match scalar:
        case Affine():
            return scalar
        case Cast(dtype=dtype, value=value) if not is_float(dtype) and dtype in _WIDE:
            return whole_index(value)
        case Num(value=int() as value):
            return Affine((), value)
        case Call(op="add" | "sub" as op, args=(one, other)):
            first, second = whole_index(one), whole_index(other)
            if first is not None and second is not None:
                return first + second if op == "add" else first - second
    return None


def has_all_rows(forms: Visible, row: Loop, column: Loop) -> bool:
    """Is some column visible in every row?"""
    return columns_seen(forms, row, column) is not None


def columns_seen(forms: Visible, row: Loop, column: Loop) -> list[tuple[int, int]] | None:
    """The columns that are visible in each row, from one to before another; None if some row has none."""
    if not all({row[0], column[0]}.issuperset(form.names) for form in forms):
        return None
    found = [_seen_in(forms, {row[0]: Affine((), at), column[0]: Affine()}, column) for at in range(row[1])]
    return found if all(low < high for low, high in found) else None


def _seen_in(forms: Visible, origin: Mapping[str, Affine], column: Loop) -> tuple[int, int]:
    """The columns that are visible in the row of a point."""
    low, high = 0, column[1]
    for form in forms:
        rest, step = form.substitute(origin).offset, form.coefficient(column[0])
        if step == 0:
            high = high if rest >= 0 else 0
        elif step > 0:  # rest + step * column >= 0
            low = max(low, -(rest // step))
        else:
            high = min(high, rest // -step + 1)
    return low, high


#: The rows or columns of a block: the name of their loop, the first of them, how many it has, and how many there are.
BlockSpan: TypeAlias = tuple[str, Affine, int, int]


def block_ranges(forms: Visible, *spans: BlockSpan) -> Iterator[tuple[tuple[Inside, ...], Visible]]:
    """Blocks of rows and columns in ranges: the tests of each range, and the forms that are not negative all over it.

    The first has the blocks that are visible as a whole; each of the others those that some form cuts, and none of the
    forms before it. Blocks of which no point is visible are in none.
    """
    ordered = sorted(forms, key=str)
    least, largest = ([_at_corner(form, spans, corner) for form in ordered] for corner in (min, max))
    most = 1 + max((_reach(form, spans) for form in ordered), default=0)
    yield tuple(Inside(one, most) for one in least), forms
    for at, whole in enumerate(least):
        seen = (*least[:at], Affine((), -1) - whole, *largest[at:])
        yield tuple(Inside(one, most) for one in seen), frozenset(ordered[:at])


def _at_corner(form: Affine, spans: Sequence[BlockSpan], corner: Callable[[int, int], int]) -> Affine:
    """A form where it is least in a block, or largest."""
    found = form.substitute({name: first for name, first, _, _ in spans})
    for name, _, size, _ in spans:
        found = found + corner(0, form.coefficient(name) * (size - 1))
    return found


def _reach(form: Affine, spans: Sequence[BlockSpan]) -> int:
    """How far from 0 a form is at most, in whole blocks."""
    return abs(form.offset) + sum(abs(form.coefficient(name)) * (size + many) for name, _, size, many in spans)

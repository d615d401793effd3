"""What each node is stored in: said by the user, or inferred in both directions.

A computed node takes the type its operands meet in. A parameter or another terminal whose type nobody gave takes the
type of the computations it enters. Whatever is still open then takes the type of what it is used for, and at last
float32.

Types only rise while they are inferred, so the answer does not depend on the order in which the code was written. It is
settled when first asked for, with everything connected to it that is still open.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from weft.errors import Origin, WeftError, user_origin
from weft.ops import Scalar, leaves, scalar_type
from weft.ops.dtypes import (
    DEFAULT,
    UNKNOWN,
    WEAK_INT,
    accumulator_type,
    carrier,
    decided,
    is_float,
    is_weak,
    promote,
    total,
)
from weft.shape.inference_lock import alone

TypeOrigin: TypeAlias = Literal["given", "from its use", "from its operands", "by default"]


@dataclass(slots=True, eq=False)
class Precision:
    """The element type of a node, perhaps not settled yet."""

    origin: TypeOrigin
    settled: str | None = None
    least: str = UNKNOWN
    wide: bool = False
    rules: list[TypeRule] = field(default_factory=list)

    @staticmethod
    def given(dtype: str) -> Precision:
        return Precision("given", dtype)

    @staticmethod
    def from_use(least: str, *, wide: bool = False) -> Precision:
        """That of a terminal; `least` is a weak type: is it a whole number or not? `wide`: no narrow type holds it."""
        return Precision("from its use", least=least, wide=wide)

    @staticmethod
    def from_operands(least: str | None = None) -> Precision:
        return Precision("from its operands", least=least or UNKNOWN)

    @property
    def bounded(self) -> bool:
        """Was it said what it must not be narrower than?"""
        return self.origin != "given" and not _open(self.least)

    @property
    def dtype(self) -> str:
        if self.settled is None:
            _settle(self)
        assert self.settled is not None
        return self.settled

    @alone
    def computed_by(self, value: Scalar, operands: Sequence[TypedLeaf], *, sums: bool) -> None:
        """One of the assignments that compute the node; `sums`: it adds or multiplies many values up."""
        makes = self.origin == "from its operands" and self.settled is None
        truth = scalar_type(value, lambda leaf: DEFAULT) == "bool"
        rule = TypeRule(self, value, tuple(operands), sums, makes, truth, user_origin())
        rule.meeting({})  # what is given cannot rise any more: if it does not agree, say so here
        for cell in {cell for _, cell in operands} | ({self} if makes else set()):
            if cell.settled is None:
                cell.rules.append(rule)


#: A leaf of an assignment's value, and the precision of what it reads.
TypedLeaf: TypeAlias = tuple[Scalar, Precision]


@dataclass(frozen=True, slots=True, eq=False)
class TypeRule:
    """An assignment as far as types are concerned; `makes`: its target takes its type, `truth`: it is true or false."""

    target: Precision
    value: Scalar
    operands: tuple[TypedLeaf, ...]
    sums: bool
    makes: bool
    truth: bool
    origin: Origin | None

    def meeting(self, types: dict[Precision, str]) -> str:
        """The type the operands meet in; a truth value counts as a number like those compared."""
        known = {leaf: cell.settled or types.get(cell, UNKNOWN) for leaf, cell in self.operands}
        found = scalar_type(self.value, lambda leaf: known.get(leaf, WEAK_INT))
        return promote(*(known.get(leaf, UNKNOWN) for leaf in leaves(self.value))) if self.truth else found

    def result(self, meeting: str) -> str:
        """The type of the value that is stored."""
        counted = promote(meeting, DEFAULT) if self.truth and is_float(meeting) else meeting
        return total(counted) if self.sums else meeting


class Peek:
    """What precisions would come to if nothing more were said of them; looking settles nothing."""

    __slots__ = ("_types",)

    def __init__(self) -> None:
        self._types: dict[Precision, str] = {}

    @alone
    def __call__(self, cell: Precision) -> str:
        if cell.settled is None and cell not in self._types:
            cells, rules = _connected(cell)
            try:
                self._types |= {one: decided(found) for one, found in _Inference(cells, rules).infer().items()}
            except WeftError:  # said to whoever asks for a type
                self._types |= dict.fromkeys(cells, DEFAULT)
        return cell.settled or self._types[cell]


@alone
def _settle(start: Precision) -> None:
    if start.settled is not None:
        return  # by another thread in the meantime
    types = _Inference(*_connected(start)).infer()
    for cell, found in types.items():
        if _open(found):
            cell.origin = "by default"
        cell.settled = decided(found)
        cell.rules = []


def _connected(start: Precision) -> tuple[list[Precision], list[TypeRule]]:
    """Everything not settled that assignments connect, and those assignments."""
    cells, rules = {start: None}, dict[TypeRule, None]()
    stack = [start]
    while stack:
        cell = stack.pop()
        for rule in cell.rules:
            if rule not in rules:
                rules[rule] = None
                found = [one for one in _cells(rule) if one.settled is None and one not in cells]
                cells |= dict.fromkeys(found)
                stack += found
    return list(cells), list(rules)


def _cells(rule: TypeRule) -> Iterator[Precision]:
    yield rule.target
    yield from (cell for _, cell in rule.operands)


class _Inference:
    """Types on their way up. A rule is looked at again when one of its types rose."""

    def __init__(self, cells: list[Precision], rules: list[TypeRule]) -> None:
        self.types = {cell: cell.least for cell in cells}
        self.rules = rules
        self.rising = dict.fromkeys(rules)
        self.taking = dict.fromkeys(rules)

    def infer(self) -> dict[Precision, str]:
        self._follow()
        for cell, found in list(self.types.items()):
            if not _open(found):
                self._raise(cell, carrier(decided(found)) if cell.wide else decided(found))
        self._follow()
        for rule in self.rules:
            self._check(rule)
        return self.types

    def _follow(self) -> None:
        """Raise what is computed from what rose; when nothing rises any more, what is used for what rose."""
        while self.rising or self.taking:
            while self.rising:
                self._rise(self.rising.popitem()[0])
            wishes = [wish for rule in self.taking for wish in self._wishes(rule)]
            self.taking.clear()
            for cell, wish in wishes:
                self._raise(cell, wish)

    def _rise(self, rule: TypeRule) -> None:
        """Raise the target to what it is computed from, and terminals to what they meet."""
        meeting = self._meeting(rule)
        if meeting is not None:
            for _, cell in rule.operands:
                if cell.origin == "from its use":
                    self._raise(cell, meeting)
            if rule.makes:
                self._raise(rule.target, rule.result(meeting))

    def _wishes(self, rule: TypeRule) -> Iterator[tuple[Precision, str]]:
        """The types of what the operands are used for, where nothing but numbers of the program went into them."""
        meeting = self._meeting(rule) or UNKNOWN
        wish = self.types[rule.target] if rule.makes and _open(meeting) else meeting
        if not _open(wish):
            yield from ((cell, wish) for _, cell in rule.operands if cell in self.types and _open(self.types[cell]))

    def _meeting(self, rule: TypeRule) -> str | None:
        """None while the operands do not agree: one may yet become a float. In the end they are checked."""
        try:
            return rule.meeting(self.types)
        except WeftError:
            return None

    def _raise(self, cell: Precision, wish: str) -> None:
        if cell in self.types:
            before = self.types[cell]
            try:
                self.types[cell] = promote(before, wish)
            except WeftError:
                return
            if self.types[cell] != before:
                self.rising |= dict.fromkeys(cell.rules)
                self.taking |= dict.fromkeys(cell.rules)

    def _check(self, rule: TypeRule) -> None:
        try:
            meeting = rule.meeting(self.types)
            if rule.makes:
                promote(self.types[rule.target], rule.result(meeting))
        except WeftError as error:
            error.origin = rule.origin
            raise


def _open(found: str) -> bool:
    return found == UNKNOWN or is_weak(found)


def show_precisions(stored: Iterable[tuple[str, Precision]]) -> str:
    """What each node, by name, is stored in, why, and in what its sums accumulate."""
    rows = [(label, one.dtype, one.origin) for label, one in stored]
    wide = max((len(label) for label, _, _ in rows), default=0)
    return "\n".join(
        f"{label:<{wide}}  {dtype:<13}  {origin}; summed in {accumulator_type(dtype)}" for label, dtype, origin in rows
    )

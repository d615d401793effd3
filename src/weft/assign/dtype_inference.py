"""What each node is stored in. Who speaks first decides:

1. The user, of this very node: a type given when it was made, or set by hand afterwards.
2. From below: a computed node takes the type its operands meet in. A parameter or another terminal whose type nobody
   gave takes the type of the computations it enters, so it does not speak but is spoken for.
3. From above: what nothing but numbers of the program and open terminals went into takes the type of what it is used
   for. That is inferred, or set by hand; a type that is given, as by a cast, is a border which nothing passes. What
   must be no narrower than a type speaks when all else has.
4. The default precision, as it was when the node was made: float32 if nobody set another.

A gradient is stored as its tensor is, and no narrower than the precision of gradients, if there is one; it never speaks
for its tensor. Types only rise while they are inferred, so the answer does not depend on the order in which the code
was written. It is settled when first asked for, with everything connected to it that is still open.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
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

TypeOrigin: TypeAlias = Literal[
    "given", "set by hand", "from its use", "from its operands", "as its tensor", "by default"
]


@dataclass(slots=True)
class Defaults:
    """What nobody says: the precision of values, and that of gradients, if they have one of their own.

    They are the process's, as the seed is: a thread that is started later sees them too.
    """

    value: str = DEFAULT
    gradient: str | None = None


DEFAULTS = Defaults()


@dataclass(slots=True, eq=False)
class Precision:
    """The element type of a node, perhaps not settled yet; `by` is what it was taken from, once it is."""

    origin: TypeOrigin
    settled: str | None = None
    least: str = UNKNOWN
    wide: bool = False
    rules: list[TypeRule] = field(default_factory=list)
    default: str = field(default_factory=lambda: DEFAULTS.value)
    by: Precision | None = None

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

    @alone
    def of_gradient(self) -> Precision:
        """That of a gradient of the node."""
        made = Precision("as its tensor", least=DEFAULTS.gradient or UNKNOWN)
        rule = TypeRule(made, _ITSELF, ((_ITSELF, self),), sums=False, makes=True, truth=False, origin=None, asks=False)
        made.rules.append(rule)
        if self.settled is None:
            self.rules.append(rule)
        return made

    @alone
    def set_by_hand(self, dtype: str, label: str) -> None:
        """Let the user say it of a node that is made already."""
        if self.settled is not None and (self.settled, self.origin) != (dtype, "set by hand"):
            fixes = {
                "given": f'wf.cast({label}, "{dtype}") has its values in another type',
                "set by hand": "set it once",
            }
            fix = fixes.get(self.origin, "set it before asking for a type or running code, which settles it")
            raise WeftError(f"`{label}` is stored in {self.settled} already: {self.origin}", fix=fix)
        self.origin, self.settled = "set by hand", dtype

    @property
    def stated(self) -> bool:
        """Did the user say what it is?"""
        return self.origin in ("given", "set by hand")

    @property
    def bounded(self) -> bool:
        """Was it said what it must not be narrower than?"""
        return not self.stated and not _open(self.least)

    @property
    def dtype(self) -> str:
        if self.settled is None:
            _settle(self)
        assert self.settled is not None
        return self.settled

    @alone
    def computed_by(
        self, value: Scalar, operands: Sequence[TypedLeaf], *, sums: bool, origin: Origin | None = None
    ) -> None:
        """One of the assignments that compute the node; `sums`: it adds or multiplies many values up."""
        makes = self.origin == "from its operands" and self.settled is None
        truth = scalar_type(value, lambda leaf: DEFAULT) == "bool"
        rule = TypeRule(self, value, tuple(operands), sums, makes, truth, origin or user_origin())
        rule.meeting({})  # what is given cannot rise any more: if it does not agree, say so here
        for cell in {cell for _, cell in operands} | ({self} if makes else set()):
            if cell.settled is None:
                cell.rules.append(rule)


#: A leaf of an assignment's value, and the precision of what it reads.
TypedLeaf: TypeAlias = tuple[Scalar, Precision]


@dataclass(frozen=True, slots=True)
class _Itself(Scalar):
    """The value of what a gradient belongs to, as far as types are concerned."""


_ITSELF = _Itself()


@dataclass(frozen=True, slots=True, eq=False)
class TypeRule:
    """An assignment as far as types are concerned; `makes`: its target takes its type, `truth`: it is true or false.

    `asks`: what nothing else is known of takes the type of the target.
    """

    target: Precision
    value: Scalar
    operands: tuple[TypedLeaf, ...]
    sums: bool
    makes: bool
    truth: bool
    origin: Origin | None
    asks: bool = True
    #: Rules of operands come before those of what is computed from them.
    number: int = field(default_factory=count().__next__)
    #: What operands of some types meet in, as far as it was asked.
    met: dict[tuple[str, ...], str] = field(default_factory=dict)

    def meeting(self, types: Mapping[Precision, str]) -> str:
        """The type the operands meet in; a truth value counts as a number like those compared."""
        given = tuple([cell.settled or types.get(cell, UNKNOWN) for _, cell in self.operands])
        if given not in self.met:
            self.met[given] = self._meeting(given)
        return self.met[given]

    def _meeting(self, given: tuple[str, ...]) -> str:
        known = {leaf: found for (leaf, _), found in zip(self.operands, given, strict=True)}
        found = scalar_type(self.value, lambda leaf: known.get(leaf, WEAK_INT))
        if not self.truth:
            return found
        try:
            return promote(*(known.get(leaf, UNKNOWN) for leaf in leaves(self.value)))
        except WeftError:  # each two that are compared agree, and what it is stored in is known
            if self.makes:
                raise
            return UNKNOWN

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
    inference = _Inference(*_connected(start))
    for cell, found in inference.infer().items():
        if cell in inference.defaulted:
            cell.origin = "by default"
        cell.settled = decided(found)
        cell.by = inference.speakers.get(cell)
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
    return list(cells), sorted(rules, key=lambda rule: rule.number)


def _cells(rule: TypeRule) -> Iterator[Precision]:
    yield rule.target
    yield from (cell for _, cell in rule.operands)


class _Inference:
    """Types on their way up. A rule is looked at again when one of its types rose."""

    def __init__(self, cells: list[Precision], rules: list[TypeRule]) -> None:
        self.types = {cell: cell.least for cell in cells}
        self.rules = rules
        self.readers: dict[Precision, dict[TypeRule, None]] = {}  # the rules whose operand a cell is
        for rule in rules:
            for _, cell in rule.operands:
                self.readers.setdefault(cell, {})[rule] = None
        self.rising = OrderedDict.fromkeys(rules)
        self.taking = dict.fromkeys(rules)
        self.unheard: dict[TypeRule, None] = {}  # what must wait until bounds speak
        self.bounds_speak = False
        self.defaulted: set[Precision] = set()
        self.speakers: dict[Precision, Precision] = {}  # what each took its type from last

    def infer(self) -> dict[Precision, str]:
        self._follow()
        for cell, found in list(self.types.items()):
            if not _open(found):
                self._raise(cell, carrier(decided(found)) if cell.wide else decided(found))
        self._follow()
        self._default([cell for cell in self.types if cell.origin == "from its use"])
        self.bounds_speak, self.taking = True, self.unheard
        self._follow()
        self._default(list(self.types))
        for rule in self.rules:
            self._check(rule)
        return self.types

    def _follow(self) -> None:
        """Raise what is computed from what rose; when nothing rises any more, what is used for what rose."""
        while self.rising or self.taking:
            while self.rising:
                self._rise(self.rising.popitem(last=False)[0])
            wishes = [wish for rule in self.taking for wish in self._wishes(rule)]
            self.taking.clear()
            for cell, wish, speaker in wishes:
                self._raise(cell, wish, speaker)

    def _default(self, cells: Iterable[Precision]) -> None:
        """Let what is still open have the default precision."""
        for cell in [cell for cell in cells if _open(self.types[cell])]:
            self.defaulted.add(cell)
            self._raise(cell, carrier(cell.default) if cell.wide else cell.default)
        self._follow()

    def _rise(self, rule: TypeRule) -> None:
        """Raise the target to what it is computed from, and terminals to what they meet."""
        meeting = self._meeting(rule)
        if meeting is not None:
            speaker = self._speaker(rule, meeting)
            for _, cell in rule.operands:
                if cell.origin == "from its use":
                    self._raise(cell, meeting, rule.target if speaker is cell else speaker)
            if rule.makes:
                self._raise(rule.target, rule.result(meeting), speaker)

    def _speaker(self, rule: TypeRule, meeting: str) -> Precision | None:
        """The operand that says what type all meet in, if one does."""
        return next((cell for _, cell in rule.operands if (cell.settled or self.types.get(cell)) == meeting), None)

    def _wishes(self, rule: TypeRule) -> Iterator[tuple[Precision, str, Precision | None]]:
        """The types of what the operands are used for, where nothing but numbers of the program went into them."""
        open_cells = [cell for _, cell in rule.operands if cell in self.types and _open(self.types[cell])]
        if not open_cells:
            return
        meeting, target = self._meeting(rule) or UNKNOWN, rule.target
        speaks = rule.asks and (rule.makes or target.origin == "set by hand")
        wish = target.settled or self.types[target] if speaks and _open(meeting) else meeting
        if not _open(wish):
            speaker = target if _open(meeting) else self._speaker(rule, meeting)
            heard = [cell for cell in open_cells if self._speaks_to(cell, speaker)]
            if len(heard) < len(open_cells):
                self.unheard[rule] = None
            yield from ((cell, wish, speaker) for cell in heard)

    def _speaks_to(self, cell: Precision, speaker: Precision | None) -> bool:
        """A bound is what a type is not narrower than: before it may rise no more, it decides nothing computed."""
        if self.bounds_speak or speaker is None or cell.origin == "from its use":
            return True
        return not speaker.bounded or self.types.get(speaker) != speaker.least

    def _meeting(self, rule: TypeRule) -> str | None:
        """None while the operands do not agree: one may yet become a float. In the end they are checked."""
        try:
            return rule.meeting(self.types)
        except WeftError:
            return None

    def _raise(self, cell: Precision, wish: str, speaker: Precision | None = None) -> None:
        if cell in self.types:
            before = self.types[cell]
            try:
                self.types[cell] = promote(before, wish)
            except WeftError:
                return
            if self.types[cell] != before:
                if speaker is not None and speaker is not cell:
                    self.speakers[cell] = speaker
                self.rising |= self.readers.get(cell, {})
                self.taking |= dict.fromkeys(cell.rules)

    def _check(self, rule: TypeRule) -> None:
        try:
            meeting = rule.meeting(self.types)
            if rule.makes and rule.target in self.types:
                promote(self.types[rule.target], rule.result(meeting))
        except WeftError as error:
            error.origin = rule.origin
            raise


def _open(found: str) -> bool:
    return found == UNKNOWN or is_weak(found)


def show_precisions(stored: Iterable[tuple[str, Precision]]) -> str:
    """What each node, by name, is stored in, who decided that, and in what its sums accumulate."""
    rows = [(label, one.dtype, one) for label, one in stored]
    names = {cell: label for label, _, cell in rows}
    wide = max((len(label) for label, _, _ in rows), default=0)
    return "\n".join(
        f"{label:<{wide}}  {dtype:<13}  {_decision(one, names)}; summed in {accumulator_type(dtype)}"
        for label, dtype, one in rows
    )


def _decision(cell: Precision, names: Mapping[Precision, str]) -> str:
    """Who decided a type."""
    if not cell.stated and not _open(cell.least) and cell.by is None:
        return "the precision of gradients" if cell.origin == "as its tensor" else "no narrower than was said"
    by = names.get(cell.by) if cell.by is not None else None
    return f"{cell.origin}: `{by}`" if by is not None and cell.origin != "by default" else cell.origin

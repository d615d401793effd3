"""Scatters in Triton whose cells programs own: a program is the first that touches its cells, or does nothing.

own = program % 8192;  key2 = ids[own]
while (start < own) & (taken == 0):          is there one before that has the same key?
    …
if taken == 0:
    while start < 8192:                      look through blocks of positions from its own on
        first = …                            the next that has the same key
        while first < 8192:
            …                                take the values of those among the next 16 that have it
    store the cells, with all that was taken
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod

from weft.affine import Affine
from weft.backends.cuda.triton_types import full, triton_converted
from weft.backends.cuda.triton_values import Here, LaneValue, LaneValues, divided
from weft.loops import For, Local, Owners, Stmt, Update, combined, dtype_of
from weft.loops.constants import constant_value, neutral_of
from weft.loops.legality import collapsed_loops
from weft.loops.owner_computes import OwnedScatter, scatter_of
from weft.loops.roundings import PARTS
from weft.loops.walk import Loop
from weft.ops import OPS


@dataclass(frozen=True, slots=True)
class OwnersText:
    """A scatter at the cells of a program; `reduced` writes what joins a block along an axis."""

    values: LaneValues
    loop: For
    here: Here
    reduced: Callable[[str, int | None, str, str], str]

    @property
    def how(self) -> Owners:
        return next(one for one in self.loop.how if isinstance(one, Owners))

    @property
    def loops(self) -> Sequence[Loop]:
        return collapsed_loops(self.loop)[0]

    @property
    def body(self) -> Sequence[Stmt]:
        return collapsed_loops(self.loop)[1]

    @property
    def count(self) -> int:
        return prod(size for _, size in self.loops)

    @property
    def scatter(self) -> OwnedScatter:
        found = scatter_of(self.loops, self.body)
        assert not isinstance(found, str), found
        return found

    @property
    def axis(self) -> int:
        """The axis of lanes that positions are along: the last."""
        return len(self.here.sizes) - 1

    def write(self) -> None:
        """The lines of it."""
        lines, update, count = self.values.lines, self.scatter.update, self.count
        lines.add(f"own = program % {count}" if count > 1 else "own = 0")
        keys = [
            self.values.named(self.values.whole(update.at[axis], self.here), "key").text for axis in self.scatter.keys
        ]
        tested = [one.text for one in self._tests(self.here)]
        lines.add("taken = " + (f"tl.cast(({' & '.join(tested)}) == 0, tl.int32)" if tested else "own * 0"))
        lines.add("start = own * 0")
        with _Indented(self.values, "while (start < own) & (taken == 0):"):
            same = self._same("other", self.how.block, "start", keys, "own")
            lines.add(f"taken = tl.max(tl.cast({same.text}, tl.int32))")
            lines.add(f"start += {self.how.block}")
        with _Indented(self.values, "if taken == 0:"):
            self._taken(keys)

    def _taken(self, keys: Sequence[str]) -> None:
        """Take the values of all positions that have the same keys, and store them."""
        lines, update, count, block = self.values.lines, self.scatter.update, self.count, self.how.block
        dtype = dtype_of(update.value)
        wide = "float64" if (update.op, dtype) == ("add", "float32") and count > PARTS[0] else dtype
        axes = self.here.axes
        lines.add(f"total = {full(constant_value(neutral_of(update.op, wide)), wide, self.here.shape(axes))}")
        lines.add(f"start = own // {block} * {block}")
        with _Indented(self.values, f"while start < {count}:"):
            same = self._same("other", block, "start", keys, f"{count}")
            lines.add(f"first = tl.min(tl.where({same.text}, other, {count}))")
            with _Indented(self.values, f"while first < {count}:"):
                self._part(keys, wide)
                lines.add(f"first = tl.min(tl.where({same.text} & (other >= first + {self.how.part}), other, {count}))")
            lines.add(f"start += {block}")
        local = Local("total", dtype)
        self.values.locals[local] = LaneValue(triton_converted("total", wide, dtype), axes)
        stored = Update(update.buffer, update.at, update.op, local)
        self.values.store(update.buffer, update.at, combined(stored), self.here)

    def _part(self, keys: Sequence[str], wide: str) -> None:
        """Take the values of those among the next positions that have the same keys."""
        lines, update, part = self.values.lines, self.scatter.update, self.how.part
        dtype = dtype_of(update.value)
        end = f"start + {self.how.block}"
        end = end if self.count % self.how.block == 0 else f"tl.minimum({end}, {self.count})"
        held = self._same("some", part, "first", keys, end)
        there = self._there("some", part)
        there = replace(there, masks=(*there.masks, held))
        value = self.values.value(update.value, there)
        neutral = full(constant_value(neutral_of(update.op, dtype)), dtype)
        text = f"tl.where({held.text}, {value.text}, {neutral})"
        if value.axes | held.axes != there.axes:
            text = f"tl.broadcast_to({text}, {there.shape(there.axes)})"
        if dtype == "bool":
            text = f"tl.cast({text}, tl.int32)"
        text = self.reduced(text, self.axis if self.here.axes else None, update.op, dtype)
        text = f"({text} != 0)" if dtype == "bool" else triton_converted(text, dtype, wide)
        lines.add(f"total = {OPS[update.op].triton.format('total', text, t=wide)}")

    def _same(self, name: str, count: int, start: str, keys: Sequence[str], end: str) -> LaneValue:
        """Which of so many positions, from some on and before an end, have the same keys."""
        lines, axes = self.values.lines, frozenset([self.axis])
        lanes = self.values.numbers(count)
        shape = "" if self.axis == 0 else f"[{', '.join(['None'] * self.axis)}, :]"
        lines.add(f"{name} = {start} + {lanes}{shape}")
        there = replace(self._there(name, count), masks=(LaneValue(f"({name} < {end})", axes),))
        tests = [f"({name} < {end})", *(one.text for one in self._tests(there))]
        for axis, key in zip(self.scatter.keys, keys, strict=True):
            tests.append(f"({self.values.whole(self.scatter.update.at[axis], there).text} == {key})")
        return self.values.named(LaneValue(" & ".join(tests), axes), "equal")

    def _there(self, name: str, count: int) -> Here:
        """Where so many positions are in lanes."""
        index = LaneValue(name, frozenset([self.axis]))
        found = divided(self.loops, self.body, index, self.values.lines, f"_{name}")
        sizes = tuple(count if at == self.axis else one for at, one in enumerate(self.here.sizes))
        return Here({**self.here.indices, **found}, self.here.masks, sizes)

    def _tests(self, here: Here) -> list[LaneValue]:
        """What holds where an iteration accumulates anything."""
        ranges, found = dict(self.loops), list[LaneValue]()
        for test in self.scatter.tests:
            index = self.values.whole(test.index, here)
            low, high = (isinstance(test.index, Affine) and test.index.bounds(ranges)) or (-1, test.size)
            held = [f"({index.text} >= 0)"] * (low < 0) + [f"({index.text} < {test.size})"] * (high >= test.size)
            if held:
                found.append(self.values.named(LaneValue(" & ".join(held), index.axes), "inside"))
        return found


@dataclass(slots=True)
class _Indented:
    """Lines under another; what is loaded there is known there only."""

    values: LaneValues
    line: str
    before: dict[object, LaneValue] | None = None

    def __enter__(self) -> None:
        self.values.lines.add(self.line)
        self.values.lines.indent += 1
        self.before = dict(self.values.loaded)  # type: ignore[arg-type]

    def __exit__(self, *_: object) -> None:
        self.values.lines.indent -= 1
        self.values.loaded = self.before  # type: ignore[assignment]

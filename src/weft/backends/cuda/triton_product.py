"""Products in Triton: a program adds up a block of rows and columns, so many sums at a time, on tensor cores.

    rows = … ;  columns = …
    total_ = tl.zeros([128, 128], tl.float32)
    for start in range(0, 4096, 64):
        …
        total_ = tl.dot(v1, v2, total_, input_precision="ieee")

Loops on the left are the digits of a row's number, those on the right of a column's, sums of theirs. Factors and what
follows the sums are the same scalar language as anywhere, on blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TypeAlias

from weft.affine import Affine
from weft.backends.cuda.triton_types import full, triton_type
from weft.backends.cuda.triton_values import Here, LaneValue, LaneValues, divided
from weft.loops import Cast, If, Local, Read, Staged, Stmt, Update, combine, dtype_of
from weft.loops.constants import constant_value, neutral_of
from weft.loops.effects import effects, read_in
from weft.loops.folded_sums import FoldedSum, folded_sums
from weft.loops.nodes import Blocks
from weft.loops.product_legality import SMALLEST_BLOCK, at_a_point, still_updates
from weft.loops.staged import Parts, every_sum, parts_of
from weft.loops.tensor_maps import TensorMap, factor_maps
from weft.loops.walk import Loop
from weft.ops import Scalar
from weft.ops.dtypes import is_float

_FLOAT8 = ("float8_e4m3fn", "float8_e5m2")
#: The types that tensor cores multiply without rounding their products, and those that are stored that they hold.
_MULTIPLIED = {"float16": {"float16", *_FLOAT8}, "bfloat16": {"bfloat16", *_FLOAT8}}
_BOTH = frozenset([0, 1])
WriteBlock: TypeAlias = "Callable[[Sequence[Stmt], Here], None]"
Reduce: TypeAlias = "Callable[[str, int | None, str, str], str]"


@dataclass(frozen=True, slots=True)
class ProductText:
    """A product in blocks, in the loops of its batches; and in those that each program runs, `repeated`."""

    values: LaneValues
    batch: Sequence[Loop]
    staged: Staged
    repeated: Sequence[Loop] = ()
    #: Which of several sums in one variable is written.
    number: int = 0

    @property
    def parts(self) -> Parts:
        return every_sum(parts_of(self.staged))[self.number]

    @property
    def _every_sum(self) -> list[ProductText]:
        return [replace(self, number=at) for at in range(len(every_sum(parts_of(self.staged))))]

    @property
    def _body(self) -> Sequence[Stmt]:
        """What is done at a point, where loops may follow each other: not where tests look at each of them."""
        plain, _ = self._folded
        body, tests = at_a_point(replace(self.parts, rest=plain)), self.parts.tests
        return (If(tests, body),) if tests else body

    @property
    def _folded(self) -> tuple[tuple[Stmt, ...], tuple[FoldedSum, ...]]:
        return folded_sums(self.parts.left, self.parts.right, self.parts.rest)

    @property
    def blocks(self) -> Blocks:
        assert self.staged.what.blocks is not None
        return self.staged.what.blocks

    @property
    def counts(self) -> tuple[int, int]:
        """How many blocks of rows and of columns there are."""
        rows, columns = (_points(one) for one in (self.parts.left, self.parts.right))
        return -(-rows // self.blocks.rows), -(-columns // self.blocks.columns)

    @property
    def launch(self) -> tuple[int, int, int]:
        """How many programs there are, on how many warps each, and the stages of loads under way."""
        return prod(self.counts) * _points(self.batch), self.blocks.warps, self.blocks.stages

    @property
    def maps(self) -> list[tuple[TensorMap, tuple[int, int]]]:
        """The factors as matrices and the blocks of them, where the copy engine loads them."""
        found = factor_maps(self.parts) if self.blocks.maps else None
        sides, deep = (self.blocks.rows, self.blocks.columns), self.blocks.sums
        return [
            (one, (own, deep) if one.sums_inside else (deep, own)) for one, own in zip(found or (), sides, strict=False)
        ]

    def write(self, given: Mapping[str, LaneValue], block: WriteBlock, reduced: Reduce) -> None:
        """The lines of it; `block` writes statements, `reduced` a block joined along an axis."""
        parts, lines = self.parts, self.values.lines
        at = {**given, **self._program()}
        body, (down, across) = self._body, ("[:, None]", "[None, :]")
        rows, row_mask = self._index("rows", "row", parts.left, self.blocks.rows, down)
        columns, column_mask = self._index("columns", "column", parts.right, self.blocks.columns, across)
        left = divided(parts.left, body, LaneValue(rows, frozenset([0])), lines)
        right = divided(parts.right, body, LaneValue(columns, frozenset([1])), lines)
        sizes = self.blocks.rows, self.blocks.columns
        outside = here = Here({**at, **left, **right}, _masks((row_mask, 0), (column_mask, 1)), sizes)
        held = self._hold(here)
        if self.repeated:
            at = self._repeat(at, held)
            here = replace(here, indices={**here.indices, **at})
        total = f"{parts.total.name}_"
        lines.add(f"{total} = tl.zeros([{sizes[0]}, {sizes[1]}], {triton_type(parts.total.dtype)})")
        before = dict(self.values.loaded)
        for one in self._every_sum:
            one._sums({**at, **left}, {**at, **right}, (row_mask, column_mask), total)
            self.values.loaded = dict(before)
        if parts.tests:
            self._again(total, here)
            self.values.loaded = before
        elif self._in_thirds:
            self._undivided({**at, **left}, {**at, **right}, (row_mask, column_mask), total)
            self.values.loaded = before
        if self.blocks.parts == 1:
            self._rest(total, here, block, reduced, held)
        else:
            self._in_parts(total, {**at, **left}, row_mask, block, reduced)
        if self.repeated:
            lines.indent -= len(self.repeated)
            self.values.loaded = before
            block([replace(update, value=local) for update, local in held.items()], outside)

    def _hold(self, here: Here) -> dict[Update, Local]:
        """Variables for what is accumulated in cells that stand still in the loops that programs run, and where."""
        updates = still_updates(self.parts, self.repeated) if self.blocks.parts == 1 else ()
        held = {one: Local(self.values.lines.fresh("held"), one.buffer.dtype) for one in updates}
        for update, local in held.items():
            start = constant_value(neutral_of(update.op, local.dtype))
            self.values.lines.add(f"{local.name} = {full(start, local.dtype, here.shape(_BOTH))}")
            self.values.locals[local] = LaneValue(local.name, _BOTH)
        return held

    def _repeat(self, at: Mapping[str, LaneValue], held: Collection[Update]) -> dict[str, LaneValue]:
        """Begin the loops that each program runs: the indices inside them."""
        found = dict(at)
        for name, size in self.repeated:
            self.values.lines.add(f"for {name}_ in range({size}):")
            self.values.lines.indent += 1
            found[name] = LaneValue(f"tl.cast({name}_, tl.int64)" if self.values.wide else f"{name}_")
        others = [one for one in self.parts.rest if one not in held]
        if effects(others).buffers & read_in(others):  # lanes have read what others may store next
            self.values.barrier()
        return found

    def _rest(
        self,
        total: str,
        here: Here,
        block: WriteBlock,
        reduced: Reduce,
        held: Mapping[Update, Local] | None = None,
        first: int = 0,
    ) -> None:
        """What follows the sums, from some column of a block on; what is `held` accumulates in variables."""
        plain, folded = self._folded
        held = held or {}
        self._begin(self.parts.total, self.parts.start, total, here)
        block([one for one in plain if one not in held], here)
        for update, local in held.items():
            taken = self.values.value(combine(update.op, local, update.value, local.dtype), here)
            self.values.lines.add(f"{local.name} = {taken.text}")
        for one in folded:
            self._fold(one, here, reduced, first)

    def _fold(self, one: FoldedSum, here: Here, reduced: Reduce, first: int) -> None:
        """Store what rows or columns add up to, so many at a time."""
        values, update, axis = self.values, one.update, one.side
        dtype, many = update.buffer.dtype, here.sizes[axis] // one.run
        found = values.value(update.value, here)
        text = found.text if found.axes == _BOTH else f"tl.broadcast_to({found.text}, {here.shape(_BOTH)})"
        if (mask := here.masked()) is not None:
            text = f"tl.where({mask.text}, {text}, {full(constant_value(neutral_of(update.op, dtype)), dtype)})"
        sizes = tuple(many if at == axis else size for at, size in enumerate(here.sizes))
        if many > 1:
            cut = [*here.sizes[:axis], many, one.run, *here.sizes[axis + 1 :]]
            text = f"tl.reshape({reduced(f'tl.reshape({text}, {cut})', axis + 1, update.op, dtype)}, {list(sizes)})"
        else:
            text = reduced(text, axis, update.op, dtype)
        loops = (self.parts.left, self.parts.right)[axis][: -len(one.loops)]
        runs = self._runs(one, many, first if axis else 0)
        indices = divided(loops, (update,), runs, values.lines, f"_{runs.text}_")
        masks = [mask for mask in here.masks if axis not in mask.axes]
        if _points(loops) % ((self.blocks.rows, self.blocks.columns)[axis] // one.run):
            masks.append(LaneValue(f"({runs.text} < {_points(loops)})", runs.axes))
        there = Here({**here.indices, **indices}, tuple(masks), sizes)
        where, inside = values.offset(update.buffer, update.at, there), there.masked()
        guarded = f", mask={inside.text}" if inside else ""
        values.lines.add(f"tl.store({values.buffers[update.buffer]} + {where.text}, {text}{guarded})")

    def _runs(self, one: FoldedSum, many: int, first: int) -> LaneValue:
        """The numbers of the cells that a block's rows or columns are added up to, so many from some row on."""
        name, side = (("row_block", self.blocks.rows), ("column_block", self.blocks.columns))[one.side]
        number = name if side == one.run else f"{name} * {side // one.run}"
        number += f" + {first // one.run}" if first else ""
        number += f" + {self.values.numbers(many)}{('[:, None]', '[None, :]')[one.side]}" if many > 1 else ""
        return self.values.named(LaneValue(number, frozenset([one.side] if many > 1 else [])), "runs")

    def _in_parts(
        self, total: str, at: Mapping[str, LaneValue], row_mask: str, block: WriteBlock, reduced: Reduce
    ) -> None:
        """What follows the sums, a part of the columns after another; no point touches what another does."""
        values, lines, count = self.values, self.values.lines, self.blocks.parts
        wide, before = self.blocks.columns // count, dict(self.values.loaded)
        for part, name in enumerate(self._halved(total, count)):
            first = f"column_block * {self.blocks.columns} + {part * wide}"
            columns, mask = f"columns{part}", ""
            lines.add(f"{columns} = {first} + {values.numbers(wide)}[None, :]")
            if (size := _points(self.parts.right)) % self.blocks.columns:
                mask = f"{columns}_in"
                lines.add(f"{mask} = {columns} < {size}")
            right = divided(self.parts.right, self._body, LaneValue(columns, frozenset([1])), lines, f"_{part}_")
            sizes = self.blocks.rows, wide
            here = Here({**at, **right}, _masks((row_mask, 0), (mask, 1)), sizes)
            self._rest(name, here, block, reduced, first=part * wide)
            values.loaded = dict(before)
            for known in (values.read, values.dirty, values.unseen):
                known.clear()

    def _halved(self, total: str, count: int) -> list[str]:
        """The names of a total's parts, columns after columns."""
        names, wide = [total], self.blocks.columns
        while len(names) < count:
            wide //= 2
            for one in names:
                shape = f"[{self.blocks.rows}, 2, {wide}]"
                halves = f"tl.split(tl.permute(tl.reshape({one}, {shape}), (0, 2, 1)))"
                self.values.lines.add(f"{one}0, {one}1 = {halves}")
            names = [f"{one}{half}" for one in names for half in (0, 1)]
        return names

    @property
    def _in_thirds(self) -> bool:
        """Are factors in single precision multiplied as sums of three numbers of bfloat16?"""
        return self.blocks.precision == "thirds" and multiplied(self.parts) == "float32"

    def _program(self) -> dict[str, LaneValue]:
        """Which block a program has: blocks of a group of rows follow each other for the same columns."""
        lines, (rows, columns), group = self.values.lines, self.counts, self.blocks.group
        lines.add(f"program = tl.program_id(0){'.to(tl.int64)' if self.values.wide else ''}")
        tile = "program"
        if self.batch:
            lines.add(f"tile = program % {rows * columns}")
            tile = "tile"
        if columns == 1 or rows == 1:
            lines.add(f"row_block, column_block = {f'0, {tile}' if rows == 1 else f'{tile}, 0'}")
        else:
            group = min(group, rows)
            lines.add(f"first = {tile} // {group * columns} * {group}")
            many = str(group) if rows % group == 0 else f"tl.minimum({rows} - first, {group})"
            lines.add(f"row_block = first + {tile} % {group * columns} % {many}")
            lines.add(f"column_block = {tile} % {group * columns} // {many}")
        found: dict[str, LaneValue] = {}
        step = rows * columns
        for at in range(len(self.batch) - 1, -1, -1):
            name, size = self.batch[at]
            over = f" % {size}" if at else ""
            lines.add(f"{name}_ = program // {step}{over}")
            found[name] = LaneValue(f"{name}_")
            step *= size
        return found

    def _index(self, name: str, one: str, loops: Sequence[Loop], block: int, shape: str) -> tuple[str, str]:
        """The numbers of a program's rows or columns, and what says which of them there are."""
        lines, size = self.values.lines, _points(loops)
        lines.add(f"{name} = {one}_block * {block} + {self.values.numbers(block)}{shape}")
        if size % block == 0:
            return name, ""
        lines.add(f"{name}_in = {name} < {size}")
        return name, f"{name}_in"

    def _sums(
        self, left: Mapping[str, LaneValue], right: Mapping[str, LaneValue], outer: tuple[str, str], total: str
    ) -> None:
        """The loop over sums."""
        parts, blocks, lines = self.parts, self.blocks, self.values.lines
        size = _points(parts.sums)
        start = "0"
        if size > blocks.sums:
            lines.add(f"for start in range(0, {size}, {blocks.sums}):")
            lines.indent += 1
            start = "start"
        found = self._mapped(left, start) if blocks.maps else self._loaded(left, right, outer, start)
        dtype = multiplied(parts)
        if self._in_thirds:
            self._thirds(found, total)
            if size > blocks.sums:
                lines.indent -= 1
            return
        precision = {
            "float32": f', input_precision="{blocks.precision}"',
            "float64": ", out_dtype=tl.float64",
        }.get(dtype, "")
        if blocks.precision == "float8":
            precision = f", max_num_imprecise_acc={blocks.sums}"
        lines.add(f"{total} = tl.dot({found[0]}, {found[1]}, {total}{precision})")
        if size > blocks.sums:
            lines.indent -= 1

    def _thirds(self, found: Sequence[str], total: str) -> None:
        """Add the products of all that factors are sums of, but for those of less than a rounding.

        A number of single precision has 24 digits. Three of bfloat16, each the first eight digits of what the others
        leave, are all of them: the second is 2^-7 of the number at most, the third 2^-15. What both are in is left
        out: 2^-21 of the product at most, some 2^-25 of most. None is larger than the number, so that none is infinite
        where that is not. Tensor cores cut off what their sums have no digits for, always towards zero, so they add up
        those of a step alone, the smallest first.
        """
        lines = self.values.lines
        for one in found:
            for third, rest in (("a", one), ("b", f"{one}r")):
                bits = f"tl.cast({rest}, tl.int32, bitcast=True) & -65536"
                lines.add(f"{one}{third} = tl.cast({bits}, tl.float32, bitcast=True)")
                lines.add(f"{one}{'r' if third == 'a' else 'c'} = {rest} - {one}{third}")
            lines.add(f"{one}a, {one}b, {one}c = {', '.join(f'tl.cast({one}{third}, tl.bfloat16)' for third in 'abc')}")
        step = f"{total}step"
        for at, pair in enumerate(("ac", "bb", "ca", "ab", "ba", "aa")):
            before = f", {step}" if at else ""
            lines.add(f"{step} = tl.dot({found[0]}{pair[0]}, {found[1]}{pair[1]}{before})")
        lines.add(f"{total} = {total} + {step}")

    def _loaded(
        self, left: Mapping[str, LaneValue], right: Mapping[str, LaneValue], outer: tuple[str, str], start: str
    ) -> list[str]:
        """The blocks of factors, loaded cell by cell."""
        parts, blocks = self.parts, self.blocks
        over = _points(parts.sums) % blocks.sums != 0
        sides = (
            (left, f"sums_across{self.number or ''}", "[None, :]", 1, (blocks.rows, blocks.sums), outer[0]),
            (right, f"sums_down{self.number or ''}", "[:, None]", 0, (blocks.sums, blocks.columns), outer[1]),
        )
        found, still = list[str](), self._still(start)
        for (known, name, shape, axis, sizes, mask), factor in zip(sides, parts.factors, strict=True):
            indices = self._across(name, shape, axis, start, still)
            masks = _masks((mask, 1 - axis), (f"{name}_in" if over else "", axis))
            here = Here({**known, **indices}, masks, sizes)
            here = replace(here, masks=(*masks, *self._tests(here)))
            dtype = dtype_of(stored_factor(factor)) if blocks.precision == "float8" else multiplied(parts)
            found.append(self._factor(factor, dtype, here, axis))
        return found

    def _mapped(self, known: Mapping[str, LaneValue], start: str) -> list[str]:
        """The blocks of factors that the copy engine loads, with sums across on the left and down on the right."""
        found, here = list[str](), Here(known)
        for at, (one, block) in enumerate(self.maps):
            own = f"{('row', 'column')[at]}_block * {block[not one.sums_inside]}"
            along = (own, start) if one.sums_inside else (start, own)
            around = (self.values.affine(of, here).text for of in (one.outer, one.inner))
            begin = list(map(_sum, around, along))
            begin = [f"tl.cast({text}, tl.int32)" for text in begin] if self.values.wide else begin
            loaded = f"map{at}.load([{', '.join(begin)}])"
            text = loaded if one.sums_inside is (at == 0) else f"tl.trans({loaded})"
            found.append(self.values.named(LaneValue(text, _BOTH)).text)
        return found

    def _undivided(
        self, left: Mapping[str, LaneValue], right: Mapping[str, LaneValue], outer: tuple[str, str], total: str
    ) -> None:
        """Add up anew, factors as they are, where a sum is not finite.

        What is infinite is no sum of three; and whether a sum overflows, factors as they are say.
        """
        lines, one_step = self.values.lines, _points(self.parts.sums) <= self.blocks.sums
        deep = self.blocks.sums if one_step else SMALLEST_BLOCK  # names of no loop keep their shapes
        blocks = replace(self.blocks, sums=deep, precision="ieee", maps=False)
        lines.add(f"if tl.max(tl.cast({total} - {total} != 0.0, tl.int32)) != 0:")
        lines.indent += 1
        lines.add(f"{total} = tl.zeros([{blocks.rows}, {blocks.columns}], {triton_type(self.parts.total.dtype)})")
        plain = replace(self, staged=replace(self.staged, what=replace(self.staged.what, blocks=blocks)))
        for one in plain._every_sum:
            one._sums(left, right, outer, total)
        lines.indent -= 1

    def _again(self, total: str, here: Here) -> None:
        """Add up anew, term by term, where something is not a number: a zero for a term that is not there times what is
        not finite is none. In thirds, where something is not finite."""
        lines, parts, known = self.values.lines, self.parts, dict(self.values.loaded)
        wrong = f"{total} - {total} != 0.0" if self._in_thirds else f"{total} != {total}"
        lines.add(f"if tl.max(tl.cast({wrong}, tl.int32)) != 0:")
        lines.indent += 1
        lines.add(f"{total} = tl.zeros([{here.sizes[0]}, {here.sizes[1]}], {triton_type(parts.total.dtype)})")
        lines.add(f"for term in range({_points(parts.sums)}):")
        lines.indent += 1
        indices = divided(parts.sums, self._body, LaneValue("term"), lines, "_at")
        there = Here({**here.indices, **indices}, here.masks, here.sizes)
        tests = list(self._tests(there))
        there = replace(there, masks=(*there.masks, *tests))
        one, other = (self.values.value(factor, there).text for factor in parts.factors)
        held = " & ".join(test.text for test in tests)
        product = f"({one} * {other})"
        lines.add(f"{total} = {total} + " + (f"tl.where({held}, {product}, 0.0)" if held else product))
        lines.indent -= 2
        self.values.loaded = known

    def _still(self, start: str) -> dict[str, LaneValue]:
        """The indices of sums where a step begins, if all but the last stand still in it; else nothing."""
        lines, deep = self.values.lines, self.blocks.sums
        known = len(lines.done), list(lines.done)
        found = divided(self.parts.sums, self._body, LaneValue(start), lines, "_at")
        moving = [name for name, one in found.items() if one.text != "0"]
        last = dict(self.parts.sums)[moving[0]] if start != "0" and moving else 1
        if len(moving) > 1 and moving[0] == self.parts.sums[-1][0] and last % deep == 0:
            return found
        lines.done[known[0] :] = []
        return {}

    def _across(
        self, name: str, shape: str, axis: int, start: str, still: Mapping[str, LaneValue]
    ) -> dict[str, LaneValue]:
        """The indices of sums along an axis of a factor."""
        lines, deep, size = self.values.lines, self.blocks.sums, _points(self.parts.sums)
        lanes, axes = f"{self.values.numbers(deep)}{shape}", frozenset([axis])
        if still:
            last = self.parts.sums[-1][0]
            lines.add(f"{name} = tl.multiple_of({still[last].text}, {deep}) + {lanes}")
            return {**still, last: LaneValue(name, axes)}
        lines.add(f"{name} = {'' if start == '0' else 'start + '}{lanes}")
        if size % deep:
            lines.add(f"{name}_in = {name} < {size}")
        return divided(self.parts.sums, self._body, LaneValue(name, axes), lines, f"_{name[5:]}")

    def _tests(self, here: Here) -> Iterator[LaneValue]:
        """What holds where there is a term, as far as the loops of a factor say."""
        ranges = dict([*self.batch, *self.parts.left, *self.parts.right, *self.parts.sums])
        for test in self.parts.tests:
            assert isinstance(test.index, Affine)
            if all(name in here.indices for name in test.index.names):
                index = self.values.affine(test.index, here)
                low, high = test.index.bounds(ranges) or (-1, test.size)
                held = [f"({index.text} >= 0)"] * (low < 0) + [f"({index.text} < {test.size})"] * (high >= test.size)
                if held:
                    yield self.values.named(LaneValue(" & ".join(held), index.axes), "inside")

    def _factor(self, factor: Scalar, dtype: str, here: Here, axis: int) -> str:
        """The block of a factor, in the type it is multiplied in; 0 where there are no sums."""
        plain = stored_factor(factor) if dtype != "float32" else factor
        value = self.values.value(plain, here)
        text = value.text
        if dtype_of(plain) != dtype:
            text = f"tl.cast({text}, {triton_type(dtype)})"
        if value.axes != _BOTH:
            text = f"tl.broadcast_to({text}, {here.shape(_BOTH)})"
        masked = [one.text for one in here.masks if axis in one.axes or one.text.startswith("inside")]
        if masked and not (isinstance(plain, Read) and value.axes == _BOTH):
            text = f"tl.where({' & '.join(masked)}, {text}, 0.0)"
        return self.values.named(LaneValue(text, _BOTH)).text

    def _begin(self, local: Local, start: Scalar, total: str, here: Here) -> None:
        """Add what the sums start from."""
        found = self.values.value(start, here)
        if found.text not in ("tl.full((), 0.0, tl.float32)", "tl.full((), 0.0, tl.float64)"):
            self.values.lines.add(f"{total} = {found.text} + {total}")
        self.values.locals[local] = LaneValue(total, _BOTH)


def multiplied(parts: Parts) -> str:
    """The type in which a product's factors are multiplied: one that holds both as they are stored, if there is."""
    stored = {dtype_of(stored_factor(one)) for one in parts.factors}
    return next((one for one, held in _MULTIPLIED.items() if stored <= held), parts.total.dtype)


def stored_factor(factor: Scalar) -> Scalar:
    """A factor as it lies in memory, if it is no more than that, converted."""
    match factor:
        case Cast(dtype="float32", value=Read() as read) if is_float(read.buffer.dtype):
            return read
    return factor


def _sum(one: str, other: str) -> str:
    return other if one == "0" else one if other == "0" else f"{one} + {other}"


def _masks(*masks: tuple[str, int]) -> tuple[LaneValue, ...]:
    return tuple(LaneValue(text, frozenset([axis])) for text, axis in masks if text)


def _points(loops: Sequence[Loop]) -> int:
    return prod(size for _, size in loops)

"""The code of a sweep: strips of rows on a grid, the rows of a strip in lanes, blocks of columns one after another.

    for h: for strip on a grid: for t in lanes:
        top = -inf;  total = 0;  for e in lanes: o[e] = 0
        for block:
            product of right s; sums e: a[s] = …
            before = top;  for s in lanes: top = max(top, a[s]);  scale = exp(before - top)
            for s in lanes: p[s] = exp(a[s] - top)
            total = total * scale;  for s in lanes: total = total + p[s]
            product of right e; sums s: o[e] = o[e] * scale + …
        for e in lanes: y[h, t, e] = o[e] / total

It is a row's own code: values of a row are variables, and what has columns or depth is a PRIVATE buffer of a row, which
a program holds in registers for all rows of its strip. Rows or columns that are left over are told by tests. A point is
divided by a number of its row or column as it is multiplied by the reciprocal, which is found once for all of them.
Exponentials are powers of two, as a GPU has them: in single precision they are as far off as if their argument had been
rounded once more. Blocks that a mask hides nothing of come first, in a loop of their own that does not ask it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from weft.affine import Affine
from weft.loops.constants import constant_value, neutral_of
from weft.loops.contraction import contraction_of
from weft.loops.insert_casts import dtype_of
from weft.loops.nests import Nest, fresh_identifier
from weft.loops.nodes import (
    Blocks,
    Buffer,
    Cast,
    For,
    Grid,
    If,
    Inside,
    Lanes,
    Let,
    Local,
    Read,
    Role,
    Set,
    Staged,
    Stmt,
    Store,
    Update,
)
from weft.loops.product_legality import SMALLEST_BLOCK
from weft.loops.semiring import SUM_OF_PRODUCTS
from weft.loops.staged import staged_product
from weft.loops.walk import Body, free, reads, rewritten, substituted
from weft.naming import FreshNames
from weft.ops import Call, Num, Scalar, where
from weft.ops.dtypes import is_float, promote
from weft.schedule.fusion.hidden_blocks import Visible, block_ranges, hidden, visible, whole_index
from weft.schedule.gpu.rescaled_sums import ColumnPass, RowSplit, Taken
from weft.schedule.gpu.stable_exponentials import exponential
from weft.schedule.gpu.sweep import Sweep, factor_sides


@dataclass(frozen=True, slots=True)
class SweepShape:
    """How a sweep runs: rows of a strip, columns of a block, warps, stages of loads, and how factors are multiplied."""

    rows: int
    columns: int
    warps: int
    stages: int
    precision: str = "ieee"


def sweep_code(
    sweep: Sweep,
    passes: Sequence[tuple[ColumnPass, Visible]],
    outside: Collection[Buffer],
    shape: SweepShape,
) -> Body:
    """The code of a sweep in its passes, each with the forms that say which blocks are visible; `outside` is stored."""
    return _SweepCode(sweep, outside, shape).code(passes)


@dataclass(slots=True)
class _SweepCode:
    sweep: Sweep
    outside: Collection[Buffer]
    shape: SweepShape
    names: FreshNames = field(default_factory=FreshNames)
    #: Buffers of a row, variables of a row, what of memory a row has read, by what they are of.
    private: dict[Buffer, Buffer] = field(default_factory=dict)
    locals: dict[Buffer, Local] = field(default_factory=dict)
    own: dict[Read, Scalar] = field(default_factory=dict)
    #: What stands for a maximum while there may be larger ones, what it was before, and by how much sums are rescaled.
    running: dict[Buffer, Scalar] = field(default_factory=dict)
    earlier: dict[Buffer, Scalar] = field(default_factory=dict)
    scales: dict[Buffer, Local] = field(default_factory=dict)
    #: What matrices hold so far in a block: a cell of a row's own, or a number.
    begun: dict[Buffer, Scalar] = field(default_factory=dict)
    scaling: set[Buffer | None] = field(default_factory=set)
    #: Where all points of a block are known to be visible.
    seen: Visible = frozenset()
    loaded: list[Stmt] = field(default_factory=list)
    strip: str = ""
    lane: str = ""
    at: str = ""

    def code(self, passes: Sequence[tuple[ColumnPass, Visible]]) -> Body:
        sweep, names = self.sweep, self.names
        names.take([sweep.depth, sweep.column[0], sweep.row[0], *(name for name, _ in (*sweep.batch, *sweep.summed))])
        names.take(name for nest in sweep.nests for one in (nest.core.value, *nest.core.at) for name in free(one))
        self.strip, self.at = names.fresh("strip"), names.fresh("block")
        body = [one for each, forms in passes for one in self._pass(each, forms)]
        row, size = sweep.row
        inside: Body = (*self.loaded, *body, *self._stored())
        if size % self.shape.rows:
            inside = (If((Inside(self._row, size),), inside),)
        inside = (For(row, self.shape.rows, inside, (Lanes(self.shape.rows),)),)
        loops = [(self.strip, -(-size // self.shape.rows)), *sweep.batch]
        for name, many in reversed(loops):
            inside = (For(name, many, inside, (Grid(1, self.shape.warps),)),)
        return inside

    # Where things stand

    @property
    def _row(self) -> Affine:
        """The row of a lane: the last strips come first, which are the longest under a causal mask."""
        strips = -(-self.sweep.row[1] // self.shape.rows)
        first = Affine(((-self.shape.rows, self.strip),), (strips - 1) * self.shape.rows)
        return first + Affine.of(self.sweep.row[0])

    @property
    def _column(self) -> Affine:
        return Affine(((self.shape.columns, self.at), (1, self.sweep.column[0])))

    def scalar(self, scalar: Scalar) -> Scalar:
        """A scalar of a nest in the code."""
        places = {self.sweep.row[0]: self._row, self.sweep.column[0]: self._column}

        def leaf(one: Scalar) -> Scalar | None:
            if isinstance(one, Read):
                return self._read(one, places)
            if isinstance(one, Cast) and not isinstance(one.value, Num):
                return _converted(self.scalar(one.value), one.dtype)
            if isinstance(one, Call) and one.op in ("le", "lt"):
                indices = [whole_index(arg) for arg in one.args]
                if None not in indices:
                    return Call(one.op, tuple(index.substitute(places) for index in indices if index is not None))
            if isinstance(one, Call) and one.op == "div" and self._is_thin(one.args[1]):
                return Call("mul", (self.scalar(one.args[0]), Call("recip", (self.scalar(one.args[1]),))))
            if isinstance(one, Call) and one.op == "exp" and dtype_of(one.args[0]) == "float32":
                return exponential(self.scalar(one.args[0]))
            if isinstance(one, Call) and one.op == "add":
                return _sum(*map(self.scalar, one.args))
            if isinstance(one, Call) and one.op == "where" and (chosen := self._chosen(one)) is not None:
                return self.scalar(chosen)
            return one.substitute(places) if isinstance(one, Affine) else None

        return rewritten(scalar, leaf)

    def _chosen(self, asked: Call) -> Scalar | None:
        """What a choice is where all points are visible; None if that says nothing about it."""
        for forms, value in zip((visible(asked.args[0]), hidden(asked.args[0])), asked.args[1:], strict=True):
            if forms is not None and forms <= self.seen:
                return value
        return None

    def _is_thin(self, scalar: Scalar) -> bool:
        """Is something a number of a row, or of a column, or the same for all: so that its reciprocal costs little?"""
        names = set(free(scalar))
        thin = not {self.sweep.row[0], self.sweep.column[0]} <= names and self.sweep.depth not in names
        return (
            thin and is_float(dtype_of(scalar)) and not any(one.buffer in self.sweep.matrices for one in reads(scalar))
        )

    def _read(self, read: Read, places: Mapping[str, Affine]) -> Scalar:
        if read.buffer in self.sweep.matrices:
            return self.begun[read.buffer]
        if read.buffer in self.running:
            return self.running[read.buffer]
        if read.buffer in self.locals:
            return self.locals[read.buffer]
        if read.buffer in self.private:
            return Read(self.private[read.buffer], (Affine.of(self.sweep.depth),))
        assert read.buffer not in self.sweep.written, f"{read.buffer.name} is not known yet"
        if read in self.own:
            return self.own[read]
        moved = Read(read.buffer, tuple(substituted(one, places) for one in read.at))
        if self.sweep.is_of_rows(read):
            local = self._local(read.buffer)
            self.loaded.append(Let(local, moved))
            self.own[read] = local
            return local
        return moved

    def _local(self, buffer: Buffer, suffix: str = "") -> Local:
        return Local(fresh_identifier(f"{buffer.name}{suffix}", self.names), buffer.dtype)

    def _private(self, buffer: Buffer, size: int) -> Buffer:
        """The part of a buffer that a row has."""
        if buffer not in self.private:
            self.private[buffer] = buffer.beside(Role.PRIVATE, shape=(size,))
        return self.private[buffer]

    # Loops

    def _columns(self, body: Body) -> Stmt:
        """Something at every column of a block."""
        column = self.sweep.column[0]
        tests = self._tests
        return For(column, self.shape.columns, (If(tests, body),) if tests else body, (Lanes(self.shape.columns),))

    @property
    def _tests(self) -> tuple[Inside, ...]:
        size = self.sweep.column[1]
        return (Inside(self._column, size),) if size % self.shape.columns else ()

    def _depth(self, size: int, body: Body) -> Stmt:
        return For(self.sweep.depth, size, body, (Lanes(max(SMALLEST_BLOCK, _power(size))),))

    def _pass(self, found: ColumnPass, forms: Visible) -> Iterator[Stmt]:
        """What happens before the columns of a pass, at each block of them, and after."""
        for nest in found.before:
            yield from self._of_row(nest)
        yield from self._started(found)
        column, size = self.sweep.column
        name, many = self.sweep.row
        rows = (name, self._row - Affine.of(name), self.shape.rows, many)
        columns = (column, Affine(((self.shape.columns, self.at),)), self.shape.columns, size)
        for tests, self.seen in block_ranges(forms, rows, columns):
            block = tuple(self._block(found))
            loop: Stmt = For(self.at, -(-size // self.shape.columns), (If(tests, block),) if tests else block)
            for summed, times in reversed(self.sweep.summed):
                loop = For(summed, times, (loop,))
            yield loop
        self.seen = frozenset()
        self.running, self.earlier, self.scales = {}, {}, {}
        taken, late = {id(one.nest): one for one in found.taken}, set(map(id, (*found.rounded, *found.after)))
        for nest in self.sweep.nests:
            if id(nest) in taken:
                yield from self._finished(taken[id(nest)])
            elif id(nest) in late:
                yield from self._of_row(nest)

    def _started(self, found: ColumnPass) -> Iterator[Stmt]:
        """Values of rows that are taken further from what memory holds start with nothing."""
        for one in found.taken:
            nest = one.nest
            if nest.target not in self.locals and nest.target not in self.private:
                start = neutral_of(nest.core.op, nest.target.dtype)  # type: ignore[union-attr]
                yield from self._set(nest, start, first=True)

    # Values of rows

    def _of_row(self, nest: Nest) -> Iterator[Stmt]:
        """A nest that gives every row a value, or some in depth."""
        known = nest.target in self.locals or nest.target in self.private
        if isinstance(nest.core, Update) and not known:
            yield from self._set(nest, self._in_memory(nest), first=True)
            known = True
        value = self.scalar(nest.core.value)
        if isinstance(nest.core, Update):
            value = _taken_in(nest.core, self._held(nest), value)
        yield from self._set(nest, value, first=not known)

    def _in_memory(self, nest: Nest) -> Scalar:
        places = {self.sweep.row[0]: self._row}
        return Read(nest.target, tuple(substituted(one, places) for one in nest.core.at))

    def _held(self, nest: Nest) -> Scalar:
        if nest.target in self.locals:
            return self.locals[nest.target]
        return Read(self.private[nest.target], (Affine.of(self.sweep.depth),))

    def _set(self, nest: Nest, value: Scalar, first: bool) -> Iterator[Stmt]:
        """Give a row's value another one."""
        if size := self.sweep.width(nest):
            private = self._private(nest.target, size)
            yield self._depth(size, (Store(private, (Affine.of(self.sweep.depth),), value),))
        elif first:
            self.locals[nest.target] = self._local(nest.target)
            yield Let(self.locals[nest.target], value)
        else:
            yield Set(self.locals[nest.target], value)

    def _finished(self, one: Taken) -> Iterator[Stmt]:
        """Multiply a sum by what is known of its row now."""
        if one.split.factors:
            value = self._held(one.nest)
            for op, factor in one.split.factors:
                value = Call(op, (value, self.scalar(factor)))
            yield from self._set(one.nest, value, first=False)

    def _stored(self) -> Iterator[Stmt]:
        """Store what others read."""
        cleared = {nest.target for nest in self.sweep.nests if isinstance(nest.core, Store)}
        last = {nest.target: nest for nest in self.sweep.nests if nest.target in self.outside}
        for target, nest in last.items():
            at = self._in_memory(nest)
            assert isinstance(at, Read)
            along = next((one for one in self.sweep.nests if one.target == target and self.sweep.is_along(one)), None)
            if along is not None and target not in cleared:
                assert isinstance(along.core, Update)
                stored: Stmt = Update(target, at.at, along.core.op, self._held(nest))
            else:
                stored = Store(target, at.at, self._held(nest))
            size = self.sweep.width(nest)
            yield self._depth(size, (stored,)) if size else stored

    # A block of columns

    def _block(self, found: ColumnPass) -> Iterator[Stmt]:
        """What is done with a block of columns, in the order in which nests did it."""
        matrices = {id(nest): split for nest, split in found.matrices}
        taken = {id(one.nest): one for one in found.taken}
        rounded = set(map(id, found.rounded))
        rescaled = found.rescaling
        self.scaling = {one.split.scaled for one in found.taken}
        self.begun = {}
        for nest in self.sweep.nests:
            if id(nest) in matrices:
                yield from self._matrix(nest, matrices[id(nest)])
            elif id(nest) in taken and nest.target in rescaled:
                yield from self._largest(nest, taken[id(nest)])
            elif id(nest) in taken:
                yield from self._taken(nest, taken[id(nest)])
            elif id(nest) in rounded and found.behind[nest.target] in rescaled:
                before, self.running = self.running, self.earlier
                earlier = self.scalar(nest.core.value)
                self.running = before
                yield from self._measured(nest.target, earlier, self.scalar(nest.core.value))

    def _matrix(self, nest: Nest, split: RowSplit) -> Iterator[Stmt]:
        """Compute a matrix, or go on with it; a number that a product is added to is where that starts."""
        private, at = self._private(nest.target, self.shape.columns), (Affine.of(self.sweep.column[0]),)
        old = Read(private, at)
        if self.sweep.width(nest):
            start = self.begun.get(nest.target, Cast(nest.target.dtype, Num(0)))
            yield self._product(nest, start, lambda total: (Store(private, at, total),), self.sweep.column[0])
        else:
            assert split.value is not None
            value = self.scalar(split.value)
            if isinstance(nest.core, Update):
                value = _taken_in(nest.core, self.begun[nest.target], value)
            elif constant_value(value) is not None:
                self.begun[nest.target] = value
                return
            yield self._columns((Store(private, at, value),))
        self.begun[nest.target] = old

    def _largest(self, nest: Nest, one: Taken) -> Iterator[Stmt]:
        """Take a block into a maximum that sums are rescaled by; before any column, nothing is."""
        top, dtype = self.locals[nest.target], nest.target.dtype
        before, safe = (Local(self.names.fresh(f"{top.name}_{what}"), dtype) for what in ("before", "so_far"))
        nothing = neutral_of("max", dtype)
        assert one.split.value is not None
        value = self.scalar(one.split.value)
        yield Let(before, top)
        yield self._columns((Set(top, Call("max", (top, value))),))
        yield Let(safe, where(Call("eq", (top, nothing)), Cast(dtype, Num(0)), top))
        yield from self._measured(nest.target, before, safe)

    def _measured(self, buffer: Buffer, before: Scalar, now: Scalar) -> Iterator[Stmt]:
        """What something is measured from is another number now: sums are rescaled by how far it moved."""
        self.earlier[buffer], self.running[buffer] = before, now
        if buffer not in self.scaling:
            return
        wide = "float64" if buffer.dtype == "float64" else "float32"
        scale = self.scales[buffer] = Local(fresh_identifier(f"{buffer.name}_scale", self.names), wide)
        moved = Call("sub", (_as(before, wide), _as(now, wide)))
        yield Let(scale, exponential(moved) if wide == "float32" else Call("exp", (moved,)))

    def _taken(self, nest: Nest, one: Taken) -> Iterator[Stmt]:
        """Take a block into a value of its row."""
        core, split = nest.core, one.split
        assert isinstance(core, Update)
        assert split.value is not None
        scale = self.scales[split.scaled] if split.scaled is not None else None
        if self.sweep.width(nest):
            private, at = self.private[nest.target], (Affine.of(self.sweep.depth),)
            start: Scalar = Read(private, at)
            start = start if scale is None else Call("mul", (start, _as(scale, private.dtype)))
            yield self._product(
                replace(nest, core=replace(core, value=split.value)),
                start,
                lambda total: (Store(private, at, total),),
                self.sweep.depth,
            )
            return
        local = self.locals[nest.target]
        if scale is not None:
            yield Set(local, Call("mul", (local, _as(scale, local.dtype))))
        yield self._columns((Set(local, Call(core.op, (local, self.scalar(split.value)))),))

    def _product(self, nest: Nest, start: Scalar, rest: Callable[[Local], Body], right: str) -> Staged:
        """A product of a block: its rows are the lanes around it."""
        found = contraction_of(nest)
        assert found is not None
        one, other = factor_sides(found.factors, right)
        width = self.sweep.width(nest)
        columns, depth = (self.sweep.column[0], self.shape.columns), (self.sweep.depth, width)
        across, sums = (columns, depth) if right == self.sweep.column[0] else (depth, columns)
        total = Local(fresh_identifier(f"{nest.target.name}_total", self.names), dtype_of(start))
        factors = self._factor(one, width), self.scalar(other)
        made = staged_product(
            (), (across,), (sums,), Let(total, start), SUM_OF_PRODUCTS, factors, rest(total), tests=self._tests
        )
        high, wide, deep = self.shape.rows, _power(across[1]), _power(sums[1])
        shape = self.shape
        blocks = Blocks(
            high, max(SMALLEST_BLOCK, wide), max(SMALLEST_BLOCK, deep), shape.warps, shape.stages, 8, 1, shape.precision
        )
        return Staged(replace(made.what, blocks=blocks), made.body)

    def _factor(self, factor: Scalar, size: int) -> Scalar:
        """The factor of a product's rows: what memory holds of it is read once."""

        def leaf(one: Scalar) -> Scalar | None:
            if not isinstance(one, Read) or one.buffer in self.private or one.buffer in self.locals:
                return None
            if self.sweep.depth not in free(one) or not {*self.sweep.outer, self.sweep.depth}.issuperset(free(one)):
                return None
            if one not in self.own:
                private = one.buffer.beside(Role.PRIVATE, shape=(size,))
                place = (Affine.of(self.sweep.depth),)
                places = {self.sweep.row[0]: self._row}
                moved = Read(one.buffer, tuple(substituted(index, places) for index in one.at))
                self.loaded.append(self._depth(size, (Store(private, place, moved),)))
                self.own[one] = Read(private, place)
            return self.own[one]

        return self.scalar(rewritten(factor, leaf))


def _converted(scalar: Scalar, dtype: str) -> Scalar:
    """A number in a type; what was made wider for nothing is what it was."""
    if isinstance(scalar, Cast) and dtype_of(scalar.value) == dtype and promote(dtype, scalar.dtype) == scalar.dtype:
        return scalar.value
    return Cast(dtype, scalar)


def _as(scalar: Scalar, dtype: str) -> Scalar:
    return scalar if dtype_of(scalar) == dtype else Cast(dtype, scalar)


def _taken_in(core: Update, old: Scalar, value: Scalar) -> Scalar:
    """What a cell holds after a value was taken in."""
    return _sum(old, value) if core.op == "add" else Call(core.op, (old, value))


def _sum(one: Scalar, other: Scalar) -> Scalar:
    """A sum; nothing is added to a number, which then is what it was but for the sign of zero."""
    numbers = constant_value(one), constant_value(other)
    return other if numbers[0] == 0 else one if numbers[1] == 0 else Call("add", (one, other))


def _power(size: int) -> int:
    return 1 << max(size - 1, 0).bit_length()

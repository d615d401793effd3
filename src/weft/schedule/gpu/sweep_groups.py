"""Sweeps of a program: which nests about matrices one launch can do, a block of columns at a time.

    a = q . k;  m = max a;  e = exp(a - m);  l = sum e;  p = e / l;  o = p . v;  …;  dv = p . do;  da = …;  dq = da . k

become three sweeps, each with what it needs of the matrices, computed anew:

    a, m, e, l, p, o by rows of queries;  a, e, p, da, dq by rows of queries;  a, e, p, da, dv, dk by rows of keys

A contraction gives its loops roles, and by index maps all that touches its result gets them (`strips.py`), up to the
last matrix. What these nests write besides is of rows, or of columns; a sweep has nests of one kind. It takes as many
of them as can run at one place: what lies between and depends on them runs after it, the rest before. A matrix is
computed anew where nothing that it is computed from has changed. If something is left that reads a matrix, nothing is
done. The nests stay whole: the code of a sweep (`sweep_code.py`) takes the place of its nests in the end.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from math import prod

from weft.affine import Affine
from weft.loops.contraction import contraction_of
from weft.loops.nests import Nest
from weft.loops.nodes import Buffer, Read, Role, Store, Update
from weft.loops.product_legality import SMALLEST_BLOCK
from weft.loops.walk import Body, free, rewritten, substituted
from weft.ops import Scalar
from weft.ops.dtypes import numpy_type
from weft.schedule.fusion.hidden_blocks import Masks, Visible, has_all_rows
from weft.schedule.fusion.index_values import values_of_indices, with_indices_inlined
from weft.schedule.fusion.strips import Members, Roles, Uses, clears_late, roles_of
from weft.schedule.gpu.rescaled_sums import ColumnPass, passes_of
from weft.schedule.gpu.sweep import Sweep, sweep_of
from weft.schedule.gpu.sweep_code import SweepShape, sweep_code
from weft.schedule.gpu_model import Gpu


@dataclass(frozen=True, slots=True)
class Swept:
    """Nests, those of a sweep next to each other and with its number, from 1 on; and the code of each sweep."""

    nests: Sequence[Nest]
    codes: tuple[Body, ...] = ()


def with_sweeps(nests: Sequence[Nest], kept: Collection[Buffer], gpu: Gpu, tf32: bool) -> Swept:
    """The nests with sweeps, where these pay; `kept` is in memory afterwards."""
    if not any(True for nest in nests for _ in _seeds(nest, gpu)):
        return Swept(nests)
    done, codes = list(clears_late(nests)), list[Body]()
    ids = count(1 + max((one.id for nest in nests for one in _touched(nest)), default=0))
    at, tried = 0, set[int]()
    known = _AllNests.of(done)
    while at < len(done):
        nest = done[at]
        for roles in _seeds(nest, gpu) if id(nest) not in tried else ():
            tried.add(id(nest))
            found = _Group.of(done, at, roles, kept, gpu, tf32, ids, known)
            if found is not None and (launched := found.launched(len(codes))) is not None:
                done, made = launched
                codes += made
                at = -1
                break
        at += 1
    return Swept(done, tuple(codes)) if codes else Swept(nests)


def _touched(nest: Nest) -> Iterator[Buffer]:
    yield nest.target
    yield from (read.buffer for read in nest.reads)


def _seeds(nest: Nest, gpu: Gpu) -> Iterator[Roles]:
    """The roles that a contraction gives its loops, if its result is a large matrix for each of some batches."""
    if nest.sweep or nest.shared or not nest.accumulates or nest.tests:
        return
    found = contraction_of(nest)
    if found is None or found.why or len(found.sums) != 1:
        return
    roles = next(roles_of(found), None)
    if roles is None or len(roles.columns) != 1 or nest.target.dtype != "float32":
        return
    rows, columns, depth = roles.row[1], roles.columns[0][1], found.sums[0][1]
    if min(rows, columns) >= gpu.swept_columns and depth <= gpu.swept_depth:
        if rows * columns >= 2 * depth * (rows + columns):  # else its factors are about as large
            yield roles


@dataclass(frozen=True, slots=True)
class _AllNests:
    """What is known of all nests of a program, by their ids."""

    nests: Sequence[Nest]
    of_indices: Mapping[Buffer, Nest]
    touched: dict[int, tuple[Nest, Sequence[Buffer]]] = field(default_factory=dict)
    reads: dict[int, tuple[Nest, _Touching]] = field(default_factory=dict)

    @staticmethod
    def of(nests: Sequence[Nest]) -> _AllNests:
        return _AllNests(nests, values_of_indices(nests))

    def touching(self, nest: Nest) -> _Touching:
        """What a nest reads and writes."""
        if id(nest) not in self.reads:
            reads = {read.buffer for read in nest.reads} | ({nest.target} if nest.accumulates else set())
            self.reads[id(nest)] = nest, _Touching(reads, {nest.target})
        return self.reads[id(nest)][1]


@dataclass(slots=True)
class _Launched:
    """The nests of one sweep by their numbers, in order, and whether rows are its rows."""

    members: list[int]
    upright: bool


@dataclass(slots=True)
class _Group:
    """Matrices and all nests that touch them, by number: `order` is how what is not about matrices alone runs."""

    nests: Sequence[Nest]
    found: Members
    kept: Collection[Buffer]
    gpu: Gpu
    tf32: bool
    ids: Iterator[int]
    known: _AllNests
    #: The nests that write each matrix, and each buffer.
    writers: dict[Buffer, list[int]] = field(default_factory=dict)
    order: list[int | _Launched] = field(default_factory=list)
    loops: dict[int, Mapping[str, str]] = field(default_factory=dict)
    targets: dict[Buffer, list[int]] = field(default_factory=dict)
    #: How many nests touch each matrix.
    uses: dict[Buffer, int] = field(default_factory=dict)

    @staticmethod
    def of(
        nests: Sequence[Nest],
        seed: int,
        roles: Roles,
        kept: Collection[Buffer],
        gpu: Gpu,
        tf32: bool,
        ids: Iterator[int],
        known: _AllNests,
    ) -> _Group | None:
        """The group of a contraction's result; None if something else touches one of its matrices."""
        uses = Uses.of(nests, known.touched)
        found = Members.of(uses, seed, roles, len(nests), whole=True)
        made = _Group(nests, found, kept, gpu, tf32, ids, known)
        for buffer in found.core:
            if buffer in kept or not set(uses.touching[buffer]) <= found.loops.keys():
                return None
            made.writers[buffer] = [one for one in uses.touching[buffer] if nests[one].target == buffer]
            made.uses[buffer] = len(uses.touching[buffer])
            readers = [one for one in uses.touching[buffer] if one not in made.writers[buffer]]
            if not readers or not made.writers[buffer] or max(made.writers[buffer]) > min(readers):
                return None
        made.loops = dict(found.loops)
        for index, nest in enumerate(nests):
            made.targets.setdefault(nest.target, []).append(index)
        made.nests = [
            with_indices_inlined(nest, known.of_indices) if one in found.loops else nest
            for one, nest in enumerate(nests)
        ]
        made.order = [one for one, nest in enumerate(nests) if nest.target not in found.core]
        return made

    @property
    def roles(self) -> Roles:
        return self.found.roles

    def launched(self, numbered: int) -> tuple[list[Nest], list[Body]] | None:
        """All nests of the program, with those of the group in sweeps, and the code of each; None if not all can."""
        while (first := self._first()) is not None:
            at, upright = first
            chosen = self._grown(at, upright)
            if chosen is None:
                return None
            self.order = chosen
        sweeps = [one for one in self.order if isinstance(one, _Launched)]
        if not sweeps:
            return None
        masks = self._masks()
        planned = [self._planned(one, masks) for one in sweeps]
        if not all(planned) or not self._pays([one for one in planned if one]):
            return None
        codes = [self._code(sweep, passes) for sweep, passes in (one for one in planned if one)]
        return list(self._in_order(numbered)), codes

    # Which nests run at one place

    def _first(self) -> tuple[int, bool] | None:
        """The first nest about matrices that is in no sweep yet, and whether it is of rows."""
        for one in self.order:
            if isinstance(one, int) and self._is_about(one):
                return one, self._is_upright(one)
        return None

    def _is_about(self, one: int) -> bool:
        return one in self.found.loops and self.nests[one].target not in self.found.core

    def _is_upright(self, one: int) -> bool:
        names = {name for index in self.nests[one].core.at for name in free(index)}
        return self.found.loops[one][self.roles.row[0]] in names

    def _grown(self, first: int, upright: bool) -> list[int | _Launched] | None:
        """The order with a sweep of a nest and of as many that follow as can run with it."""
        members, best = [first], self._placed([first], upright)
        for one in self.order[self.order.index(first) + 1 :]:
            if isinstance(one, int) and self._is_about(one) and self._is_upright(one) == upright:
                wider = self._placed([*members, one], upright)
                if wider is not None:
                    members, best = [*members, one], wider
        return best

    def _placed(self, wanted: Sequence[int], upright: bool) -> list[int | _Launched] | None:
        """The order with some nests as one sweep, and what is of rows alone with them; None if that cannot be."""
        begin, end = self.order.index(wanted[0]), self.order.index(wanted[-1])
        written = {self.nests[one].target for one in wanted}
        while begin and self._clears(self.order[begin - 1], written, upright):
            begin -= 1
        members, before, after = list[int](), list[int | _Launched](), list[int | _Launched]()
        theirs, delayed = _Touching(), _Touching()
        for at in range(begin, len(self.order)):
            one = self.order[at]
            mine = one in wanted or self._clears(one, written, upright) or self._is_of_rows(one, theirs, upright)
            if at > end and not mine:
                end = at - 1
                break
            touching = self._touching(one)
            if mine and not delayed.on(touching):
                assert isinstance(one, int)
                members.append(one)
                theirs.add(touching)
            elif one in wanted:
                return None
            elif delayed.on(touching) or theirs.on(touching):
                after.append(one)
                delayed.add(touching)
            else:
                before.append(one)
        else:
            end = len(self.order) - 1
        if not self._unchanged(members, theirs):
            return None
        return [*self.order[:begin], *before, _Launched(sorted(members), upright), *after, *self.order[end + 1 :]]

    def _clears(self, one: int | _Launched, written: Collection[Buffer], upright: bool) -> bool:
        """Does a nest store a number where a sweep adds up?"""
        if not isinstance(one, int) or self.nests[one].target not in written or not self._is_start(one):
            return False
        return self._gets_roles(one, [(self.nests[one].target, self.nests[one].core.at)], upright)

    def _is_start(self, one: int) -> bool:
        nest = self.nests[one]
        return isinstance(nest.core, Store) and not nest.reads and not nest.shared and not nest.tests and nest.fills

    def _is_of_rows(self, one: int | _Launched, theirs: _Touching, upright: bool) -> bool:
        """Is a nest about nothing but what a sweep writes of its rows, row by row?"""
        if not isinstance(one, int) or self._is_about(one):
            return False
        nest = self.nests[one]
        if not isinstance(nest.core, Store) or not nest.reads or nest.shared or nest.tests or nest.reduces:
            return False
        if not all(read.buffer in theirs.writes for read in nest.reads):
            return False
        return self._gets_roles(one, [(read.buffer, read.at) for read in nest.reads], upright)

    def _gets_roles(self, one: int, cells: Sequence[tuple[Buffer, tuple[Scalar, ...]]], upright: bool) -> bool:
        """Give the loops of a nest roles by cells that others with roles write, if all of them are those of a row."""
        found, nest = dict[str, str](), self.nests[one]
        for buffer, at in cells:
            writer = next(at for at in self.loops if at != one and self.nests[at].target == buffer)
            roles = {name: role for role, name in self.loops[writer].items()}
            for index, written in zip(at, self.nests[writer].core.at, strict=True):
                mine, theirs = (one.only if isinstance(one, Affine) else "?" for one in (index, written))
                role = roles.get(theirs, "")
                if role and found.setdefault(role, mine) != mine:
                    return False
        swept = self.roles.columns[0][0] if upright else self.roles.row[0]
        sizes, loops = self.roles.sizes, dict(nest.loops)
        plain = all(loops.get(name) == sizes[role] for role, name in found.items())
        if not plain or swept in found or len(set(found.values())) < len(found):
            return False
        self.loops[one] = found
        return True

    def _touching(self, one: int | _Launched) -> _Touching:
        """What an item of the order touches, by way of matrices too."""
        if isinstance(one, int) and one not in self.found.loops:
            return self.known.touching(self.nests[one])
        made = _Touching()
        for at in one.members if isinstance(one, _Launched) else [one]:
            made.writes.add(self.nests[at].target)
            if isinstance(self.nests[at].core, Update):
                made.reads.add(self.nests[at].target)
            made.reads |= {read.buffer for _, read in self._inputs(at)}
        return made

    def _inputs(self, one: int) -> Iterator[tuple[int, Read]]:
        """What a nest reads that is no matrix, itself or where it computes matrices, and which nest does."""
        for at in (*self._needed([one]), one):
            yield from ((at, read) for read in self.nests[at].reads if read.buffer not in self.found.core)

    def _needed(self, members: Sequence[int]) -> list[int]:
        """The nests that compute the matrices of some nests."""
        todo, done = list(members), set[int]()
        while todo:
            for read in self.nests[todo.pop()].reads:
                new = set(self.writers.get(read.buffer, ())) - done
                done |= new
                todo += new
        return sorted(done - set(members))

    def _unchanged(self, members: Sequence[int], theirs: _Touching) -> bool:
        """Does nothing write what matrices are computed from between where they were and where they are now?"""
        last = max(members)
        for one in members:
            for at, read in self._inputs(one):
                if any(at < index < last and index not in members for index in self.targets.get(read.buffer, ())):
                    return False
        return True

    # Sweeps

    def _planned(self, one: _Launched, masks: Masks) -> tuple[Sweep, list[tuple[ColumnPass, Visible]]] | None:
        numbers = sorted([*self._needed(one.members), *one.members])
        row, column = self.roles.row, self.roles.columns[0]
        row, column = (row, column) if one.upright else (column, row)
        nests = [(self.nests[at], self.loops[at]) for at in numbers]
        sweep = sweep_of(nests, self.roles.batch, row, column, self.found.core)
        if sweep is None or (passes := passes_of(sweep)) is None or len(passes) > 3:
            return None
        widest = max(map(sweep.width, sweep.nests))
        if widest > self.gpu.swept_depth:
            return None
        return sweep, [(each, self._visible(each, masks)) for each in passes]

    def _masks(self) -> Masks:
        named: dict[Buffer, list[Nest]] = {}
        for at, loops in self.loops.items():
            nest = self.nests[at]
            values = {name: Affine.of(role) for role, name in loops.items()}
            named.setdefault(nest.target, []).append(nest.mapped(partial(substituted, values=values)))
        masks, maxima = Masks(named, {}, self.gpu.hidden_depth), dict[Buffer, Scalar]()
        for buffer, writers in named.items():
            match [nest.core for nest in writers if isinstance(nest.core, Update)]:
                case [Update(op="max", value=value)] if self._is_upright_buffer(buffer):
                    forms = masks.low(value)
                    if forms and has_all_rows(forms, self.roles.row, self.roles.columns[0]):
                        maxima[buffer] = value
        return replace(masks, maxima=maxima)

    def _is_upright_buffer(self, buffer: Buffer) -> bool:
        return buffer not in self.found.core and any(
            self.nests[at].target == buffer and self._is_about(at) and self._is_upright(at) for at in self.loops
        )

    def _visible(self, found: ColumnPass, masks: Masks) -> Visible:
        """The forms that say which blocks of a pass are visible; none if all are."""
        forms: Visible | None = None
        for one in found.taken:
            core = one.nest.core
            assert isinstance(core, Update)
            mine = masks.vanishing(core.value) if core.op == "add" else None
            if core.op == "max" and one.nest.target in masks.maxima:
                mine = masks.low(core.value)
            if not mine or (forms is not None and forms != mine):
                return frozenset()
            forms = mine
        return forms or frozenset()

    def _pays(self, planned: Sequence[tuple[Sweep, list[tuple[ColumnPass, Visible]]]]) -> bool:
        """Is computing matrices anew quicker than writing them to memory and reading them?"""
        points = prod(self.roles.sizes.values())
        moved = 0
        for buffer in self.found.core:
            moved += self.uses[buffer] * points * numpy_type(buffer.dtype).itemsize
        narrow = all(self._is_narrow(sweep) for sweep, _ in planned)
        speed = self.gpu.tensor_flops_per_s / 4 if narrow or self.tf32 else self.gpu.flops_per_s / 2
        products = sum(
            2 * points * max(sweep.width(nest), 16)
            for sweep, passes in planned
            for each, _ in passes
            for nest in [*(one.nest for one in each.taken), *(nest for nest, _ in each.matrices)]
            if sweep.width(nest)
        )
        own = sum(2 * points * max(sweep.width(nest), 16) for sweep, _ in planned[:1] for nest in sweep.nests)
        launches = self.gpu.launch_ns * 1e-9 * len(self.found.core)
        return products / speed < moved / self.gpu.bytes_per_s + launches + own / speed

    def _is_narrow(self, sweep: Sweep) -> bool:
        """Are all factors of products narrow, so that tensor cores multiply them?"""
        return all(
            numpy_type(read.buffer.dtype).itemsize <= 2
            for nest in sweep.nests
            if sweep.width(nest) and contraction_of(nest) is not None
            for read in nest.reads
        )

    def _code(self, sweep: Sweep, passes: Sequence[tuple[ColumnPass, Visible]]) -> Body:
        blocks = 1 + max(
            sum(
                bool(sweep.width(nest))
                for nest in [*(one.nest for one in each.taken), *(nest for nest, _ in each.matrices)]
            )
            for each, _ in passes
        )
        narrow = self._is_narrow(sweep)
        ((rows, columns, stages), *_) = self.gpu.swept_narrow if narrow else self.gpu.swept_single
        rows, columns = (
            max(SMALLEST_BLOCK, min(most, _power(size)))
            for most, (_, size) in ((rows, sweep.row), (columns, sweep.column))
        )
        while rows > 16 and prod(size for _, size in sweep.batch) * -(-sweep.row[1] // rows) < self.gpu.multiprocessors:
            rows //= 2
        warps = 4
        while columns > self.gpu.fewest_swept and rows * columns * blocks > 32 * warps * self.gpu.block_cells:
            columns //= 2
        wide = max(columns, *(_power(sweep.width(nest)) for nest in sweep.nests))
        while warps < 8 and rows * wide * blocks > 32 * warps * self.gpu.swept_cells:
            warps *= 2
        shape = SweepShape(rows, columns, warps, stages, "tf32" if self.tf32 and not narrow else "ieee")
        return sweep_code(sweep, passes, self._outside(sweep), shape)

    def _outside(self, sweep: Sweep) -> set[Buffer]:
        """What a sweep writes that others read or that is kept."""
        targets = {nest.target for nest in sweep.nests if nest.target not in self.found.core}
        own = next(
            one
            for one in self.order
            if isinstance(one, _Launched) and targets == {self.nests[at].target for at in one.members}
        )
        read = set[Buffer]()
        for one in self.order:
            if one is not own:
                touching = self._touching(one)
                read |= touching.reads | touching.writes
        return {one for one in targets if one in read or one in self.kept}

    # The program

    def _in_order(self, numbered: int) -> Iterator[Nest]:
        """All nests in their order; those of sweeps with matrices of their own."""
        numbers = count(numbered + 1)
        for one in self.order:
            if isinstance(one, int):
                yield self.nests[one]
                continue
            number, needed = next(numbers), self._needed(one.members)
            copies = {
                buffer: replace(buffer, id=next(self.ids), role=Role.COPY, of=None, name=f"{buffer.name}.{number}")
                for buffer in dict.fromkeys(self.nests[at].target for at in needed)
            }
            for at in sorted([*needed, *one.members]):
                yield replace(_reading(self.nests[at], copies), sweep=number)


def _reading(nest: Nest, copies: Mapping[Buffer, Buffer]) -> Nest:
    """A nest about copies."""

    def leaf(one: Scalar) -> Scalar | None:
        return Read(copies[one.buffer], one.at) if isinstance(one, Read) and one.buffer in copies else None

    made = nest.mapped(lambda scalar: rewritten(scalar, leaf))
    return replace(made, core=replace(made.core, buffer=copies.get(nest.target, nest.target)))


@dataclass(slots=True)
class _Touching:
    """What some nests read and write."""

    reads: set[Buffer] = field(default_factory=set)
    writes: set[Buffer] = field(default_factory=set)

    def add(self, other: _Touching) -> None:
        self.reads |= other.reads
        self.writes |= other.writes

    def on(self, other: _Touching) -> bool:
        """Is there a dependence between two?"""
        return not (self.writes.isdisjoint(other.reads | other.writes) and self.reads.isdisjoint(other.writes))


def _power(size: int) -> int:
    return 1 << max(size - 1, 0).bit_length()

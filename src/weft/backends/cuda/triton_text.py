"""From loops to Triton: a function for each kernel, whose programs run blocks of its cells in lanes.

    @triton.jit
    def kernel(x0, x1):
        i_ = tl.program_id(0) * 1024 + tl.arange(0, 1024)
        v1 = tl.load(x0 + i_)
        tl.store(x1 + i_, v1 * 2.0)

Sizes are literals, so that compilers know what divides what. `x0` is the memory of the first buffer. Lanes that no
iteration has are masked, where a block does not divide its loop. What lanes accumulate they keep in a block, which is
reduced when their loop is done. Nothing is decided here: how loops run is written on them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

from weft.affine import Affine
from weft.backends.cuda.kernel_source import BlockMap, Source
from weft.backends.cuda.triton_lane_product import LaneProductText
from weft.backends.cuda.triton_lane_sums import LaneSum, adds_few
from weft.backends.cuda.triton_library import triton_functions
from weft.backends.cuda.triton_owners import OwnersText
from weft.backends.cuda.triton_product import ProductText
from weft.backends.cuda.triton_types import full, triton_converted
from weft.backends.cuda.triton_values import Here, LaneAxes, LaneValue, LaneValues, TritonLines, divided
from weft.loops import (
    Buffer,
    Cast,
    Fill,
    For,
    If,
    Inside,
    Let,
    Local,
    Product,
    Read,
    Remark,
    Role,
    Set,
    Staged,
    Stmt,
    Store,
    Update,
    combined,
    dtype_of,
)
from weft.loops.constants import constant_value, neutral_of
from weft.loops.effects import accumulation, effects, read_in
from weft.loops.legality import collapsed_loops
from weft.loops.nodes import Blocks, Grid, Lanes, Owners
from weft.loops.product_legality import shared_in_blocks
from weft.loops.roundings import PARTS
from weft.loops.tensor_maps import TensorMap
from weft.loops.walk import body_of, everything, own_accesses, parts, variables
from weft.ops import OPS, Scalar

#: From so many cells on, indices take 64 bits.
_NARROW = 1 << 31
#: So many registers of a thread hold what is loaded before it is needed.
_EARLY = 64
_HEADER = (
    "import triton",
    "import triton.language as tl",
    "from triton.language.extra import libdevice",
    "from triton.language.extra.cuda import gdc_wait",
    "",
    "WAITS = tl.constexpr(False)  # the compiler says it for those that do",
    "",
    "",
)


def triton_source(name: str, body: Sequence[Stmt], buffers: Sequence[Buffer], given: Sequence[str]) -> Source:
    """The Triton function of a kernel on some buffers and static indices."""
    called = {one: f"x{at}" for at, one in enumerate(buffers)}
    loops = [prod(size for _, size in collapsed_loops(one)[0]) for one in everything(body) if isinstance(one, For)]
    wide = max([*loops, *(prod(one.shape) for one in buffers)], default=0) >= _NARROW
    text = _TritonText(LaneValues(called, TritonLines(), wide), {one: f"given{at}_" for at, one in enumerate(given)})
    text.kernel(body)
    parameters = [*called.values(), *(["given"] if given else []), *(f"map{at}" for at in range(len(text.maps)))]
    shapes = [f"    # {called[one]}: {one.name} {list(one.shape)} {one.dtype}" for one in buffers]
    lines = ["@triton.jit", f"def {name}({', '.join(parameters)}):", *shapes, "    weft_await()", *text.lines.text, ""]
    source = "\n".join(lines)
    whole = "\n".join([*_HEADER, *triton_functions(source), source])
    dtypes = tuple(one.dtype for one in buffers)
    places = {one: at for at, one in enumerate(buffers)}
    maps = [BlockMap(places[of.buffer], of.buffer.dtype, (of.height, of.width), block) for of, block in text.maps]
    return Source("triton", name, whole, dtypes, bool(given), text.programs, text.warps, text.stages, maps=tuple(maps))


@dataclass(slots=True)
class _TritonText:
    """A kernel under construction."""

    values: LaneValues
    given: Mapping[str, str]
    programs: int = 1
    warps: int = 4
    stages: int = 1
    #: The tensor maps that it is given, and the blocks that it loads by them.
    maps: Sequence[tuple[TensorMap, tuple[int, int]]] = ()
    #: Index variables of loops that run in lanes all at once, by axis, lanes and size.
    indices: dict[tuple[int, int, int], tuple[str, LaneValue | None]] = field(default_factory=dict)
    #: What lanes accumulate, by variable and by how many lanes do; the variables that change, and their masks.
    sums: dict[tuple[Local, tuple[int, ...]], LaneSum] = field(default_factory=dict)
    changing: set[Local] = field(default_factory=set)
    masks: dict[Local, int] = field(default_factory=dict)
    ranges: dict[str, int] = field(default_factory=dict)

    @property
    def lines(self) -> TritonLines:
        return self.values.lines

    def kernel(self, body: Sequence[Stmt]) -> None:
        """The text of a kernel: one grid, or a product in blocks."""
        while len(body) == 1 and isinstance(body[0], Remark):
            self._remark(body[0])
            body = body[0].body
        indices: dict[str, LaneValue] = {}
        for at, (name, text) in enumerate(self.given.items()):
            self.lines.add(f"{text} = tl.load(given + {at})")
            indices[name] = LaneValue(text)
        self.changing = effects(body).sets
        stores = Counter(one.buffer for one in everything(body) if isinstance(one, Store))
        self.values.again = {one for one, count in stores.items() if one.role is Role.PRIVATE and count > 1}
        chain, inside = grid_loops(body)
        if (shared := shared_in_blocks(inside)) is not None:
            repeated, staged = shared
            product = ProductText(self.values, [(one.loop, one.size) for one in chain], staged, repeated)
            self.programs, self.warps, self.stages = product.launch
            self.maps = product.maps
            product.write(indices, self.block, _reduced)
            return
        owned = bool(chain) and any(isinstance(one, Owners) for one in chain[-1].how)
        rank = sum(block > 1 for _, _, block in map(_blocks, chain)) + (1 if owned else _depth(inside))
        here = self._grid(chain, Here(indices, (), (1,) * rank))
        if owned:
            OwnersText(self.values, chain[-1], here, _reduced).write()
        else:
            self.block(inside, here)

    def _remark(self, stmt: Remark) -> None:
        for line in stmt.text.splitlines():
            self.lines.add(f"# {line}")

    # Loops

    def _grid(self, chain: Sequence[For], here: Here) -> Here:
        """The indices of a program: blocks of its loops, those of the last one next to each other."""
        blocks = list(map(_blocks, chain))
        counts = [-(-size // block) for _, size, block in blocks]
        self.programs = prod(counts)
        self.warps = next((one.warps for loop in chain[:1] for one in loop.how if isinstance(one, Grid | Owners)), 1)
        if self.programs > 1:
            self.lines.add(f"program = tl.program_id(0){'.to(tl.int64)' if self.values.wide else ''}")
        axis = 0
        for at, (loop, (_, _, block), count) in enumerate(zip(chain, blocks, counts, strict=True)):
            inner, outer = prod(counts[at + 1 :]), prod(counts[:at])
            index = "program" if inner == 1 else f"program // {inner}"
            index = "0" if count == 1 else index if outer == 1 else f"{index} % {count}"
            if block == 1:
                here = self._indexed(loop, LaneValue(index if index.isalnum() else f"({index})"), here)
                continue
            start = "" if index == "0" else f"{index if index.isalnum() else f'({index})'} * {block} + "
            here = self._lanes(loop, start, axis, here)
            axis += 1
        return here

    def _lanes(self, loop: For, start: str, axis: int, here: Here, name: str = "") -> Here:
        """Where lanes along an axis have the iterations of a loop from some start on, under its name or another."""
        own, size, block = _blocks(loop)
        name = name or own
        rank = len(here.sizes)
        shape = "" if rank == 1 else f"[{', '.join(':' if at == axis else 'None' for at in range(rank))}]"
        self.lines.add(f"{name} = {start}{self.values.numbers(block)}{shape}")
        axes, masks = frozenset([axis]), here.masks
        if size % block:
            self.lines.add(f"{name}in = {name} < {size}")
            masks = (*masks, LaneValue(f"{name}in", axes))
        sizes = tuple(block if at == axis else one for at, one in enumerate(here.sizes))
        return self._indexed(loop, LaneValue(name, axes), Here(here.indices, masks, sizes))

    def _indexed(self, loop: For, index: LaneValue, here: Here) -> Here:
        """The indices of loops that run as one: those that follow each other in memory are, others are divided out."""
        loops, body = collapsed_loops(loop)
        found = divided(loops, body, index, self.lines)
        self.ranges |= dict(loops)
        if sum(one.text != "0" for one in found.values()) == 1:
            self.ranges[loops[-1][0]] = prod(size for _, size in loops)
        return replace(here, indices={**here.indices, **found})

    def _loop(self, stmt: For, here: Here) -> None:
        name, size, lanes = _blocks(stmt)
        _, body = collapsed_loops(stmt)
        own, axis = self._begun(stmt, here), _next_axis(here.sizes)
        if lanes >= size > 1:
            self.block(body, self._at_once(stmt, axis, here))
        elif size == 1:
            self.block(body, self._indexed(stmt, LaneValue("0"), here))
        else:
            frame = dict(self.values.loaded), dict(self.indices)
            self.values.unseen.clear()
            changed = effects(stmt.body).buffers
            self.values.forget(changed)
            body, limits = self._limits(stmt, body, here) if lanes == 1 else (body, str(size))
            step = f"{name}start in range(0, {size}, {lanes})" if lanes > 1 else f"{name} in range({limits})"
            self.lines.add(f"for {step}:")
            self.lines.indent += 1
            if any(one.role is not Role.PRIVATE for one in changed & read_in(stmt.body)):
                self.values.barrier()
            inside = self._lanes(stmt, f"{name}start + ", axis, here) if lanes > 1 else None
            index = f"tl.cast({name}, tl.int64)" if self.values.wide else name
            self.block(body, inside or self._indexed(stmt, LaneValue(index), here))
            self.lines.indent -= 1
            self.values.unseen.clear()
            self.values.loaded, self.indices = frame
            self.values.forget(changed)
            shared = [one for one in changed if one.role is not Role.PRIVATE]
            self.values.dirty |= {one: {*self.values.dirty.get(one, ()), ""} for one in shared}
        for one in own:
            self._finished(one)

    def _limits(self, stmt: For, body: tuple[Stmt, ...], here: Here) -> tuple[tuple[Stmt, ...], str]:
        """The body of a loop and its limits: tests of its index that hold from some iteration on, or up to one."""
        low, high = list[str](), [str(stmt.size)]
        ranges = {**self.ranges, stmt.loop: stmt.size}
        if len(body) != 1 or not isinstance(body[0], If) or len(collapsed_loops(stmt)[0]) > 1:
            return body, str(stmt.size)
        for test in body[0].tests:
            index = test.index
            if not isinstance(index, Affine) or not (step := index.coefficient(stmt.loop)):
                return body, str(stmt.size)
            reach, rest = index.bounds(ranges), self.values.affine(index.without([stmt.loop]), here)
            if reach is None or reach[1] >= test.size or rest.axes:
                return body, str(stmt.size)
            if step > 0:  # rest + step * at >= 0
                low.append(f"(tl.maximum(-{rest.text}, 0) + {step - 1}) // {step}")
            else:
                high.append(f"tl.maximum({rest.text} + {-step}, 0) // {-step}")
        limits = [_most("maximum", low or ["0"]), _most("minimum", high)]
        return body[0].body, ", ".join(limits if low else limits[1:])

    def _at_once(self, stmt: For, axis: int, here: Here) -> Here:
        """Where all iterations of a loop run in lanes; those of the next loop of its size have the same indices."""
        name, size, lanes = _blocks(stmt)
        if (key := (axis, lanes, size)) not in self.indices:
            if any(known == name for known, _ in self.indices.values()):
                name = self.lines.fresh(name)
            inside = self._lanes(stmt, "", axis, here, name)
            self.indices[key] = name, inside.masks[-1] if size % lanes else None
            return inside
        known, mask = self.indices[key]
        sizes = tuple(lanes if at == axis else one for at, one in enumerate(here.sizes))
        masks = (*here.masks, mask) if mask else here.masks
        return self._indexed(stmt, LaneValue(known, frozenset([axis])), Here(here.indices, masks, sizes))

    # Sums

    def _begun(self, stmt: For, here: Here) -> list[LaneSum]:
        """The accumulators of a loop's lanes, of variables that no loop around it accumulates in lanes."""
        done = effects(stmt.body)
        active = {local for local, _ in self.sums}
        own: dict[tuple[Local, tuple[int, ...]], LaneSum] = {}
        sites = list(_set_sites((stmt,), here.sizes))
        for one, sizes, times in sites:
            key = one.local, sizes
            if one.local in done.lets or one.local in active or sizes == here.sizes or key in own:
                continue
            if _is_looked_at(one.local, stmt.body):  # loops inside have it joined when they are done
                continue
            found = accumulation(one)
            assert found is not None, f"{one.local.name} is set in lanes"
            once = times == 1 and sum(1 for other, _, _ in sites if other.local == one.local) == 1
            long = (found[0], one.local.dtype) == ("add", "float32") and times > PARTS[0]
            narrow = once and adds_few(found[1], prod(sizes), 32 * self.warps, self.changing)
            dtype = "float64" if long else "float32" if narrow else one.local.dtype
            there = Here(here.indices, here.masks, sizes)
            name = self.lines.fresh(f"{one.local.name}_sum")
            own[key] = LaneSum(one.local, found[0], name, dtype, there, self.masks[one.local], once)
            if not once:
                start = neutral_of(found[0], dtype)
                self.lines.add(f"{name} = {full(constant_value(start), dtype, there.shape(there.axes))}")
        self.sums |= own
        return list(own.values())

    def _finished(self, one: LaneSum) -> None:
        """Reduce what lanes accumulated, and take it into the variable."""
        del self.sums[one.local, one.here.sizes]
        local = self.values.locals[one.local]
        text, dtype = one.name, one.dtype
        if dtype == "bool":
            text = f"tl.cast({text}, tl.int32)"
        if not local.axes:
            text = _reduced(text, None, one.op, dtype)
        else:
            for axis in sorted(one.axes - local.axes):
                text = _reduced(text, axis, one.op, dtype)
        if dtype == "bool":
            text = f"({text} != 0)"
        text = triton_converted(text, dtype, one.local.dtype)
        self.lines.add(f"{local.text} = {OPS[one.op].triton.format(local.text, text, t=one.local.dtype)}")

    def _set(self, stmt: Set, here: Here) -> None:
        if (own := self.sums.get((stmt.local, here.sizes))) is not None:
            self._taken(stmt, own, here)
            return
        local, value = self.values.locals[stmt.local], self.values.value(stmt.value, here)
        text = self._broadcast(value, local.axes, here)
        if mask := _joined(here.masks[self.masks[stmt.local] :]):
            text = f"tl.where({mask}, {text}, {local.text})"
        self.lines.add(f"{local.text} = {text}")

    def _taken(self, stmt: Set, own: LaneSum, here: Here) -> None:
        """Take a value into the accumulators of lanes, but for those that no iteration has."""
        found = accumulation(stmt)
        assert found is not None
        taken = found[1].value if own.narrow and isinstance(found[1], Cast) else found[1]
        value, dtype = self.values.value(taken, here), dtype_of(taken)
        text = value.text
        if mask := _joined(here.masks[own.masks :]):
            text = f"tl.where({mask}, {text}, {full(constant_value(neutral_of(own.op, dtype)), dtype)})"
        if own.once:
            axes = value.axes.union(*(one.axes for one in here.masks[own.masks :]))
            self.lines.add(f"{own.name} = {self._broadcast(LaneValue(text, axes), own.axes, here)}")
        else:
            text = triton_converted(text, stmt.local.dtype, own.dtype)
            self.lines.add(f"{own.name} = {OPS[own.op].triton.format(own.name, text, t=own.dtype)}")

    def _broadcast(self, value: LaneValue, axes: LaneAxes, here: Here) -> str:
        return value.text if value.axes == axes else f"tl.broadcast_to({value.text}, {here.shape(axes)})"

    # Statements

    def block(self, body: Sequence[Stmt], here: Here) -> None:
        self._load_early(body, here)
        for stmt in body:
            self._statement(stmt, here)

    def _load_early(self, body: Sequence[Stmt], here: Here) -> None:
        """Load what straight-line code reads before it stores anything: compilers do not move loads before stores, for
        they do not know that these are other cells."""
        if any(isinstance(one, For | Staged | Remark) for one in body) or not any(map(_stores, body[:-1])):
            return
        written, wanted = set[Buffer](), dict[Read, None]()
        for stmt in body:
            own = [Read(one.buffer, one.at) for one in own_accesses(stmt) if not one.writes and one.at is not None]
            wanted |= dict.fromkeys(one for one in own if one.buffer not in written and _is_plain(one))
            written |= effects((stmt,)).buffers
        if len(wanted) * prod(here.sizes) <= _EARLY * 32 * self.warps:
            for one in wanted:
                self.values.value(one, here)

    def _statement(self, stmt: Stmt, here: Here) -> None:
        match stmt:
            case Remark(body=body):
                self._remark(stmt)
                self.block(body, here)
            case Staged(what=Product(blocks=Blocks(stages=stages))):
                self.stages = max(self.stages, stages)
                LaneProductText(self.values, stmt).write(here, self.block)
            case Staged(body=body):
                self.block(body, here)
            case For():
                self._loop(stmt, here)
            case If(tests=tests, body=body):
                masks = [one for test in tests if (one := self._test(test, here)) is not None]
                self.block(body, replace(here, masks=(*here.masks, *masks)))
            case Store(buffer=buffer, at=at, value=value):
                self.values.store(buffer, at, value, here)
            case Update(buffer=buffer, at=at):
                self.values.store(buffer, at, combined(stmt), here)
            case Let(local=local, value=scalar):
                self._let(local, scalar, here)
            case Set():
                self._set(stmt, here)
            case Fill():
                raise AssertionError("a fill runs on no grid")

    def _let(self, local: Local, scalar: Scalar, here: Here) -> None:
        value, name = self.values.value(scalar, here), f"{local.name}_"
        if local in self.changing:
            constant = constant_value(scalar)
            shape = here.shape(here.axes)
            text = self._broadcast(value, here.axes, here) if constant is None else full(constant, local.dtype, shape)
            value = LaneValue(text, here.axes)
            self.masks[local] = len(here.masks)
        self.lines.add(f"{name} = {value.text}")
        self.values.locals[local] = LaneValue(name, value.axes)

    def _test(self, test: Inside, here: Here) -> LaneValue | None:
        """What holds where a test does; nothing where it always does."""
        index = self.values.whole(test.index, here)
        low, high = None, None
        if isinstance(test.index, Affine) and (found := test.index.bounds(self.ranges)) is not None:
            low, high = found
        held = [] if low is not None and low >= 0 else [f"({index.text} >= 0)"]
        held += [] if high is not None and high < test.size else [f"({index.text} < {test.size})"]
        return self.values.named(LaneValue(" & ".join(held), index.axes), "inside") if held else None


def _most(which: str, texts: Sequence[str]) -> str:
    """The largest or the smallest of some numbers."""
    found = texts[0]
    for one in texts[1:]:
        found = f"tl.{which}({found}, {one})"
    return found


def _stores(stmt: Stmt) -> bool:
    return isinstance(stmt, Store | Update)


def _is_plain(read: Read) -> bool:
    """Is a cell known from where loops stand?"""
    return read.buffer.role is not Role.PRIVATE and all(isinstance(one, Affine) for one in read.at)


def grid_loops(body: Sequence[Stmt]) -> tuple[list[For], tuple[Stmt, ...]]:
    """The loops on a grid, each the whole body of the last, and the block inside them."""
    found: list[For] = []
    while len(body) == 1 and isinstance(body[0], For) and any(isinstance(one, Grid | Owners) for one in body[0].how):
        found.append(body[0])
        _, body = collapsed_loops(body[0])
    return found, tuple(body)


def _blocks(loop: For) -> tuple[str, int, int]:
    """What the index of a loop is called, how many iterations it has, and how many of them lanes run at once."""
    loops, _ = collapsed_loops(loop)
    block = next((one.block for one in loop.how if isinstance(one, Grid | Lanes)), 1)
    return "_".join([name for name, _ in loops]) + "_", prod(size for _, size in loops), block


def _depth(body: Sequence[Stmt]) -> int:
    """How many axes of lanes there are inside each other in a block."""
    return max((_runs_in_lanes(one) + _depth(body_of(one)) for one in body), default=0)


def _runs_in_lanes(stmt: Stmt) -> bool:
    return isinstance(stmt, For) and _blocks(stmt)[2] > 1


def _next_axis(sizes: Sequence[int]) -> int:
    """The first axis that no lanes are along yet."""
    return next((at + 1 for at in range(len(sizes) - 1, -1, -1) if sizes[at] > 1), 0)


def _set_sites(
    body: Sequence[Stmt], sizes: tuple[int, ...], times: int = 1
) -> Iterator[tuple[Set, tuple[int, ...], int]]:
    """Where variables are set, with how many lanes along each axis, and how often each of these does it."""
    for stmt in body:
        if isinstance(stmt, Set):
            yield stmt, sizes, times
        elif isinstance(stmt, For):
            _, size, lanes = _blocks(stmt)
            axis = _next_axis(sizes)
            inside = tuple(lanes if at == axis else one for at, one in enumerate(sizes)) if lanes > 1 else sizes
            yield from _set_sites(collapsed_loops(stmt)[1], inside, times * -(-size // lanes))
        else:
            yield from _set_sites(body_of(stmt), sizes, times)


def _is_looked_at(local: Local, body: Sequence[Stmt]) -> bool:
    """Does a block anything with a variable but accumulate in it?"""
    inside = everything(body)
    taken = [accumulation(one) for one in inside if isinstance(one, Set) and one.local == local]
    uses = sum(variables(part).count(local) for one in inside for part in parts(one))
    return None in taken or len({one[0] for one in taken if one is not None}) > 1 or uses > len(taken)


def _reduced(text: str, axis: int | None, op: str, dtype: str) -> str:
    """A block joined along an axis, which is kept with a size of 1, or along all."""
    along = "" if axis is None else f", {axis}"
    keep = "" if axis is None else ", keep_dims=True"
    if dtype == "bool":
        return f"tl.{'max' if op == 'or' else 'min'}({text}{along}{keep})"
    if op == "add":
        return f"tl.sum({text}{along}{keep})"
    return f"tl.reduce({text}, {axis}, weft_{op}_{dtype}{keep})"


def _joined(masks: Sequence[LaneValue]) -> str:
    return " & ".join(dict.fromkeys(one.text for one in masks))

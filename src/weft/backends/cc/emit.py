"""From loops to C: a function for each kernel, plain loops, axis names as loop variables.

    void kernel(void *const *buffers, const int64_t *given, const weft_run *run)

`buffers[n]` is the memory of the kernel's n-th buffer, `given[n]` the position of its n-th static index. Buffers never
overlap. `run` has scratch memory, of `kernel_scratch` bytes for each thread where there is such a constant: what a
kernel has on the stack stays small. It also has the threads that share loops (`parallel_for.py`). Nothing is decided
here: how loops run is written on them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from weft.backends.c_family import writer as c_family
from weft.backends.c_family.types import c_type, literal
from weft.backends.c_family.writer import word
from weft.backends.cc.contraction import Placed
from weft.backends.cc.expanded_loops import all_written_out
from weft.backends.cc.interleaved_words import in_words
from weft.backends.cc.lines import simd
from weft.backends.cc.parallel_for import SharedWork, finishing, shared_in
from weft.backends.cc.register_arrays import declared_arrays, held_in, with_held
from weft.loops import (
    Buffer,
    Fill,
    For,
    NonTemporal,
    Parallel,
    PrefetchRows,
    Program,
    Registers,
    Role,
    Staged,
    Stmt,
    Store,
    Unroll,
    Vector,
    buffers_of,
)
from weft.loops.effects import effects
from weft.loops.legality import sums_of
from weft.loops.staged import placed_parts
from weft.loops.streams import LINE_BYTES, MemoryStream, bypassing, fetched_by, gathered_rows
from weft.loops.walk import everything
from weft.ops.dtypes import numpy_type


def emit(name: str, body: Sequence[Stmt], buffers: Sequence[Buffer], given: Sequence[str]) -> str:
    """The C function of a block of statements on some buffers and static indices."""
    body = with_held(all_written_out(body))
    names = {one: f"x{at}" for at, one in enumerate(buffers)}
    arrays = [one for one in buffers_of(Program(body)) if one.role is Role.HELD]
    names |= {one: f"{names[one.of or one]}_held{at}" for at, one in enumerate(arrays)}
    plain = KernelWriter(names, {one: word(one) for one in given})
    inside = replace(plain, products=_products(name, body, plain))
    shared = shared_in(name, body)
    writer = replace(inside, shared={one.stmt: one for one in shared})
    written = effects(body).buffers
    types = [f"{'' if one in written else 'const '}{c_type(one.dtype)} *restrict" for one in buffers]
    parameters = [f"{kind} {writer.buffers[one]}" for kind, one in zip(types, buffers, strict=True)]
    parameters += [f"int64_t {writer.given[one]}" for one in given]
    arguments = [f"buffers[{at}]" for at in range(len(buffers))] + [f"given[{at}]" for at in range(len(given))]
    shapes = "  ".join(f"{writer.buffers[one]}: {list(one.shape)}" for one in buffers)
    block = list(writer.block(body, "    "))
    looping = any("for (" in line for line in block)
    lines = [
        *(line for one in writer.products.values() for line in one.functions()),
        *_scratch(name, list(writer.products.values()), shared),
        *(line for one in shared for line in one.functions(inside)),
        f"static WEFT_{'APART' if looping else 'CALLING'} void {name}_on("
        f"{', '.join([*parameters, 'const weft_run *run'])})",
        "{",
        f"    /* {shapes} */",
        *(["    char *const scratch = run->scratch;"] if writer.products else []),
        *declared_arrays(held_in(body), names),
        *block,
        *finishing(body),
        "}",
        f"WEFT_CALLING void {name}(void *const *buffers, const int64_t *given, const weft_run *run)",
        f"{{ {name}_on({', '.join([*arguments, 'run'])}); }}",
    ]
    return "\n".join(lines) + "\n"


def _scratch(name: str, products: Sequence[Placed], shared: Sequence[SharedWork]) -> list[str]:
    """The constants that say how much scratch memory a thread needs.

    Products run one after another: the largest has room for all.
    """
    rooms = ", ".join(f"p{at}[{one.room}]" for at, one in enumerate(products))
    private = max((one.private_bytes for one in shared), default=0)
    each = f"{private} + (sizeof(union {{ char {rooms}; }}) + 63) / 64 * 64" if products else str(private)
    needed = [f"const int64_t {name}_scratch = {name}_each;"] if products or private else []
    return [f"enum {{ {name}_each = {each} }};", *needed] if needed or shared else []


@dataclass(frozen=True, slots=True)
class KernelWriter(c_family.Writer):
    """Turns scalars and statements into C."""

    #: Products in tiles, and how they are placed.
    products: Mapping[Staged, Placed] = field(default_factory=dict)
    #: What threads share; inside of it, nothing.
    shared: Mapping[Stmt, SharedWork] = field(default_factory=dict)
    #: Loops that fetch what iterations to come will touch: a line for each stream.
    fetching: Mapping[Stmt, Sequence[str]] = field(default_factory=dict)
    #: What goes past the caches: where it is gathered.
    gathered: Mapping[Stmt, str] = field(default_factory=dict)

    def loop(self, stmt: For, indent: str) -> Iterator[str]:
        shared = any(isinstance(one, Parallel) for one in stmt.how)
        first, end = ("first", "end") if shared else ("0", str(stmt.size))
        if {NonTemporal, Vector} <= {type(one) for one in stmt.how}:
            yield from self._past_caches(stmt, first, end, indent)
        else:
            yield from self._counted(stmt, first, end, indent)

    def _counted(self, stmt: For, first: str, end: str, indent: str) -> Iterator[str]:
        """The iterations of a loop from one to before another."""
        name, inside, lead = word(stmt.loop), self, list(self.fetching.get(stmt, ()))
        for one in stmt.how:
            match one:
                case Unroll(times=times):
                    yield f"{indent}#pragma GCC unroll {times}"
                case Vector(lanes=lanes):
                    yield indent + simd([word(local.name) for local in sums_of(stmt.body)], lanes)
                case Registers(lanes=lanes):
                    yield from self._in_registers(stmt, lanes, indent)
                    return
                case PrefetchRows(iterations=iterations):
                    last = stmt.size - 1
                    lead.append(
                        f"const int64_t {name}ahead = {name} + {iterations} < {last} ? {name} + {iterations} : {last};"
                    )
                    lead += self._fetching_gathered(stmt)
                    inside = self._fetching(stmt)
        yield f"{indent}for (int64_t {name} = {first}; {name} < {end}; {name}++) {{"
        yield from (f"{indent}    {line}" for line in lead)
        yield from inside.block(stmt.body, indent + "    ")
        yield indent + "}"

    def _past_caches(self, stmt: For, first: str, end: str, indent: str) -> Iterator[str]:
        """A loop that gathers what it stores, and stores it a line at a time; what is no whole line, as it stands."""
        name, stored = word(stmt.loop), bypassing(stmt.loop, stmt.body)
        cells = LINE_BYTES // min(numpy_type(one.buffer.dtype).itemsize for one in stored)
        yield f"{indent}for (int64_t {name}line = {first}; {name}line + {cells} <= {end}; {name}line += {cells}) {{"
        yield from self._vector(stmt, cells, f"{name}line", stored, indent + "    ")
        yield indent + "}"
        if first != "0" or stmt.size % cells:
            yield from self._counted(stmt, f"{end} - ({end} - {first}) % {cells}", end, indent)

    def _in_registers(self, stmt: For, lanes: int, indent: str) -> Iterator[str]:
        """A loop whose vectors are written out."""
        name, count = word(stmt.loop), stmt.size // lanes
        past = any(isinstance(one, NonTemporal) for one in stmt.how)
        stored = bypassing(stmt.loop, stmt.body) if past else []
        yield f"{indent}#pragma GCC unroll {count}"
        yield f"{indent}for (int64_t {name}vector = 0; {name}vector < {count}; {name}vector++) {{"
        yield from self._vector(stmt, lanes, f"{lanes} * {name}vector", stored, indent + "    ")
        yield indent + "}"

    def _vector(self, stmt: For, lanes: int, first: str, stored: Sequence[Store], indent: str) -> Iterator[str]:
        """So many iterations at once, from one on; some of what is stored goes past the caches."""
        name, begins = word(stmt.loop), self.calling({stmt.loop: f"({first})"})
        pieces = {one: f"{self.buffers[one.buffer]}_piece" for one in stored}
        inside = replace(self, gathered={one: f"{piece}[{name}lane]" for one, piece in pieces.items()})
        for one, piece in pieces.items():
            yield f"{indent}{c_type(one.buffer.dtype)} {piece}[{lanes}] __attribute__((aligned({LINE_BYTES})));"
        yield indent + simd(lanes=lanes)
        yield f"{indent}for (int64_t {name}lane = 0; {name}lane < {lanes}; {name}lane++) {{"
        yield f"{indent}    const int64_t {name} = {first} + {name}lane;"
        yield from inside.block(stmt.body, indent + "    ")
        yield indent + "}"
        for one, piece in pieces.items():
            yield f"{indent}weft_store_past_caches(&{begins.cell(one.buffer, one.at)}, {piece}, sizeof {piece});"

    def _ahead(self, stmt: For) -> KernelWriter:
        """A writer of what an iteration to come of a loop mentions."""
        return self.calling({stmt.loop: f"{word(stmt.loop)}ahead"})

    def _fetching_gathered(self, stmt: For) -> Iterator[str]:
        """The rows fetched that an iteration to come gathers, which begin anywhere in a line."""
        for one in gathered_rows(stmt):
            yield f"weft_fetch(&{self._ahead(stmt).value(one.first)}, 0, {-(-one.size // LINE_BYTES)});"

    def _fetching(self, stmt: For) -> KernelWriter:
        """A writer for what is inside of a loop, parts of which fetch what a later iteration touches."""
        ahead = self._ahead(stmt)

        def fetched(one: MemoryStream, by: For) -> str:
            lines = -(-one.size // (LINE_BYTES * by.size))
            cells = f"{self.buffers[one.buffer]} + {ahead.value(one.first)}"
            how = "weft_fetch_to_write" if one.written else "weft_fetch"
            return f"{how}({cells}, {lines} * {word(by.loop)}, {lines});"

        found: dict[Stmt, Sequence[str]] = {
            by: [fetched(one, by) for one in streams] for by, streams in fetched_by(stmt).items()
        }
        return replace(self, fetching={**self.fetching, **found})

    def statement(self, stmt: Stmt, indent: str) -> Iterator[str]:
        if stmt in self.shared:
            yield from (indent + line for line in self.shared[stmt].call(self))
            return
        match stmt:
            case Store(value=value) if stmt in self.gathered:
                yield f"{indent}{self.gathered[stmt]} = {self.value(value)};"
            case Staged() if stmt in self.products:
                yield from (indent + line for line in self.products[stmt].lines())
            case Staged(body=body):
                yield indent + "{"
                yield from self.block(body, indent + "    ")
                yield indent + "}"
            case Fill(buffer=buffer, value=number):
                cells = math.prod(buffer.shape)
                name, value_text = self.buffers[buffer], literal(number, buffer.dtype)
                yield indent + simd()
                yield f"{indent}for (int64_t at = 0; at < {cells}; at++) {name}[at] = {value_text};"
            case _:
                yield from c_family.Writer.statement(self, stmt, indent)


def _products(name: str, body: Sequence[Stmt], writer: KernelWriter) -> dict[Staged, Placed]:
    """The products of a kernel that run in tiles, under names of their own."""
    found = dict.fromkeys(one for one in everything(body) if isinstance(one, Staged))
    tiles = [(one, in_words(placed_parts(one), one.what.tile)) for one in found if one.what.tile]
    return {
        one: Placed(f"{name}_product{at}", parts, tile, writer, words)
        for at, (one, (parts, tile, words)) in enumerate(tiles)
    }

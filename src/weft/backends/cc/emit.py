"""From loops to C: a function for each kernel, plain loops, axis names as loop variables.

    void kernel(void *const *buffers, const int64_t *given, const weft_run *run)

`buffers[n]` is the memory of the kernel's n-th buffer, `given[n]` the position of its n-th static index. Buffers never
overlap. `run` has scratch memory, of `kernel_scratch` bytes for each thread where there is such a constant: what a
kernel has on the stack stays small. It also has the threads that share loops (`shared.py`). Nothing is decided here:
how loops run is written on them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from weft.affine import Affine
from weft.backends.cc.contraction import Placed
from weft.backends.cc.lines import simd
from weft.backends.cc.shared import SharedWork, shared_in
from weft.backends.cc.types import c_type, converted, literal
from weft.backends.cc.written_out import all_written_out
from weft.loops import (
    Ahead,
    Buffer,
    Cast,
    Fill,
    For,
    If,
    Let,
    Local,
    Parallel,
    Read,
    Registers,
    Remark,
    Set,
    Staged,
    Stmt,
    Store,
    Unroll,
    Update,
    Vector,
    combined,
    dtype_of,
)
from weft.loops.annotations import placed_parts
from weft.loops.effects import effects
from weft.loops.legality import sums_of
from weft.loops.streams import MemoryStream, fetched_by
from weft.loops.walk import everything, free, parts, scoped
from weft.ops import OPS, Call, Num, Scalar

#: The bytes of a cache line.
_LINE = 64


def emit(name: str, body: Sequence[Stmt], buffers: Sequence[Buffer], given: Sequence[str]) -> str:
    """The C function of a block of statements on some buffers and static indices."""
    body = all_written_out(body)
    plain = Writer({one: f"x{at}" for at, one in enumerate(buffers)}, {one: _word(one) for one in given})
    inside = replace(plain, products=_products(name, body, plain))
    shared = shared_in(name, body)
    writer = replace(inside, shared={one.stmt: one for one in shared})
    written = effects(body).buffers
    types = [f"{'' if one in written else 'const '}{c_type(one.dtype)} *restrict" for one in buffers]
    parameters = [f"{kind} {writer.buffers[one]}" for kind, one in zip(types, buffers, strict=True)]
    parameters += [f"int64_t {writer.given[one]}" for one in given]
    arguments = [f"buffers[{at}]" for at in range(len(buffers))] + [f"given[{at}]" for at in range(len(given))]
    shapes = "  ".join(f"{writer.buffers[one]}: {list(one.shape)}" for one in buffers)
    lines = [
        *(line for one in writer.products.values() for line in one.functions()),
        *_scratch(name, list(writer.products.values()), shared),
        *(line for one in shared for line in one.functions(inside)),
        f"static WEFT_APART void {name}_on({', '.join([*parameters, 'const weft_run *run'])})",
        "{",
        f"    /* {shapes} */",
        *(["    char *const scratch = run->scratch;"] if writer.products else []),
        *writer.block(body, "    "),
        "}",
        f"void {name}(void *const *buffers, const int64_t *given, const weft_run *run)",
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


def static_in(body: Sequence[Stmt]) -> tuple[str, ...]:
    """The static indices a block uses: the names that no loop binds."""
    names: dict[str, None] = {}
    for stmt, scope in scoped(body):
        bound = dict(scope.loops)
        names |= {name: None for part in parts(stmt) for name in free(part) if name not in bound}
    return tuple(names)


@dataclass(frozen=True, slots=True)
class Writer:
    """Turns scalars and statements into C."""

    buffers: dict[Buffer, str]
    given: dict[str, str]
    #: Products in tiles, and how they are placed.
    products: Mapping[Staged, Placed] = field(default_factory=dict)
    #: What threads share; inside of it, nothing.
    shared: Mapping[Stmt, SharedWork] = field(default_factory=dict)
    #: Loops that fetch what iterations to come will touch: a line for each stream.
    fetching: Mapping[Stmt, Sequence[str]] = field(default_factory=dict)

    def _loop(self, stmt: For, indent: str) -> Iterator[str]:
        name, first, end, inside, lead = _word(stmt.loop), "0", str(stmt.size), self, list(self.fetching.get(stmt, ()))
        for one in stmt.how:
            match one:
                case Parallel():
                    first, end = "first", "end"
                case Unroll(times=times):
                    yield f"{indent}#pragma GCC unroll {times}"
                case Vector(lanes=lanes):
                    yield indent + simd([_word(local.name) for local in sums_of(stmt.body)], lanes)
                case Registers(lanes=lanes):
                    yield from self._in_registers(stmt, lanes, indent)
                    return
                case Ahead(iterations=iterations):
                    last = stmt.size - 1
                    lead.append(
                        f"const int64_t {name}ahead = {name} + {iterations} < {last} ? {name} + {iterations} : {last};"
                    )
                    inside = self._fetching(stmt)
        yield f"{indent}for (int64_t {name} = {first}; {name} < {end}; {name}++) {{"
        yield from (f"{indent}    {line}" for line in lead)
        yield from inside.block(stmt.body, indent + "    ")
        yield indent + "}"

    def _in_registers(self, stmt: For, lanes: int, indent: str) -> Iterator[str]:
        """A loop whose vectors are written out."""
        name, count = _word(stmt.loop), stmt.size // lanes
        yield f"{indent}#pragma GCC unroll {count}"
        yield f"{indent}for (int64_t {name}vector = 0; {name}vector < {count}; {name}vector++) {{"
        yield f"{indent}    {simd(lanes=lanes)}"
        yield f"{indent}    for (int64_t {name}lane = 0; {name}lane < {lanes}; {name}lane++) {{"
        yield f"{indent}        const int64_t {name} = {lanes} * {name}vector + {name}lane;"
        yield from self.block(stmt.body, indent + "        ")
        yield indent + "    }"
        yield indent + "}"

    def _fetching(self, stmt: For) -> Writer:
        """A writer for what is inside of a loop, parts of which fetch what a later iteration touches."""
        ahead = self.calling({stmt.loop: f"{_word(stmt.loop)}ahead"})

        def fetched(one: MemoryStream, by: For) -> str:
            lines = -(-one.size // (_LINE * by.size))
            cells = f"{self.buffers[one.buffer]} + {ahead.value(one.first)}"
            how = "weft_fetch_to_write" if one.written else "weft_fetch"
            return f"{how}({cells}, {lines} * {_word(by.loop)}, {lines});"

        found: dict[Stmt, Sequence[str]] = {
            by: [fetched(one, by) for one in streams] for by, streams in fetched_by(stmt).items()
        }
        return replace(self, fetching={**self.fetching, **found})

    def block(self, body: Sequence[Stmt], indent: str) -> Iterator[str]:
        for stmt in body:
            yield from self._statement(stmt, indent)

    def _statement(self, stmt: Stmt, indent: str) -> Iterator[str]:
        if stmt in self.shared:
            yield from (indent + line for line in self.shared[stmt].call(self))
            return
        match stmt:
            case Remark(text=text, body=body):
                yield from (f"{indent}/* {safe(line)} */" for line in text.splitlines())
                yield from self.block(body, indent)
            case Staged() if stmt in self.products:
                yield from (indent + line for line in self.products[stmt].lines())
            case Staged(body=body):
                yield indent + "{"
                yield from self.block(body, indent + "    ")
                yield indent + "}"
            case For():
                yield from self._loop(stmt, indent)
            case If(tests=tests, body=body):
                held = " && ".join(
                    f"{index} >= 0 && {index} < {test.size}" for test in tests for index in [self._whole(test.index)]
                )
                yield f"{indent}if ({held}) {{"
                yield from self.block(body, indent + "    ")
                yield indent + "}"
            case Store(buffer=buffer, at=at, value=value):
                yield f"{indent}{self._cell(buffer, at)} = {self.value(value)};"
            case Update(buffer=buffer, at=at):
                yield f"{indent}{self._cell(buffer, at)} = {self.value(combined(stmt))};"
            case Let(local=local, value=value):
                yield f"{indent}{c_type(local.dtype)} {_word(local.name)} = {self.value(value)};"
            case Set(local=local, value=value):
                yield f"{indent}{_word(local.name)} = {self.value(value)};"
            case Fill(buffer=buffer, value=number):
                cells = math.prod(buffer.shape)
                name, value_text = self.buffers[buffer], literal(number, buffer.dtype)
                yield indent + simd()
                yield f"{indent}for (int64_t at = 0; at < {cells}; at++) {name}[at] = {value_text};"

    def _cell(self, buffer: Buffer, at: Sequence[Scalar]) -> str:
        terms, stride = [], 1
        for index, size in zip(reversed(at), reversed(buffer.shape), strict=True):
            if index != Affine(()):
                terms.append(self._whole(index) if stride == 1 else f"{self._whole(index)} * {stride}")
            stride *= size
        return f"{self.buffers[buffer]}[{' + '.join(reversed(terms)) or '0'}]"

    def _whole(self, scalar: Scalar) -> str:
        """A whole number, as a subscript or in a test."""
        if not isinstance(scalar, Affine):
            return self.value(scalar)
        names = [
            self.variable(name) if coefficient == 1 else f"{coefficient} * {self.variable(name)}"
            for coefficient, name in scalar.terms
        ]
        if scalar.offset or not names:
            names.append(str(scalar.offset))
        return names[0] if len(names) == 1 and "*" not in names[0] else f"({' + '.join(names)})".replace("+ -", "- ")

    def variable(self, name: str) -> str:
        return self.given.get(name) or _word(name)

    def calling(self, names: Mapping[str, str]) -> Writer:
        """A writer that calls some loops otherwise."""
        return replace(self, given={**self.given, **names})

    def value(self, scalar: Scalar) -> str:
        match scalar:
            case Cast(dtype=dtype, value=Num(value=value)):
                return literal(value, dtype)
            case Cast(dtype=dtype, value=value):
                return converted(self.value(value), dtype_of(value), dtype)
            case Affine():
                return self._whole(scalar)
            case Local(name=name):
                return _word(name)
            case Read(buffer=buffer, at=at):
                return self._cell(buffer, at)
            case Call(op=op, args=args):
                return OPS[op].c.format(*map(self.value, args), t=dtype_of(args[-1]))
        raise AssertionError(f"not a scalar of the typed loop language: {scalar!r}")


def _products(name: str, body: Sequence[Stmt], writer: Writer) -> dict[Staged, Placed]:
    """The products of a kernel that run in tiles, under names of their own."""
    found = dict.fromkeys(one for one in everything(body) if isinstance(one, Staged))
    return {
        one: Placed(f"{name}_product{at}", placed_parts(one), one.what.tile, writer)
        for at, one in enumerate(found)
        if one.what.tile
    }


def _word(name: str) -> str:
    """A loop or index as a C variable: no label can collide with a word of the language or with a buffer."""
    return f"{name}_"


def safe(text: str) -> str:
    """Text that a comment can hold."""
    return text.replace("*/", "* /").replace("/*", "/ *")

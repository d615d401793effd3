"""From loops to C: a function for each kernel, plain loops, axis names as loop variables.

    void kernel(void *const *buffers, const int64_t *given)

`buffers[n]` is the memory of the kernel's n-th buffer, `given[n]` the position of its n-th static index. Buffers never
overlap. After the last buffer comes scratch memory, of `kernel_scratch` bytes where there is such a constant: what a
kernel has on the stack stays small. Sums of floats over an innermost loop are carried in double precision, in whatever
order is fastest.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from weft.affine import Affine
from weft.backends.cc.collapse import collapsed
from weft.backends.cc.contraction import Placed
from weft.backends.cc.types import c_type, converted, literal
from weft.backends.cc.unroll_jam import jammed
from weft.backends.cc.vectors import lanes_of_sum, sums
from weft.loops import (
    Buffer,
    Cast,
    Fill,
    For,
    If,
    Let,
    Local,
    Product,
    Read,
    Remark,
    Set,
    Spread,
    Staged,
    Stmt,
    Store,
    Update,
    combine,
    combined,
    dtype_of,
    reads,
    walk,
)
from weft.loops.effects import everything
from weft.ops import OPS, Call, Num, Scalar


def emit(name: str, body: Sequence[Stmt], buffers: Sequence[Buffer], given: Sequence[str]) -> str:
    """The C function of a block of statements on some buffers and static indices."""
    spread, body = _unspread(body)
    body = body if spread.threads > 1 else jammed(collapsed(body))
    plain = _Writer(
        {one: f"x{at}" for at, one in enumerate(buffers)}, {one: _word(one) for one in given}, spread=spread
    )
    writer = replace(plain, products=_products(name, body, plain))
    threaded = spread.threads > 1 and (isinstance(body[0], For) or body[0] in writer.products)
    written = set(_written(body))
    types = [f"{'' if one in written else 'const '}{c_type(one.dtype)} *restrict" for one in buffers]
    parameters = [f"{kind} {writer.buffers[one]}" for kind, one in zip(types, buffers, strict=True)]
    parameters += [f"int64_t {writer.given[one]}" for one in given]
    parameters += ["int64_t first", "int64_t end"] if threaded else []
    parameters += ["char *restrict scratch"] if writer.products else []
    arguments = [f"buffers[{at}]" for at in range(len(buffers))] + [f"given[{at}]" for at in range(len(given))]
    scratch = _scratch(name, list(writer.products.values()), spread.threads if threaded else 1)
    space = f"buffers[{len(buffers)}]" if scratch else "0"
    shapes = "  ".join(f"{writer.buffers[one]}: {list(one.shape)}" for one in buffers)
    lines = [
        *(line for one in writer.products.values() for line in one.functions()),
        f"static WEFT_APART void {name}_on({', '.join(parameters)})",
        "{",
        f"    /* {shapes} */",
        *(writer.part(body[0], "    ") if threaded else writer.block(body, "    ")),
        "}",
        *scratch,
    ]
    if threaded:
        lines += _divided(name, writer.pieces(body[0]), arguments, spread.threads, space)
    else:
        lines += _called(name, [*arguments, space] if scratch else arguments)
    return "\n".join(lines) + "\n"


def _scratch(name: str, products: Sequence[Placed], threads: int) -> list[str]:
    """The constants that say how much scratch memory a thread needs, and all of them; none if none is needed.

    Products run one after another: the largest has room for all.
    """
    if not products:
        return []
    rooms = ", ".join(f"p{at}[{one.room}]" for at, one in enumerate(products))
    return [
        f"enum {{ {name}_each = (sizeof(union {{ char {rooms}; }}) + 63) / 64 * 64 }};",
        f"const int64_t {name}_scratch = {f'{threads} * (int64_t)' if threads > 1 else ''}{name}_each;",
    ]


def _called(name: str, arguments: Sequence[str]) -> list[str]:
    """The kernel's own function: it calls the other with its buffers."""
    return [f"void {name}(void *const *buffers, const int64_t *given) {{ {name}_on({', '.join(arguments)}); }}"]


def _divided(name: str, pieces: str, arguments: Sequence[str], threads: int, space: str) -> list[str]:
    """The kernel's own function, where threads share its pieces."""
    own = ["scratch"] if space != "0" else []
    each = f"{name}_each" if own else "0"
    return [
        f"static void {name}_part(void *const *buffers, const int64_t *given, int64_t first, int64_t end,",
        "    char *scratch)",
        "{",
        f"    {name}_on({', '.join([*arguments, 'first', 'end', *own])});",
        "}",
        f"void {name}(void *const *buffers, const int64_t *given)",
        "{",
        f"    weft_divide({name}_part, buffers, given, {pieces}, {threads}, {space}, {each});",
        "}",
    ]


def _unspread(body: Sequence[Stmt]) -> tuple[Spread, Sequence[Stmt]]:
    """What is asked for a kernel's loops, and the kernel."""
    match body:
        case (Staged(what=Spread() as spread, body=inner),):
            return spread, inner
    return Spread(), body


def static_in(body: Sequence[Stmt]) -> tuple[str, ...]:
    """The static indices a block uses: the names that no loop binds."""
    return tuple(dict.fromkeys(_given(body, frozenset())))


@dataclass(frozen=True, slots=True)
class _Writer:
    buffers: dict[Buffer, str]
    given: dict[str, str]
    #: Sums under way: they grow in double precision.
    summed: frozenset[Local] = frozenset()
    #: What is staged, and how it is placed.
    products: Mapping[Staged, Placed] = field(default_factory=dict)
    #: What is asked for the kernel's loops.
    spread: Spread = Spread()  # noqa: RUF009 it is frozen

    def loop(self, stmt: For, indent: str, first: str = "0", end: str = "") -> Iterator[str]:
        name = _word(stmt.loop)
        yield f"{indent}for (int64_t {name} = {first}; {name} < {end or stmt.size}; {name}++) {{"
        yield from self.block(stmt.body, indent + "    ")
        yield indent + "}"

    def part(self, stmt: Stmt, indent: str) -> Iterator[str]:
        """A part of the outermost loop, or of a product."""
        if isinstance(stmt, For):
            yield from self.loop(stmt, indent, "first", "end")
        else:
            yield from self.block((stmt,), indent)

    def pieces(self, stmt: Stmt) -> str:
        """How many parts there are, in C."""
        return (
            self.products[stmt].pieces if isinstance(stmt, Staged) else str(stmt.size) if isinstance(stmt, For) else "1"
        )

    def _innermost(self, stmt: For, indent: str) -> Iterator[str]:
        """A loop that holds no other: on vectors where it can run so, unless it is to be unrolled."""
        added = sums(stmt)
        if added is None or (self.spread.unroll and not added):
            if self.spread.unroll and not any(isinstance(one, For | Staged) for one in everything(stmt.body)):
                yield f"{indent}#pragma GCC unroll {self.spread.unroll}"
            yield from self.loop(stmt, indent)
            return
        wide = [one for one in added if one.dtype in ("float32", "float64")]
        names = [_word(one.name) + ("sum" if one in wide else "") for one in added]
        clause = f" reduction(+ : {', '.join(names)})" if names else ""
        wanted = self.spread.lanes or (lanes_of_sum(stmt.size) if names else 0)
        lanes = f" simdlen({wanted})" if wanted else ""
        inner = indent + "    " * bool(wide)
        yield from [indent + "{"] if wide else []
        yield from (f"{inner}double {_word(one.name)}sum = {_word(one.name)};" for one in wide)
        yield f"{inner}#pragma omp simd{clause}{lanes}"
        yield from replace(self, summed=frozenset(wide)).loop(stmt, inner)
        for one in wide:
            word = _word(one.name)
            yield f"{inner}{word} = {converted(f'{word}sum', 'float64', one.dtype)};"
        yield from [indent + "}"] if wide else []

    def block(self, body: Sequence[Stmt], indent: str) -> Iterator[str]:
        for stmt in body:
            yield from self._statement(stmt, indent)

    def _statement(self, stmt: Stmt, indent: str) -> Iterator[str]:
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
            case For(loop=loop, body=(Update() as update,)) if _is_sum(update, loop):
                yield indent + "{"
                yield from self.block(_summed(stmt, update), indent + "    ")
                yield indent + "}"
            case For():
                yield from self._innermost(stmt, indent)
            case If(tests=tests, body=body):
                held = " && ".join(
                    f"{place} >= 0 && {place} < {test.size}" for test in tests for place in [self._whole(test.place)]
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
            case Set(local=local, value=Call(args=(_, value))) if local in self.summed:
                yield f"{indent}{_word(local.name)}sum += {self.value(value)};"
            case Set(local=local, value=value):
                yield f"{indent}{_word(local.name)} = {self.value(value)};"
            case Fill(buffer=buffer, value=number):
                cells = math.prod(buffer.shape)
                name, value_text = self.buffers[buffer], literal(number, buffer.dtype)
                yield f"{indent}#pragma omp simd"
                yield f"{indent}for (int64_t at = 0; at < {cells}; at++) {name}[at] = {value_text};"

    def _cell(self, buffer: Buffer, at: Sequence[Scalar]) -> str:
        terms, stride = [], 1
        for place, size in zip(reversed(at), reversed(buffer.shape), strict=True):
            if place != Affine(()):
                terms.append(self._whole(place) if stride == 1 else f"{self._whole(place)} * {stride}")
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

    def pointer(self, buffer: Buffer) -> str:
        return self.buffers[buffer]

    def calling(self, names: Mapping[str, str]) -> _Writer:
        return replace(self, given={**self.given, **names})

    def adding(self, sums: Sequence[Local]) -> _Writer:
        return replace(self, summed=frozenset(sums))

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


def _products(name: str, body: Sequence[Stmt], writer: _Writer) -> dict[Staged, Placed]:
    """The products of a kernel that are placed, under names of their own; one that is all of it may be divided."""
    staged = dict.fromkeys(one for one in everything(body) if isinstance(one, Staged) and isinstance(one.what, Product))
    divided = writer.spread.threads > 1
    placed = {
        one: Placed.of(one, f"{name}_product{at}", writer, divided and one in body) for at, one in enumerate(staged)
    }
    return {one: found for one, found in placed.items() if found}


def _written(body: Sequence[Stmt]) -> Iterator[Buffer]:
    for stmt in body:
        match stmt:
            case For(body=inner) | If(body=inner) | Remark(body=inner) | Staged(body=inner):
                yield from _written(inner)
            case Store(buffer=buffer) | Update(buffer=buffer) | Fill(buffer=buffer):
                yield buffer


def _given(body: Sequence[Stmt], bound: frozenset[str]) -> Iterator[str]:
    """The names that no loop binds: the static indices."""
    for stmt in body:
        match stmt:
            case For(loop=loop, body=inner):
                yield from _given(inner, bound | {loop})
            case Remark(body=inner) | Staged(body=inner):
                yield from _given(inner, bound)
            case If(tests=tests, body=inner):
                yield from (name for test in tests for name in _free(test.place, bound))
                yield from _given(inner, bound)
            case Store(at=at, value=value) | Update(at=at, value=value):
                yield from (name for part in (*at, value) for name in _free(part, bound))
            case Let(value=value) | Set(value=value):
                yield from _free(value, bound)


def _free(scalar: Scalar, bound: frozenset[str]) -> Iterator[str]:
    places = (one for one in walk(scalar) if isinstance(one, Affine))
    return (name for place in places for _, name in place.terms if name not in bound)


def _is_sum(update: Update, loop: str) -> bool:
    """Does the loop add floats up in one cell?"""
    if update.op != "add" or update.buffer.dtype not in ("float32", "float64"):
        return False
    moves = any(name == loop for place in update.at for name in _free(place, frozenset()))
    return not moves and all(read.buffer != update.buffer for read in reads(update.value))


def _summed(loop: For, update: Update) -> tuple[Stmt, ...]:
    """A loop that adds up in one cell, adding up in a number instead."""
    local = Local("sum", "float64")
    wide = Cast("float64", update.value) if update.buffer.dtype == "float32" else update.value
    grown = Set(local, Call("add", (local, wide)))
    total = combine("add", Read(update.buffer, update.at), local, update.buffer.dtype)
    return (
        Let(local, Cast("float64", Num(0))),
        For(loop.loop, loop.size, (grown,)),
        Store(update.buffer, update.at, total),
    )


def _word(name: str) -> str:
    """A loop or index as a C variable: no label can collide with a word of the language or with a buffer."""
    return f"{name}_"


def safe(text: str) -> str:
    """Text that a comment can hold."""
    return text.replace("*/", "* /").replace("/*", "/ *")

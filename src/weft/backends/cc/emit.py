"""From loops to C: plain loops, axis names as loop variables, each nest under the assignment it came from.

    weft_run(buffers, given)      buffers[n] is the memory of the n-th buffer, given[n] the n-th static index

Each assignment is a call of a function of its own, and assignments that loop alike call the same one: what the C
compiler has to do grows with the number of different nests, not with the depth of a model. Single-precision sums over
the innermost loop are kept in double precision until they are stored.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from weft.backends.cc.types import c_type, common, dtype_of
from weft.loops import Buffer, Fill, For, If, Place, Program, Read, Remark, Stmt, Store, Update, buffers_of, reads, walk
from weft.ops import OPS, Call, Num, Scalar

#: Operations that compare: their operands meet in a common type, their value is a truth value.
_COMPARISONS = {"lt", "le", "eq", "ne"}
_TRUTH = {"not", "or", "and"}
#: Operations that ask one operand and return the other: both keep their precision in a common type.
_GATES = {"relu_gate", "sat01_gate"}
#: C computes with these as int: a value must be cut back to wrap as the oracle's does.
_NARROW = {"int8", "int16", "uint8", "uint16"}


@dataclass(frozen=True, slots=True)
class Source:
    """A C function and what its arguments stand for."""

    text: str
    buffers: tuple[Buffer, ...]
    given: tuple[str, ...]


def emit(program: Program) -> Source:
    """The C text of a program, without the prelude."""
    buffers = buffers_of(program)
    places = {buffer: at for at, buffer in enumerate(buffers)}
    given = tuple(dict.fromkeys(_given(program.body, frozenset())))
    functions: dict[tuple[str, ...], str] = {}
    calls = []
    for stmt in _steps(program.body):
        nest = _Nest.of(stmt)
        name = functions.setdefault(nest.function, f"nest_{len(functions)}")
        arguments = [f"buffers[{places[one]}]" for one in nest.buffers]
        arguments += [f"given[{given.index(one)}]" for one in nest.given]
        calls += [f"    /* {line} */" for line in nest.remarks] + [f"    {name}({', '.join(arguments)});"]
    lines = []
    for (parameters, *body), name in functions.items():
        lines += [f"static __attribute__((noinline)) void {name}{parameters}", *body]
    lines += ["void weft_run(void *const *buffers, const int64_t *given)", "{", *calls, "}"]
    return Source("\n".join(lines) + "\n", buffers, given)


@dataclass(frozen=True, slots=True)
class _Nest:
    """One assignment as a C function: its parameters and body, and what this assignment calls it with."""

    function: tuple[str, ...]
    buffers: tuple[Buffer, ...]
    given: tuple[str, ...]
    remarks: tuple[str, ...]

    @staticmethod
    def of(stmt: Stmt) -> _Nest:
        body = stmt.body if isinstance(stmt, Remark) else (stmt,)
        text = stmt.text if isinstance(stmt, Remark) else ""
        buffers = buffers_of(Program(body))
        given = tuple(dict.fromkeys(_given(body, frozenset())))
        writer = _Writer({one: f"x{at}" for at, one in enumerate(buffers)}, {name: _word(name) for name in given})
        parameters = [f"{c_type(one.dtype)} *{writer.buffers[one]}" for one in buffers]
        parameters += [f"int64_t {writer.given[name]}" for name in given]
        shapes = "  ".join(f"{writer.buffers[one]}: {list(one.shape)}" for one in buffers)
        lines = ["{", f"    /* {shapes} */", *writer.block(body, "    "), "}", ""]
        return _Nest((f"({', '.join(parameters)})", *lines), buffers, given, tuple(map(_safe, text.splitlines())))


def _steps(body: Sequence[Stmt]) -> Iterator[Stmt]:
    """The assignments of a program: comments around several of them are left out."""
    for stmt in body:
        if isinstance(stmt, Remark) and any(isinstance(one, Remark) for one in stmt.body):
            yield from _steps(stmt.body)
        else:
            yield stmt


@dataclass(frozen=True, slots=True)
class _Writer:
    buffers: dict[Buffer, str]
    given: dict[str, str]

    def block(self, body: Sequence[Stmt], indent: str) -> Iterator[str]:
        for stmt in body:
            yield from self._statement(stmt, indent)

    def _statement(self, stmt: Stmt, indent: str) -> Iterator[str]:
        match stmt:
            case Remark(text=text, body=body):
                yield from (f"{indent}/* {_safe(line)} */" for line in text.splitlines())
                yield from self.block(body, indent)
            case For(loop=loop, size=size, body=(Update() as update,)) if _is_sum(update, loop):
                name, cell = _word(loop), self._cell(update.buffer, update.at)
                yield indent + "{"
                yield f"{indent}    double sum = 0.0;"
                yield f"{indent}    for (int64_t {name} = 0; {name} < {size}; {name}++) {{"
                yield f"{indent}        sum += {self._as(update.value, 'float32')};"
                yield f"{indent}    }}"
                yield f"{indent}    {cell} = (float)({cell} + sum);"
                yield indent + "}"
            case For(loop=loop, size=size, body=body):
                name = _word(loop)
                yield f"{indent}for (int64_t {name} = 0; {name} < {size}; {name}++) {{"
                yield from self.block(body, indent + "    ")
                yield indent + "}"
            case If(tests=tests, body=body):
                held = " && ".join(
                    f"{place} >= 0 && {place} < {test.size}" for test in tests for place in [self._whole(test.place)]
                )
                yield f"{indent}if ({held}) {{"
                yield from self.block(body, indent + "    ")
                yield indent + "}"
            case Store(buffer=buffer, at=at, value=value):
                yield f"{indent}{self._cell(buffer, at)} = {self._as(value, buffer.dtype)};"
            case Update(buffer=buffer, at=at, op=op, value=value):
                combined = Call(op, (Read(buffer, at), value))
                yield f"{indent}{self._cell(buffer, at)} = {self._as(combined, buffer.dtype)};"
            case Fill(buffer=buffer, value=number):
                cells = math.prod(buffer.shape)
                name, value_text = self.buffers[buffer], _number(number, buffer.dtype)
                yield f"{indent}for (int64_t at = 0; at < {cells}; at++) {name}[at] = {value_text};"

    def _cell(self, buffer: Buffer, at: Sequence[Scalar]) -> str:
        terms, stride = [], 1
        for place, size in zip(reversed(at), reversed(buffer.shape), strict=True):
            if place != Place(()):
                terms.append(self._whole(place) if stride == 1 else f"{self._whole(place)} * {stride}")
            stride *= size
        return f"{self.buffers[buffer]}[{' + '.join(reversed(terms)) or '0'}]"

    def _whole(self, scalar: Scalar) -> str:
        """An integer, as a subscript or in a test."""
        if not isinstance(scalar, Place):
            return self._as(scalar, "int64")
        names = [
            self._variable(name) if coefficient == 1 else f"{coefficient} * {self._variable(name)}"
            for coefficient, name in scalar.terms
        ]
        if scalar.offset or not names:
            names.append(str(scalar.offset))
        return names[0] if len(names) == 1 and "*" not in names[0] else f"({' + '.join(names)})".replace("+ -", "- ")

    def _variable(self, name: str) -> str:
        return self.given.get(name) or _word(name)

    def _as(self, scalar: Scalar, dtype: str) -> str:
        """A scalar's value converted to an element type."""
        if isinstance(scalar, Num):
            return _number(scalar.value, dtype)
        text, own = self._value(scalar), dtype_of(scalar, self.given)
        return text if own == dtype else f"({text} != 0)" if dtype == "bool" else f"({c_type(dtype)}){text}"

    def _value(self, scalar: Scalar) -> str:
        match scalar:
            case Num(value=value):
                return _number(value, dtype_of(scalar, self.given))
            case Place():
                return self._whole(scalar)
            case Read(buffer=buffer, at=at):
                return self._cell(buffer, at)
            case Call(op=op, args=args):
                return self._call(op, args, dtype_of(scalar, self.given))
        raise AssertionError(f"not a scalar of the loop language: {scalar!r}")

    def _call(self, op: str, args: tuple[Scalar, ...], dtype: str) -> str:
        spelling = OPS[op].c
        if op == "where":
            condition, then, otherwise = args
            texts = [self._as(condition, "bool"), self._as(then, dtype), self._as(otherwise, dtype)]
        elif op == "threefry4x32":
            texts = [self._as(arg, "uint64") for arg in args]
        elif op == "uniform":
            texts = [self._as(args[0], "uint64")]
        elif op in _TRUTH:
            texts = [self._as(arg, "bool") for arg in args]
        else:
            if op in _COMPARISONS or (op in _GATES and dtype != "bool"):
                dtype = common(args, self.given)
            texts = [self._as(arg, dtype) for arg in args]
        text = spelling.format(*texts, t=dtype)
        return f"({c_type(dtype)}){text}" if dtype in _NARROW and op not in _COMPARISONS else text


def _number(value: float | int | bool, dtype: str) -> str:
    if dtype == "bool":
        return "true" if value else "false"
    if dtype.startswith("float"):
        if math.isnan(value):
            return "NAN"
        if math.isinf(value):
            return "INFINITY" if value > 0 else "(-INFINITY)"
        text = repr(float(value)) + ("f" if dtype == "float32" else "")
        return text if value >= 0 else f"({text})"
    if dtype == "uint64":
        return f"{int(value) % (1 << 64)}u"
    if int(value) == -(1 << 63):
        return "INT64_MIN"
    return (
        f"INT64_C({int(value)})" if abs(int(value)) >= 1 << 31 else f"{int(value)}" if value >= 0 else f"({int(value)})"
    )


def _given(body: Sequence[Stmt], bound: frozenset[str]) -> Iterator[str]:
    """The names that no loop binds: the static indices."""
    for stmt in body:
        match stmt:
            case For(loop=loop, body=inner):
                yield from _given(inner, bound | {loop})
            case Remark(body=inner):
                yield from _given(inner, bound)
            case If(tests=tests, body=inner):
                yield from (name for test in tests for name in _free(test.place, bound))
                yield from _given(inner, bound)
            case Store(at=at, value=value) | Update(at=at, value=value):
                yield from (name for part in (*at, value) for name in _free(part, bound))


def _free(scalar: Scalar, bound: frozenset[str]) -> Iterator[str]:
    places = (one for one in walk(scalar) if isinstance(one, Place))
    return (name for place in places for _, name in place.terms if name not in bound)


def _is_sum(update: Update, loop: str) -> bool:
    """Does the loop add single-precision numbers up in one cell?"""
    if update.op != "add" or update.buffer.dtype != "float32":
        return False
    moves = any(name == loop for place in update.at for name in _free(place, frozenset()))
    return not moves and all(read.buffer != update.buffer for read in reads(update.value))


def _word(name: str) -> str:
    """A loop or index as a C variable: no label can collide with a word of the language or with a buffer."""
    return f"{name}_"


def _safe(text: str) -> str:
    return text.replace("*/", "* /").replace("/*", "/ *")

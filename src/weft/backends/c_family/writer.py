"""Scalars and statements in C, or in CUDA C++: plain loops, axis names as loop variables.

Languages differ in how loops run, which is theirs to say.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from weft.affine import Affine
from weft.backends.c_family.types import c_type, converted, literal
from weft.loops import (
    Buffer,
    Cast,
    For,
    If,
    Let,
    Local,
    Read,
    Remark,
    Set,
    Stmt,
    Store,
    Update,
    combined,
    dtype_of,
)
from weft.ops import OPS, Call, Num, Scalar

W = TypeVar("W", bound="Writer")

#: Zero, as a float is written.
_ZEROS = ("0.0f", "0.0")


def word(name: str) -> str:
    """A loop or index as a variable: no label can collide with a word of the language or with a buffer."""
    return f"{name}_"


def safe(text: str) -> str:
    """Text that a comment can hold."""
    return text.replace("*/", "* /").replace("/*", "/ *")


@dataclass(frozen=True, slots=True)
class Writer:
    """Turns scalars and statements into text."""

    buffers: dict[Buffer, str]
    given: dict[str, str]

    def calling(self: W, names: Mapping[str, str]) -> W:
        """A writer that calls some loops otherwise."""
        return replace(self, given={**self.given, **names})

    # Statements

    def block(self, body: Sequence[Stmt], indent: str) -> Iterator[str]:
        for stmt in body:
            yield from self.statement(stmt, indent)

    def statement(self, stmt: Stmt, indent: str) -> Iterator[str]:
        match stmt:
            case Remark(text=text, body=body):
                yield from (f"{indent}/* {safe(line)} */" for line in text.splitlines())
                yield from self.block(body, indent)
            case For():
                yield from self.loop(stmt, indent)
            case If(tests=tests, body=body):
                held = " && ".join(
                    f"{index} >= 0 && {index} < {test.size}" for test in tests for index in [self.whole(test.index)]
                )
                yield f"{indent}if ({held}) {{"
                yield from self.block(body, indent + "    ")
                yield indent + "}"
            case Store(buffer=buffer, at=at, value=value):
                yield f"{indent}{self.cell(buffer, at)} = {self.value(value)};"
            case Update(buffer=buffer, at=at):
                yield f"{indent}{self.cell(buffer, at)} = {self.value(combined(stmt))};"
            case Let(local=local, value=value):
                yield f"{indent}{c_type(local.dtype)} {word(local.name)} = {self.value(value)};"
            case Set(local=local, value=value):
                yield f"{indent}{word(local.name)} = {self.value(value)};"
            case _:
                raise AssertionError(f"not a statement of this language: {stmt!r}")

    def loop(self, stmt: For, indent: str) -> Iterator[str]:
        name = word(stmt.loop)
        yield f"{indent}for ({self.index_type} {name} = 0; {name} < {stmt.size}; {name}++) {{"
        yield from self.block(stmt.body, indent + "    ")
        yield indent + "}"

    @property
    def index_type(self) -> str:
        """The type of loop variables."""
        return "int64_t"

    # Scalars

    def cell(self, buffer: Buffer, at: Sequence[Scalar]) -> str:
        terms, stride = [], 1
        for index, size in zip(reversed(at), reversed(buffer.shape), strict=True):
            if index != Affine(()):
                terms.append(self.whole(index) if stride == 1 else f"{self.whole(index)} * {stride}")
            stride *= size
        return f"{self.buffers[buffer]}[{' + '.join(reversed(terms)) or '0'}]"

    def whole(self, scalar: Scalar) -> str:
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
        return self.given.get(name) or word(name)

    def value(self, scalar: Scalar) -> str:
        match scalar:
            case Cast(dtype=dtype, value=Num(value=value)):
                return literal(value, dtype)
            case Cast(dtype=dtype, value=value):
                return converted(self.value(value), dtype_of(value), dtype)
            case Affine():
                return self.position(scalar)
            case Local(name=name):
                return word(name)
            case Read(buffer=buffer, at=at):
                return self.cell(buffer, at)
            case Call(op=op, args=args):
                return self.operation(op, list(map(self.value, args)), dtype_of(args[-1]))
        raise AssertionError(f"not a scalar of the typed loop language: {scalar!r}")

    def position(self, index: Affine) -> str:
        """An index as a number to compute with."""
        return self.whole(index)

    def operation(self, op: str, args: Sequence[str], dtype: str) -> str:
        """An operation, computed in a type."""
        if op == "sub" and args[0] in _ZEROS:  # gcc takes 0.0 - x for -x (`cc/compiler_bugs.py`)
            return OPS["add"].c.format(args[0], OPS["neg"].c.format(args[1], t=dtype), t=dtype)
        return OPS[op].c.format(*args, t=dtype)
